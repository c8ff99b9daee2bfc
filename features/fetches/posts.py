"""JSON that a fetch posts to a service over HTTP.

A redirect is not followed, so that no other host gets the keys or the headers.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import BadFetch, FetchFailed
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
SHOWN = 200  # characters of an answer that is an error
TELLING = ("message", "detail", "error")  # members of a JSON object that is an error


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
        self._errors = (library.ClientError, OSError, TimeoutError)
        sent = {
            "Content-Type": "application/json",
            # a small compressed body could become a very large one
            "Accept-Encoding": "identity",
        }
        for header, value in headers.items():
            sent[header] = _header(f"{where}: the header {header!r}", header, value)

        def open_session() -> Any:
            return library.ClientSession(
                connector=library.TCPConnector(limit=terms.at_once),
                cookie_jar=library.DummyCookieJar(),
                timeout=library.ClientTimeout(total=self._at_most_s),
                headers=sent,
                auto_decompress=False,
            )

        self.session = OpenedByLoop(open_session, lambda session: session.close())

    async def send(self, body: bytes) -> bytes:
        """Return the answer to a body; raise FetchFailed if its status is not 200."""
        try:
            try:
                status, answer = await self._post(body)
            except self._closed:
                if not self._reads:
                    raise
                status, answer = await self._post(body)
        except self._errors as error:
            raise failed(self.name, self.place, error, self._at_most_s) from error
        if status != 200:
            raise FetchFailed(
                f"fetch {self.name!r}: {self.place} answered with status {status}; 200 "
                f"is needed: {_told_by(answer)[:SHOWN]}"
            )
        return answer

    async def _post(self, body: bytes) -> tuple[int, bytes]:
        async with self.session.pool().post(
            self._address, data=body, allow_redirects=False
        ) as response:
            return response.status, await self._read(response)

    async def _read(self, response: Any) -> bytes:
        """Return the body; raise FetchFailed if it is longer than `LONGEST_BODY`."""
        body = bytearray()
        async for piece in response.content.iter_chunked(PIECE):
            body += piece
            if len(body) > LONGEST_BODY:
                raise FetchFailed(
                    f"fetch {self.name!r}: {self.place} answered with more than "
                    f"{LONGEST_BODY >> 20} MiB"
                )
        return bytes(body)


def _header(where: str, name: str, value: str) -> str:
    text = filled_in(where, value)
    if not name.isascii() or not (name + text).isprintable():
        raise BadFetch(f"{where} has characters that a header must not have")
    return text


def _told_by(body: bytes) -> str:
    """Return the sentence in the body of an error, or the body itself."""
    text = body.decode("utf-8", "replace")
    said: Any = text
    try:
        while isinstance(said, str):  # Feast writes an object into a JSON string
            text = said
            said = msgspec.json.decode(said)
    except msgspec.MsgspecError:
        return text
    if isinstance(said, dict):
        told = (said[name] for name in TELLING if isinstance(said.get(name), str))
        return next(told, text)
    return text
