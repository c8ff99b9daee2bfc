"""Kinds of columns: the cells of a table read as numbers, dates, words or free text.

Cells of a CSV file are text. A column is of the first kind below that suits all cells
that are not empty:

1. numbers as programs write them: `5`, `-2.5`, `1e5`;
2. such numbers, and words for an empty cell: `NA`, `?`, `NULL` (see `EMPTY`);
3. numbers as people write them: `1,234.56`, `1.234,56`, `$5`, `5 %`, `(12)`;
4. dates: `2024-01-31`, `31.01.2024`, `01/31/2024`, `31 Jan 2024` (`dates`);
5. free text: most cells differ, and have four words or more;
6. words.

Columns of Parquet files, data frames and JSON Lines have types. Their strings are read
as dates, free text or words, and never as numbers, since a request sends numbers as
numbers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import BadInput
from .dates import (
    FIRST_US,
    LAST_US,
    LONGEST,
    DateOrder,
    orders_of,
    show_date,
)
from .records import BLANKS, Column, ColumnKind, Decimal
from .written_numbers import (
    EMPTY,
    LONGEST_NUMBER,
    is_empty,
    plain_number,
    read_number,
    read_numbers,
)

GROUPED_BY_POINTS = r"^\s*[-+]?[1-9]\d{0,2}(\.\d{3})+\s*$"
EXACT = 2.0**53  # float64 does not tell larger whole numbers apart
# Number of cells that are tried before the whole column: Arrow converts all cells even
# if the first cell is not a number.
PROBED = 100
# A column is free text if its different cells have this many words on average, and make
# up more than this share of all cells.
TEXT_WORDS = 4
TEXT_SHARE = 0.5

TIMES = (
    pa.types.is_date,
    pa.types.is_timestamp,
    pa.types.is_time,
    pa.types.is_duration,
)


@dataclass(frozen=True)
class ColumnTerms:
    """Settings for reading a column, from the project and from the file."""

    # Kind of the column; None for the first kind that suits all cells
    kind: ColumnKind | None = None
    # Words for an empty cell. In columns of numbers and dates the words of `EMPTY`
    # stand for one, too.
    missing: tuple[str, ...] = ()
    # Order of day, month and year; None for an order that suits all cells
    date_order: DateOrder | None = None
    # Decimal mark in numbers as people write them; None for a mark that suits all cells
    decimal: Decimal | None = None
    # True if an ambiguous comma stands before a fraction, not between thousands
    commas: bool = False
    # True if an ambiguous point stands between thousands, not before a fraction
    points_group: bool = False
    typed: bool = False  # True if strings are never numbers

    def may_be_plain(self, cells: Any) -> bool:
        """Return True unless these terms rule out "." as a decimal mark of `cells`."""
        if not (self.points_group or self.decimal == ","):
            return True
        points = pc.match_substring(cells, ".")
        if not pc.any(points).as_py():
            return True
        grouped = pc.match_substring_regex(pc.filter(cells, points), GROUPED_BY_POINTS)
        return self.decimal != "," and not pc.all(grouped).as_py()


def read_column(name: str, cells: Any, terms: ColumnTerms) -> Column:
    """Find the kind of a column, and read its cells.

    `cells` is an Arrow array, chunked or not, of strings, numbers, booleans, dates or
    times. Raises BadInput for another type, or if cells do not suit the kind in
    `terms`.
    """
    if not is_strings(cells.type):
        return _typed_column(name, cells, terms)
    if pa.types.is_string_view(cells.type):  # as Polars makes them
        cells = cells.cast(pa.large_string())
    if terms.missing:
        cells, said = _without(_trimmed(cells), terms.missing)
        column = read_column(name, cells, replace(terms, missing=()))
        column = replace(column, empty_words=(*said, *column.empty_words))
        return _without_numbers(column, terms)
    may_be_number = terms.kind == "number" or (terms.kind is None and not terms.typed)
    if may_be_number and (plain := _plain_numbers(cells, terms)) is not None:
        return Column(plain, "number", unclear=_unclear_points(cells, terms))
    distinct = _Distinct.of(cells)
    found = _numbers(distinct, terms) if may_be_number else None
    if found is None and terms.kind in (None, "date"):
        found = _dates(distinct, terms)
    if found is not None:
        return found
    if terms.kind in ("number", "date"):
        raise BadInput(_unlike(name, cells, terms))
    return _words_or_text(distinct, terms.kind)


def _unclear_points(cells: Any, terms: ColumnTerms) -> str:
    """Return a warning if each "." in the cells may separate thousands; else ""."""
    if not terms.commas or terms.decimal is not None:
        return ""
    points = pc.filter(cells, pc.match_substring(cells, "."))
    if not len(points):
        return ""
    if not pc.all(pc.match_substring_regex(points, GROUPED_BY_POINTS)).as_py():
        return ""
    cell = points[0].as_py().strip()
    other = read_number(cell, ",")
    return (
        f"{cell!r} is read as {float(cell):g} and may mean {other:,g}; "
        "[data] decimal = ',' reads it so"
    )


class _Distinct(NamedTuple):
    """The different cells of a column, and the position of each cell among them."""

    # Arrow array of the different cells, without spaces around them; null for a cell of
    # spaces
    words: Any
    places: Any  # Arrow array with the position in `words` of each cell of the column

    @classmethod
    def of(cls, cells: Any) -> "_Distinct":
        coded = _whole(cells.dictionary_encode())
        words, _ = _without(_trimmed(coded.dictionary), [""])
        return cls(words, coded.indices)

    def spread(self, values: Any) -> Any:
        """Return a value for every cell, given `values`, one per different cell."""
        return values.take(self.places)

    @property
    def longest(self) -> int:
        """Number of bytes of the longest word."""
        return pc.max(pc.binary_length(self.words)).as_py() or 0


def joined(one: Column, other: Column) -> Column:
    """Append the cells of a second column to those of a first one.

    Words and free text become free text; a column without values takes any kind. Raises
    TypeError for other differences in kind.
    """
    if one.kind != other.kind:
        if one.missing().all():
            one = _nothing_like(other, len(one))
        elif other.missing().all():
            other = _nothing_like(one, len(other))
    cells, kind = (one.cells, other.cells), one.kind
    if {one.kind, other.kind} == {"word", "text"}:
        cells, kind = tuple(own.cast(pa.large_string()) for own in cells), "text"
    elif one.kind != other.kind:
        raise TypeError(f"{one.kind} and {other.kind}")
    elif cells[0].type != cells[1].type and kind in ("number", "date"):
        like = pa.float64() if kind == "number" else pa.timestamp("us")
        cells = tuple(own.cast(like) for own in cells)
    said = one if one.empty_words or one.empty_numbers else other
    return replace(said, cells=_whole(pa.chunked_array(cells)), kind=kind)


def _nothing_like(column: Column, count: int) -> Column:
    """Make a column of `count` empty cells, of the same kind as `column`."""
    if column.kind == "number":
        return Column(pa.nulls(count, pa.float64()).fill_null(float("nan")), "number")
    return Column(pa.nulls(count, column.cells.type), column.kind)


def without_rows(columns: Mapping[str, Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the positions of rows with any value, and the positions of empty rows."""
    first, *others = columns.values()
    empty = first.is_null()
    for column in others:
        if not pc.any(empty).as_py():
            break
        empty = pc.and_(empty, column.is_null())
    marks = np.asarray(empty.to_numpy(zero_copy_only=False), np.bool_)
    return np.flatnonzero(~marks), np.flatnonzero(marks)


def rows_of_names(columns: Mapping[str, Any]) -> list[int]:
    """Return the positions of rows that repeat the names of the columns.

    Files that were put one after the other have such rows. For a table of one column
    the result is empty, since a cell may happen to be the column's name.
    """
    if len(columns) < 2:
        return []
    marks: Any = None
    for name, column in columns.items():
        if marks is not None and not pc.any(marks).as_py():
            break
        # a second file may begin with a mark of its byte order
        written = pa.array([name, f"\ufeff{name}"], column.type)
        same = pc.is_in(column, value_set=written)
        marks = same if marks is None else pc.and_(marks, same)
    found: list[int] = np.flatnonzero(np.asarray(marks)).tolist()
    return found


def _plain_numbers(cells: Any, terms: ColumnTerms) -> Any:
    """Read cells as numbers that programs write (`-2.5`); None if one is no number."""
    if not terms.may_be_plain(cells):
        return None
    try:
        cells[:PROBED].cast(pa.float64())
        numbers = _whole(cells.cast(pa.float64()))
    except pa.ArrowInvalid:
        return None
    if numbers.null_count:
        return _no_null(numbers)
    try:
        cells[:PROBED].cast(pa.int64())
        ends = pc.min_max(numbers).as_py().values()
        are_told = all(end is None or abs(end) < EXACT for end in ends)
        return _whole((numbers if are_told else cells).cast(pa.int64()))
    except pa.ArrowInvalid:
        return numbers


def _numbers(distinct: _Distinct, terms: ColumnTerms) -> Column | None:
    words, empty = _without(distinct.words, EMPTY)
    if empty and words.null_count == len(words):
        return None  # in a column of only such words, they are values
    plain = _plain_numbers(words, terms)
    if plain is not None:
        return Column(_no_null(distinct.spread(plain)), "number", empty)
    if distinct.longest > LONGEST_NUMBER:
        return None
    return _written_numbers(distinct, words.to_pylist(), empty, terms)


def _written_numbers(
    distinct: _Distinct,
    words: Sequence[str | None],
    empty: tuple[str, ...],
    terms: ColumnTerms,
) -> Column | None:
    """Read cells as numbers that people write (`1,234`); None if one is no number."""
    real = [word for word in words if word is not None]
    orders: Sequence[Decimal] = (",", ".") if terms.commas else (".", ",")
    tried = [terms.decimal] if terms.decimal else orders
    fitting = {d: n for d in tried if (n := read_numbers(real, d)) is not None}
    if not fitting:
        return None
    decimal, numbers = next(iter(fitting.items()))
    unclear = ""
    other: Decimal = "," if decimal == "." else "."
    if other in fitting and numbers != fitting[other]:
        odd = next(k for k, n in enumerate(numbers) if n != fitting[other][k])
        unclear = (
            f"{real[odd]!r} is read as {numbers[odd]:,g} and may mean "
            f"{fitting[other][odd]:,g}; [data] decimal = {other!r} reads it so"
        )
    known = dict(zip(real, numbers, strict=True))
    values = pa.array([None if word is None else known[word] for word in words])
    cells = _no_null(distinct.spread(values))
    return Column(cells, "number", empty, None, decimal, unclear)


def _dates(distinct: _Distinct, terms: ColumnTerms) -> Column | None:
    if distinct.longest > LONGEST:
        return None
    words = distinct.words.to_pylist()
    empty = tuple(word for word in words if word in EMPTY)
    real = [word for word in words if word is not None and word not in EMPTY]
    fitting = orders_of(real)
    if terms.date_order is not None:
        fitting = {o: m for o, m in fitting.items() if o == terms.date_order}
    if not fitting:
        return None
    order, micros = next(iter(fitting.items()))
    unclear = ""
    others = [o for o, own in fitting.items() if own != micros]
    if others:
        odd = next(k for k, m in enumerate(micros) if m != fitting[others[0]][k])
        unclear = (
            f"{real[odd]!r} is read as {show_date(micros[odd], True)}, though day or "
            f"month may come first; date_order = {others[0]!r} reads "
            f"{show_date(fitting[others[0]][odd], True)}"
        )
    known = dict(zip(real, micros, strict=True))
    values = pa.array([known.get(word) for word in words], pa.int64())
    stamps = whole_days(distinct.spread(values).cast(pa.timestamp("us")))
    return Column(
        stamps, "date", empty, None if order == "YMD" else order, None, unclear
    )


def whole_days(stamps: Any) -> Any:
    """Convert timestamps (N,) to date32; keep them if any has a time of day."""
    days = stamps.cast(pa.date32(), safe=False)
    same = pc.all(pc.equal(days.cast(stamps.type), stamps)).as_py()
    return stamps if same is False else days


def _words_or_text(distinct: _Distinct, kind: ColumnKind | None) -> Column:
    """Make a column of words, or of free text if most cells differ and are long."""
    words, places = distinct
    known = len(places) - places.null_count
    if kind is None and known and len(words) - words.null_count > TEXT_SHARE * known:
        spaces = pc.mean(pc.count_substring_regex(words, r"\s+\S")).as_py() or 0.0
        if spaces >= TEXT_WORDS - 1:
            kind = "text"
    if kind == "text":
        return Column(distinct.spread(words.cast(pa.large_string())), "text")
    coded = words.cast(pa.string()).dictionary_encode()
    places = coded.indices.take(places)
    return Column(
        pa.DictionaryArray.from_arrays(places.cast(pa.int32()), coded.dictionary),
        "word",
    )


def _typed_column(name: str, cells: Any, terms: ColumnTerms) -> Column:
    kind = cells.type
    if pa.types.is_dictionary(kind):
        cells = _decoded(cells)
        terms = replace(terms, kind=terms.kind or "word", typed=True)
        if not is_strings(kind.value_type):
            terms = replace(terms, kind=None)
        return read_column(name, cells, terms)
    if any(test(kind) for test in TIMES):
        if terms.kind in ("number", "word", "text"):
            raise BadInput(f"column {name!r} holds {kind}, not what {terms.kind}s are")
        return Column(_stamps(cells), "date")
    if not _is_number(kind):
        raise BadInput(
            f"column {name!r} holds {kind}; numbers, booleans, strings, dates or times "
            "are needed, or leave it out with [data] ignore"
        )
    if terms.kind == "date":
        raise BadInput(
            f"column {name!r} holds {kind}, which no request can name as a date; "
            "strings, dates or times are needed for kind = 'date'"
        )
    if terms.kind in ("word", "text"):
        return read_column(name, _written(cells), terms)
    if pa.types.is_boolean(kind) and cells.null_count:
        cells = cells.cast(pa.uint8())
    if pa.types.is_decimal(kind) or pa.types.is_null(kind) or cells.null_count:
        cells = cells.cast(pa.float64())
    elif pa.types.is_float16(kind):
        cells = cells.cast(pa.float32())
    return _without_numbers(Column(_no_null(_whole(cells)), "number"), terms)


def _written(cells: Any) -> Any:
    """Convert numbers to words, and whole numbers to words such as `5`, not `5.0`."""
    if pa.types.is_integer(cells.type):
        return cells.cast(pa.string())
    values = [None if v is None or v != v else v for v in cells.to_pylist()]
    whole = [int(v) if isinstance(v, float) and v.is_integer() else v for v in values]
    return pa.array([None if v is None else str(v) for v in whole], pa.string())


def _without_numbers(column: Column, terms: ColumnTerms) -> Column:
    """Empty the cells whose number is in `terms.missing`; set `empty_numbers`."""
    told = {n for word in terms.missing if (n := plain_number(word)) is not None}
    numbers = tuple(sorted(n for n in told if n == n))
    if column.kind != "number" or not numbers or pa.types.is_boolean(column.cells.type):
        return column
    cells = column.cells
    marks = pc.is_in(cells.cast(pa.float64()), value_set=pa.array(numbers))
    if pc.any(marks).as_py():
        cells = _no_null(pc.if_else(marks, None, cells.cast(pa.float64())))
    return replace(column, cells=cells, empty_numbers=numbers)


def _decoded(cells: Any) -> Any:
    if not pa.types.is_string_view(cells.type.value_type):
        return cells.cast(cells.type.value_type)
    chunks = cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]
    words = [own.dictionary.cast(pa.large_string()).take(own.indices) for own in chunks]
    return pa.chunked_array(words, pa.large_string())


def _stamps(cells: Any) -> Any:
    """Convert dates and times to UTC; dates outside Python's calendar become empty.

    A time of day or a duration becomes that time after the beginning of 1970.
    """
    kind = cells.type
    if pa.types.is_date(kind):
        cells = cells.cast(pa.timestamp("s"), safe=False)
    if pa.types.is_duration(kind):
        micros = cells.cast(pa.duration("us"), safe=False)
    elif pa.types.is_time(kind):
        micros = cells.cast(pa.time64("us"), safe=False)
    else:
        micros = cells.cast(pa.timestamp("us", cells.type.tz), safe=False)
    numbers = _whole(micros.cast(pa.int64()))
    inside = pc.and_(
        pc.greater_equal(numbers, FIRST_US), pc.less_equal(numbers, LAST_US)
    )
    kept = pc.if_else(inside, numbers, None)
    return whole_days(kept.cast(pa.timestamp("us")))


def _is_number(kind: Any) -> bool:
    tests = (
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_boolean,
        pa.types.is_decimal,
        pa.types.is_null,
    )
    return any(test(kind) for test in tests)


def is_strings(kind: Any) -> bool:
    """Return True if an Arrow type is a type of strings."""
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(test(kind) for test in tests)


def _trimmed(words: Any) -> Any:
    return pc.utf8_trim(words, characters=BLANKS)


def _without(cells: Any, words: Sequence[Any]) -> tuple[Any, tuple[Any, ...]]:
    """Replace `words` in cells by null; return the cells, and the words found."""
    marks = pc.is_in(cells, value_set=pa.array(words, cells.type))
    found = pc.unique(pc.filter(cells, marks)).to_pylist()
    return (pc.if_else(marks, None, cells) if found else cells), tuple(found)


def _no_null(cells: Any) -> Any:
    """Replace null by NaN, so that NumPy reads the array without a copy."""
    if not cells.null_count:
        return cells
    return cells.fill_null(float("nan"))


def _whole(cells: Any) -> Any:
    """Return the cells of a column in one Arrow array, without chunks."""
    if not isinstance(cells, pa.ChunkedArray):
        return cells
    if pa.types.is_dictionary(cells.type):
        cells = cells.unify_dictionaries()
    joined = cells.combine_chunks()
    return joined if isinstance(joined, pa.Array) else pa.concat_arrays(joined.chunks)


def _unlike(name: str, cells: Any, terms: ColumnTerms) -> str:
    """Return a message on the first cell that does not suit the kind in `terms`."""
    alike = _numbers if terms.kind == "number" else _dates
    for row, cell in enumerate(cells.to_pylist(), 1):
        if cell is None or is_empty(cell, terms.missing):
            continue
        if alike(_Distinct.of(pa.array([cell])), terms) is None:
            return (
                f"column {name!r} is to be of kind = {terms.kind!r}, and cell {row} "
                f"holds {cell[:80]!r}; missing = [{cell[:80]!r}] says that it is empty"
            )
    return f"column {name!r} is to be of kind = {terms.kind!r}: no form fits all cells"
