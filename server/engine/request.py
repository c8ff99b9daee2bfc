"""A request: an item, its budget and other terms, and the caller who waits."""

import math

import msgspec

from polydom.features.items import Item

from ..schema.wire import OnInfeasible
from .budget import Budget
from .send_time import SendTime


class Caller:
    """The caller who waits for an answer.

    Attributes
    ----------
    gone
        True once the connection is lost.
    ended
        True once the caller has announced to send no more. The caller may still read;
        only writing an answer tells.
    read_s
        Time on the monotonic clock at which the first byte of the last request was
        read; later than its arrival if other requests were read before.
    prompt
        True if all bytes sent so far were read from the transport at once.
    """

    __slots__ = ("ended", "gone", "prompt", "read_s")

    def __init__(self, *, prompt: bool = False) -> None:
        self.ended = self.gone = False
        self.prompt = prompt
        self.read_s = 0.0


class Request(msgspec.Struct, frozen=True):
    """One item to classify, with the terms of the request."""

    item: Item  # The item
    budget: Budget  # Budget of this answer
    # What to do if the budget pays only for the prior, or not for `min_quality`: answer
    # "prior", compute the cheapest set of enough quality late, or fail before any work
    on_infeasible: OnInfeasible = "prior"
    # Least expected quality in [0, 1] that is useful to the caller
    min_quality: float = 0.0
    # The caller; once the caller is gone, work stops at the next checkpoint
    caller: Caller = msgspec.field(default_factory=Caller)
    # Time since which the request waits for other requests; infinite if it does not
    # wait
    waits_since_s: float = math.inf
    # Arrival of the request's first byte, on the planner's clock
    arrived_s: float = 0.0
    read_s: float = 0.0  # Time at which the request was decoded
    # Estimate of the time to send, updated by this answer; None for no update
    send_time: SendTime | None = None
    exact: bool = False  # True to evaluate models whole, so that answers have scores

    def out_s(self, finished_s: float) -> float:
        """Return when an answer finished at `finished_s` is usually sent."""
        usual_s = 0.0 if self.send_time is None else self.send_time.usual
        return finished_s + usual_s
