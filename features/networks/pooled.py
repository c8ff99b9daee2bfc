"""Columns of a feature from the output of a network's piece."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature
from .facts import PieceFacts
from .inputs import Tensors
from .session import Piece, Tensor

Floats = NDArray[np.float32]
PARTS = ("mean", "components")


@dataclass(frozen=True, eq=False)
class RunPiece:
    """Runs a piece on its inputs, and on the outputs of the pieces before it."""

    facts: PieceFacts
    piece: Piece

    def __call__(self, *given: Any) -> Tensor:
        """Return the piece's output.

        `given` are the network's input tensors, if the piece reads any, and then the
        outputs of earlier pieces, in the order of `facts.after`.
        """
        named: dict[str, Tensor] = {}
        if self.facts.inputs:
            tensors, *given = given  # type: ignore[assignment]
            named = {input_name(k): tensors[k] for k in self.facts.inputs}
        for earlier, output in zip(self.facts.after, given, strict=True):
            named[cut_name(earlier)] = output
        return self.piece.run(named)


def input_name(position: int) -> str:
    """Return the name, in a piece, of the network's input at a position."""
    return f"in{position}"


def cut_name(position: int) -> str:
    """Return the name, in a piece, of the output of the earlier piece at a position."""
    return f"cut{position}"


@dataclass(frozen=True, eq=False)
class Projection:
    """A principal component analysis that reduces W columns to K."""

    mean: Floats  # (W,) float32: Mean of the columns over the training items
    # (W, K) float32: Orthonormal directions, which span the strongest components
    components: Floats

    def __post_init__(self) -> None:
        """Convert memory-mapped arrays to plain arrays, which are faster."""
        for name in PARTS:
            object.__setattr__(self, name, np.asarray(getattr(self, name)))

    def check(self) -> None:
        """Raise BadFeature if the arrays do not fit together, or are not finite."""
        mean, components = self.mean, self.components
        if mean.dtype != np.float32 or components.dtype != np.float32:
            raise BadFeature("a projection is of another type of number")
        if mean.ndim != 1 or components.ndim != 2 or len(components) != len(mean):
            raise BadFeature("a projection's mean and components do not fit")
        if not (np.isfinite(mean).all() and np.isfinite(components).all()):
            raise BadFeature("a projection holds numbers that are not finite")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, to be stored."""
        return {name: getattr(self, name) for name in PARTS}

    def __call__(self, values: Floats) -> Floats:
        """Project values (W,) or (N, W) to (K,) or (N, K)."""
        centred: Floats = values - self.mean
        projected: Floats = np.matmul(centred, self.components)
        return projected


@dataclass(frozen=True, eq=False)
class PooledColumns:
    """The function of a network's feature: columns from a piece's output."""

    facts: PieceFacts
    projection: Projection | None = None

    def __call__(self, output: Tensor, tensors: Tensors = ()) -> Floats:
        """Return columns (K,) float32 of an output of the shape (1, ...).

        `tensors` are those of a text that was filled up; the last is its mask.
        """
        columns = np.asarray(self._pooled(output[0], tensors), np.float32).reshape(-1)
        return columns if self.projection is None else self.projection(columns)

    def _pooled(self, values: Any, tensors: Tensors) -> Any:
        facts = self.facts
        if facts.of_tokens == "first":
            return values[0]
        if facts.of_tokens == "mean" and tensors:
            mask = tensors[-1][0]
            return mask @ values / np.float32(max(mask.sum(), 1))
        if facts.of_tokens == "mean":
            return values.mean(axis=0)
        if facts.axes == [2, 3]:
            places = np.asarray(values, np.float32).reshape(len(values), -1)
            # three times as fast as `mean`, whose sums are of short rows
            return np.einsum("ij->i", places) / places.shape[1]
        return values.mean(axis=tuple(axis - 1 for axis in facts.axes))
