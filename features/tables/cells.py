"""The cells of a table's column in arrays: numbers, words or dates.

A cell becomes a Python object only where somebody asks for it.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..items import Value
from .dates import DAY_US, NO_DATE, Micros, show_date

Rows = NDArray[np.int64]
MISSING = -1  # the code of no word

WHOLE = 2.0**53  # from here on not every integer is a float64
INTEGERS = (np.int8, np.int16, np.int32, np.int64)


@dataclass(frozen=True, eq=False)
class Numbers:
    """Cells that are numbers: `values` (N,) integers, booleans or floats.

    NaN is what is missing.
    """

    values: NDArray[Any]

    def __len__(self) -> int:
        return len(self.values)

    @property
    def array(self) -> NDArray[Any]:
        """Equal numbers for equal cells."""
        return self.values

    def value(self, row: int) -> Value:
        """Give a cell as a record holds it."""
        number: float = self.values[row].item()
        return None if number != number else number

    def digest(self, rows: Rows) -> bytes:
        """Identify the cells of some rows, in whatever type they are held."""
        return _digest(b"numbers", self.values[rows].astype(np.float64))

    def missing(self, rows: Rows) -> NDArray[np.bool_]:
        """Say of which rows nothing is known."""
        values = self.values[rows]
        nothing: NDArray[np.bool_] = values != values
        return nothing


@dataclass(frozen=True, eq=False)
class Words:
    """Cells that are strings: `codes` (N,) of `words`, each of which is there once.

    `MISSING` is the code of what is missing.
    """

    codes: NDArray[Any]
    words: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def array(self) -> NDArray[Any]:
        """Equal numbers for equal cells."""
        return self.codes

    def value(self, row: int) -> Value:
        """Give a cell as a record holds it."""
        code = int(self.codes[row])
        return None if code == MISSING else self.words[code]

    def used(self, rows: Rows) -> Rows:
        """Codes of the words that come in some rows, the most frequent first.

        Those as frequent as each other come in alphabetical order.
        """
        codes = self.codes[rows].astype(np.int64)
        counts = np.bincount(codes + 1, minlength=len(self.words) + 1)[1:].tolist()
        used = [code for code, count in enumerate(counts) if count]
        used.sort(key=lambda code: (-counts[code], self.words[code]))
        return np.array(used, np.int64)

    def coded(self, rows: Rows, numbers: NDArray[Any], missing: Any) -> NDArray[Any]:
        """Exchange the words of some rows for their numbers, one for each word."""
        table = np.append(numbers, np.array([missing], numbers.dtype))
        found: NDArray[Any] = table[self.codes[rows]]  # MISSING is the last
        return found

    def digest(self, rows: Rows) -> bytes:
        """Identify the cells of some rows, whatever words come in others."""
        used = self.used(rows)
        order = np.full(len(self.words), MISSING, np.int64)
        order[used] = np.arange(len(used))
        words = "\0".join(self.words[code] for code in used)
        return _digest(words.encode(), self.coded(rows, order, MISSING))

    def missing(self, rows: Rows) -> NDArray[np.bool_]:
        """Say of which rows nothing is known."""
        nothing: NDArray[np.bool_] = self.codes[rows] == MISSING
        return nothing


@dataclass(frozen=True, eq=False)
class Dates:
    """Cells that are dates: `micros` (N,) since 1970 in UTC.

    `NO_DATE` is what is missing.
    """

    micros: Micros

    def __len__(self) -> int:
        return len(self.micros)

    @property
    def array(self) -> NDArray[Any]:
        """Equal numbers for equal cells."""
        return self.micros

    @cached_property
    def whole_days(self) -> bool:
        """Whether none has a time of day."""
        known = self.micros[self.micros != NO_DATE]
        return not (known % DAY_US).any()

    def value(self, row: int) -> Value:
        """Give a cell as a record holds it: its text."""
        micros = int(self.micros[row])
        return None if micros == NO_DATE else show_date(micros, self.whole_days)

    def digest(self, rows: Rows) -> bytes:
        """Identify the cells of some rows."""
        return _digest(b"dates", self.micros[rows])

    def missing(self, rows: Rows) -> NDArray[np.bool_]:
        """Say of which rows nothing is known."""
        nothing: NDArray[np.bool_] = self.micros[rows] == NO_DATE
        return nothing


Cells = Numbers | Words | Dates


def joined(one: Cells, other: Cells) -> Cells:
    """Put the cells of two columns one after the other; TypeError if they differ.

    A column without any cell that holds something is like any other.
    """
    match one, other:
        case Numbers(), Numbers():
            return Numbers(np.concatenate([one.values, other.values]))
        case Dates(), Dates():
            return Dates(np.concatenate([one.micros, other.micros]))
        case Words(), Words():
            words = {word: code for code, word in enumerate(one.words)}
            own = [words.setdefault(word, len(words)) for word in other.words]
            codes = other.coded(all_rows(len(other)), np.array(own, np.int64), MISSING)
            return Words(np.concatenate([one.codes, codes]), tuple(words))
    if _is_empty(one):
        return joined(_nothing_like(other, len(one)), other)
    if _is_empty(other):
        return joined(one, _nothing_like(one, len(other)))
    raise TypeError(f"{type(one).__name__} and {type(other).__name__}".lower())


def _is_empty(cells: Cells) -> bool:
    return bool(cells.missing(all_rows(len(cells))).all())


def _nothing_like(cells: Cells, count: int) -> Cells:
    """Make so many cells of the same kind that hold nothing."""
    if isinstance(cells, Numbers):
        return Numbers(np.full(count, np.nan, np.float32))
    if isinstance(cells, Words):
        return Words(np.full(count, MISSING, np.int8), ())
    return Dates(np.full(count, NO_DATE, np.int64))


def all_rows(count: int) -> Rows:
    """Give the positions of that many rows."""
    return np.arange(count, dtype=np.int64)


def _digest(kind: bytes, array: NDArray[Any]) -> bytes:
    digest = hashlib.sha256(kind)
    digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def narrow(values: NDArray[Any]) -> NDArray[Any]:
    """Hold numbers in the smallest type that holds them exactly."""
    if values.dtype.kind == "f" and _are_whole(values):
        values = values.astype(np.int64)
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
        exact = (single == values) | (values != values)
        return single if exact.all() else values
    if values.dtype.kind in "iu" and len(values):
        low, high = int(values.min()), int(values.max())
        for kind in INTEGERS:
            if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                return values.astype(kind)
    return values


def _are_whole(values: NDArray[Any]) -> bool:
    """Say whether numbers are integers that an int64 holds; -0.0 is none."""
    with np.errstate(invalid="ignore"):
        whole = (np.abs(values) < WHOLE) & (np.trunc(values) == values)
    return bool((whole & ~(np.signbit(values) & (values == 0))).all())


class Gathered:
    """A column on its way into memory, in the smallest type that holds it exactly.

    Parameters
    ----------
    most
        How many cells there can be; memory is taken as they come.
    """

    def __init__(self, most: int) -> None:
        self._array: NDArray[Any] = np.empty(most, np.int8)
        self._count = 0

    def add(self, values: NDArray[Any]) -> None:
        """Add the next cells."""
        values = narrow(values)
        first, end = self._count, self._count + len(values)
        kind = np.result_type(self._array, values) if first else values.dtype
        if kind != self._array.dtype:
            wider = np.empty(len(self._array), kind)
            wider[:first] = self._array[:first]
            self._array = wider
        self._array[first:end] = values
        self._count = end

    @property
    def whole(self) -> NDArray[Any]:
        """All cells that came."""
        return self._array[: self._count]
