"""Divides the requests to one model among its current index and its candidate."""

import random
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Generic, Protocol, TypeVar

from polydom.features.errors import BadInput

from ...schema.wire import Answer, PredictRequest

# The header by which a caller chooses a version, and the values that it may have.
VERSION_HEADER = b"x-polydom-version"
CURRENT, CANDIDATE = b"current", b"candidate"

T = TypeVar("T")


class Comparer(Protocol):
    """Compares answers of the current version with the candidate's."""

    def add(
        self, read: Callable[[], PredictRequest], size: int, answer: bytes | Answer
    ) -> None:
        """Compare an answer that was written; `read` decodes its request."""


class Split(Generic[T]):
    """Divides the requests to the model `name` among its index and its `candidate`.

    The share `share` of requests, in [0, 1], goes to the candidate. If `by` names a
    header, requests with the same value of it go to the same version: a hash of the
    value decides, in all processes alike, so that a larger share only adds values.
    Requests without this header, or with an empty value, are divided at random.

    If there is a `shadow`, the current version answers all requests, and the shadow
    gets them and their answers.
    """

    def __init__(
        self,
        name: str,
        candidate: T,
        share: float,
        by: str = "",
        shadow: Comparer | None = None,
    ) -> None:
        self.shadow = shadow
        self._candidate = candidate
        self._share = share
        self._by = by.encode()
        self._key = name.encode()[:64]  # so that models draw independently

    def choose(self, current: T, headers: Iterable[tuple[bytes, bytes]]) -> T:
        """Return `current` or the candidate for a request with these headers.

        The header `x-polydom-version` has precedence. Raises BadInput if its value is
        unknown, or if this header or the one that decides occurs twice.
        """
        if self.shadow is not None:
            return current
        wanted = by = None
        for name, value in headers:
            if name == VERSION_HEADER:
                wanted = _only(name, wanted, value)
            elif name == self._by:
                by = _only(name, by, value)
        if wanted is None:
            drawn = self._place_of(by) if by else random.random()
            return self._candidate if drawn < self._share else current
        if wanted not in (CURRENT, CANDIDATE):
            raise BadInput(
                f"x-polydom-version is {wanted[:40].decode('latin-1')!r}; it may be "
                "'current' or 'candidate'"
            )
        return self._candidate if wanted == CANDIDATE else current

    def _place_of(self, value: bytes) -> float:
        """Return a number in [0, 1) that depends only on the value of a header."""
        digest = blake2b(value, digest_size=8, key=self._key).digest()
        return (int.from_bytes(digest, "big") >> 11) / 2**53


def _only(name: bytes, before: bytes | None, value: bytes) -> bytes:
    if before is not None:
        raise BadInput(f"the header {name.decode('latin-1')} is given twice")
    return value.strip()
