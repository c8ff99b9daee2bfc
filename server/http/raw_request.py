"""A request for what answers without an ASGI cycle, and what raw bytes tell of one."""

import re
from collections.abc import Callable

import msgspec

from ..engine.request import Caller

# Asked by whoever runs the process, and least to be refused when it has most to do.
UNREFUSED = frozenset(
    (b"/livez", b"/readyz", b"/metrics", b"/v2/health/live", b"/v2/health/ready")
)
# The first byte of what may be a probe.
GET = ord("G")
# Longer heads are not looked at to find where a request ends that is refused.
LONGEST_HEAD = 2048
_PLAIN = re.compile(
    rb"[A-Z]+ [!-~]+ HTTP/1\.1(?:\r\n[A-Za-z0-9_-]+:[\t -~]*)*",
)
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


# The body of status 200, in JSON; None where the application has to answer.
Direct = Callable[[RawRequest], bytes | None]


def is_probe(data: bytes) -> bool:
    """Say whether this is one probe and nothing else."""
    target = data[4 : data.find(b" ", 4, 64)]
    return target in UNREFUSED and data.find(b"\r\n\r\n") == len(data) - 4


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
