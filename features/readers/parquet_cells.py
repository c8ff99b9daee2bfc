"""Columns of Parquet files, by way of Arrow: no cell becomes a Python object."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import BadInput
from ..tables.cells import MISSING, Cells, Dates, Gathered, Numbers, Words
from ..tables.dates import FIRST_US, LAST_US, NO_DATE
from .csv_cells import OnRows

ROWS = 2**16  # in memory at a time

NEEDED = "numbers, booleans, strings, dates or times with a date are needed"


class _Numbers:
    """Numbers and booleans, NaN where there is none."""

    def __init__(self, most: int) -> None:
        self._values = Gathered(most)

    def take(self, array: Any) -> None:
        """Read more cells."""
        import pyarrow as pa

        kind = array.type
        if pa.types.is_decimal(kind) or pa.types.is_float16(kind):
            array = array.cast(pa.float64())
        elif array.null_count and pa.types.is_boolean(kind):
            array = array.cast(pa.uint8())
        if pa.types.is_null(kind):
            values = np.full(len(array), np.nan)
        else:
            values = array.to_numpy(zero_copy_only=False)
        self._values.add(values)

    def cells(self) -> Numbers:
        """Give all that were read."""
        return Numbers(self._values.whole)


class _Dates:
    """Dates, and times with a date."""

    def __init__(self, most: int) -> None:
        self._values = Gathered(most)

    def take(self, array: Any) -> None:
        """Read more cells; what is in no calendar counts as missing."""
        import pyarrow as pa

        if pa.types.is_date(array.type):
            array = array.cast(pa.timestamp("s"), safe=False)
        kind = pa.timestamp("us", array.type.tz)
        micros = array.cast(kind, safe=False).cast(pa.int64()).fill_null(NO_DATE)
        values = micros.to_numpy(zero_copy_only=False)
        known = (values >= FIRST_US) & (values <= LAST_US)
        self._values.add(np.where(known, values, NO_DATE))

    def cells(self) -> Dates:
        """Give all that were read."""
        return Dates(self._values.whole.astype(np.int64, copy=False))


class _Words:
    """Strings."""

    def __init__(self, most: int) -> None:
        self._words: dict[str, int] = {}
        self._values = Gathered(most)

    def take(self, array: Any) -> None:
        """Read more cells."""
        import pyarrow as pa

        if pa.types.is_string_view(array.type):  # which Polars hands over
            array = array.cast(pa.large_string())
        if not pa.types.is_dictionary(array.type):
            array = array.dictionary_encode()
        known = self._words
        table = np.array(
            [
                MISSING if word is None else known.setdefault(word, len(known))
                for word in array.dictionary.to_pylist()
            ]
            + [MISSING],
            np.int64,
        )
        places = array.indices.cast(pa.int64()).fill_null(len(table) - 1)
        self._values.add(table[places.to_numpy(zero_copy_only=False)])

    def cells(self) -> Words:
        """Give all that were read."""
        return Words(self._values.whole, tuple(self._words))


def read_parquet_cells(
    where: str,
    types: Mapping[str, Any],
    batches: Iterable[Any],
    count: int,
    on_rows: OnRows | None = None,
) -> dict[str, Cells]:
    """Read columns of a Parquet file.

    Parameters
    ----------
    where
        The file's name, for messages.
    types
        Arrow's type of each column.
    batches
        Record batches with these columns.
    count
        Rows of all.
    on_rows
        Told how many rows were read, and how many more there are.

    Raises
    ------
    BadInput
        If a column holds what no feature can be made of.
    """
    columns = {name: _form(where, name, kind)(count) for name, kind in types.items()}
    done = 0
    for batch in batches:
        for array, column in zip(batch.columns, columns.values(), strict=True):
            column.take(array)
        done += batch.num_rows
        if on_rows is not None:
            on_rows(done, count - done)
    return {name: column.cells() for name, column in columns.items()}


def _form(
    where: str, name: str, kind: Any
) -> type[_Numbers] | type[_Dates] | type[_Words]:
    from pyarrow import types

    strings = (types.is_string, types.is_large_string, types.is_string_view)
    held = kind.value_type if types.is_dictionary(kind) else kind
    if any(test(held) for test in strings):
        return _Words
    if types.is_date(kind) or types.is_timestamp(kind):
        return _Dates
    numbers: Sequence[Any] = (
        types.is_integer,
        types.is_floating,
        types.is_boolean,
        types.is_decimal,
        types.is_null,
    )
    if any(test(kind) for test in numbers):
        return _Numbers
    raise BadInput(
        f"{where}: column {name!r} holds {kind}; {NEEDED}, or leave it out with "
        "[data] ignore"
    )
