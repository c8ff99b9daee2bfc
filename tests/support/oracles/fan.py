"""Slow twins of the early exits of Fan et al."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.support.oracles.early_exit import add_up


def fan_early(
    fitted: NDArray[np.float64],
    scores: NDArray[np.float64],
    order: Sequence[int],
    width: float,
    spreads: float,
    threshold: float,
) -> tuple[list[bool], list[int]]:
    """Fan et al. (2002) as QWYC's appendix C tells it, with a hash map per position."""
    full = fitted.sum(axis=1)
    tables = []
    for r in range(len(order)):
        table: dict[int, list[float]] = {}
        for row, f in zip(fitted, full, strict=True):
            g = sum(row[k] for k in order[: r + 1])
            table.setdefault(round(g / width), []).append(f - g)
        tables.append(table)
    decisions, used = [], []
    for row in scores:
        g = 0.0
        for r, model in enumerate(order):
            g += row[model]
            rest = tables[r].get(round(g / width))
            if rest is None:
                continue
            mean = sum(rest) / len(rest)
            sigma = math.sqrt(sum((x - mean) ** 2 for x in rest) / len(rest))
            middle = threshold - mean
            if g < middle - spreads * sigma or g > middle + spreads * sigma:
                decisions.append(bool(g > middle + spreads * sigma))
                break
        else:
            decisions.append(bool(add_up(row) >= threshold))
        used.append(r + 1)
    return decisions, used
