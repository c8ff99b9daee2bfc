"""A way to predict with trees, and the check that it predicts as it should."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]


@dataclass
class Contender:
    """A way to predict: one call per row, or one call for all of them.

    What another process times is `told` instead: it answers in seconds per row, by
    the list that they belong to.
    """

    name: str
    one: Callable[[int], Any] | None = None
    many: Callable[[Singles], Any] | None = None
    rows: Callable[[int], Any] | None = None  # so many rows within compiled code
    owner: object = None  # of the memory that addresses of the calls are of
    told: dict[str, Callable[[], float]] = field(default_factory=dict)
    one_s: list[float] = field(default_factory=list)
    many_s: list[float] = field(default_factory=list)
    rows_s: list[float] = field(default_factory=list)


def batches(name: str, predict: Callable[[Singles], Any], X: Singles) -> Contender:
    """One way for both: a batch of one row, and a batch of all."""
    rows = [X[i : i + 1] for i in range(len(X))]
    return Contender(name, lambda i: predict(rows[i]), predict)


def check(found: NDArray[Any], expected: NDArray[Any], tolerance: float) -> None:
    """Stop unless a contender answers as it should."""
    gap = float(np.abs(np.asarray(found) - expected).max())
    if not gap <= tolerance:
        raise AssertionError(f"answers differ by {gap:g}, more than {tolerance:g}")


def shares(raw: NDArray[np.float64]) -> NDArray[np.float64]:
    """Probabilities of the raw scores."""
    share: NDArray[np.float64] = 1 / (1 + np.exp(-raw))
    return share
