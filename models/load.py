"""Load stored models: make a model again from its named arrays."""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from polydom.features.errors import BadModel

from .lattices.lattices import Lattices
from .linear.linear import Linear
from .linear.naive_bayes import Gaussian
from .scoring.classifier import load_classifier
from .scoring.model import Model
from .scoring.prior import Mean, Prior
from .scoring.regressor import load_regressor
from .scoring.scorer import Scorer, SumOfTerms
from .scoring.stored_arrays import Stored
from .trees.trees import Trees

# Loaders of models that give every row the same answer.
CONSTANT: dict[str, Callable[[Stored], Model]] = {
    Prior.kind: Prior.load,
    Mean.kind: Mean.load,
}
LOADERS: dict[str, Callable[[Stored, int], Scorer]] = {
    Linear.kind: Linear.load,
    Gaussian.kind: Gaussian.load,
    Trees.kind: Trees.load,
    Lattices.kind: Lattices.load,
}


def load_model(kind: str, arrays: Mapping[str, NDArray[Any]], *, width: int) -> Model:
    """Make a model from its stored arrays, for full rows of `width` columns.

    Raises BadModel unless kernels can safely read the arrays. The checks cover types,
    shapes, columns within the row, finite numbers, and a leaf at the end of every path
    through a tree. The arrays are not copied.
    """
    stored = Stored(kind, arrays)
    if kind in CONSTANT:
        return CONSTANT[kind](stored)
    if kind not in LOADERS:
        known = ", ".join([*CONSTANT, *LOADERS])
        raise BadModel(f"unknown kind of model {kind!r}; known: {known}")
    scorer = LOADERS[kind](stored, width)
    if "link" not in arrays:  # a regressor has a link, a classifier a head
        return load_classifier(scorer, stored)
    if not isinstance(scorer, SumOfTerms):
        raise stored.fail("it is no sum of terms, as regressors are")
    return load_regressor(scorer, stored)
