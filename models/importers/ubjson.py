"""A reader of Universal Binary JSON, limited to the forms that XGBoost writes."""

from typing import Any

import numpy as np

from polydom.features.errors import BadModel

# Types of numbers, which are big-endian. Lengths use the whole number types.
NUMBERS = {
    b"i": ">i1",
    b"U": ">u1",
    b"I": ">i2",
    b"l": ">i4",
    b"L": ">i8",
    b"d": ">f4",
    b"D": ">f8",
}
WHOLE = b"iUIlL"
CONSTANTS = {b"Z": None, b"T": True, b"F": False}
# Limit on nesting; an XGBoost model has seven levels.
DEEPEST = 32


def is_ubj(data: bytes) -> bool:
    """Return True if `data` begins like a UBJSON object, and not like a JSON text."""
    return data[:1] == b"{" and data[1:2] != b"" and data[1:2] in WHOLE


def read_ubj(data: bytes) -> Any:
    """Read `data` that consists of a single UBJSON value, and return the value.

    Arrays of numbers of one type become NumPy arrays. Raises BadModel if `data` is
    invalid, continues after the value, or has a form that XGBoost does not write. A
    length that exceeds the rest of the data is refused before memory is allocated.
    """
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise reader.fail(f"{len(data) - reader.at} bytes after its end")
    return value


class _Reader:
    """A position in UBJSON data, from which values are read one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def fail(self, what: str) -> BadModel:
        return BadModel(f"not a UBJSON file: {what}, at byte {self.at}")

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes, and move past them."""
        left = len(self.data) - self.at
        if not 0 <= count <= left:
            raise self.fail(f"{count} bytes are needed and {left} left")
        self.at += count
        return self.data[self.at - count : self.at]

    def peek(self) -> bytes:
        return self.data[self.at : self.at + 1]

    def value(self, depth: int) -> Any:
        """Read a value: the marker of its type, then its content."""
        return self.rest(self.take(1), depth)

    def rest(self, marker: bytes, depth: int) -> Any:
        """Read the content of a value, after the marker of its type."""
        if depth > DEEPEST:
            raise self.fail(f"nested deeper than {DEEPEST}")
        if marker in NUMBERS:
            return np.frombuffer(self.take(_width(marker)), NUMBERS[marker])[0].item()
        if marker in CONSTANTS:
            return CONSTANTS[marker]
        if marker == b"S":
            return self.text()
        if marker == b"C":
            return self.take(1).decode("latin-1")
        if marker == b"{":
            return self.object(depth)
        if marker == b"[":
            return self.array(depth)
        raise self.fail(f"unknown marker {marker!r}")

    def length(self) -> int:
        """Read a length: the marker of an integer type, then the number."""
        marker = self.take(1)
        if marker not in WHOLE:
            raise self.fail(f"a length of type {marker!r}")
        return int(self.rest(marker, 0))

    def text(self) -> str:
        """Read a text: its length in bytes, then the text in UTF-8."""
        raw = self.take(self.length())
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError as error:
            raise self.fail("a text that is not UTF-8") from error

    def object(self, depth: int) -> dict[str, Any]:
        """Read the pairs of an object, up to and including the closing brace."""
        found: dict[str, Any] = {}
        while self.peek() != b"}":
            name = self.text()
            if name in found:
                raise self.fail(f"{name[:40]!r} comes twice in one object")
            found[name] = self.value(depth + 1)
        self.take(1)
        return found

    def array(self, depth: int) -> Any:
        """Read an array, after its opening bracket.

        The array begins with a type and a count, or with a count, or it ends with a
        bracket.
        """
        if self.peek() == b"$":
            return self.typed()
        if self.peek() == b"#":
            self.take(1)
            count = self.length()
            # Every value takes at least a byte, so the count cannot exceed the rest.
            if not 0 <= count <= len(self.data) - self.at:
                raise self.fail(f"an array of {count} values")
            return [self.value(depth + 1) for _ in range(count)]
        values = []
        while self.peek() != b"]":
            values.append(self.value(depth + 1))
        self.take(1)
        return values

    def typed(self) -> Any:
        """Read an array of numbers of one type, which begins with the sign `$`."""
        self.take(1)
        marker = self.take(1)
        if marker not in NUMBERS or self.take(1) != b"#":
            raise self.fail(f"an array of type {marker!r}, or without a count")
        count = self.length()
        raw = self.take(count * _width(marker))
        native = np.dtype(NUMBERS[marker]).newbyteorder("=")
        return np.frombuffer(raw, NUMBERS[marker]).astype(native)


def _width(marker: bytes) -> int:
    return np.dtype(NUMBERS[marker]).itemsize
