"""Sizes of items: one number, or two.

The paper ICSP lets a size be a vector (section 2). Here an image may have the size
(width, height), and a text the size (words, sentences).
"""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Size = float | tuple[float, float]


def show_size(size: Size) -> str:
    """Write a size: `480000`, or `800 x 600`."""
    numbers = size if isinstance(size, tuple) else (size,)
    return " x ".join(f"{number:g}" for number in numbers)


def is_size(size: Size, variables: int) -> bool:
    """Return True if a size is `variables` (1 or 2) finite numbers above 0."""
    if not isinstance(size, tuple):
        return variables == 1 and 0 < size < math.inf
    # the sum is finite only if both numbers are
    return len(size) == variables == 2 and min(size) > 0 and sum(size) < math.inf


def read_size(given: Any) -> Size:
    """Convert a number or a pair of numbers to a size.

    Raises TypeError or ValueError for anything else.
    """
    if isinstance(given, Sequence) and not isinstance(given, str):
        a, b = given
        return float(a), float(b)
    return float(given)


def split_near(sizes: NDArray[np.float64], parts: int) -> list[NDArray[np.int64]]:
    """Divide sizes (M,) or (M, 2) into about `parts` groups of similar sizes.

    Each group is an array of positions. Sizes ascend inside a group, and from group to
    group. Pairs (a, b) are divided into strips of similar a, and each strip by b.
    """
    if sizes.ndim == 1:
        return np.array_split(np.argsort(sizes, kind="stable"), parts)
    strips = max(round(math.sqrt(parts)), 1)
    return [
        strip[group]
        for strip in split_near(sizes[:, 0], strips)
        for group in split_near(sizes[strip, 1], -(-parts // strips))
    ]
