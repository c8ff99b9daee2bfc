"""Long texts in pieces: while one call of a library goes through all, nobody else runs.

Regular expressions, splitting and counting hold Python's lock until they return, which
of megabytes takes tenths of a second.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, AnyStr

import numpy as np
from numpy.typing import NDArray

# Characters or bytes of a piece, and values of an array that are gathered at a time.
PIECE, VALUES = 1 << 16, 1 << 13


def pieces(text: AnyStr) -> Iterator[AnyStr]:
    """Cut a text, or its bytes, behind spaces and line ends into up to `PIECE` each.

    A longer run without either is cut where a piece is full. There is at least one
    piece, and all in a row are the text.
    """
    space, line_end = (" ", "\n") if isinstance(text, str) else (b" ", b"\n")
    start = 0
    while len(text) - start > PIECE:
        full = start + PIECE
        last = max(text.rfind(space, start, full), text.rfind(line_end, start, full))
        end = full if last < 0 else last + 1
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def gather(values: Iterable[Any], count: int, kind: type[np.generic]) -> NDArray[Any]:
    """Make an array of `count` values, some at a time."""
    left, array = iter(values), np.empty(count, kind)
    for start in range(0, count, VALUES):
        some = min(VALUES, count - start)
        array[start : start + some] = np.fromiter(islice(left, some), kind, some)
    return array


def count_each(codes: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Count how often each of 0 to `count` - 1 is among codes, some at a time."""
    counts = np.zeros(count, np.intp)
    for start in range(0, len(codes), PIECE):
        counts += np.bincount(codes[start : start + PIECE], minlength=count)
    return counts
