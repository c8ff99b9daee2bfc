"""Requests about records, read from JSON into a row of columns in one go."""

import math
import struct
from typing import Any

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from ..features.extract import Extractor
from ..features.items import Item, ReadRecord
from ..features.record import Columns
from .wire import Terms

NAN = math.nan


class RecordReader:
    """Reads what is as usual; of anything else it says nothing but that it is not.

    The decoder knows the columns beforehand, so that no dictionary is made of them and
    none is looked up in.

    Parameters
    ----------
    features
        What each feature of an extractor does, in its order.
    """

    def __init__(self, features: tuple[Columns, ...]) -> None:
        known: dict[str, type] = {}
        codes: list[dict[Any, float] | None] = []
        order: list[str] = []
        for function in features:
            for name in function.names:
                words = function.vocabularies.get(name)
                # a number in a column of strings is unknown, as any other string is
                known[name] = str | float if words is not None else float  # type: ignore
                codes.append(_codes(words))
                order.append(name)
        fields = list(known)
        self._codes = codes if any(code is not None for code in codes) else None
        self._order = None if order == fields else [fields.index(n) for n in order]
        self._format = f"={len(order)}f"
        self._width = len(order)
        self._decode = _decoder(known)

    @classmethod
    def of(cls, extractor: Extractor) -> "RecordReader | None":
        """Make the reader of an extractor's rows; None unless it only reads columns."""
        functions = tuple(feature.function for feature in extractor.features)
        if all(isinstance(function, Columns) for function in functions):
            return cls(functions)  # type: ignore[arg-type]  # as has just been seen
        return None

    def read(self, body: bytes) -> tuple[Terms, Item] | None:
        """Read a request's terms and its record.

        None where a column is unknown, a string where a number is needed, a number too
        large for float32, or the body anything but one record in JSON and its terms.
        """
        try:
            ask = self._decode(body)
            values = msgspec.structs.astuple(ask.record)
            row = np.empty(self._width, np.float32)
            if self._order is not None:
                values = tuple([values[k] for k in self._order])
            if self._codes is None:
                try:
                    struct.pack_into(self._format, row.data, 0, *values)
                    return ask, Item("record", ReadRecord(row), 1.0)
                except struct.error:  # some are missing
                    pass
            if all(value is UNSET for value in values):
                return None
            struct.pack_into(self._format, row.data, 0, *self._numbers(values))
            return ask, Item("record", ReadRecord(row), 1.0)
        except (msgspec.DecodeError, OverflowError, UnicodeDecodeError, RecursionError):
            return None

    def _numbers(self, values: tuple[Any, ...]) -> list[float]:
        codes = self._codes or [None] * len(values)
        return [
            (NAN if value is None or value is UNSET else value)
            if code is None
            else code.get(value, NAN)
            for code, value in zip(codes, values, strict=True)
        ]


def _codes(words: tuple[str, ...] | None) -> dict[Any, float] | None:
    return None if words is None else {w: float(k) for k, w in enumerate(words)}


def _decoder(columns: dict[str, type]) -> Any:
    """Make a decoder of terms with a `record` of these columns, each optional."""
    names = {f"column_{k}": name for k, name in enumerate(columns)}
    fields: list[Any] = [
        (own, columns[name] | None | UnsetType, UNSET) for own, name in names.items()
    ]
    options: dict[str, Any] = {"forbid_unknown_fields": True, "gc": False}
    record = msgspec.defstruct("Columns", fields, rename=names, **options)
    ask = msgspec.defstruct(
        "RecordAsk",
        [("record", record)],
        bases=(Terms,),
        forbid_unknown_fields=True,
        kw_only=True,
    )
    return msgspec.json.Decoder(ask).decode
