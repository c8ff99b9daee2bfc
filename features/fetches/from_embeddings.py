"""Fetches of vectors over HTTP, from services that speak OpenAI's protocol.

    POST {"input": ["a text", "another"], "model": "m", "encoding_format": "base64"}
    200  {"data": [{"index": 0, "embedding": "zczMPQ=="},
                   {"index": 1, "embedding": "AAAAPw=="}]}

Base64 has the bytes of the numbers as float32, lowest byte first: it is 4 times as
short as numbers in JSON, and 6 times as fast to read. A service that refuses to send it
is asked without it from then on, and one that sends numbers all the same is read, too.

A service refuses all texts of a call for one that it cannot take, such as one that is
too long. Then each is asked for alone, once, as texts of several requests share a call.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..errors import BadFetch, FetchFailed
from ..networks.inputs import whole_characters
from ..wording import describe_decode_error
from .fetch import Fetch
from .posts import QUOTED, Posts, Refused
from .terms import Terms

# Statuses of a service that cannot take a text, or a member of the request
REFUSED = (400, 413, 422)
BASE64 = {"encoding_format": "base64"}
# Most bytes of a number as JSON, and of an answer besides its numbers
NUMBER, BESIDES = 40, 64 << 10


class EmbeddingsTerms(Terms, kw_only=True):
    """Terms of a fetch of vectors from a service of embeddings.

    Attributes
    ----------
    embeddings
        Address that begins with `http://` or `https://`, and usually ends with
        `/v1/embeddings`. It may hold environment variables.
    width
        Numbers in a vector.
    model
        Name of the model. Some services need none.
    kind
        Kind of the items. Images are sent as `{"image": "..."}`, in base64.
    dimensions
        True to send `width` as `dimensions`, for models that can make vectors of
        several widths.
    base64
        False to never ask for vectors in base64. By default, a service that refuses
        them is asked for numbers in JSON.
    extra
        Further members of each request, such as `{ input_type = "query" }`.
    headers
        Headers of each request. Values may hold environment variables.
    batch
        Most texts or images in one call.
    """

    embeddings: str
    width: int
    model: str = ""
    kind: Literal["text", "image"] = "text"
    dimensions: bool = False
    base64: bool = True
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    # 16 vectors of 1536 numbers are 0.5 MB of JSON, which takes 6 ms to read, in steps
    # of 1 ms
    batch: int = 16


class _Vector(msgspec.Struct):
    embedding: msgspec.Raw
    index: int | None = None  # Google's service leaves out 0


class _Answer(msgspec.Struct):
    data: list[_Vector]


_decode = msgspec.json.Decoder(_Answer).decode
_decode_vector = msgspec.json.Decoder(list[float] | str).decode


def embeddings_fetch(name: str, terms: EmbeddingsTerms) -> Fetch:
    """Make a fetch of vectors; raise BadFetch if its terms cannot be used."""
    if terms.key:
        raise BadFetch(
            f"fetch {name!r} has a key; one of embeddings has none: the key is the "
            f"{terms.kind} itself"
        )
    posts = Posts(
        name, "embeddings", terms.embeddings, terms.headers, terms, reads=True
    )
    ask, close = _Embeddings(posts, terms).ask, posts.session.close
    return terms.made(
        name, (), (), ask, close, None, kind=terms.kind, width=terms.width
    )


class _Embeddings:
    """The calls of one fetch."""

    def __init__(self, posts: Posts, terms: EmbeddingsTerms) -> None:
        self.posts = posts
        self.terms = terms
        # None if the service was not asked for it yet
        self.base64: bool | None = None if terms.base64 else False
        self.answered = False  # True once the service has sent vectors
        self.members = dict(terms.extra)
        if terms.model:
            self.members["model"] = terms.model
        if terms.dimensions:
            self.members["dimensions"] = terms.width

    async def ask(self, items: Sequence[Any], left_s: float) -> list[Any]:
        """Return the vector of each text or image; None for a text without a word.

        A build has more time for a call than `at_most_ms`, and says so by `left_s`.
        """
        fit = [bool(item) and not item.isspace() for item in items]
        sent = [item for item, fits in zip(items, fit, strict=True) if fits]
        if not sent:
            return [None] * len(items)
        within_s = max(self.terms.at_most_ms / 1e3, left_s)
        until_s = asyncio.get_running_loop().time() + within_s
        found = iter(await self._found(sent, until_s))
        return [next(found) if fits else None for fits in fit]

    async def _found(self, items: Sequence[Any], until_s: float) -> Sequence[Any]:
        """Return vectors, or failures of single items."""
        try:
            return await self._encoded(items, until_s)
        except Refused as refused:
            single = len(items) == 1
            if refused.status not in REFUSED or (single and not self.answered):
                raise
            if single:
                return [refused]
        found = await asyncio.gather(*(self._alone(one, until_s) for one in items))
        if all(isinstance(one, FetchFailed) for one in found):
            raise found[0]
        return found

    async def _alone(self, item: Any, until_s: float) -> Any:
        try:
            return (await self._encoded([item], until_s))[0]
        except FetchFailed as failure:
            return failure

    async def _encoded(self, items: Sequence[Any], until_s: float) -> list[Any]:
        """Return vectors; if the service refuses to send base64, ask without it."""
        if self.base64 is not False:
            try:
                found = await self._vectors(items, until_s, BASE64)
                self.base64 = True
                return found
            except Refused as refused:
                if self.base64 or refused.status not in REFUSED:
                    raise
        found = await self._vectors(items, until_s, {})
        self.base64 = False
        return found

    async def _vectors(
        self, items: Sequence[Any], until_s: float, members: dict[str, Any]
    ) -> list[Any]:
        """Ask once for the vectors of items; `members` are sent besides."""
        body, begins = self._written(items, members)
        longest = len(items) * self.terms.width * NUMBER + BESIDES
        within_s = until_s - asyncio.get_running_loop().time()
        answer = await self.posts.send(body, longest, begins, within_s)
        found = await self._read(answer, len(items))
        self.answered = True
        return found

    def _written(
        self, items: Sequence[Any], members: dict[str, Any]
    ) -> tuple[bytes, list[str]]:
        """Return the body of a request, and how each item begins in it."""
        if self.terms.kind == "image":
            begins = [b64encode(item[:QUOTED]).decode() for item in items]
            given: list[Any] = [{"image": item} for item in items]
        else:
            given = begins = [whole_characters(item) for item in items]
        return msgspec.json.encode({**self.members, "input": given, **members}), begins

    async def _read(self, body: bytes, count: int) -> list[Any]:
        """Return the vectors in an answer, in the order of the items."""
        try:
            data = _decode(body).data
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise FetchFailed(
                f'{self._source} answered with another body than {{"data": [...]}}: '
                f"{describe_decode_error(error, _Answer, body)}"
            ) from error
        places = [k if one.index is None else one.index for k, one in enumerate(data)]
        if sorted(places) != [*range(count)]:
            raise FetchFailed(
                f"{self._source} answered with {len(data)} vectors to {count} "
                f"{self.terms.kind}s; one for each is needed, and its index"
            )
        found: list[Any] = [None] * count
        for place, one in zip(places, data, strict=True):
            found[place] = self._vector(one.embedding)
            await asyncio.sleep(0)  # other requests go on between two vectors
        return found

    def _vector(self, text: msgspec.Raw) -> NDArray[Any] | FetchFailed:
        """Return the numbers in a member `embedding`, or why they cannot be used."""
        try:
            given = _decode_vector(text)
            if isinstance(given, str):
                given = np.frombuffer(b64decode(given, validate=True), "<f4")
            vector = np.array(given)
        except (msgspec.MsgspecError, ValueError):  # Unicode's errors, too
            return FetchFailed(
                f"{self._source} answered for an item with something else than "
                "a list of numbers or their base64"
            )
        if len(vector) != self.terms.width:
            raise FetchFailed(
                f"{self._source} answered with vectors of {len(vector)} numbers; the "
                f"width of the fetch is {self.terms.width}"
            )
        return vector

    @property
    def _source(self) -> str:
        return f"fetch {self.posts.name!r}: {self.posts.place}"
