"""Slow twins of features of images."""

import itertools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def means_of_bands(values: Sequence[float], count: int) -> list[float]:
    """Mean of each of `count` equal bands, every value cut into `count` parts."""
    parts = [value for value in values for _ in range(count)]
    width = len(values)
    return [sum(parts[k * width : (k + 1) * width]) / width for k in range(count)]


def contrast_of_pairs(levels: NDArray[np.uint8], distance: int) -> float:
    """Mean squared difference of pixels `distance` apart in a row."""
    pairs = [
        (int(row[x]) - int(row[x + distance])) ** 2
        for row in levels
        for x in range(len(row) - distance)
    ]
    return sum(pairs) / len(pairs)


def likeness_of_blocks(values: NDArray[np.float32], side: int) -> list[list[float]]:
    """Correlations of square blocks in 16 ranges: of all pairs, of nearest pairs."""
    height, width = (length // side for length in values.shape)
    blocks = []
    for y, x in itertools.product(range(height), range(width)):
        block = values[y * side : (y + 1) * side, x * side : (x + 1) * side]
        centred = block.astype(np.float64).ravel() - block.mean()
        blocks.append(centred / max(float(np.linalg.norm(centred)), 0.05))
    pairs, nearest = [0.0] * 16, [0.0] * 16
    for i, block in enumerate(blocks):
        alike = [
            -1.0 if i == j else float(block @ other) for j, other in enumerate(blocks)
        ]
        for value in alike:
            pairs[min(max(int((value + 1) * 8), 0), 15)] += 1 / len(blocks) ** 2
        nearest[min(max(int((max(alike) + 1) * 8), 0), 15)] += 1 / len(blocks)
    return [pairs, nearest]
