"""A request with its budget, terms and caller; and the outcome of a request."""

import math
from typing import Any, Literal

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from polydom.features.items import Item

from ..schema.request_ids import RequestIds
from ..schema.wire import Fetched, OnInfeasible, Reason
from .budget import Budget
from .send_time import SendTime


class Caller:
    """The client at the other end of a connection, who waits for an answer."""

    __slots__ = ("ended", "gone", "ids", "prompt", "read_s")

    def __init__(self, *, prompt: bool = False, ids: RequestIds | None = None) -> None:
        self.gone = False  # True once the connection is lost
        # True if the caller has announced to send no more, but may still read
        self.ended = False
        # True if the caller has read all bytes sent so far without delay
        self.prompt = prompt
        # Monotonic time when the first byte of the last request was read; if other
        # requests were read first, it is later than the arrival
        self.read_s = 0.0
        # The ids of the request that is being answered, until its answer is written
        self.ids = ids

    @property
    def trace(self) -> Any:
        """The `Trace` of the request that is being answered; None if not sampled."""
        return None if self.ids is None else self.ids.trace


class Part(msgspec.Struct, frozen=True, gc=False):
    """What one part of the work on an item took: a feature, a fetch or the model."""

    kind: Literal["feature", "fetch", "model"]
    name: str  # The name of the feature or the fetch; "model"
    # `began_s`, `ended_s`: on the planner's clock. Of a fetch: when it was asked for,
    # and when its values came or it was given up.
    began_s: float
    ended_s: float
    # Predicted cost in the index's unit; of a fetch, how long it could be waited for
    planned: float
    left: float  # What was left of the budget for the plan when the part began
    failed: bool = False


class FetchOutcome(msgspec.Struct, frozen=True):
    """What became of the fetches of one record."""

    fetched: dict[str, Fetched]  # By the name of the fetch
    waited_s: float  # Seconds that the record waited
    price: float  # Price of the calls that were made for this record
    # Expected quality if every fetch that was asked for had come in time
    hoped: float
    # True if a fetch was not asked for that the record has the key of
    spared: bool
    # Expected quality if every fetch that the record has the key of had come in time;
    # 0 unless `on_infeasible` is "error"
    possible: float = 0.0
    parts: tuple[Part, ...] = ()  # Of the fetches, if the request is `timed`


class Request(msgspec.Struct, frozen=True):
    """One item to classify, with its budget and the other terms of the request."""

    item: Item  # The item
    budget: Budget  # Budget of this answer
    # What to do if the budget pays only for the prior, or not for `min_quality`: answer
    # "prior", compute the cheapest set of enough quality late, or fail before any work
    on_infeasible: OnInfeasible = "prior"
    # Minimum expected quality in [0, 1] that is useful to the caller
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
    # Score in [0, 1] from which the positive of two classes is chosen; None for the
    # model's own. Then no plan and no model stops early: `exact` is True.
    threshold: float | None = None
    explain: bool = False  # True to tell what became of each part
    timed: bool = False  # True to note what each part takes, to explain or trace it
    # What became of the index's fetches; None if the item lacks no column of a fetch
    fetches: FetchOutcome | None = None
    ids: RequestIds | None = None  # The ids that the caller gave it, if any

    @property
    def trace(self) -> Any:
        """The `Trace` of this request; None if it is not sampled."""
        return None if self.ids is None else self.ids.trace

    def out_s(self, finished_s: float) -> float:
        """Estimate when an answer that is finished at `finished_s` will be sent."""
        usual_s = 0.0 if self.send_time is None else self.send_time.usual
        return finished_s + usual_s


class Outcome(msgspec.Struct, frozen=True):
    """The answer to a request, and its cost."""

    label: str | None  # The class; None if answers are numbers
    # Score of each class. After an early exit, the mean score of items that exit like
    # this one. None if answers are numbers, or if the index is older than such scores.
    scores: dict[str, float] | None
    row: int  # Row of the index whose model answered
    predicted: float  # Predicted cost of the plan, in the unit of the index's costs
    # `started_s` and `finished_s`: start and end of the work on the item, on the
    # planner's clock
    started_s: float
    finished_s: float
    # As in `Choice`. Also "overrun" if time ran out before the end of the plan, "sure"
    # if an early exit answered, and "feature_failed" if a feature failed and the best
    # set without it answered.
    reason: Reason | None
    # Expected quality and accuracy of the row, in [0, 1]; after an early exit, those of
    # the whole plan. No accuracy if answers are numbers.
    quality: float
    accuracy: float | None
    # Cost of all computed features and models by the cost curves, in the index's unit
    charged: float
    drift: float = 1.0  # Correction factor that `predicted` and `charged` include
    # If an early exit was audited, this answer is the whole plan's; True if it differs
    # from the early answer. None for other answers.
    audit: bool | None = None
    # True if the audit drew this answer, and the plan took no early exit
    passed: bool = False
    # If the ensemble may stop early: lower and upper bound of each class's score, given
    # the evaluated base models. None otherwise, or if base models have no bounds.
    score_bounds: dict[str, tuple[float, float]] | None = None
    # Number of base models that answered, and of all base models; None without an
    # early-exit schedule
    base_models_used: int | None = None
    base_models: int | None = None
    # True if the answer was given before all features and base models were computed,
    # because an early exit was sure
    early: bool = False
    # Number answered, and interval that should contain the label; None if answers are
    # classes
    value: float | None = None
    interval: tuple[float, float] | None = None
    # If the request is `timed`: masks of the features that were computed, and that
    # failed, and the times of features and model; otherwise empty
    computed: int = 0
    failed: int = 0
    # Full row of the features, if the answer is to be taken into an `InputSketch`; then
    # `computed` is set, too
    values: NDArray[np.float32] | None = None
    parts: tuple[Part, ...] = ()


def with_fetches(request: Request, outcome: Outcome) -> Outcome:
    """Return an outcome with the reason for what fetches did not bring.

    The reason is "late_fetch" if a fetch that was asked for would have allowed a better
    answer. It is "budget" instead of "missing" if columns are missing that the budget
    left no time or money to fetch.
    """
    fetches, reason = request.fetches, outcome.reason
    if fetches is None:
        return outcome
    if outcome.quality < fetches.hoped:
        return replace(outcome, reason="late_fetch")
    if fetches.spared and reason == "missing":
        return replace(outcome, reason="budget")
    return outcome
