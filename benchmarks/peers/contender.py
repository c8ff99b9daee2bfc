"""Ways to predict with trees: checked to predict as they should, then timed in turn."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Singles = NDArray[np.float32]

ROUNDS, CALLS = 15, 300
ROWS = 1000  # of a loop in compiled code


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


def choose_row(model: Any, rows: list[Singles]) -> Callable[[int], Any]:
    """One call per row of `choose`."""
    return lambda i: model.choose(rows[i])


def take_turns(
    contenders: list[Contender],
    X: Singles,
    clock: Callable[[], float],
    rounds: int = ROUNDS,
) -> None:
    """Time every contender once per round, in turn; medians are taken later."""
    step, rows = max(1, len(X) // CALLS), min(ROWS, len(X))
    asked = range(0, min(CALLS * step, len(X)), step)
    for _ in range(rounds):
        for contender in contenders:
            if contender.one is not None:
                contender.one(0)
                start = clock()
                for i in asked:
                    contender.one(i)
                contender.one_s.append((clock() - start) / len(asked))
            if contender.rows is not None:
                start = clock()
                contender.rows(rows)
                contender.rows_s.append((clock() - start) / rows)
            if contender.many is not None:
                start = clock()
                contender.many(X)
                contender.many_s.append((clock() - start) / len(X))


def us(times_s: list[float]) -> float | None:
    """Median in microseconds."""
    return round(statistics.median(times_s) * 1e6, 3) if times_s else None
