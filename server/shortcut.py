"""`POST /v1/predict` answered inside the protocol where that is possible at once.

An ASGI cycle, a task and the parsing of headers cost more than a cheap plan. This way
is for what comes again and again: a request in one read, with a head seen before to the
last byte, whose plan is carried out on the event loop anyway. All else, and every
request that is not answered with 200, takes the ordinary way and is answered there as
if nobody had looked at it before.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from ..features.errors import BadInput
from ..features.items import Item
from .codec import Desk
from .headers import read_headers
from .question import Caller
from .repository import Repository
from .schema_predict import (
    MSGPACK,
    Ask,
    Terms,
    encode,
)
from .v1_decode import (
    decode_ask,
)

PREDICT = "/v1/predict"
LONGEST_HEAD = 2048
LONGEST_BODY = 65536
# More heads than this come from clients that change theirs with every request.
MOST_HEADS = 1024
# Whoever sends one of these wants more than the body answered.
_UNUSUAL = frozenset(
    (b"transfer-encoding", b"content-encoding", b"expect", b"upgrade", b"authorization")
)


class Head(NamedTuple):
    """Request line and headers, parsed; the body has `length` bytes.

    `bare` says that the body is JSON and has all the terms there are.
    """

    headers: tuple[tuple[bytes, bytes], ...]
    query: bytes
    length: int
    bare: bool


class Shortcut:
    """Heads that were seen, and what answers at once; for the event loop alone.

    Parameters
    ----------
    repository
        Its default index answers.
    app
        Whose requests these are.

    Attributes
    ----------
    app
        As given: what is mounted in another application answers nothing of that one.
    heads
        By their bytes up to the empty line, which is not among them.
    """

    def __init__(self, repository: Repository, app: object = None) -> None:
        self._repository = repository
        self._longest = min(LONGEST_BODY, repository.settings.body_limit)
        self.heads: dict[bytes, Head] = {}
        self._default: list[tuple[bytes, bytes]] | None = None
        self._reply_head = b""

    def learn(
        self, raw: bytes, target: bytes, headers: Iterable[tuple[bytes, bytes]]
    ) -> None:
        """Remember a head if requests with it can be answered here.

        Parameters
        ----------
        raw
            Its bytes up to the empty line, of a POST over HTTP/1.1 that keeps the
            connection.
        target
            Path and query.
        headers
            Names in lower case.
        """
        path, _, query = target.partition(b"?")
        known = tuple(headers)
        names = [name for name, _ in known]
        lengths = [value for name, value in known if name == b"content-length"]
        try:
            content_type, budget = read_headers(known)
        except BadInput:
            return
        if (
            path != PREDICT.encode()
            or b"model" in query
            or len(raw) > LONGEST_HEAD
            or raw.count(b"\n") != raw.count(b"\r\n")
            or not _UNUSUAL.isdisjoint(names)
            or len(lengths) != 1
            or not lengths[0].isdigit()
            or int(lengths[0]) > self._longest
            or content_type in MSGPACK
        ):
            return
        if len(self.heads) == MOST_HEADS:
            self.heads.clear()
        bare = not query and content_type == "application/json" and budget is None
        self.heads[raw] = Head(known, query, int(lengths[0]), bare)

    def answer(
        self, head: Head, body: bytes, arrived_s: float, caller: Caller
    ) -> tuple[Callable[[], None], bytes] | None:
        """Answer a request at once; None where the ordinary way has to.

        Then nothing was counted, and nothing else remembers that it came. What comes
        before the answer is to be called once that was written.
        """
        try:
            serving = self._repository.get()
            if serving.waiting:
                return None
            ask = _read(serving.desk, head, body)
            if ask is None:
                return None
            answered = serving.answer_at_once(ask, arrived_s, caller)
            if answered is None:
                return None
            body = encode(serving.desk.answer(*answered))
            return partial(serving.sent, *answered), body
        except Exception:  # the ordinary way will meet it again, and say what it is
            return None

    def reply_head(self, default: list[tuple[bytes, bytes]]) -> bytes:
        """Status line and headers up to the length, as the ordinary way writes them.

        `default` are uvicorn's own headers, a new list whenever they change.
        """
        if default is not self._default:
            headers = [*default, (b"content-type", b"application/json")]
            lines = b"".join(b"%b: %b\r\n" % header for header in headers)
            self._default = default
            self._reply_head = STATUS_LINE[200] + lines + b"content-length: "
        return self._reply_head


def _read(desk: Desk, head: Head, body: bytes) -> Ask | tuple[Terms, Item] | None:
    """Read a request; None where that takes long, or it is for a model by name."""
    if desk.reader is not None and head.bare:
        read = desk.reader.read(body)
        return None if read is None or read[0].model is not None else read
    kind = desk.engine.package.kind
    if kind == "image":
        return None
    ask = decode_ask(head.headers, head.query, body, kind)
    return None if ask.model is not None else ask
