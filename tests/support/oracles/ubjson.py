"""Slow twins of Universal Binary JSON."""

import struct
from typing import Any


def write_ubj(value: Any) -> bytes:
    """Write plain data as Universal Binary JSON, in the longest of its forms.

    A list of whole numbers from 0 to 255 becomes an array of one type.
    """
    if value is None:
        return b"Z"
    if isinstance(value, bool):
        return b"T" if value else b"F"
    if isinstance(value, int):
        return b"L" + struct.pack(">q", value)
    if isinstance(value, float):
        return b"D" + struct.pack(">d", value)
    if isinstance(value, str):
        return b"S" + _write_text(value)
    if isinstance(value, dict):
        pairs = (_write_text(k) + write_ubj(v) for k, v in value.items())
        return b"{" + b"".join(pairs) + b"}"
    length = write_ubj(len(value))
    if value and all(type(v) is int and 0 <= v < 256 for v in value):
        return b"[$U#" + length + bytes(value)
    return b"[#" + length + b"".join(map(write_ubj, value))


def _write_text(text: str) -> bytes:
    raw = text.encode()
    return write_ubj(len(raw)) + raw
