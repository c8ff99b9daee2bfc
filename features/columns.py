"""Columns of records as features, with costs that are declared and not measured."""

import math
import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from .errors import BadFeature, BadItem
from .feature import Feature, feature
from .items import Item, Value

Codes = dict[Value, float]

NAN = math.nan
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(eq=False)
class Columns:
    """Turns a record into numbers: the function behind `columns`.

    Attributes
    ----------
    names
        The record's columns that it reads, in order.
    vocabularies
        For columns of strings: the strings known, each standing for its position.
    """

    names: tuple[str, ...]
    vocabularies: Mapping[str, tuple[str, ...]]

    def __post_init__(self) -> None:
        """Prepare what every call needs."""
        self._codes: tuple[Codes | None, ...] = tuple(
            {word: float(code) for code, word in enumerate(self.vocabularies[name])}
            if name in self.vocabularies
            else None
            for name in self.names
        )
        self._format = f"={len(self.names)}f"  # unlike native "f", refuses 1e39

    def __call__(self, record: Mapping[str, Value]) -> NDArray[np.float32]:
        """Read the columns: (len(names),) float32, NaN where missing or unknown.

        Raises
        ------
        BadItem
            If a number is infinite or beyond float32, or a string comes where a number
            is needed.
        """
        try:
            values: Iterable[Value] = map(record.__getitem__, self.names)
            if self.vocabularies:
                values = [
                    value if codes is None else codes.get(value, NAN)
                    for codes, value in zip(self._codes, values, strict=True)
                ]
            packed = struct.pack(self._format, *values)
        except (KeyError, struct.error, OverflowError):
            values = map(self._number, self.names, self._codes, repeat(record))
            packed = struct.pack(self._format, *values)
        return np.frombuffer(packed, np.float32)

    def check(self, record: Mapping[str, Value]) -> None:
        """Refuse a record whose columns cannot be read.

        Raises
        ------
        BadItem
            As a call; also where it would give an infinite number.
        """
        for name, codes in zip(self.names, self._codes, strict=True):
            self._number(name, codes, record)

    @staticmethod
    def _number(name: str, codes: Codes | None, record: Mapping[str, Value]) -> float:
        """Read one column, which may be missing, unknown, a string or too large."""
        value = record.get(name)
        if codes is not None:
            return codes.get(value, NAN)
        if value is None:
            return NAN
        if isinstance(value, str):
            raise BadItem(f"column {name!r} holds {value[:80]!r}; a number is needed")
        if abs(value) > FLOAT32_MAX:
            raise BadItem(
                f"column {name!r} holds a number beyond float32's largest, "
                f"{FLOAT32_MAX:.4g}"
            )
        return value


def columns(
    name: str,
    columns: Sequence[str],
    *,
    vocabularies: Mapping[str, Sequence[str]] | None = None,
    declared: Mapping[str, float] | None = None,
) -> Feature:
    """Make a feature of some columns of a record.

    Numbers are taken as they are. A string stands for its position in its column's
    vocabulary. What is missing or unknown is NaN, and so is a number in a column with
    a vocabulary; a string in one without is refused when the column is read.

    Parameters
    ----------
    name
        Of the feature.
    columns
        The record's columns that it reads, in order; at least one, none twice.
    vocabularies
        Known strings by column, as `learn_vocabularies` finds them; those of other
        columns are ignored.
    declared
        What obtaining these columns costs, by unit: `{"s": 0.002}`, `{"usd": 22.78}`.

    Raises
    ------
    BadFeature
        If a column or a string of a vocabulary is named twice, there is no column, or
        a declared cost is out of range.

    Examples
    --------
    >>> person = columns("person", ["age", "job"], vocabularies={"job": ["a", "b"]})
    >>> person({"age": 31, "job": "b"})
    array([31.,  1.], dtype=float32)
    """
    known = vocabularies or {}
    chosen = {column: tuple(known[column]) for column in columns if column in known}
    refuse_twice(f"feature {name!r}", columns)
    for column, words in chosen.items():
        refuse_twice(f"the vocabulary of {column!r}", words)
    if not columns:
        raise BadFeature(f"feature {name!r} needs at least one column")
    function = Columns(tuple(columns), chosen)
    made = feature(function, kind="record", name=name, declared=declared)
    return replace(made, missing=True)


def learn_vocabularies(
    items: Iterable[Item], columns: Sequence[str]
) -> dict[str, tuple[str, ...]]:
    """Collect the strings of each column that holds any, in alphabetical order.

    Raises
    ------
    BadItem
        If an item is no record.
    """
    words: dict[str, set[str]] = {column: set() for column in columns}
    for item in items:
        if not isinstance(item.payload, Mapping):
            raise BadItem(f"an item of kind {item.kind!r} came; a record is needed")
        for column in columns:
            value = item.payload.get(column)
            if isinstance(value, str):
                words[column].add(value)
    return {column: tuple(sorted(found)) for column, found in words.items() if found}


def refuse_twice(where: str, words: Sequence[str]) -> None:
    """Raise if a word occurs more than once."""
    for word, count in Counter(words).items():
        if count > 1:
            raise BadFeature(f"{where} names {word!r} twice")
