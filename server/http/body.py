"""Reads and decompresses a request's body within limits."""

import asyncio
import contextlib
import gzip
import io
import time
import zlib

from starlette.types import Receive, Scope

from polydom.features.errors import BadInput

from ..engine.request import Caller
from ..errors import Abandoned, TooLarge, UnsupportedEncoding
from ..runtime.admission_control.admission import HeldBody
from .headers import Headers
from .raw_request import length_in

# zlib's window codes. Deflate may have a zlib header (RFC 9110, 8.4.1) or none, as much
# software sends it.
_WINDOW_BITS = {
    b"gzip": (16 + zlib.MAX_WBITS,),
    b"deflate": (zlib.MAX_WBITS, -zlib.MAX_WBITS),
}
# Largest body in bytes of a request that an operator sends, such as one to load models.
SMALL_BODY = 16 << 10
# First bytes of a member of a gzip file, and the largest number of members.
_MEMBER, _MOST_MEMBERS = b"\x1f\x8b\x08", 1024
# A body over the limit is read and dropped, up to this multiple of the limit: a caller
# whose connection is closed while sending does not see the error.
_DISCARDED = 8


def arrival(scope: Scope) -> tuple[float, Caller]:
    """Return the time of a request's first byte (monotonic seconds), and its caller."""
    state = scope.get("state", {})
    return state.get("arrived_s") or time.monotonic(), state.get("caller") or Caller()


async def read_body(
    receive: Receive, headers: Headers, limit: int, held: HeldBody, hint: str = ""
) -> bytes:
    """Read a request's whole body, and decompress it.

    `held` records the number of bytes that the body takes in memory. Raises TooLarge if
    the body has more than `limit` bytes, before or after decompression; `hint` is
    appended to the message.
    """
    coding = coding_of(headers)
    if _expects(headers) and (length_in(headers) or 0) > limit:
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
    # in a thread, because decompression can be slow; zlib releases the interpreter lock
    body = await asyncio.to_thread(unpack, body, coding, limit)
    held.hold(len(body))
    return body


def _too_large(limit: int, hint: str) -> TooLarge:
    return TooLarge(f"the body is over the limit of {limit:,} bytes{hint}")


def _expects(headers: Headers) -> bool:
    return any(
        name == b"expect" and value.lower() == b"100-continue"
        for name, value in headers
    )


def coding_of(headers: Headers) -> bytes:
    """Return a body's compression: b"gzip", b"deflate", or b"" for none."""
    given = [value for name, value in headers if name == b"content-encoding"]
    if not given:
        return b""
    said = b",".join(given).lower()
    listed = (coding.strip().removeprefix(b"x-") for coding in said.split(b","))
    codings = [coding for coding in listed if coding not in (b"", b"identity")]
    if not codings:
        return b""
    if len(codings) > 1 or codings[0] not in _WINDOW_BITS:
        raise UnsupportedEncoding(
            f"content encoding {said[:80].decode('latin-1')!r} is not understood; "
            "send the body as it is, or as gzip or deflate, once"
        )
    return codings[0]


def unpack(body: bytes, coding: bytes, limit: int) -> bytes:
    """Decompress a body; raise TooLarge if the result exceeds `limit` bytes.

    `coding` is b"gzip" or b"deflate". A gzip body may have several members. Raises
    BadInput if the bytes are not compressed as `coding` says.
    """
    if not body:
        return body
    for window_bits in _WINDOW_BITS[coding]:
        unpacking = zlib.decompressobj(window_bits)
        with contextlib.suppress(zlib.error):
            unpacked = unpacking.decompress(body, limit + 1)
            break
    else:
        raise _bad_stream(coding, "as its content encoding says")
    if coding == b"gzip" and unpacking.unused_data.startswith(_MEMBER):
        unpacked = _unpack_members(body, limit)
    elif not unpacking.eof and len(unpacked) <= limit:
        raise _bad_stream(coding, "whole: it is cut off")
    elif more := len(unpacking.unused_data.strip(b"\0")):
        raise _bad_stream(coding, f"alone: {more:,} bytes are behind its end")
    if len(unpacked) > limit:
        raise _too_large(limit, " when unpacked")
    return unpacked


def _bad_stream(coding: bytes, wanted: str) -> BadInput:
    return BadInput(f"the body is not {coding.decode()}, {wanted}")


def _unpack_members(body: bytes, limit: int) -> bytes:
    if body.count(_MEMBER) > _MOST_MEMBERS:
        raise BadInput(f"the body is gzip of more than {_MOST_MEMBERS:,} members")
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as members:
        try:
            return members.read(limit + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise _bad_stream(b"gzip", "in every member, or one is cut off") from error
