"""Features of a record's columns; their costs are declared, not measured."""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature, BadItem
from ..feature import Feature, feature
from ..items import Item, Value
from .dates import (
    NO_DATE,
    NUMBERS_OF,
    DateCodes,
    DateOrder,
    Part,
    orders_of,
    parts_of,
)
from .exact_numbers import FLOAT32_MAX, Shift
from .records import Column, Records, Rows, WordCodes, trim

NAN = math.nan
# Pairs of words for false and true in files.
TRUTHS = (("false", "true"), ("f", "t"), ("no", "yes"), ("n", "y"))
EXACT = 2.0**53  # readers of JSON round larger whole numbers


class KnownWords(dict[Value, float]):
    """A mapping from a column's known words to numbers.

    Spaces around a word are ignored.
    """

    def __missing__(self, value: object) -> float:
        """Look up a word again without spaces around it and without a `.0` at its end.

        Raises KeyError if the word is unknown.
        """
        if isinstance(value, str):
            word = trim(value)
            if word.endswith(".0") and word[:-2].lstrip("-").isdecimal():
                word = word[:-2]
            if word != value:
                return self[word]
        raise KeyError(value)

    def get(self, value: Any, default: Any = None) -> Any:
        """Return the number of a word, or the default for an unknown word."""
        try:
            return self[value]
        except KeyError:
            return default


Codes = KnownWords | DateCodes | Shift


@dataclass(eq=False)
class Columns:
    """A function from a record to numbers, which `columns` makes into a feature.

    The fields are arguments of `columns`. Number i of the result is read from the
    column `sources[i]`. The mapping `codes[i]` converts the column's values to number
    i; it is None for a column of numbers that need no conversion.
    """

    names: tuple[str, ...]
    vocabularies: Mapping[str, tuple[str, ...]]
    dates: Mapping[str, tuple[Part, ...]] = field(default_factory=dict)
    orders: Mapping[str, DateOrder] = field(default_factory=dict)
    shifts: Mapping[str, Shift] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Prepare the conversions that every call uses."""
        read = [(name, codes) for name in self.names for codes in self._read_as(name)]
        self.sources = tuple(name for name, _ in read)
        self.codes = tuple(codes for _, codes in read)
        self._coded = any(codes is not None for codes in self.codes)
        self._format = f"={len(read)}f"  # unlike native "f", refuses 1e39

    def _read_as(self, name: str) -> Sequence[Codes | None]:
        if name in self.dates:
            order = self.orders.get(name, "YMD")
            return [DateCodes(part, order) for part in self.dates[name]]
        if name in self.vocabularies:
            return [codes_of(self.vocabularies[name])]
        return [self.shifts.get(name)]

    def __call__(self, record: Mapping[str, Value]) -> NDArray[np.float32]:
        """Convert a record to numbers (len(sources),) float32.

        A missing or unknown value becomes NaN. Raises BadItem if a number is infinite
        or beyond float32, or if a column of numbers has a string.
        """
        try:
            values: Iterable[Value] = map(record.__getitem__, self.sources)
            if self._coded:
                values = [
                    value if codes is None else codes[value]
                    for codes, value in zip(self.codes, values, strict=True)
                ]
            packed = struct.pack(self._format, *values)
        except (KeyError, struct.error, OverflowError):
            values = map(self._number, self.sources, self.codes, repeat(record))
            packed = struct.pack(self._format, *values)
        return np.frombuffer(packed, np.float32)

    def read(self, records: Records, values: NDArray[np.float32]) -> NDArray[np.bool_]:
        """Convert all records at once, and write the numbers to `values` (N, width).

        Returns a mask (N,): True for each record that may be invalid. Call `__call__`
        for each of these records: it raises BadItem if the record is invalid.
        """
        doubtful = np.zeros(len(records), np.bool_)
        for place, (name, codes) in enumerate(
            zip(self.sources, self.codes, strict=True)
        ):
            column = records.columns.get(name)
            values[:, place], refused = _read_column(column, codes, records.rows)
            doubtful |= refused
        return doubtful

    def check(self, record: Mapping[str, Value]) -> None:
        """Raise BadItem if a record holds an infinite number, or cannot be read."""
        for name, codes in zip(self.sources, self.codes, strict=True):
            self._number(name, codes, record)

    @staticmethod
    def _number(name: str, codes: Codes | None, record: Mapping[str, Value]) -> float:
        """Return the number that a record has in one column; NaN if missing or unknown.

        Raises BadItem if a column of numbers has a string or a number beyond float32.
        """
        value = record.get(name)
        if codes is not None and not isinstance(codes, Shift):
            return codes.get(value, NAN)
        if value is None or (codes is not None and value in codes.empty):
            return NAN
        if isinstance(value, str):
            raise BadItem(f"column {name!r} holds {value[:80]!r}; a number is needed")
        if abs(value) > FLOAT32_MAX:
            raise BadItem(
                f"column {name!r} holds a number beyond float32's largest, "
                f"{FLOAT32_MAX:.4g}"
            )
        return value if codes is None else float(codes.get(value, NAN))


def _read_column(
    column: Column | None, codes: Codes | None, rows: Rows
) -> tuple[NDArray[Any], NDArray[np.bool_] | bool]:
    """Return rows of a column as numbers, and a mask of rows that may be invalid."""
    if column is None:
        return np.full(len(rows), np.nan), False
    if column.kind == "number" and (codes is None or isinstance(codes, Shift)):
        # by way of float64, as in a single record
        exact = column.numbers()[rows].astype(np.float64)
        with np.errstate(over="ignore"):
            stored = exact.astype(np.float32) if codes is None else codes.moved(exact)
        return stored, np.abs(exact) > FLOAT32_MAX
    if column.kind in ("word", "text") and isinstance(codes, KnownWords | DateCodes):
        places, words = column.words()
        numbers = [*(codes.get(word, NAN) for word in words), NAN]
        return np.array(numbers, np.float32)[places[rows]], False
    if column.kind == "date" and isinstance(codes, DateCodes):
        micros = column.micros()[rows]
        known = micros != NO_DATE
        return np.where(known, NUMBERS_OF[codes.part](micros), np.nan), False
    return np.full(len(rows), np.nan), ~column.missing()[rows]


def codes_of(words: Sequence[str]) -> KnownWords:
    """Return a mapping from every spelling of a word to the position of the word.

    The word `7` may also come as the number 7. If the words are one of the pairs in
    `TRUTHS`, they may also come as booleans, as `True` and `False`, as 0 and 1, and in
    capitals.
    """
    codes = KnownWords((word, float(k)) for k, word in enumerate(words))
    own = {word.casefold(): codes[word] for word in words}
    for pair in TRUTHS if words else ():
        if own.keys() <= {*pair}:
            for truth, word in enumerate(pair):
                if word in own:
                    same: list[Value] = [truth, str(truth)]
                    for one in (word, TRUTHS[0][truth]):
                        same += [one, one.upper(), one.title()]
                    for value in same:
                        codes.setdefault(value, own[word])
    for word in words:
        if (number := _number_of(word)) is not None:
            codes.setdefault(number, codes[word])
            codes.setdefault(word.removesuffix(".0"), codes[word])
    return codes


def _number_of(word: str) -> float | None:
    """Return the number that Python and JSON write as `word`, or None."""
    for kind in (int, float):
        with suppress(ValueError, OverflowError):
            number = kind(word)
            if str(number) == word and abs(number) < EXACT:
                return number
    return None


def columns(
    name: str,
    columns: Sequence[str],
    *,
    vocabularies: Mapping[str, Sequence[str]] | None = None,
    dates: Mapping[str, Sequence[Part]] | None = None,
    orders: Mapping[str, DateOrder] | None = None,
    shifts: Mapping[str, Shift] | None = None,
    declared: Mapping[str, float] | None = None,
) -> Feature:
    """Make a feature of some columns of a record.

    A number is read unchanged, or shifted if its column is in `shifts` (see
    `learn_numbers`). A string is read as its position in its column's vocabulary (see
    `learn_texts`), a date as the numbers that `dates` lists: "day" since 1970, "month",
    "weekday", "hour" and "second" of the hour. Missing and unknown values are NaN; so
    is a number in a column of dates. A string in a column of numbers is refused when a
    record is read.

    The keys of all mappings but `declared` are columns; other keys are ignored.
    `orders` has the order of day and month, "MDY" or "DMY", for dates in which both are
    numbers. `declared` has the cost of obtaining these columns, by unit:
    `{"s": 0.002}`, `{"usd": 22.78}`.

    Examples
    --------
    >>> person = columns("person", ["age", "job"], vocabularies={"job": ["a", "b"]})
    >>> person({"age": 31, "job": "b"})
    array([31.,  1.], dtype=float32)
    """
    known, dated, moved = vocabularies or {}, dates or {}, shifts or {}
    chosen = {column: tuple(known[column]) for column in columns if column in known}
    parts = {column: tuple(dated[column]) for column in columns if column in dated}
    refuse_twice(f"feature {name!r}", columns)
    for column, words in chosen.items():
        refuse_twice(f"the vocabulary of {column!r}", words)
    for column, numbers in parts.items():
        refuse_twice(f"the dates of {column!r}", numbers)
        if not numbers:
            raise BadFeature(f"the dates of {column!r} are read as no number")
    if not columns:
        raise BadFeature(f"feature {name!r} needs at least one column")
    own = {column: moved[column] for column in columns if column in moved}
    for column, shift in own.items():
        shift.check(column)
    ordered = {
        column: order for column, order in (orders or {}).items() if column in parts
    }
    function = Columns(tuple(columns), chosen, parts, ordered, own)
    made = feature(function, kind="record", name=name, declared=declared)
    return replace(made, missing=True)


class Texts(NamedTuple):
    """What was learned about columns of strings; the keys are columns.

    `vocabularies` has the words of a column, `dates` the numbers to read from a column
    of dates, and `orders` the order of day and month if both are numbers.
    """

    vocabularies: dict[str, tuple[str, ...]]
    dates: dict[str, tuple[Part, ...]]
    orders: dict[str, DateOrder]


def learn_texts(items: Sequence[Item], columns: Sequence[str]) -> Texts:
    """Learn the words of each column of strings, or how to read it as dates.

    A column is read as dates if all its strings are dates. Words are sorted by falling
    frequency, then alphabetically: small trees separate words better in this order than
    in alphabetical order.
    """
    if isinstance(items, Records):
        return _learn_at_once(items, columns)
    found = Texts({}, {}, {})
    for column, words in _read_in_turn(items, columns).items():
        if orders := orders_of(words):
            order, micros = next(iter(orders.items()))
            found.dates[column] = parts_of(np.array(micros, np.int64))
            if order != "YMD":
                found.orders[column] = order
        elif words:
            found.vocabularies[column] = tuple(words)
    return found


def _learn_at_once(records: Records, columns: Sequence[str]) -> Texts:
    found = Texts({}, {}, {})
    for name in columns:
        column = records.columns.get(name)
        if column is None or column.kind == "number":
            continue
        if column.kind == "date":
            found.dates[name] = parts_of(column.micros()[records.rows])
            if column.date_order is not None:
                found.orders[name] = column.date_order
            continue
        codes, words = column.words()
        used = WordCodes(codes[records.rows], words).used()
        if len(used):
            found.vocabularies[name] = tuple(words[code] for code in used)
    return found


def _read_in_turn(
    items: Sequence[Item], columns: Sequence[str]
) -> dict[str, Sequence[str]]:
    words: dict[str, Counter[str]] = {column: Counter() for column in columns}
    for item in items:
        if not isinstance(item.payload, Mapping):
            raise BadItem(f"an item of kind {item.kind!r} came; a record is needed")
        for column in columns:
            value = item.payload.get(column)
            if isinstance(value, str):
                words[column][value] += 1
    return {
        column: sorted(found, key=lambda word: (-found[word], word))
        for column, found in words.items()
    }


def refuse_twice(where: str, words: Sequence[str]) -> None:
    """Raise BadFeature if a word occurs more than once; `where` begins the message."""
    for word, count in Counter(words).items():
        if count > 1:
            raise BadFeature(f"{where} names {word!r} twice")
