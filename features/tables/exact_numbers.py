"""Shifts of columns toward zero, where float32 distinguishes more numbers.

Models and servers read float32. Its 24 bits distinguish seconds since 1970 only in
steps of 128. But the range of most columns is small relative to their largest number,
so that float32 holds the numbers once an offset is subtracted.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature
from ..items import Item
from .records import Records

FLOAT32_MAX = float(np.finfo(np.float32).max)
# Among very many fractions, some round to the same float32 by chance, which does no
# harm: fewer than CHANCE numbers, and less than CHANCE_SHARE of all.
CHANCE, CHANCE_SHARE = 8, 0.02
# A shift takes time, so it must reduce the count of lost numbers to this share.
MOST_LEFT = 1 / 8
SMALL = 2.0**-10  # a column that varies by less than this is scaled up
# Columns need no scale if their spread lies between these powers of two.
SMALLEST, LARGEST = -10, 120

Numbers = NDArray[np.float64]
MOST_EMPTY = 100  # numbers that stand for an empty cell, in one column
_PLAIN = frozenset({float, int, bool})


class Shift(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """How a column's numbers are stored: as `(number - offset) * scale`, in float64."""

    offset: float  # Number that becomes 0, between -FLOAT32_MAX and FLOAT32_MAX
    scale: float = 1.0  # Power of two, above 0: multiplying by it rounds nothing
    # Numbers that stand for an empty cell, such as -1; at most `MOST_EMPTY`
    empty: tuple[float, ...] = ()

    def check(self, column: str) -> None:
        """Raise BadFeature for a shift out of range, which a hostile index may have."""
        if not (abs(self.offset) <= FLOAT32_MAX and 0 < self.scale < math.inf):
            raise BadFeature(
                f"column {column!r} is stored less {self.offset:g}, times "
                f"{self.scale:g}; finite numbers are needed, the second above 0"
            )
        if len(self.empty) > MOST_EMPTY:  # each record is compared with all of them
            raise BadFeature(
                f"{len(self.empty):,} numbers of column {column!r} stand for nothing; "
                f"up to {MOST_EMPTY} can"
            )

    def get(self, value: Any, default: float) -> Any:
        """Return the stored form of a number; the default for an empty cell.

        None and the numbers in `empty` are empty cells. A number beyond float32, and
        any value that is no number, is returned unchanged.
        """
        if value is None or value in self.empty:
            return default
        if type(value) not in _PLAIN or not abs(value) <= FLOAT32_MAX:
            return value
        moved = (value - self.offset) * self.scale
        return min(max(moved, -FLOAT32_MAX), FLOAT32_MAX)

    def __getitem__(self, value: Any) -> Any:
        """Return the stored form of a number; KeyError for an empty cell."""
        if value is None or value in self.empty:
            raise KeyError(value)
        return self.get(value, math.nan)

    def moved(self, values: Numbers) -> Numbers:
        """Return the stored form of numbers (N,); NaN for numbers in `empty`.

        The absolute value of each number must be at most FLOAT32_MAX.
        """
        with np.errstate(over="ignore"):
            moved = (values - self.offset) * self.scale
        if self.empty:
            moved[np.isin(values, self.empty)] = np.nan
        return np.clip(moved, -FLOAT32_MAX, FLOAT32_MAX)


NO_SHIFT = Shift(0.0)


class Learned(NamedTuple):
    """The shift of a column, and the number of values that float32 still confuses."""

    shift: Shift | None  # Offset and scale; None for a column that is stored as it is
    # Count of numbers that become the same float32 as another number of the column; 0
    # if so few of them are chance
    lost: int = 0
    different: int = 0  # Number of different numbers in the column


def learn_shift(values: NDArray[Any]) -> Learned:
    """Find a shift of a column (N,) with which float32 distinguishes its numbers.

    A column that varies by less than `SMALL` gets a scale, since trees ignore
    differences below 1e-7. NaN, infinity and numbers beyond float32 are ignored.
    """
    if values.dtype.itemsize < 3 or not len(values):
        return Learned(None)  # whole numbers of 16 bits are float32 too
    numbers = values.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        is_exact = bool((numbers.astype(np.float32) == numbers).all())
        spread = float(np.fmax.reduce(numbers) - np.fmin.reduce(numbers))
    if is_exact and not 0 < spread < SMALL:  # a short cut
        return Learned(None)
    numbers = np.unique(numbers[np.abs(numbers) <= FLOAT32_MAX])
    if not len(numbers):
        return Learned(None)
    lost, different = count_lost(numbers), len(numbers)
    tried = [_around(numbers, center) for center in _centers(numbers)]
    left, shift = min(((count_lost(numbers, one), one) for one in tried), key=_loss)
    saves = lost and left <= lost * MOST_LEFT and not _is_chance(numbers, lost)
    saves = saves or left < lost > CHANCE_SHARE * different
    if not (saves or 0 < numbers[-1] - numbers[0] < SMALL):
        left, shift = lost, NO_SHIFT
    told = left if left > CHANCE_SHARE * different else 0
    return Learned(None if shift == NO_SHIFT else shift, told, different)


def _loss(found: tuple[int, Shift]) -> int:
    return found[0]


def _is_chance(numbers: Numbers, lost: int) -> bool:
    is_few = lost < CHANCE and lost < CHANCE_SHARE * len(numbers)
    return is_few and not (np.trunc(numbers) == numbers).all()


def _centers(numbers: Numbers) -> list[float]:
    """Return offsets to try: the median, and the number in the middle of the range."""
    middle = np.searchsorted(numbers, numbers[0] / 2 + numbers[-1] / 2)
    return [float(numbers[len(numbers) // 2]), float(numbers[middle])]


def learn_numbers(items: Sequence[Item], columns: Sequence[str]) -> dict[str, Learned]:
    """Learn how to store each column of numbers, so that float32 distinguishes them.

    A column that is stored unchanged, and loses no number, has no entry.
    """
    learned = {column: _learn_column(items, column) for column in columns}
    return {
        column: found for column, found in learned.items() if found != Learned(None)
    }


def _learn_column(items: Sequence[Item], column: str) -> Learned:
    found = learn_shift(_values(items, column))
    known = items.columns.get(column) if isinstance(items, Records) else None
    if known is None or not known.empty_numbers:
        return found
    shift = msgspec.structs.replace(found.shift or NO_SHIFT, empty=known.empty_numbers)
    return found._replace(shift=shift)


def _values(items: Sequence[Item], column: str) -> NDArray[Any]:
    if isinstance(items, Records):
        found = items.columns.get(column)
        if found is not None and found.kind == "number":
            return found.numbers()[items.rows]
        return np.empty(0)
    payloads = (item.payload for item in items)
    values = (one.get(column) for one in payloads if isinstance(one, Mapping))
    numbers = [v for v in values if isinstance(v, float | int)]
    return np.array([v for v in numbers if abs(v) <= FLOAT32_MAX], np.float64)


def count_lost(numbers: Numbers, shift: Shift = NO_SHIFT) -> int:
    """Count the numbers that a shift makes equal to another number in float32.

    `numbers` are sorted and all different.
    """
    stored = shift.moved(numbers).astype(np.float32)
    return int((stored[1:] == stored[:-1]).sum())


def _around(numbers: Numbers, offset: float) -> Shift:
    """Make a shift that moves `offset` to zero, with a scale if float32 needs one."""
    spread = float(np.abs(numbers / 2 - offset / 2).max())  # half: may overflow
    exponent = math.frexp(spread)[1]
    if SMALLEST <= exponent <= LARGEST:
        return Shift(offset)
    return Shift(offset, math.ldexp(1.0, -exponent))
