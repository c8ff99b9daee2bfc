"""What libraries make of a sum of trees, by what their models were trained for."""

from collections.abc import Container
from typing import Literal

# How a regressor's prediction is made of the sum.
Link = Literal["identity", "exp", "logistic", "signed square"]


def elsewhere(
    objective: str, classifiers: Container[str], regressors: Container[str]
) -> str:
    """Say which function compiles models of an objective, for the end of an error."""
    if objective in regressors:
        return "; compile_regressor takes it"
    return "; compile_ensemble takes it" if objective in classifiers else ""
