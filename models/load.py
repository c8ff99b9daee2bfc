"""How a stored model is made again."""

from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray

from polydom.features.errors import BadModel

from .lattices.lattices import Lattices
from .linear.linear import Linear
from .linear.naive_bayes import Gaussian
from .scoring.classifier import load_classifier
from .scoring.model import Model
from .scoring.prior import Prior
from .scoring.scorer import Scorer
from .scoring.stored_arrays import Stored
from .trees.trees import Trees

LOADERS: dict[str, Callable[[Stored, int], Scorer]] = {
    Linear.kind: Linear.load,
    Gaussian.kind: Gaussian.load,
    Trees.kind: Trees.load,
    Lattices.kind: Lattices.load,
}


def load_model(kind: str, arrays: Mapping[str, NDArray[Any]], *, width: int) -> Model:
    """Make the model that `arrays` describe, for full rows of `width` columns.

    All that kernels rely on is checked: types, shapes, columns inside the row, finite
    numbers, and that every walk ends at a leaf. The arrays are used in place.

    Raises
    ------
    BadModel
        If the kind is unknown or the arrays are not such a model.
    """
    stored = Stored(kind, arrays)
    if kind == Prior.kind:
        return Prior.load(stored)
    if kind not in LOADERS:
        known = ", ".join([Prior.kind, *LOADERS])
        raise BadModel(f"unknown kind of model {kind!r}; known: {known}")
    return load_classifier(LOADERS[kind](stored, width), stored)
