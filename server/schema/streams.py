"""Splits streams of JSON Lines and of msgpack into undecoded items.

An item over the limit raises TooLarge, and a malformed stream raises BadInput. After an
error, nothing more can be read from the stream.
"""

from collections.abc import Iterator

import msgpack

from polydom.features.errors import BadInput
from polydom.features.wording import without_mark

from ..errors import TooLarge

JSON = "application/json"
JSON_LINES = (
    "application/jsonl",
    "application/x-ndjson",
    "application/x-jsonlines",
    "application/jsonlines",
    "application/ndjson",
)


class JsonLines:
    """Splits a stream into lines of at most `limit` bytes each.

    Empty lines and a byte order mark at the start are dropped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = bytearray()
        self._begun = False

    @property
    def left(self) -> int:
        """Number of bytes of the incomplete line at the end of the data so far."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes of the stream; yield the lines that are now complete."""
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0] = bytes(self._rest) + lines[0]
            self._rest.clear()
        self._rest += rest
        for line in filter(None, lines):  # a stream may have very many empty lines
            _check(len(line), self._limit)
            if line.strip():
                yield self._first(line)
        _check(len(self._rest), self._limit)

    def finish(self) -> Iterator[bytes]:
        """Yield the last line if it has no line end. Call this at the stream's end."""
        line = bytes(self._rest)
        self._rest.clear()
        if line.strip():
            yield self._first(line)

    def _first(self, line: bytes) -> bytes:
        begun, self._begun = self._begun, True
        return line if begun else without_mark(line)


class MsgpackStream:
    """Splits a stream into msgpack objects of at most `limit` bytes each."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._unpacker = msgpack.Unpacker(max_buffer_size=2 * limit)
        self._fed = self._end = 0
        self._rest = bytearray()

    @property
    def left(self) -> int:
        """Number of bytes of the incomplete object at the end of the data so far."""
        return len(self._rest)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Add bytes of the stream; yield the objects that are now complete."""
        try:
            self._unpacker.feed(data)
            self._fed += len(data)
            self._rest += data
            while True:
                self._unpacker.skip()
                size = self._unpacker.tell() - self._end
                _check(size, self._limit)
                self._end += size
                piece = bytes(memoryview(self._rest)[:size])
                del self._rest[:size]
                yield piece
        except msgpack.OutOfData:
            _check(self._fed - self._end, self._limit)
        except msgpack.BufferFull as error:
            raise _too_large(self._limit) from error
        except (msgpack.UnpackException, ValueError, TypeError) as error:
            reason = str(error) or "nested too deeply, or a byte that begins nothing"
            raise BadInput(f"the stream is no msgpack: {reason}"[:200]) from error

    def finish(self) -> Iterator[bytes]:
        """Raise BadInput if the last object is incomplete, otherwise yield nothing."""
        left = self._fed - self._end
        if left:
            raise BadInput(f"the stream ended within an item, after {left:,} bytes")
        return iter(())


def _check(size: int, limit: int) -> None:
    if size > limit:
        raise _too_large(limit)


def _too_large(limit: int) -> TooLarge:
    return TooLarge(f"an item is over the limit of {limit:,} bytes")


Stream = JsonLines | MsgpackStream
