"""JSON that a fetch posts to a service over HTTP.

A redirect is not followed, so that no other host gets the keys or the headers.
"""

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from math import inf
from typing import Any

import msgspec

from ..errors import BadFetch, FetchFailed, printable
from .terms import (
    OpenedByLoop,
    Terms,
    address_in,
    failed,
    filled_in,
    import_library,
    place_of,
)

LONGEST_BODY = 8 << 20  # bytes of an answer
PIECE = 64 << 10  # bytes that are read at a time
LEAST_S = 0.001  # seconds for an answer; the library takes 0 for any time
SHOWN = 200  # characters of an answer that is an error
TELLING = ("message", "detail", "error")  # members of a JSON object that is an error
FOR_NOW = (408, 425, 429)  # statuses of services that have no time now
LOCKED = (401, 403)  # statuses whose sentences may quote a header
# Characters from which a header may be a secret, and of which an error quotes a text
SECRET, QUOTED = 8, 12


class Refused(FetchFailed):
    """A service answered with another `status` than 200."""

    def __init__(self, message: str, status: int) -> None:
        again = status in FOR_NOW or status >= HTTPStatus.INTERNAL_SERVER_ERROR
        super().__init__(message, again=again)
        self.status = status


class Posts:
    """Posts the JSON of one fetch to one address, by connections of its own.

    `kind` is the term that has the address; `path` is put behind it. A service that
    only `reads` gets a body once more if it closed a connection without an answer, as
    some do after an error or a pause. Raises BadFetch if the address or a header cannot
    be used, or the library is missing.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        address: str,
        headers: Mapping[str, str],
        terms: Terms,
        path: str = "",
        *,
        reads: bool = False,
    ) -> None:
        where = f"fetch {name!r}"
        library = import_library(name, "aiohttp", "http")
        found = address_in(f"{where}: {kind}", address, ("http", "https"))
        self.name = name
        self.place = place_of(found)
        self._address = found.rstrip("/") + path if path else found
        self._at_most_s = terms.at_most_ms / 1e3
        self._closed = (library.ServerDisconnectedError, library.ClientOSError)
        self._reads = reads
        self._timeout = library.ClientTimeout
        self._errors = (library.ClientError, OSError, TimeoutError)
        sent = {
            "Content-Type": "application/json",
            # a small compressed body could become a very large one
            "Accept-Encoding": "identity",
        }
        for header, value in headers.items():
            sent[header] = _header(f"{where}: the header {header!r}", header, value)
        words = (word for header in headers for word in sent[header].split())
        self._secrets = [word for word in words if len(word) >= SECRET]

        def open_session() -> Any:
            return library.ClientSession(
                connector=library.TCPConnector(limit=terms.at_once),
                cookie_jar=library.DummyCookieJar(),
                headers=sent,
                auto_decompress=False,
            )

        self.session = OpenedByLoop(open_session, lambda session: session.close())

    async def send(
        self,
        body: bytes,
        longest: int = LONGEST_BODY,
        hidden: Iterable[str] = (),
        within_s: float = inf,
    ) -> bytes:
        """Return the answer to a body, of at most `longest` bytes.

        `within_s` is the time for it in seconds; `at_most_ms` by default. Raises
        Refused if its status is not 200; the message has what the service says, unless
        that quotes a header or one of the texts in `hidden`. Raises FetchFailed if
        there is no answer, or if it is too long.
        """
        within_s = self._at_most_s if within_s == inf else max(within_s, LEAST_S)
        given = body, longest, within_s
        try:
            try:
                status, again, answer = await self._post(*given)
            except self._closed:
                if not self._reads:
                    raise
                status, again, answer = await self._post(*given)
        except self._errors as error:
            told_s = round(within_s, 3) or within_s
            raise failed(self.name, self.place, error, told_s) from error
        if status != 200:
            said = "" if status in LOCKED else self._told_by(answer, [*hidden])
            raise Refused(
                f"fetch {self.name!r}: {self.place} answered with status {status}"
                f"{again}; 200 is needed{said and f': {said}'}",
                status,
            )
        return answer

    async def _post(
        self, body: bytes, longest: int, within_s: float
    ) -> tuple[int, str, bytes]:
        """Return a status, when the service says to ask again, and the body."""
        async with self.session.pool().post(
            self._address,
            data=body,
            allow_redirects=False,
            timeout=self._timeout(within_s),
        ) as response:
            again = response.headers.get("Retry-After", "")[:SHOWN]
            if again:
                again = f" (Retry-After: {printable(again)})"
            return response.status, again, await self._read(response, longest)

    async def _read(self, response: Any, longest: int) -> bytes:
        """Return the body; raise FetchFailed if it is longer than `longest` bytes."""
        body = bytearray()
        async for piece in response.content.iter_chunked(PIECE):
            body += piece
            if len(body) > longest:
                raise FetchFailed(
                    f"fetch {self.name!r}: {self.place} answered with more than "
                    f"{longest / (1 << 20):.3g} MiB"
                )
        return bytes(body)

    def _told_by(self, body: bytes, hidden: list[str]) -> str:
        """Return the sentence in the body of an error, or the body itself.

        With texts to hide, only what stands before the first brace or bracket, since
        what follows may be the request.
        """
        said = _sentence(body.decode("utf-8", "replace"))
        if hidden:
            said = re.split(r"[{\[]", said)[0].strip()
        secrets = [*self._secrets, *(text[:QUOTED] for text in hidden)]
        return "" if any(one in said for one in secrets) else said[:SHOWN]


def _header(where: str, name: str, value: str) -> str:
    text = filled_in(where, value)
    if not name.isascii() or not (name + text).isprintable():
        raise BadFetch(f"{where} has characters that a header must not have")
    return text


def _sentence(text: str) -> str:
    """Return the sentence in the JSON of an error, or the text itself."""
    said: Any = text
    try:
        while True:
            if isinstance(said, str):  # Feast writes an object into a JSON string
                text = said
                said = msgspec.json.decode(said)
            elif isinstance(said, dict):  # OpenAI writes an object into an object
                told = (said[name] for name in TELLING if name in said)
                said = next((one for one in told if isinstance(one, str | dict)), None)
            else:
                return text
    except (msgspec.MsgspecError, RecursionError):
        return text
