"""Tensors of the Open Inference Protocol: checked, read and written.

A tensor that contradicts its shape or datatype raises BadInput. Shapes are compared
with the received data, and never decide how much memory is allocated.
"""

import itertools
import math
import struct
from collections.abc import Iterable, Iterator, Sequence
from types import NoneType
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Raw

from polydom.features.errors import BadInput

from ..schema.bounds import arrays_in, strings_at_most

Value = bool | int | float | str | bytes | None

BYTES = "BYTES"
# NumPy's dtypes, little-endian as in the protocol; BYTES has none.
DTYPES = {
    "BOOL": "u1",
    "UINT8": "u1",
    "UINT16": "<u2",
    "UINT32": "<u4",
    "UINT64": "<u8",
    "INT8": "i1",
    "INT16": "<i2",
    "INT32": "<i4",
    "INT64": "<i8",
    "FP16": "<f2",
    "FP32": "<f4",
    "FP64": "<f8",
}
# Python types allowed as values of each datatype, in JSON and protobuf.
_FLOATS: set[type] = {int, float, NoneType}
_HELD: dict[str, set[type]] = {
    name: _FLOATS if name.startswith("FP") else {int} for name in DTYPES
}
_HELD |= {"BOOL": {bool}, BYTES: {str, bytes, NoneType}}
MAX_AXES = 8
# PIECE is the number of bytes of JSON, or of values, that are read at once. MAX_NESTED
# is the largest number of arrays inside an array of strings.
PIECE, MAX_NESTED = 1 << 14, 1 << 16
# Maximum number of numbers in an input, and of strings, each of which belongs to
# another item.
MAX_ELEMENTS, MAX_STRINGS = 1 << 20, 1024
_LENGTH = struct.Struct("<I")


class Tensor(NamedTuple):
    """A named array of values of one datatype."""

    # As in the protocol; `datatype` is BYTES or a key of `DTYPES`
    name: str
    datatype: str
    shape: tuple[int, ...]  # Lengths of the axes; the number of values is their product
    # Values in row-major order; missing floats are NaN. For BYTES: bytes, or strings in
    # JSON, or None for null in JSON.
    values: Sequence[Value]


class Declared(NamedTuple):
    """The name, datatype and shape of an input tensor whose data is not read yet."""

    # `name`, `datatype`, `shape`: as in `Tensor`
    name: str
    datatype: str
    shape: tuple[int, ...]
    size: int  # Number of values

    @classmethod
    def read(cls, name: str, datatype: str, shape: Iterable[int]) -> "Declared":
        """Return the declared tensor; raise BadInput if datatype or shape is wrong."""
        lengths = tuple(itertools.islice(shape, MAX_AXES + 1))
        declared = cls(name, datatype, lengths, math.prod(lengths))
        if datatype != BYTES and datatype not in DTYPES:
            known = f"{', '.join(DTYPES)}, {BYTES}"
            raise declared.wrong(f"datatype {datatype[:20]!r} is none of {known}")
        if not 1 <= len(lengths) <= MAX_AXES:
            raise declared.wrong(f"the shape needs 1 to {MAX_AXES} axes")
        for length in lengths:
            if not 0 <= length <= MAX_ELEMENTS:
                raise declared.wrong(
                    f"an axis of {length} in the shape; 0 to {MAX_ELEMENTS:,} are "
                    "allowed"
                )
        if declared.size > MAX_ELEMENTS:
            raise declared.wrong(
                f"shape {list(lengths)} holds {declared.size:,} values; at "
                f"most {MAX_ELEMENTS:,} are read"
            )
        if datatype == BYTES and declared.size > MAX_STRINGS:
            raise declared.wrong(
                f"shape {list(lengths)} holds {declared.size:,} strings, each of "
                f"another item; 1 to {MAX_STRINGS:,} items can be in a request"
            )
        return declared

    def wrong(self, message: str) -> BadInput:
        """Return BadInput with the name of this input and `message`."""
        return BadInput(f"input {self.name[:80]!r}: {message}")

    def from_raw(self, raw: bytes | memoryview) -> Tensor:
        """Read values in binary form.

        In BYTES, each element is preceded by its length, an integer of 4 bytes.
        """
        if self.datatype == BYTES:
            return self._tensor(self._elements(raw))
        dtype = np.dtype(DTYPES[self.datatype])
        if len(raw) != self.size * dtype.itemsize:
            raise self.wrong(
                f"{len(raw):,} bytes of data; {self.datatype} of shape "
                f"{list(self.shape)} takes {self.size * dtype.itemsize:,}"
            )
        values = np.frombuffer(raw, dtype)
        if self.datatype == "BOOL":
            if len(values) and values.max() > 1:
                raise self.wrong("a BOOL is a byte of 0 or 1")
            values = values.astype(bool)
        read: list[Value] = []  # the loop lets other threads run between pieces
        for start in range(0, len(values), PIECE):
            read += values[start : start + PIECE].tolist()
        return self._tensor(read)

    def from_json(self, data: Any) -> Tensor:
        """Read data from decoded JSON; lists may be flat, or nested like the shape."""
        if not isinstance(data, list):
            raise self.wrong("'data' must be an array")
        return self.from_values(self._flatten(data))

    def from_raw_json(self, raw: Raw) -> Tensor:
        """Decode JSON data piece by piece, so that other threads can run in between."""
        data = bytes(raw).strip()
        if data[:1] != b"[":
            raise self.wrong("'data' must be an array")
        if not self.size and not data[1:-1].strip():
            return self._tensor([])
        nested = data[1:].lstrip()[:1] == b"["
        try:
            read = self._strings_in if self.datatype == BYTES else self._numbers_in
            return read(data, nested)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self.wrong(f"{error}") from error

    def from_values(self, values: Sequence[Any]) -> Tensor:
        """Check flat values from JSON or protobuf against the shape and datatype.

        Values of FP16 and FP32 are rounded. A null becomes NaN, or None in BYTES.
        """
        if len(values) != self.size:
            raise self._mismatch(len(values))
        if len(values) <= PIECE:
            return self._tensor(self._check(values))
        read: list[Value] = []  # the loop lets other threads run between pieces
        for start in range(0, len(values), PIECE):
            read += self._check(values[start : start + PIECE])
        return self._tensor(read)

    def _tensor(self, values: Sequence[Value]) -> Tensor:
        return Tensor(self.name, self.datatype, self.shape, values)

    def _mismatch(self, came: int) -> BadInput:
        return self.wrong(f"shape {list(self.shape)} does not match {came:,} values")

    def _not_nested(self) -> BadInput:
        return self.wrong(f"'data' is not nested as its shape {list(self.shape)} says")

    def _elements(self, raw: bytes | memoryview) -> list[bytes]:
        elements: list[bytes] = []
        count, start = self.size, 0
        while start < len(raw) and len(elements) < count:
            end = first = start + _LENGTH.size
            if first <= len(raw):
                end += _LENGTH.unpack_from(raw, start)[0]
            if end > len(raw):
                raise self.wrong(
                    f"element {len(elements)} of {count} runs past the end of its "
                    f"{len(raw):,} bytes"
                )
            elements.append(bytes(raw[first:end]))
            start = end
        if len(elements) != count or start != len(raw):
            raise self.wrong(
                f"the shape needs {count} elements; {len(elements)} were read, and "
                f"{len(raw) - start:,} bytes are left over"
            )
        return elements

    def _flatten(self, data: list[Any]) -> list[Any]:
        """Flatten nested lists; raise BadInput if they contradict the shape."""
        if data and isinstance(data[0], list) and len(data) != self.shape[0]:
            raise self._mismatch(len(data))
        for length in self.shape[1:]:
            if not data or not isinstance(data[0], list):
                break
            for inner in data:
                if not isinstance(inner, list) or len(inner) != length:
                    raise self._not_nested()
            data = list(itertools.chain.from_iterable(data))
        return data

    def _strings_in(self, data: bytes, nested: bool) -> Tensor:
        if strings_at_most(data) > 2 * self.size:
            raise self.wrong(
                f"shape {list(self.shape)} does not match what {len(data):,} bytes hold"
            )
        # decoding would create a Python list for each of these arrays
        many = nested and data.count(b"[") > MAX_NESTED
        if many and arrays_in(data) > MAX_NESTED:  # strings may contain brackets, too
            raise self.wrong("send so many elements flat")
        return self.from_json((_decode_nested if nested else _decode_strings)(data))

    def _numbers_in(self, data: bytes, nested: bool) -> Tensor:
        # there are no strings, so every comma separates two numbers
        if data.count(b",") + 1 != self.size:
            raise self._mismatch(data.count(b",") + 1)
        if data.count(b"[") != 1 + nested * self.shape[0]:
            raise self._not_nested()
        rows = [bytes(row).strip() for row in _decode_raw(data)] if nested else [data]
        if nested and any(row.count(b",") + 1 != self.shape[-1] for row in rows):
            raise self._not_nested()
        values: list[Value] = []
        for row in rows:
            for piece in _pieces(row):
                values += self._check(_decode_values(piece))
        # an empty array has as many commas as an array of one number
        if len(values) != self.size:
            raise self._mismatch(len(values))
        return self._tensor(values)

    def _check(self, values: Sequence[Any]) -> Sequence[Value]:
        datatype = self.datatype
        if wrong := set(map(type, values)) - _HELD[datatype]:
            found = min(kind.__name__ for kind in wrong)
            raise self.wrong(f"{datatype} cannot hold {found}")
        if datatype.startswith("FP"):
            return self._round(values)
        if datatype not in (BYTES, "BOOL"):
            bounds = np.iinfo(DTYPES[datatype])
            for value in values:
                if not bounds.min <= value <= bounds.max:
                    raise self.wrong(f"{value} is no {datatype}")
        return values

    def _round(self, values: Sequence[Any]) -> list[Value]:
        """Round values to the nearest floats of the datatype; keep NaN and infinity."""
        try:
            exact = np.array([math.nan if v is None else v for v in values], np.float64)
        except OverflowError:
            raise self.wrong("an integer is beyond FP64") from None
        with np.errstate(over="ignore"):
            rounded = exact.astype(DTYPES[self.datatype])
        if (np.isinf(rounded) & ~np.isinf(exact)).any():
            raise self.wrong(f"a number is beyond {self.datatype}")
        read: list[Value] = rounded.tolist()
        return read


def _pieces(row: bytes) -> Iterator[bytes]:
    """Split a JSON array of numbers; yield each piece as a JSON array."""
    start, last = 1, len(row) - 1
    while (end := row.find(b",", start + PIECE, last)) >= 0:
        yield b"[%b]" % row[start:end]
        start = end + 1
    yield b"[%b" % row[start:]


_decode_raw = msgspec.json.Decoder(list[Raw]).decode
_decode_strings = msgspec.json.Decoder(list[str | None]).decode
_decode_nested = msgspec.json.Decoder(list[list[str | None]]).decode
_decode_values = msgspec.json.Decoder(list[bool | int | float | None]).decode


def to_raw(tensor: Tensor) -> bytes:
    """Return the binary form of a tensor's values, which `Declared.from_raw` reads.

    The values of BYTES must be strings.
    """
    if tensor.datatype != BYTES:
        return np.array(tensor.values, DTYPES[tensor.datatype]).tobytes()
    parts: list[bytes] = []
    for element in elements_of(tensor):
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def elements_of(tensor: Tensor) -> list[bytes]:
    """Return the elements of a BYTES tensor, encoded as UTF-8."""
    return [str(value).encode() for value in tensor.values]
