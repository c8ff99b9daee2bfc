"""Columns of records read for many rows at once, as `Columns` reads a record."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .cells import Cells, Dates, Numbers, Rows, Words
from .columns import Codes, Columns
from .dates import NO_DATE, NUMBERS_OF, DateCodes
from .exact_numbers import FLOAT32_MAX, Shift
from .records import Records

# Numbers of some rows, and which of those rows may be unusable.
Read = tuple[NDArray[Any], NDArray[np.bool_] | bool]
Reader = Callable[[Rows], Read]


class ColumnValues:
    """Reads the columns of a feature for rows of one table.

    Parameters
    ----------
    function
        The feature's.
    records
        Of the table.
    """

    def __init__(self, function: Columns, records: Records) -> None:
        self._readers = [
            _reader(codes, records.columns.get(name))
            for name, codes in zip(function.sources, function.codes, strict=True)
        ]

    def read(self, rows: Rows, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Read rows of the table into `values` (N, width); NaN is what is missing.

        Returns which rows (N,) `Columns` itself has to read, since it may refuse them.
        """
        doubtful = np.zeros(len(rows), np.bool_)
        for place, reader in enumerate(self._readers):
            values[:, place], refused = reader(rows)
            doubtful |= refused
        return doubtful


def _reader(codes: Codes | None, cells: Cells | None) -> Reader:
    match cells, codes:
        case None, _:
            return _nothing
        case Numbers(), None:
            return partial(_numbers, cells)
        case Numbers(), Shift():
            return partial(_moved, cells, codes)
        case Words(), dict() | DateCodes():
            numbers = [codes.get(word, np.nan) for word in cells.words]
            return partial(_words, cells, np.array(numbers, np.float32))
        case Dates(), DateCodes():
            return partial(_dates, cells, codes)
        case _:
            assert cells is not None
            return partial(_doubtful, cells)


def _nothing(rows: Rows) -> Read:
    return np.full(len(rows), np.nan), False


def _numbers(cells: Numbers, rows: Rows) -> Read:
    values = cells.values[rows]
    if values.dtype == np.float32:
        return values, np.isinf(values)
    # by way of float64, as Python's numbers go
    exact = values.astype(np.float64)
    with np.errstate(over="ignore"):
        return exact.astype(np.float32), np.abs(exact) > FLOAT32_MAX


def _moved(cells: Numbers, shift: Shift, rows: Rows) -> Read:
    exact = cells.values[rows].astype(np.float64)
    return shift.moved(exact), np.abs(exact) > FLOAT32_MAX


def _words(cells: Words, numbers: NDArray[np.float32], rows: Rows) -> Read:
    return cells.coded(rows, numbers, np.nan), False


def _dates(cells: Dates, codes: DateCodes, rows: Rows) -> Read:
    micros = cells.micros[rows]
    return np.where(micros == NO_DATE, np.nan, NUMBERS_OF[codes.part](micros)), False


def _doubtful(cells: Cells, rows: Rows) -> Read:
    """Leave what is there to `Columns`: it is not what the feature was made for."""
    return np.full(len(rows), np.nan), ~cells.missing(rows)
