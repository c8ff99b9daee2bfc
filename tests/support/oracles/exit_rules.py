"""Slow twins of published exit rules: row by row, stage by stage."""

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def stages_until_certain(
    row: Floats, bias: Floats, least: Floats, most: Floats, pairs: bool
) -> int:
    """Stages of a row (T, K) after which LazyGBM, or pairs of classes, are sure."""
    for stage in range(len(row) - 1):
        sums = bias + row[: stage + 1].sum(axis=0)
        best = int(sums.argmax())
        others = [k for k in range(len(sums)) if k != best]
        if pairs:
            worst = sums[best] + least[stage + 1 :, best].sum()
            sure = all(worst > sums[k] + most[stage + 1 :, k].sum() for k in others)
        else:
            rest = sum(
                max(max(abs(a), abs(b)) for a, b in zip(low, high, strict=True))
                for low, high in zip(least[stage + 1 :], most[stage + 1 :], strict=True)
            )
            sure = sums[best] - max(sums[k] for k in others) > 2 * rest
        if sure:
            return stage + 1
    return len(row)


def models_until_calm(
    increments: list[float],
    margins: list[float],
    window: int,
    spread: float,
    by_margin: bool,
) -> int:
    """Base models after which P2-STOP, as it is read here, ends a row."""

    def spread_of(values: list[float]) -> float:
        low, high = np.percentile(values, [25, 75])
        return float(high - low)

    for used in range(2 * window, len(increments)):
        last = spread_of(increments[used - window : used])
        scale = margins[used - 1] if by_margin else spread_of(increments[:window])
        if last <= spread * max(scale, 1e-12):
            return used
    return len(increments)
