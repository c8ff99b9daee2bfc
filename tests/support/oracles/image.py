"""Slow twins of features of images."""

import itertools
import math
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


def gradient_cells(
    grey: NDArray[np.float32], grid: int, fine: int, sectors: int, faint: float
) -> list[float]:
    """Normalised strength of change in grid x grid cells and so many directions."""
    height, width = (side - 2 for side in grey.shape)
    sums = np.zeros((grid, grid, sectors))
    for y, x in itertools.product(range(height), range(width)):
        down = float(grey[y + 2, x + 1] - grey[y, x + 1])
        right = float(grey[y + 1, x + 2] - grey[y + 1, x])
        sector = round(math.atan2(down, right) * sectors / (2 * math.pi)) % sectors
        places = []
        for place, length in ((y, height), (x, width)):
            middle = (place * fine // length + 0.5) * grid / fine - 0.5
            places.append([max(0.0, 1 - abs(middle - cell)) for cell in range(grid)])
        for i, j in itertools.product(range(grid), repeat=2):
            weight = places[0][i] * places[1][j] * grid**2 / (height * width)
            sums[i, j, sector] += weight * math.hypot(down, right)
    found = []
    for i, j in itertools.product(range(grid), repeat=2):
        energy = 0.0
        for a, b in itertools.product((-1, 0, 1), repeat=2):
            y, x = min(max(i + a, 0), grid - 1), min(max(j + b, 0), grid - 1)
            energy += (0.5 ** (abs(a) + abs(b))) * (sums[y, x] ** 2).sum()
        loud = math.sqrt(energy + faint**2)
        found += [math.sqrt(value / loud) for value in sums[i, j].tolist()]
    return found
