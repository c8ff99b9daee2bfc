"""A request: one item, how much it may cost, and who waits for the answer."""

import math

import msgspec

from polydom.features.items import Item

from ..schema.wire import OnInfeasible
from .budget import Budget
from .send_time import SendTime


class Caller:
    """Who waits for an answer.

    Attributes
    ----------
    gone
        Turns true when the connection is lost.
    ended
        Turns true when they say that they send no more. Whether they still read, only
        an answer that is written tells.
    read_s
        When the first byte of the last request was read, on the monotonic clock: later
        than it came where others were read before it.
    prompt
        Whether all that was sent so far was taken from the transport at once; False
        where nobody knows.
    """

    __slots__ = ("ended", "gone", "prompt", "read_s")

    def __init__(self, *, prompt: bool = False) -> None:
        self.ended = self.gone = False
        self.prompt = prompt
        self.read_s = 0.0


class Request(msgspec.Struct, frozen=True):
    """One item to classify, and on what terms.

    Attributes
    ----------
    item
        What is to be classified.
    budget
        How much it may cost.
    on_infeasible
        What to answer when the budget buys nothing but the prior, or less than
        `min_quality`: the prior; the cheapest set that is good enough, late; or
        an error, before any work.
    min_quality
        Expected quality below which an answer is of no use, in [0, 1].
    caller
        Who waits; work stops at the next checkpoint when they are gone.
    waits_since_s
        When it began to wait for others' requests; infinite where it does not.
    arrived_s
        When the request's first byte came, on the planner's clock.
    read_s
        When it had been read and could be computed.
    send_time
        What is kept of budgets like this one, to be told what was needed; None where
        nothing is.
    exact
        Whether models are evaluated whole, so that there are scores.
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
        """When the answer of a plan that ended then will have been sent, usually."""
        usual_s = 0.0 if self.send_time is None else self.send_time.usual
        return finished_s + usual_s
