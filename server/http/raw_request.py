"""A request for what answers without an ASGI cycle, and what raw bytes tell of one."""

import re
from collections.abc import Callable, Iterable

import msgspec

from ..engine.request import Caller

# Asked by whoever runs the process, and least to be refused when it has most to do.
UNREFUSED = frozenset(
    (b"/livez", b"/readyz", b"/metrics", b"/v2/health/live", b"/v2/health/ready")
)
# What heads end with.
END = b"\r\n\r\n"
# The first byte of what may be a probe.
PROBING = b"GH"
# Longer heads are not looked at to find where a request ends that is refused.
LONGEST_HEAD = 2048
_PLAIN = re.compile(
    rb"[A-Z]+ [!-~]+ HTTP/1\.1(?:\r\n[A-Za-z0-9_-]+:[\t -~]*)*",
)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r", re.IGNORECASE)
_FRAMING = re.compile(
    rb"\r\n(content-length|connection|transfer-encoding|expect|upgrade)[ \t]*:"
    rb"[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)


class RawRequest(msgspec.Struct, frozen=True, gc=False):
    """A whole request for what answers without an ASGI cycle.

    Attributes
    ----------
    query, headers, body
        As they came; names of headers in lower case.
    arrived_s
        When its first byte was read.
    caller
        Who waits for the answer.
    when_written
        Has something called once the answer was written, if there is one.
    """

    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    arrived_s: float
    caller: Caller
    when_written: Callable[[Callable[[], object]], object]


# Returns the body of status 200, in JSON. Any other object is for the application: the
# request's state has it as `planned` if it is not None.
Direct = Callable[[RawRequest], object]


def is_probe(data: bytes) -> bool:
    """Say whether this is one probe and nothing else."""
    method, _, rest = data[:64].partition(b" ")
    known = method in (b"GET", b"HEAD") and rest.partition(b" ")[0] in UNREFUSED
    return known and data.find(END) == len(data) - 4


def framing_of(head: bytes) -> tuple[int, bool] | None:
    """Read of a head where its request ends; None where that is not simply said.

    Parameters
    ----------
    head
        Request line and headers up to the empty line.

    Returns
    -------
    Bytes of the body, and whether another request may follow.
    """
    length, keeps = 0, True
    if len(head) > LONGEST_HEAD or not _PLAIN.fullmatch(head):
        return None
    for name, value in _FRAMING.findall(head):
        name = name.lower()
        if name == b"content-length" and value.isdigit() and not length:
            length = int(value[:18])
        elif name == b"connection" and value.lower() in (b"keep-alive", b"close"):
            keeps = keeps and value.lower() != b"close"
        else:
            return None
    return length, keeps


def is_the_only_one(data: bytes, end: int, longest: int) -> bool:
    """Say whether bytes that begin with a request surely have nothing of another.

    Parameters
    ----------
    data, end
        The bytes, and where the first head in them ends; below 0 if none does.
    longest
        Bytes of the longest head that is looked at.
    """
    if not 0 <= end <= longest:
        return False
    length = _LENGTH.search(data, 0, end + 1)
    return int(length[1] if length else 0) >= len(data) - end - len(END)


def length_in(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Bytes of a request's body, 0 without one; None where only its chunks tell.

    The parser lets no request pass whose headers do not agree about that.
    """
    length = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            length = int(value)
    return length


def with_host_of(
    target: bytes, headers: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Headers whose host is that of a target such as `http://a:80/b` (RFC 9112, 3.2.2).

    The path is all that is left of the target for the application.
    """
    _, names_host, rest = target.partition(b"://")
    if not names_host:
        return headers
    host = re.split(rb"[/?#]", rest, maxsplit=1)[0]
    return [(b"host", host), *(pair for pair in headers if pair[0] != b"host")]
