"""Decodes records, from JSON or mappings, into rows of numbers for the features."""

import math
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import astuple, replace
from numpy.typing import NDArray

from polydom.features.errors import BadItem
from polydom.features.extract import Extractor
from polydom.features.items import Gaps, Item, ReadRecord, Value
from polydom.features.tables.column_features import Codes, Columns
from polydom.features.tables.exact_numbers import Shift
from polydom.features.tables.text_columns import TextOf

from ..schema.wire import Terms
from .known_columns import KnownColumns

NAN = float("nan")  # an object that no record has
# msgspec cannot find a field if its name has any of these
ESCAPED = re.compile(r'[\\"\x00-\x1f]')
Row = NDArray[np.float32]


class RecordDecoder:
    """Decodes a record into one row with the columns of all features.

    `item` decodes any record. `read` is faster, because it makes no dictionary of the
    columns, but it decodes only JSON, and returns None for some requests. `read` may be
    used only if `whole` is True, that is, if the features read nothing but the row.
    """

    def __init__(self, extractor: Extractor, columns: KnownColumns) -> None:
        functions = [feature.function for feature in extractor.features]
        features = [one for one in functions if isinstance(one, Columns)]
        self.whole = extractor.whole
        known: dict[str, type] = {}
        codes: list[Codes | None] = []
        order: list[str] = []
        for function in features:
            for name, own in zip(function.sources, function.codes, strict=True):
                # if the column holds words, a number is an unknown word
                are_numbers = own is None or isinstance(own, Shift)
                known[name] = float if are_numbers else str | float  # type: ignore
                codes.append(own)
                order.append(name)
        fields = list(known)
        self._features = features
        steps = (step.function for step in extractor.steps)
        self._texts = [one for one in steps if isinstance(one, TextOf)]
        self._names = tuple(order)
        self._bits = [columns.bits[name] for name in order]
        self._others = {n: b for n, b in columns.bits.items() if n not in known}
        self._fetched = columns.fetched
        self._withheld = columns.withheld
        self._codes = codes if any(code is not None for code in codes) else None
        self._coded_at = [(k, code) for k, code in enumerate(codes) if code is not None]
        self._order = None if order == fields else [fields.index(n) for n in order]
        # "=" refuses 1e39, which exceeds float32; the native "f" would make it infinite
        self._pack = struct.Struct(f"={len(order)}f").pack_into
        self._width = len(order)
        # `read` fills the same row each time: to make one takes longer than to fill it
        self._row = np.empty(self._width, np.float32)
        self._row_bytes = self._row.data
        self._decode = _decoder(known)

    def read(self, body: bytes) -> tuple[Terms, Row, Gaps | None] | None:
        """Return a request's terms, its record as a row, and the gaps of the record.

        The row is the same array each time: copy it to keep it. The gaps are empty
        columns and unknown words, or None if there are none. Instead of the tuple,
        return None if the body is not one JSON record with its terms, or if the record
        is empty, has an unknown column, lacks a column that a fetch may bring, or has a
        string or a number beyond float32 in a column of numbers.
        """
        try:
            ask = self._decode(body)
            values = astuple(ask.record)
            ordered = values
            if self._order is not None:
                ordered = tuple([values[k] for k in self._order])
            gaps = None
            try:
                numbers = ordered if self._codes is None else self._coded(ordered)
                self._pack(self._row_bytes, 0, *numbers)
            # a column is missing, or a word is unknown
            except (struct.error, KeyError):
                unset = values.count(UNSET)
                if unset == len(values) or (unset and self._fetched):
                    return None
                gaps = self._pack_with_gaps(self._row, ordered)
            return ask, self._row, gaps
        except (
            msgspec.DecodeError,
            struct.error,
            OverflowError,
            UnicodeDecodeError,
            RecursionError,
        ):
            return None

    def item(self, record: Mapping[str, Value]) -> Item:
        """Return the item for a record that has passed `KnownColumns.check`."""
        for text in self._texts:
            text(record)
        row = np.empty(self._width, np.float32)
        values: list[Any] = [record.get(name) for name in self._names]
        empty = unfetched = 0
        try:
            numbers = values if self._codes is None else self._coded(values)
            if None in numbers:
                lacking = zip(self._bits, numbers, strict=True)
                empty = sum([bit for bit, number in lacking if number is None])
                numbers = [NAN if number is None else number for number in numbers]
            self._pack(row.data, 0, *numbers)
            # NaN or infinity that the record itself has
            is_plain = math.isfinite(sum([n for n in numbers if n is not NAN]))
        except (struct.error, OverflowError, KeyError):
            # `_pack_with_gaps` finds columns that are missing, wrong, or unknown words
            is_plain = False
        for name, bit in self._fetched.items():
            unfetched |= 0 if name in record else bit
        for name, bit in self._others.items():
            value = record.get(name)
            empty |= bit if value is None or value != value else 0
        try:
            gaps, kept = None, record if unfetched else None
            if not is_plain:
                gaps = self._pack_with_gaps(row, values, empty, unfetched)
                if gaps is not None and unfetched:
                    gaps = replace(gaps, unfetched=unfetched, record=record)
            elif empty:
                withheld = self._withheld(empty, unfetched)
                gaps = Gaps((), empty, withheld, unfetched, kept)
        except (struct.error, OverflowError):
            # the check of some feature raises an error that names the column
            for function in self._features:
                function.check(record)
            raise _too_large(record) from None
        if self.whole:
            return record_of(row, gaps)
        return Item("record", record, 1.0, gaps)

    def _coded(self, values: Sequence[Any]) -> list[Any]:
        """Replace each word by its code; raise KeyError for an unknown word.

        None stays None.
        """
        coded = [*values]
        for k, code in self._coded_at:
            value = coded[k]
            if value is not None:
                coded[k] = code[value]
        return coded

    def _pack_with_gaps(
        self, row: Any, values: Sequence[Any], empty: int = 0, unfetched: int = 0
    ) -> Gaps | None:
        """Fill `row`, with NaN for missing and unknown values; return these gaps.

        Returns None if there are no gaps. `empty` is a bit mask of the empty columns
        that are not in the row, `unfetched` of the columns that fetches may bring.
        Raises OverflowError or struct.error if a value is not
        a number, too large or infinite.
        """
        numbers: list[float] = []
        unknown = dict[str, None]()
        codes = self._codes or [None] * len(values)
        named = zip(self._names, self._bits, codes, values, strict=True)
        for name, bit, code, value in named:
            number = value
            if value is None or value is UNSET or value != value:
                number = NAN
                empty |= bit
            elif code is not None and (number := code.get(value, NAN)) != number:
                if type(value) is int:
                    float(value)  # raises OverflowError if the integer exceeds float64
                if isinstance(code, Shift):  # a number that stands for "empty"
                    empty |= bit
                else:
                    unknown[name] = None
            numbers.append(number)
        self._pack(row.data, 0, *numbers)
        if not math.isfinite(sum(numbers)) and any(map(math.isinf, numbers)):
            raise OverflowError
        if not empty and not unknown:
            return None
        withheld = self._withheld(empty, unfetched) if empty else 0
        return Gaps(tuple(unknown), empty, withheld)


def _decode_nothing(body: bytes) -> NoReturn:
    raise msgspec.DecodeError("a column's name has characters that JSON escapes")


def _too_large(record: Mapping[str, Value]) -> BadItem:
    """Return the error that names the column with an integer too large for float64."""
    most = sys.float_info.max
    name = next(n for n, v in record.items() if type(v) is int and abs(v) > most)
    return BadItem(f"column {name[:80]!r} holds an integer beyond float64's largest")


def record_of(row: Row, gaps: Gaps | None) -> Item:
    """Return the item for a row and its gaps, as `RecordDecoder` has them."""
    return Item("record", ReadRecord(row), 1.0, gaps)


def _decoder(columns: dict[str, type]) -> Any:
    """Return a decoder of requests whose `record` has these columns, all optional."""
    if any(ESCAPED.search(name) for name in columns):
        return _decode_nothing
    names = {f"column_{k}": name for k, name in enumerate(columns)}
    fields: list[Any] = [
        (own, columns[name] | None | UnsetType, UNSET) for own, name in names.items()
    ]
    options: dict[str, Any] = {"forbid_unknown_fields": True, "gc": False}
    record = msgspec.defstruct("Columns", fields, rename=names, **options)
    ask = msgspec.defstruct(
        "RecordRequest",
        [("record", record)],
        bases=(Terms,),
        kw_only=True,
        **options,
    )
    return msgspec.json.Decoder(ask).decode
