"""Errors of the server, and the HTTP and gRPC status of every error."""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from polydom.features.errors import (
    BadFeature,
    BadInput,
    BadItem,
    NothingFits,
    PolydomError,
    printable,
)
from polydom.features.figures import show_us
from polydom.features.sizes import Size, show_size
from polydom.features.wording import listed


class Unauthorized(PolydomError):
    """The request has no token, or a token that the server does not know."""

    code = "unauthorized"


class UnsupportedEncoding(PolydomError):
    """A request's body is compressed in a way that the server cannot read."""

    code = "unsupported_encoding"


class TooLarge(PolydomError):
    """A request's body is longer than the limit."""

    code = "too_large"


class ReceiveTimeout(PolydomError):
    """The rest of a request did not arrive in time."""

    code = "receive_timeout"


class Overloaded(PolydomError):
    """Too many requests are waiting already, so this request was refused."""

    code = "overloaded"


class NotReady(PolydomError):
    """The index is still being warmed up, or the server is about to stop."""

    code = "not_ready"


def not_ready(begun: bool) -> NotReady:
    """Return the error for a request that arrives before the end of the warm-up.

    `begun` is False if the application was never started.
    """
    if begun:
        return NotReady("the index is still being warmed up; see /readyz")
    return NotReady(
        "this application was never started: where it is mounted in another one, that "
        "one has to run its lifespan too"
    )


class Abandoned(PolydomError):
    """The caller disconnected before there was an answer."""

    code = "abandoned"


class UnknownModel(PolydomError):
    """No served model has this name or this version."""

    code = "unknown_model"


class UnknownSample(PolydomError):
    """The index has no such training item, or the operator has disabled samples."""

    code = "unknown_sample"


class NotAllowed(PolydomError):
    """The operator forbids this action, to everybody or to this caller."""

    code = "not_allowed"


class ReloadFailed(PolydomError):
    """A new index file cannot be used; the server goes on with the previous index."""

    code = "reload_failed"


class ChangedContract(ReloadFailed):
    """A new index would break callers of the previous index, which still answers."""

    code = "changed_contract"


class WorseIndex(ReloadFailed):
    """A new index answers recent labelled items worse than the previous index."""

    code = "worse_index"


class TooLittleLeft(NothingFits):
    """The rest of the budget is too small for any answer that the request accepts.

    `left` is the rest of the budget, `amount` is the whole budget, and `cheapest` is
    the cost of the cheapest acceptable answer. All three are in the index's `unit`.
    """

    def __init__(
        self, *, left: float, amount: float, cheapest: float, size: Size, unit: str
    ) -> None:
        super().__init__(budget_s=left, cheapest_s=cheapest, size=size)
        there, of, than = (in_unit(value, unit) for value in (left, amount, cheapest))
        self.args = (
            f"{there} of {of} are left, below the cheapest model's {than} for an item "
            f"of size {show_size(size)}",
        )


class TooHighQuality(NothingFits):
    """No feature set has the `min_quality` of a request, however large its budget."""

    def __init__(self, *, wanted: float, best: float) -> None:
        PolydomError.__init__(
            self,
            f"min_quality is {wanted:g}; the best that can answer this item has an "
            f"expected quality of {best:.3g}",
        )


class NotFetched(NothingFits):
    """Fetches did not bring columns without which no accepted answer is left.

    `states` are those of the index's fetches, by name.
    """

    def __init__(self, states: Mapping[str, str]) -> None:
        unmet = {n: s for n, s in states.items() if s not in ("given", "came", "kept")}
        own = [f"{name} ({state})" for name, state in unmet.items()]
        PolydomError.__init__(
            self,
            "nothing that was asked for can be answered without columns that fetches "
            f"did not bring within the budget: {listed(own)}",
        )


def in_unit(amount: float, unit: str) -> str:
    """Return an amount as text: a time if `unit` is "s", else a number and `unit`."""
    return show_us(amount * 1e6) if unit == "s" else f"{amount:g} {unit}"


class Status(NamedTuple):
    """An HTTP status, the equivalent gRPC status, and the errors that they report."""

    number: int  # HTTP's status code
    grpc: str  # Name of the gRPC status; empty for errors that occur only over HTTP
    # Error classes; each stands for its subclasses, too
    errors: tuple[type[PolydomError], ...]
    meaning: str  # A sentence that explains the status to callers


STATUSES = (
    Status(
        400,
        "INVALID_ARGUMENT",
        (BadInput, BadItem),
        "The request, its terms or its item cannot be used.",
    ),
    Status(
        401,
        "UNAUTHENTICATED",
        (Unauthorized,),
        "The server wants a token, and this is none that it knows.",
    ),
    Status(
        403, "PERMISSION_DENIED", (NotAllowed,), "The operator lets nobody do this."
    ),
    Status(
        404,
        "NOT_FOUND",
        (UnknownModel, UnknownSample),
        "No model has that name, or that version; or no sample has that number.",
    ),
    Status(
        408,
        "DEADLINE_EXCEEDED",
        (ReceiveTimeout,),
        "The request did not come in whole within 10 s.",
    ),
    Status(413, "RESOURCE_EXHAUSTED", (TooLarge,), "The body is over the limit."),
    Status(
        415,
        "",
        (UnsupportedEncoding,),
        "The body is compressed in another way than gzip or deflate.",
    ),
    Status(
        422,
        "INVALID_ARGUMENT",
        (BadFeature, ReloadFailed, ChangedContract, WorseIndex),
        "A feature cannot be computed on an item; or a file cannot be served.",
    ),
    Status(
        429,
        "RESOURCE_EXHAUSTED",
        (Overloaded,),
        "Too many requests wait already; try again after `Retry-After` seconds.",
    ),
    Status(499, "CANCELLED", (Abandoned,), "The caller left before the answer."),
    Status(
        503,
        "UNAVAILABLE",
        (NotReady,),
        "Not ready: still being warmed up, not loaded, or about to stop.",
    ),
    Status(
        504,
        "DEADLINE_EXCEEDED",
        (NothingFits,),
        "Nothing that was asked for fits, and `on_infeasible` is `error`.",
    ),
)
_NUMBERS = {kind: status.number for status in STATUSES for kind in status.errors}


class Failure(msgspec.Struct):
    """The body of every error response."""

    error: str
    code: str


UNEXPECTED = Failure("the server failed to answer; its log says why", "internal")


def describe(error: Exception) -> tuple[int, Failure]:
    """Return the HTTP status and the response body for any exception."""
    if isinstance(error, BadFeature) and error.__cause__ is not None:
        # the cause's message comes from the operator's own code and may reveal details
        # of the machine
        message = str(error.args[0]).removesuffix(f": {error.__cause__}")
        raised = f" raised {type(error.__cause__).__name__}"
        message = message.replace(raised, " failed")
        return _NUMBERS[BadFeature], Failure(printable(message), error.code)
    if isinstance(error, PolydomError):
        for kind in type(error).__mro__:
            if kind in _NUMBERS:
                return _NUMBERS[kind], Failure(str(error), error.code)
    return 500, UNEXPECTED
