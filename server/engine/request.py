"""A request: an item, its budget, its other terms, and the caller who waits."""

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
        True if all bytes sent so far were read from the transport at once; False if
        unknown.
    """

    __slots__ = ("ended", "gone", "prompt", "read_s")

    def __init__(self, *, prompt: bool = False) -> None:
        self.ended = self.gone = False
        self.prompt = prompt
        self.read_s = 0.0


class Request(msgspec.Struct, frozen=True):
    """One item to classify, and the terms of the request.

    Attributes
    ----------
    item
        The item.
    budget
        Budget of the answer.
    on_infeasible
        Answer if the budget pays for nothing but the prior, or for less than
        `min_quality`: "prior"; the cheapest set of enough quality, late; or an error
        before any work.
    min_quality
        Expected quality below which an answer is of no use, in [0, 1].
    caller
        The caller; work stops at the next checkpoint once the caller is gone.
    waits_since_s
        Time since which the request waits for others; infinite if it does not wait.
    arrived_s
        Arrival of the request's first byte, on the planner's clock.
    read_s
        Time at which the request was decoded.
    send_time
        Send time of similar answers, which learns from this one; None to learn nothing.
    exact
        True to evaluate models whole, so that answers have scores.
    """

    item: Item
    budget: Budget
    on_infeasible: OnInfeasible = "prior"
    min_quality: float = 0.0
    caller: Caller = msgspec.field(default_factory=Caller)
    waits_since_s: float = math.inf
    arrived_s: float = 0.0
    read_s: float = 0.0
    send_time: SendTime | None = None
    exact: bool = False

    def out_s(self, finished_s: float) -> float:
        """Return when an answer finished at `finished_s` has usually been sent."""
        usual_s = 0.0 if self.send_time is None else self.send_time.usual
        return finished_s + usual_s
