"""Errors that only a server has; the others are in features/errors.py.

PolydomError
├── TooLarge           a request's body is over the limit
├── Overloaded         too many requests wait already
├── NotReady           the index is still being warmed up, or the server stops
└── Abandoned          the caller left before there was an answer
"""

from ..features.errors import PolydomError


class TooLarge(PolydomError):
    """A request's body is over the limit."""

    code = "too_large"


class Overloaded(PolydomError):
    """Too many requests wait already; this one was not looked at."""

    code = "overloaded"


class NotReady(PolydomError):
    """The index is still being warmed up, or the server is about to stop."""

    code = "not_ready"


class Abandoned(PolydomError):
    """The caller left before there was an answer."""

    code = "abandoned"
