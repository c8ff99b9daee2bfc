"""Answers that are written without being computed: to probes, and refusals."""

import re
from typing import NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from .errors import Failure
from .repository import Repository
from .schema_facts import Health
from .schema_predict import encode
from .shortcut import LONGEST_HEAD, MOST_HEADS

RETRY_AFTER_S = b"1"
# Asked by whoever runs the process, and least to be refused when it has most to do.
UNREFUSED = frozenset(
    (b"/livez", b"/readyz", b"/metrics", b"/v2/health/live", b"/v2/health/ready")
)
_AT_ONCE = frozenset((b"/livez", b"/readyz"))
_TOO_MANY = Failure("more requests came than can be answered in time", "overloaded")
_PLAIN = re.compile(
    rb"[A-Z]+ [!-~]+ HTTP/1\.1(?:\r\n[A-Za-z0-9_-]+:[\t -~]*)*",
)
_FRAMING = re.compile(
    rb"\r\n(content-length|connection|transfer-encoding|expect|upgrade)[ \t]*:"
    rb"[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)
_Headers = list[tuple[bytes, bytes]]


class Framing(NamedTuple):
    """Where a request ends: its body has `length` bytes, and another follows or not."""

    length: int
    keeps: bool


def framing_of(head: bytes) -> Framing | None:
    """Read of a head how long its request is; None where that is not simply said.

    Parameters
    ----------
    head
        Request line and headers up to the empty line.
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
    return Framing(length, keeps)


class ReadyMade:
    """What can be answered from the head alone; for the event loop alone.

    Parameters
    ----------
    repository
        Says whether it is ready, and counts what is refused.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._framings: dict[bytes, Framing] = {}
        self._default: _Headers | None = None
        self._well: list[bytes] = []
        self._too_many: list[bytes] = []

    def framing(self, head: bytes) -> Framing | None:
        """Read a head as `framing_of` does, once where it comes again and again."""
        if (known := self._framings.get(head)) is not None:
            return known
        framing = framing_of(head)
        if framing is not None:
            if len(self._framings) == MOST_HEADS:
                self._framings.clear()
            self._framings[head] = framing
        return framing

    def probe(self, target: bytes, default: _Headers, *, keeps: bool) -> bytes | None:
        """Answer a probe as the application does; None where that has to.

        `default` are uvicorn's own headers, a new list whenever they change.
        """
        ready = target == b"/livez" or self._repository.ready
        if target not in _AT_ONCE or not ready:
            return None
        self._keep_up(default)
        return self._well[keeps]

    def refusal(self, default: _Headers, *, keeps: bool) -> bytes:
        """Refuse one more request than can be answered in time, and count it."""
        self._repository.stray.errors["overloaded"] += 1
        self._keep_up(default)
        return self._too_many[keeps]

    def _keep_up(self, default: _Headers) -> None:
        """Write everything down once for many; the date is in the default headers."""
        if default is self._default:
            return
        self._default = default
        kind, body = (b"content-type", b"application/json"), encode(Health("ok"))
        headers = [*default, (b"content-length", b"%d" % len(body)), kind]
        self._well = [_reply(200, headers, body, keeps) for keeps in (False, True)]
        body = encode(_TOO_MANY)
        headers = [*default, kind, (b"content-length", b"%d" % len(body))]
        headers.append((b"retry-after", RETRY_AFTER_S))
        self._too_many = [_reply(429, headers, body, keeps) for keeps in (False, True)]


def _reply(status: int, headers: _Headers, body: bytes, keeps: bool) -> bytes:
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    close = b"" if keeps else b"connection: close\r\n"
    return b"%b%b%b\r\n%b" % (STATUS_LINE[status], lines, close, body)
