"""Recorded times of models in a build, in place of those that this machine takes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from polydom.indexer.building.costs import measure_costs

# A whole model, and the same model with its schedule: mean, and a high quantile
WHOLE_S, MEAN_S, HIGH_S = 3e-5, 8e-6, 2e-5


def use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have all models of builds take these times, until the test ends.

    Exits are kept only for a gain, so a busy machine would decide otherwise.
    """

    def whole(*model: Any) -> float:
        return WHOLE_S

    def compared(
        measurer: Any, answers: Sequence[Any], values: Any, *, name: str
    ) -> tuple[Any, Any]:
        early = len(answers) - 1
        return np.array([WHOLE_S] + [MEAN_S] * early), np.full(early + 1, HIGH_S)

    monkeypatch.setattr(measure_costs, "time_answer", whole)
    monkeypatch.setattr(measure_costs.Measurer, "compare", compared)
