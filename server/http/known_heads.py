"""Heads of requests that came before: their bytes need not be parsed again."""

import msgspec

from ..schema.request_ids import NAMES, is_plain
from .raw_request import END, LONGEST_HEAD, Direct, IncomingRequest, length_in

# Number of heads that are remembered. Most callers send the same head each time, but
# for the length of the body and for the ids by which they follow a request.
MOST = 1024
# Number of ways to write the name of such an id that are remembered.
MOST_NAMES = 8
Header = tuple[bytes, bytes]


class KnownHead(msgspec.Struct, frozen=True, gc=False):
    """What the parser found in a head; the connection stays open after the answer."""

    query: bytes
    headers: list[Header]
    length: int  # Number of bytes of the body
    answerer: Direct  # The function that may answer without an ASGI cycle
    # Names and values of headers with ids, for `read_ids`
    naming: tuple[bytes, ...] = ()

    def with_ids(self, ids: list[Header]) -> "KnownHead":
        """Return this head with the headers `ids`, whose names are in `NAMES`."""
        naming = ids[0] if len(ids) == 1 else sum(ids, ())
        headers = self.headers + ids
        return KnownHead(self.query, headers, self.length, self.answerer, naming)


class KnownHeads:
    """Remembers what a parser found in heads, without the lines that have ids."""

    def __init__(self) -> None:
        self._known: dict[bytes, KnownHead] = {}
        # How lines with ids begin, with the line end before, and the header's name
        self._starts: dict[bytes, bytes] = {}

    def find(self, data: bytes, end: int) -> KnownHead | None:
        """Return what is known of a request that comes alone; None if nothing is.

        `data` begins with a request whose head ends at position `end`; it is -1 if the
        head is incomplete. Returns None if a byte of the request is still to come, or
        if `data` has bytes of another request.
        """
        if not 0 < end <= LONGEST_HEAD or not self._known:
            return None
        head, ids = data[: end + 3], list[Header]()
        known = self._known.get(head)
        if known is None:
            for start, name in self._starts.items():
                cut = _cut(head, start)
                if cut is not None:
                    head, value = cut
                    ids.append((name, value))
                    known = self._known.get(head)
                    if known is not None:
                        break
            else:
                return None
        if len(data) != end + len(END) + known.length:
            return None
        return known.with_ids(ids) if ids else known

    def learn(self, data: bytes, end: int, request: IncomingRequest) -> None:
        """Remember the head of a request that came alone, after it was parsed.

        `data` and `end` are as in `find`. Heads of which nothing may be assumed are not
        remembered, nor are those of other methods than POST: they are never traced.
        """
        length, direct = length_in(request.headers), request.direct
        if direct is None or not request.keeps or not 0 < end <= LONGEST_HEAD:
            return
        if not data.startswith(b"POST "):
            return
        if length is None or len(data) != end + len(END) + length:
            return
        head = data[: end + 3]
        for line in data[:end].split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.lower() in NAMES:
                spaces = value[: len(value) - len(value.lstrip(b" \t"))]
                start = b"\r\n%b:%b" % (name, spaces)
                cut = _cut(head, start)
                if cut is None:
                    return
                if len(self._starts) >= MOST_NAMES:
                    self._starts.clear()
                head, self._starts[start] = cut[0], name.lower()
        if len(self._known) >= MOST:
            self._known.clear()
        headers = [one for one in request.headers if one[0] not in NAMES]
        self._known[head] = KnownHead(request.query, headers, length, direct)


def _cut(head: bytes, start: bytes) -> tuple[bytes, bytes] | None:
    """Return a head without the line that begins with `start`, and the line's rest.

    Returns None if there is no such line, or if the parser should read it: because it
    goes on in the next line, or has more than letters, digits and dashes.
    """
    before, found, rest = head.partition(start)
    if not found:
        return None
    value, line_end, rest = rest.partition(b"\r\n")
    if not is_plain(value) or rest[:1] in (b" ", b"\t"):
        return None
    return before + line_end + rest, value
