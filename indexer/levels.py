"""`per_level = true`: bands of lattice levels, each with sets that stand for it.

A level is all sets of k features. Levels are taken together in bands that double
(1, 2-3, 4-7, 8-15 ...): what wins with four columns rarely loses with five, and a race
for every k would cost k races.
"""

from dataclasses import dataclass

import numpy as np

REPRESENTATIVES = 3


@dataclass(frozen=True, slots=True)
class Band:
    """Levels `low` to `high`, and the sets (bit masks) that a race is run on."""

    low: int
    high: int
    sets: tuple[int, ...]


def bands(m: int, seed: int) -> tuple[Band, ...]:
    """Divide the levels 1..m, and draw up to three sets of each band's middle size."""
    rng = np.random.default_rng(seed)
    found = []
    low = 1
    while low <= m:
        high = min(2 * low - 1, m)
        found.append(Band(low, high, _drawn(rng, m, (low + high + 1) // 2)))
        low = high + 1
    return tuple(found)


def _drawn(rng: np.random.Generator, m: int, size: int) -> tuple[int, ...]:
    """Draw different sets of `size` of m features, fewer than three if there are."""
    sets: dict[int, None] = {}
    for _ in range(4 * REPRESENTATIVES):
        chosen = rng.choice(m, size, replace=False)
        sets[sum(1 << int(f) for f in chosen)] = None
        if len(sets) == REPRESENTATIVES:
            break
    return tuple(sorted(sets))
