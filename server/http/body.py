"""A request's body: in one piece, unpacked, and never above the limit."""

import asyncio
import time
import zlib

from starlette.types import Receive, Scope

from polydom.features.errors import BadInput

from ..engine.request import Caller
from ..errors import Abandoned, TooLarge, UnsupportedEncoding
from ..runtime.held_bytes import HeldBody
from .headers import Headers

# With a gzip header, and with zlib's own, which HTTP calls deflate (RFC 9110, 8.4.1).
_WINDOW_BITS = {b"gzip": 16 + zlib.MAX_WBITS, b"deflate": zlib.MAX_WBITS}
# How many times the limit may come, to be thrown away: callers who are cut off while
# they send do not see why.
_DISCARDED = 8


def arrival(scope: Scope) -> tuple[float, Caller]:
    """Say when a request's first byte was read, and who waits for its answer."""
    state = scope.get("state", {})
    return state.get("arrived_s") or time.monotonic(), state.get("caller") or Caller()


async def read_body(
    receive: Receive, headers: Headers, limit: int, held: HeldBody, hint: str = ""
) -> bytes:
    """Read a request's body as it was before it was compressed.

    Parameters
    ----------
    receive, headers
        The request's ASGI messages, and its headers with names in lower case.
    limit
        Bytes that may come, and that may come of them.
    held
        Told how many are held.
    hint
        What to do where there are more.

    Raises
    ------
    UnsupportedEncoding, BadInput, TooLarge
        As `coding_of` and `unpack`; TooLarge also once more than `limit` bytes came.
    Abandoned
        If the caller leaves before all of it is there.
    Overloaded
        If too many bytes are held.
    """
    coding = coding_of(headers)
    if _expects(headers) and _declared(headers) > limit:
        raise _too_large(limit, hint)
    chunks: list[bytes] = []
    size = 0
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise Abandoned("the caller left before the body was there")
        chunk = message.get("body", b"")
        size += len(chunk)
        more = message.get("more_body", False)
        if size <= limit:
            held.hold(size)
            chunks.append(chunk)
        elif not more or size > _DISCARDED * limit:
            raise _too_large(limit, hint)
        else:
            chunks.clear()
            held.hold(0)
    body = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if not coding:
        return body
    # zlib lets others run; how long it takes, only its end would tell
    body = await asyncio.to_thread(unpack, body, coding, limit)
    held.hold(len(body))
    return body


def _too_large(limit: int, hint: str) -> TooLarge:
    return TooLarge(f"the body is over the limit of {limit:,} bytes{hint}")


def _expects(headers: Headers) -> bool:
    """Say whether the caller sends no body before it was told to go on."""
    return any(
        name == b"expect" and value.lower() == b"100-continue"
        for name, value in headers
    )


def _declared(headers: Headers) -> int:
    """Bytes that a body has by its header; 0 where none says so."""
    lengths = [value for name, value in headers if name == b"content-length"]
    return int(lengths[0]) if lengths and lengths[0].isdigit() else 0


def coding_of(headers: Headers) -> bytes:
    """Say how a body is to be unpacked: as gzip or deflate, or not, which is empty.

    Compressed in another way, or more than once, it raises UnsupportedEncoding.
    """
    codings = [value for name, value in headers if name == b"content-encoding"]
    if not codings:
        return b""
    coding = b",".join(codings).strip().lower()
    coding = coding.removeprefix(b"x-").replace(b"identity", b"")
    if coding not in (*_WINDOW_BITS, b""):
        raise UnsupportedEncoding(
            f"content encoding {coding[:80].decode('latin-1')!r} is not understood; "
            "send the body as it is, or as gzip or deflate"
        )
    return coding


def unpack(body: bytes, coding: bytes, limit: int) -> bytes:
    """Unpack a body; at no time is more than `limit` bytes and a little made of it.

    Raises
    ------
    BadInput
        If it is not one stream of that coding, "gzip" or "deflate", and nothing else.
    TooLarge
        If more than `limit` bytes come of it.
    """
    unpacking = zlib.decompressobj(_WINDOW_BITS[coding])
    try:
        unpacked = unpacking.decompress(body, limit + 1)
    except zlib.error as error:
        raise BadInput(
            f"the body is not {coding.decode()}, as its content encoding says"
        ) from error
    if len(unpacked) > limit:
        raise _too_large(limit, " when unpacked")
    if not unpacking.eof or unpacking.unused_data:
        what = "there is more after its end" if unpacking.eof else "it is cut off"
        raise BadInput(f"the body is not one whole {coding.decode()} stream: {what}")
    return unpacked
