"""Tensors of the Open Inference Protocol, to and from JSON and raw bytes, checked.

What is not as it says raises BadInput. Nothing is allocated because a shape says so: a
shape is compared with data that is there already.
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

from ..schema.bounds import strings_at_most

Value = bool | int | float | str | bytes | None

BYTES = "BYTES"
# NumPy's names, little-endian as on the wire; BYTES has none.
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
# Types of their values in JSON and protobuf.
_FLOATS: set[type] = {int, float, NoneType}
_HELD: dict[str, set[type]] = {
    name: _FLOATS if name.startswith("FP") else {int} for name in DTYPES
}
_HELD |= {"BOOL": {bool}, BYTES: {str, bytes, NoneType}}
MAX_AXES = 8
# Bytes of JSON, or values, that are read at a time; and arrays within one of strings.
PIECE, MAX_NESTED = 1 << 14, 1 << 16
MAX_ELEMENTS = 1 << 20
_LENGTH = struct.Struct("<I")


class Tensor(NamedTuple):
    """Named values of one type.

    Attributes
    ----------
    name, datatype
        As in the protocol; the latter is BYTES or one of `DTYPES`.
    shape
        Lengths of the axes; their product is the number of values.
    values
        Row-major. Floats that are not there are NaN. BYTES are bytes, or strings where
        they come from JSON or go there, or None where JSON had null.
    """

    name: str
    datatype: str
    shape: tuple[int, ...]
    values: Sequence[Value]


def read_shape(name: str, datatype: str, shape: Iterable[int]) -> tuple[int, ...]:
    """Check what a tensor says of itself before its data is looked at."""
    if datatype != BYTES and datatype not in DTYPES:
        raise BadInput(
            f"input {name[:80]!r}: datatype {datatype[:20]!r} is none of "
            f"{', '.join(DTYPES)}, {BYTES}"
        )
    lengths = tuple(itertools.islice(shape, MAX_AXES + 1))
    if not 1 <= len(lengths) <= MAX_AXES:
        raise BadInput(f"input {name[:80]!r}: the shape needs 1 to {MAX_AXES} axes")
    count = 1
    for length in lengths:
        if not 0 <= length <= MAX_ELEMENTS:
            raise BadInput(
                f"input {name[:80]!r}: an axis of {length} in the shape; 0 to "
                f"{MAX_ELEMENTS:,} are allowed"
            )
        count *= length  # of at most 8 numbers below 2**21
    if count > MAX_ELEMENTS:
        raise BadInput(
            f"input {name[:80]!r}: shape {list(lengths)} holds {count:,} values; at "
            f"most {MAX_ELEMENTS:,} are read"
        )
    return lengths


def from_raw(name: str, datatype: str, shape: Iterable[int], raw: bytes) -> Tensor:
    """Read little-endian values, or elements after their lengths of 4 bytes."""
    lengths = read_shape(name, datatype, shape)
    count = math.prod(lengths)
    if datatype == BYTES:
        return Tensor(name, datatype, lengths, _read_elements(name, count, raw))
    dtype = np.dtype(DTYPES[datatype])
    if len(raw) != count * dtype.itemsize:
        raise BadInput(
            f"input {name[:80]!r}: {len(raw):,} bytes of data; {datatype} of shape "
            f"{list(lengths)} takes {count * dtype.itemsize:,}"
        )
    values = np.frombuffer(raw, dtype)
    if datatype == "BOOL":
        if count and values.max() > 1:
            raise BadInput(f"input {name[:80]!r}: a BOOL is a byte of 0 or 1")
        values = values.astype(bool)
    return Tensor(name, datatype, lengths, values.tolist())


def _read_elements(name: str, count: int, raw: bytes) -> list[bytes]:
    elements: list[bytes] = []
    start = 0
    while start < len(raw) and len(elements) < count:
        first = start + _LENGTH.size
        end = first + _LENGTH.unpack_from(raw, start)[0] if first <= len(raw) else first
        if end > len(raw):
            raise BadInput(
                f"input {name[:80]!r}: element {len(elements)} of {count} runs past "
                f"the end of its {len(raw):,} bytes"
            )
        elements.append(raw[first:end])
        start = end
    if len(elements) != count or start != len(raw):
        raise BadInput(
            f"input {name[:80]!r}: the shape needs {count} elements; {len(elements)} "
            f"were read, and {len(raw) - start:,} bytes are left over"
        )
    return elements


def from_json(name: str, datatype: str, shape: Iterable[int], data: Any) -> Tensor:
    """Read decoded JSON, nested as the shape says or flat."""
    lengths = read_shape(name, datatype, shape)
    if not isinstance(data, list):
        raise BadInput(f"input {name[:80]!r}: 'data' must be an array")
    return _check(name, datatype, lengths, _flatten(name, lengths, data))


def from_raw_json(
    name: str, datatype: str, lengths: tuple[int, ...], raw: Raw
) -> Tensor:
    """Read JSON that is not decoded yet, in pieces, between which others have a turn.

    Parameters
    ----------
    name, datatype
        As for `from_json`.
    lengths
        The checked shape, of one or two axes.
    """
    data, count = bytes(raw).strip(), math.prod(lengths)
    if data[:1] != b"[":
        raise BadInput(f"input {name[:80]!r}: 'data' must be an array")
    nested = data[1:].lstrip()[:1] == b"["
    if not count and not data[1:-1].strip():
        return Tensor(name, datatype, lengths, [])
    try:
        if datatype == BYTES:
            if strings_at_most(data) > 2 * count:
                raise BadInput(
                    f"input {name[:80]!r}: shape {list(lengths)} does not match what "
                    f"{len(data):,} bytes hold"
                )
            # brackets are in strings too; so many would be an array for nothing each
            if nested and data.count(b"[") > MAX_NESTED:
                raise BadInput(f"input {name[:80]!r}: send so many elements flat")
            given = (_decode_nested if nested else _decode_strings)(data)
            return from_json(name, datatype, lengths, given)
        # there are no strings: each comma is between two numbers
        if data.count(b",") + 1 != count:
            raise _mismatch(name, lengths, data.count(b",") + 1)
        if data.count(b"[") != 1 + nested * lengths[0]:
            raise _not_nested(name, lengths)
        rows = [bytes(row).strip() for row in _decode_raw(data)] if nested else [data]
        if nested and any(row.count(b",") + 1 != lengths[-1] for row in rows):
            raise _not_nested(name, lengths)
        values: list[Value] = []
        for row in rows:
            for piece in _pieces(row):
                read = _decode_values(piece)
                values += _check(name, datatype, (len(read),), read).values
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"input {name[:80]!r}: {error}") from error
    if len(values) != count:  # an empty array has as many commas as one of one
        raise _mismatch(name, lengths, len(values))
    return Tensor(name, datatype, lengths, values)


def _pieces(row: bytes) -> Iterator[bytes]:
    """Cut an array of numbers into several."""
    start, last = 1, len(row) - 1
    while (end := row.find(b",", start + PIECE, last)) >= 0:
        yield b"[%b]" % row[start:end]
        start = end + 1
    yield b"[%b" % row[start:]


_decode_raw = msgspec.json.Decoder(list[Raw]).decode
_decode_strings = msgspec.json.Decoder(list[str | None]).decode
_decode_nested = msgspec.json.Decoder(list[list[str | None]]).decode
_decode_values = msgspec.json.Decoder(list[bool | int | float | None]).decode


def _not_nested(name: str, shape: tuple[int, ...]) -> BadInput:
    return BadInput(
        f"input {name[:80]!r}: 'data' is not nested as its shape {list(shape)} says"
    )


def _flatten(name: str, shape: tuple[int, ...], data: list[Any]) -> list[Any]:
    """Unpack one level of nested lists per axis, each of that axis's length."""
    if data and isinstance(data[0], list) and len(data) != shape[0]:
        raise _mismatch(name, shape, len(data))
    for length in shape[1:]:
        if not data or not isinstance(data[0], list):
            break
        for inner in data:
            if not isinstance(inner, list) or len(inner) != length:
                raise _not_nested(name, shape)
        data = list(itertools.chain.from_iterable(data))
    return data


def _mismatch(name: str, shape: tuple[int, ...], came: int) -> BadInput:
    return BadInput(
        f"input {name[:80]!r}: shape {list(shape)} does not match {came:,} values"
    )


def from_values(
    name: str, datatype: str, shape: Iterable[int], values: Sequence[Any]
) -> Tensor:
    """Check flat values, as JSON and protobuf hold them, against shape and datatype.

    FP16 and FP32 are rounded to those; null is NaN as a float and None in BYTES.
    """
    return _check(name, datatype, read_shape(name, datatype, shape), values)


def _check(
    name: str, datatype: str, lengths: tuple[int, ...], values: Sequence[Any]
) -> Tensor:
    if len(values) != math.prod(lengths):
        raise _mismatch(name, lengths, len(values))
    if len(values) > PIECE:  # others have a turn between two pieces
        read: list[Value] = []
        for start in range(0, len(values), PIECE):
            part = values[start : start + PIECE]
            read += _check(name, datatype, (len(part),), part).values
        return Tensor(name, datatype, lengths, read)
    if wrong := set(map(type, values)) - _HELD[datatype]:
        found = min(kind.__name__ for kind in wrong)
        raise BadInput(f"input {name[:80]!r}: {datatype} cannot hold {found}")
    if datatype.startswith("FP"):
        values = _round(name, datatype, values)
    elif datatype not in (BYTES, "BOOL"):
        bounds = np.iinfo(DTYPES[datatype])
        for value in values:
            if not bounds.min <= value <= bounds.max:
                raise BadInput(f"input {name[:80]!r}: {value} is no {datatype}")
    return Tensor(name, datatype, lengths, values)


def _round(name: str, datatype: str, values: Sequence[Any]) -> list[Value]:
    """Convert to the nearest floats of a datatype; NaN and infinity stay."""
    try:
        exact = np.array([math.nan if v is None else v for v in values], np.float64)
    except OverflowError:
        raise BadInput(f"input {name[:80]!r}: an integer is beyond FP64") from None
    with np.errstate(over="ignore"):
        rounded = exact.astype(DTYPES[datatype])
    if (np.isinf(rounded) & ~np.isinf(exact)).any():
        raise BadInput(f"input {name[:80]!r}: a number is beyond {datatype}")
    read: list[Value] = rounded.tolist()
    return read


def to_raw(tensor: Tensor) -> bytes:
    """Write values as `from_raw` reads them; BYTES must be strings."""
    if tensor.datatype != BYTES:
        return np.array(tensor.values, DTYPES[tensor.datatype]).tobytes()
    parts: list[bytes] = []
    for element in elements_of(tensor):
        parts += (_LENGTH.pack(len(element)), element)
    return b"".join(parts)


def elements_of(tensor: Tensor) -> list[bytes]:
    """Return the bytes of BYTES that are strings."""
    return [str(value).encode() for value in tensor.values]
