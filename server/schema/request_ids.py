"""The ids by which callers follow a request: `x-request-id` and `traceparent`."""

import re
from random import getrandbits
from typing import Any

import msgspec
from msgspec.structs import replace

REQUEST_ID, TRACEPARENT, TRACESTATE = b"x-request-id", b"traceparent", b"tracestate"
# The names of the headers that `read_ids` reads.
NAMES = frozenset((REQUEST_ID, TRACEPARENT, TRACESTATE))
LONGEST_ID = 128
# Visible ASCII only: no other character may reach a reply's headers or a log.
_ID = re.compile(rb"[!-~]{1,%d}" % LONGEST_ID)
# W3C Trace Context, 3.2: version, trace id, parent id and flags. Bit 0 of the flags is
# "sampled", and bit 1 "the trace id is random"; nothing else is known of them.
_TRACE = rb"-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-"
_FLAGS = 0b11
_USUAL = re.compile(rb"00%b0[0-3]" % _TRACE)
# A later version may have more behind a further dash.
_PARENT = re.compile(rb"(?!ff)[0-9a-f]{2}(%b)([0-9a-f]{2})(-.*)?" % _TRACE, re.DOTALL)
# Longest `tracestate` in bytes that is passed on (W3C Trace Context, 3.3.1.5).
_LONGEST_STATE = 512


class RequestIds(msgspec.Struct, frozen=True, gc=False):
    """The ids by which a caller follows a request through several services."""

    lines: bytes  # The headers of the reply, each with its line end
    request_id: bytes  # 1 to 128 visible ASCII characters; b"" if none came
    # Version 00, with the caller's span as parent: 55 bytes; b"" if none came, and the
    # request is not sampled
    traceparent: bytes
    tracestate: bytes = b""  # As received; b"" without a `traceparent`
    # The `Trace` of a request that is sampled; its span is then the parent above
    trace: Any = None

    @property
    def trace_id(self) -> str:
        """The trace's id, 32 lower-case hexadecimal digits; "" without a trace."""
        return self.traceparent[3:35].decode()

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers of the reply, as names and values."""
        pairs = (
            (REQUEST_ID, self.request_id),
            (TRACEPARENT, self.traceparent),
        )
        return [pair for pair in pairs if pair[1]]


def read_ids(named: tuple[bytes, ...]) -> RequestIds | None:
    """Return the ids in headers whose names are in `NAMES`.

    `named` has the name, in lower case, and the value of each header, one after the
    other. A header that is malformed, or given twice, is ignored. `tracestate` may come
    in several headers. Returns None if no id is left.
    """
    # the cases of most requests, which take a third of the time so
    if len(named) == 2:
        name, value = named
        if name == REQUEST_ID and is_plain(value):
            return RequestIds(b"x-request-id: %b\r\n" % value, value, b"")
        if name == TRACEPARENT and _USUAL.fullmatch(value):
            return RequestIds(b"traceparent: %b\r\n" % value, b"", value)
    elif len(named) == 4:
        first, one, second, other = named
        if first == TRACEPARENT:
            first, one, second, other = second, other, first, one
        both = first == REQUEST_ID and second == TRACEPARENT
        if both and is_plain(one) and _USUAL.fullmatch(other):
            lines = b"x-request-id: %b\r\ntraceparent: %b\r\n" % (one, other)
            return RequestIds(lines, one, other)
    return _read_others(named)


def is_plain(value: bytes) -> bool:
    """Return True for an id of letters, digits and dashes, as most are."""
    return len(value) <= LONGEST_ID and value.replace(b"-", b"").isalnum()


def _read_others(named: tuple[bytes, ...]) -> RequestIds | None:
    given: dict[bytes, list[bytes]] = {name: [] for name in NAMES}
    for name, value in zip(named[::2], named[1::2], strict=True):
        given[name].append(value.strip(b" \t"))
    request_id = _only(given[REQUEST_ID])
    request_id = request_id if _ID.fullmatch(request_id) else b""
    traceparent = _read_parent(_only(given[TRACEPARENT]))
    state = b",".join(given[TRACESTATE])
    state = state if traceparent and len(state) <= _LONGEST_STATE else b""
    return make_ids(request_id, traceparent, state)


def make_ids(
    request_id: bytes, traceparent: bytes, tracestate: bytes, trace: Any = None
) -> RequestIds | None:
    """Return ids that are known to be well formed; None if there is none."""
    if not (request_id or traceparent):
        return None
    ids = RequestIds(b"", request_id, traceparent, tracestate)
    lines = b"".join(b"%b: %b\r\n" % header for header in ids.headers())
    return RequestIds(lines, request_id, traceparent, tracestate, trace)


def with_request_id(ids: RequestIds | None) -> RequestIds:
    """Return ids with a request id: the caller's, or a new one like that of a uuid4."""
    if ids is not None and ids.request_id:
        return ids
    made = getrandbits(128).to_bytes(16, "big").hex().encode()
    line = b"x-request-id: %b\r\n" % made
    if ids is None:
        return RequestIds(line, made, b"")
    return replace(ids, lines=line + ids.lines, request_id=made)


def _only(values: list[bytes]) -> bytes:
    return values[0] if len(values) == 1 else b""


def _read_parent(value: bytes) -> bytes:
    """Return a `traceparent` in version 00, without unknown flags; b"" if malformed."""
    found = _PARENT.fullmatch(value)
    if found is None or (found[3] and value.startswith(b"00")):
        return b""
    return b"00%b%02x" % (found[1], int(found[2], 16) & _FLAGS)
