"""Slow twins of ensembles that stop early."""

import itertools
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = Sequence[float] | NDArray[np.float64]


def add_up(scores: Sequence[float] | NDArray[np.float64], start: float = 0.0) -> float:
    """One after the other, as they stand; each addition rounds."""
    total = start
    for score in scores:
        total += float(score)
    return total


def walk_early(
    scores: NDArray[np.float64],
    order: Sequence[int],
    lower: Numbers,
    upper: Numbers,
    threshold: float,
) -> tuple[list[bool], list[int]]:
    """QWYC, section 3: add up in order, stop outside the thresholds."""
    decisions, used = [], []
    for row in scores:
        total = 0.0
        for r, model in enumerate(order):
            total += row[model]
            if total < lower[r] or total > upper[r]:
                decisions.append(bool(total > upper[r]))
                break
        else:
            decisions.append(bool(add_up(row) >= threshold))
        used.append(r + 1)
    return decisions, used


def walk_margins(
    scores: NDArray[np.float64], order: Sequence[int], margin: Numbers, bias: Numbers
) -> tuple[int, int]:
    """Add base models up, one class at a time, until the margin is wide enough."""
    sums = list(bias)
    for r, model in enumerate(order):
        sums = [total + float(scores[model, k]) for k, total in enumerate(sums)]
        best, second = sorted(sums, reverse=True)[:2]
        if best - second > margin[r]:
            return sums.index(best), r + 1
    sums = [add_up(scores[:, k], float(start)) for k, start in enumerate(bias)]
    return sums.index(max(sums)), len(order)


def score_ends(
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    sums: NDArray[np.float64],
    ends: Sequence[tuple[NDArray[np.float64], NDArray[np.float64]]],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Least and most of class scores, by trying all ends of what is left together.

    `ends` has for each base model that is left the least and the most (R,) it adds;
    a raw score is least where all are. `score` makes class scores of raw ones.
    """
    least = [sum((low[r] for low, _ in ends), s) for r, s in enumerate(sums)]
    most = [sum((high[r] for _, high in ends), s) for r, s in enumerate(sums)]
    corners = itertools.product(*zip(least, most, strict=True))
    tried = np.array([score(np.array(corner)) for corner in corners])
    return tried.min(axis=0), tried.max(axis=0)


def exit_of(
    margins: Sequence[float], choices: Sequence[int], least: Sequence[float]
) -> tuple[int, int]:
    """Go past the checkpoints until one is sure: its choice, and which it was."""
    for k in range(len(margins) - 1):
        if margins[k] > least[k]:
            return choices[k], k
    return choices[-1], len(margins) - 1


def least_deviance(
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    sums: NDArray[np.float64],
    target: NDArray[np.float64],
    floor: float,
    starts: Sequence[tuple[float, float]],
) -> float:
    """The least deviance of class scores, of at least `floor`, by any line.

    From each start (offset, slope), go to the best of the lines around it as long as
    one is better, then halve the steps.
    """

    def deviance(line: tuple[float, float]) -> float:
        shares = np.maximum(score(line[0] + line[1] * sums), floor)
        return float((shares - target * np.log(shares)).sum())

    found = []
    for line in starts:
        best, wide = deviance(line), 1.0
        while wide > 1e-4:
            steps = itertools.product((-wide, 0.0, wide), repeat=2)
            around = [(line[0] + a, max(line[1] + b, 1e-3)) for a, b in steps]
            least, there = min((deviance(one), one) for one in around)
            if least < best:
                best, line = least, there
            else:
                wide /= 2
        found.append(best)
    return min(found)
