"""Requests answered without ASGI, and functions that read a request's raw bytes."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable

import msgspec

from ..engine.request import Caller
from .bearer_tokens import ADMIN_PATHS

# The end of a request's head.
END = b"\r\n\r\n"
# First bytes of GET and HEAD. Requests with these methods are never refused: operators
# need probes and metrics under load, and a page needs all of its files.
READING = b"GH"
# First bytes of what operators order. It is never refused either, because under load
# they may need to go back to another index.
ORDERS = tuple(b"POST " + path.encode() for path in ADMIN_PATHS)
# If a refused request's head is longer than this, its end is not searched for.
LONGEST_HEAD = 2048
_PLAIN = re.compile(
    rb"[A-Z]+ [!-~]+ HTTP/1\.1(?:\r\n[A-Za-z0-9_-]+:[\t -~]*)*",
)
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r", re.IGNORECASE)
_DIGITS = re.compile(rb"\d{1,18}")
_FRAMING = re.compile(
    rb"\r\n(content-length|connection|transfer-encoding|expect|upgrade)[ \t]*:"
    rb"[ \t]*([^\r\n]*)",
    re.IGNORECASE,
)


class Received(msgspec.Struct, frozen=True, gc=False):
    """A complete request, whose body is not decoded."""

    # The request as received, except that names of headers are in lower case
    query: bytes
    headers: list[tuple[bytes, bytes]]
    body: bytes
    arrived_s: float  # Time of the first byte
    caller: Caller  # The caller who waits for the answer


class RawRequest(Received, frozen=True, gc=False):
    """A complete request, passed to a function that answers without ASGI."""

    # Schedules a function to be called after the answer is written
    when_written: Callable[[Callable[[], object]], object]


class Later(ABC):
    """An answer that waits for something that no thread computes."""

    @abstractmethod
    def begin(self, done: Callable[[object], object]) -> None:
        """Call `done` once with what a `Direct` function returns at once."""

    @abstractmethod
    def stop(self) -> object:
        """Let `done` not be called; return what the application continues with."""


# A function that may answer a request: it returns the JSON body of a response with
# status 200. If it returns a `Later`, the body comes later. If it returns another
# object, the application answers, and finds the object as `planned` in the request's
# state unless it is None.
Direct = Callable[[RawRequest], object]


class IncomingRequest(msgspec.Struct, eq=False):
    """The state of the request that the parser is reading."""

    arrived_s: float
    target: bytes = b""  # Path and query as received
    query: bytes = b""
    headers: list[tuple[bytes, bytes]] = []
    # The list that the next header is added to: `headers`, or a list of headers after
    # the body
    section: list[tuple[bytes, bytes]] = []
    expects_continue: bool = False  # True if the caller waits for "100 Continue"
    names_connection: bool = False  # True if a header `connection` came
    # Names and values of headers with ids, for `read_ids`
    naming: tuple[bytes, ...] = ()
    # Function that may answer without an ASGI cycle; None if there is none
    direct: Direct | None = None
    answerer: Direct | None = None  # The same, until it has answered or a cycle begins
    later: Later | None = None  # The answer, if it comes later without an ASGI cycle
    keeps: bool = True  # True to keep the connection open after this answer
    pieces: list[bytes] = []  # Pieces of the body that no ASGI cycle has yet
    passed_bytes: int = 0  # Number of bytes of the body that the ASGI cycle has

    def __post_init__(self) -> None:
        self.section = self.headers


def framing_of(head: bytes) -> tuple[int, bool] | None:
    """Return a body's length in bytes, and whether the connection stays open.

    `head` is the request line and the headers, without the empty line after them.
    Returns None if the head is too long, or not simple enough to read without a
    complete parser.
    """
    length, keeps = None, True
    if len(head) > LONGEST_HEAD or not _PLAIN.fullmatch(head):
        return None
    for name, value in _FRAMING.findall(head):
        name = name.lower()
        if name == b"content-length" and length is None and _DIGITS.fullmatch(value):
            length = int(value)
        elif name == b"connection" and value.lower() in (b"keep-alive", b"close"):
            keeps = keeps and value.lower() != b"close"
        else:
            return None
    return length or 0, keeps


def ends_of(data: bytes, start: int) -> list[int]:
    """Return the positions in `data` after each whole request from `start` on.

    They are used to refuse requests without parsing them. So the list is empty if any
    request is never refused, closes the connection, or is not simple enough to read
    without a complete parser.
    """
    ends, at, sizes = list[int](), start, dict[bytes, int]()
    while (end := data.find(END, at)) >= 0:
        head = data[at:end]
        size = sizes.get(head)
        if size is None:
            framing = framing_of(head)
            if framing is None or not framing[1] or is_never_refused(head):
                return []
            size = sizes[head] = len(head) + len(END) + framing[0]
        if at + size > len(data):
            break
        at += size
        ends.append(at)
    return ends


def is_never_refused(data: bytes) -> bool:
    """Return True for bytes of a request that is answered under any load."""
    return data[0] in READING or data.startswith(ORDERS)


def asks_for_answers(target: bytes) -> bool:
    """Return True if a POST to this path and query asks models for answers."""
    path = target.partition(b"?")[0]
    return path in (b"/v1/predict", b"/v1/batch") or (
        path.startswith(b"/v2/models/") and path.endswith(b"/infer")
    )


def is_the_only_one(data: bytes, end: int, longest: int) -> bool:
    """Return True if `data` certainly has no byte of a second request.

    `data` begins with a request whose head ends at position `end`. Returns False if the
    head is incomplete (`end` is -1) or longer than `longest` bytes.
    """
    if not 0 <= end <= longest:
        return False
    length = _LENGTH.search(data, 0, end + 1)
    return int(length[1] if length else 0) >= len(data) - end - len(END)


def length_in(headers: Iterable[tuple[bytes, bytes]]) -> int | None:
    """Return the body's length in bytes, from the headers; None if it is chunked."""
    length = 0
    for name, value in headers:
        if name == b"transfer-encoding":
            return None
        if name == b"content-length":
            # other ASGI servers may pass invalid values
            length = int(value) if value.strip().isdigit() else 0
    return length


def with_host_of(
    target: bytes, headers: list[tuple[bytes, bytes]]
) -> list[tuple[bytes, bytes]]:
    """Return the headers with `host` taken from a target such as `http://a:80/b`.

    RFC 9112, 3.2.2, demands this. For targets without a host, the headers are returned
    unchanged.
    """
    _, names_host, rest = target.partition(b"://")
    if not names_host:
        return headers
    host = re.split(rb"[/?#]", rest, maxsplit=1)[0]
    return [(b"host", host), *(pair for pair in headers if pair[0] != b"host")]
