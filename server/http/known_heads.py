"""Heads of requests that came before: their bytes need not be parsed again."""

import re

import msgspec

from ..schema.request_ids import NAMES
from .raw_request import END, LONGEST_HEAD, Direct, IncomingRequest, length_in

# Number of heads that are remembered. Most callers send the same head each time, but
# for the length of the body and for the ids by which they follow a request.
MOST = 1024
# The line of a header with an id. A line that goes on in the next one is left to the
# parser, and so is a value with control characters. The first look-ahead only saves
# time, as most headers begin with another letter.
_ID_LINE = re.compile(
    rb"\r\n(?=[xt])(%b):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*)(?=\r\n[^ \t])"
    % b"|".join(sorted(NAMES)),
    re.IGNORECASE,
)


class KnownHead(msgspec.Struct, frozen=True, gc=False):
    """What the parser found in a head; the connection stays open after the answer."""

    query: bytes
    headers: list[tuple[bytes, bytes]]
    length: int  # Number of bytes of the body
    answerer: Direct  # The function that may answer without an ASGI cycle
    # Names and values of headers with ids, for `read_ids`
    naming: tuple[bytes, ...] = ()

    def with_ids(self, ids: list[tuple[bytes, bytes]]) -> "KnownHead":
        """Return this head with the headers `ids`, whose names are in `NAMES`."""
        naming = ids[0] if len(ids) == 1 else sum(ids, ())
        headers = self.headers + ids
        return KnownHead(self.query, headers, self.length, self.answerer, naming)


class KnownHeads:
    """Remembers what a parser found in heads, without the lines that have ids."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownHead] = {}

    def find(self, data: bytes, end: int) -> KnownHead | None:
        """Return what is known of a request that comes alone; None if nothing is.

        `data` begins with a request whose head ends at position `end`; it is -1 if the
        head is incomplete. Returns None if a byte of the request is still to come, or
        if `data` has bytes of another request.
        """
        if not 0 < end <= LONGEST_HEAD or not self._known:
            return None
        head = data[: end + 3]
        known, ids, at = self._known.get(head), list[tuple[bytes, bytes]](), 0
        while known is None:
            line = _ID_LINE.search(head, at)
            if line is None:
                return None
            at = line.start()
            ids.append((line[1].lower(), line[2]))
            head = head[:at] + head[line.end() :]
            known = self._known.get(head)
        if len(data) != end + len(END) + known.length:
            return None
        return known.with_ids(ids) if ids else known

    def learn(self, data: bytes, end: int, request: IncomingRequest) -> None:
        """Remember the head of a request that came alone, after it was parsed.

        `data` and `end` are as in `find`. Heads of which nothing may be assumed are not
        remembered.
        """
        length, direct = length_in(request.headers), request.direct
        if direct is None or not request.keeps or end > LONGEST_HEAD:
            return
        if length is None or len(data) != end + len(END) + length:
            return
        if len(self._known) >= MOST:
            self._known.clear()
        headers = [one for one in request.headers if one[0] not in NAMES]
        head = _ID_LINE.sub(b"", data[: end + 3])
        self._known[head] = KnownHead(request.query, headers, length, direct)
