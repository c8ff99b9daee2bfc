"""Structures of requests and answers, for single items and for batches."""

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .record import Record

OnInfeasible = Literal["prior", "cheapest", "error"]
Reason = Literal[
    "budget",
    "waited",
    "pressure",
    "missing",
    "infeasible",
    "overrun",
    "sure",
    "feature_failed",
    "late_fetch",
]
FetchMode = Literal["as_planned", "never", "all"]
# "given": the record has all columns of the fetch. "kept": an earlier call brought
# them. "came": a call brought them in time. "late": it did not. "failed": the call
# failed. "not_sent": no call was made, because it could not help in time or was not
# allowed, because too many calls wait, or because the fetch is down.
FetchState = Literal["given", "kept", "came", "late", "failed", "not_sent"]

MSGPACK = ("application/msgpack", "application/x-msgpack")


class Terms(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The terms of a request: its model, budget and options, without the item.

    None, or null in JSON, means the default: the first model, the operator's budget, an
    answer without features if no plan fits the budget, no minimum quality, not `exact`,
    and the index's own threshold. `fetch` says which columns are fetched that a record
    lacks: those that may improve the answer in time ("as_planned", the default), none
    ("never"), or those of all fetches that `max_price` pays for, which are then waited
    for until the deadline ("all"). `max_price` is what the fetches may cost together;
    by default any price. If `explain`, the answer says what became of each feature,
    each fetch and the model, and what they took.
    """

    model: str | None = None
    budget_ms: float | None = None
    budget: float | None = None
    on_infeasible: OnInfeasible | None = None
    min_quality: float | None = None
    exact: bool | None = None
    threshold: float | None = None
    fetch: FetchMode | None = None
    max_price: float | None = None
    explain: bool | None = None


class PredictRequest(Terms, forbid_unknown_fields=True, kw_only=True):
    """Body of `POST /v1/predict` as JSON: one item and its terms.

    If the body is the item itself, the terms are in the query.
    """

    text: str | None = None
    record: Record | None = None
    image_base64: bytes | None = None  # decoded: msgspec reads base64 into bytes


class Fetched(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one fetch of a record.

    `ms` is the time from asking until the values came, in milliseconds, if they came.
    """

    state: FetchState
    ms: float | None = None


# "answered": the model that answered uses the feature. "computed": the feature was
# computed, but another set answered. "missing": the record lacks its columns. "late",
# "failed" and "not_sent": its fetch did not bring them; "failed" also if the feature
# itself failed. "not_planned": it did not fit into the budget, or would not help.
FeatureState = Literal[
    "answered", "computed", "missing", "late", "failed", "not_sent", "not_planned"
]


class Explained(msgspec.Struct, frozen=True):
    """What became of one part of the work on an item, and what it took.

    `part` is absent for a feature. `fetch` is the fetch that a feature needs, if any;
    if it needs several, one that did not bring its columns. `planned_us` is the
    predicted time of the part; of a fetch, how long the item could wait for it.
    `took_us` is the time that the part took, and `left_us` what was left of the budget
    when it began, without the reserve. The three are absent if the part did not begin,
    and the first and the last if the index does not count time.
    """

    name: str
    state: FeatureState | FetchState
    part: Literal["fetch", "model"] | UnsetType = UNSET
    fetch: str | UnsetType = UNSET
    planned_us: float | UnsetType = UNSET
    took_us: float | UnsetType = UNSET
    left_us: float | UnsetType = UNSET


class BestNext(msgspec.Struct, frozen=True):
    """The missing columns that would improve a record's answer most.

    With these columns, a plan with `expected_quality` would fit the budget. The columns
    complete one feature, or several features if no single feature would help.
    """

    columns: tuple[str, ...]
    expected_quality: float


class Answer(msgspec.Struct, kw_only=True, repr_omit_defaults=True):
    """Answer of `POST /v1/predict`.

    The answer has `budget_us`, `predicted_us` and `reserve_us` if the index counts
    seconds. If the index counts money, the answer has `budget` and `predicted`, in the
    index's currency. `predicted_us` is the time that a high share of answers, 99 of 100
    unless the project names another, keep to: `actual_us` is at most `predicted_us`. It
    is predicted for the plan that was chosen, or for the features that were computed if
    they were chosen one by one. `size_in_range` is present only if it is false.
    `unknown` names the record's columns with values that the index has never seen,
    `missing` counts the empty columns that the model reads, and `best_next` names
    columns that would improve the answer.

    If the index predicts numbers, the answer has `value` and `interval`; then `label`,
    `scores` and `expected_accuracy` are null.

    `threshold` names one of two classes, and the score from which the answer is this
    class. It is present in all answers of an index some of whose models need not choose
    the class with the larger score, and if the request has a threshold.

    If the model may stop early, `base_models` is its number of trees, lattices or
    linear terms, and `base_models_used` is the number of them that were evaluated.
    `score_bounds` then has the minimum and maximum possible score of each class, if the
    base models have bounds.

    `early` is present, and true, if the answer was sure before all features and base
    models of its plan were computed. `scores` are then the mean scores of items that
    are answered there. They are null if the index was built before polydom fitted them.
    If the request is `exact`, no model stops early.

    If the index has fetches, `fetched` says what became of each. `fetch_us` is how long
    the record waited for them; `queue_us` begins after it. `price` is the price of the
    calls that were made for this record, if there was one.

    If the request says `explain`, `explained` has what became of each feature and each
    fetch of the index, in the order of the index, and of the model.
    """

    label: str | None
    scores: dict[str, float] | None
    early: bool | UnsetType = UNSET
    threshold: dict[str, float] | UnsetType = UNSET
    value: float | UnsetType = UNSET
    interval: tuple[float, float] | UnsetType = UNSET
    score_bounds: dict[str, tuple[float, float]] | UnsetType = UNSET
    base_models_used: int | UnsetType = UNSET
    base_models: int | UnsetType = UNSET
    features: tuple[str, ...]
    expected_quality: float
    expected_accuracy: float | None
    reason: Reason | None
    budget_met: bool
    budget_us: float | UnsetType = UNSET
    predicted_us: float | UnsetType = UNSET
    reserve_us: float | UnsetType = UNSET
    budget: float | UnsetType = UNSET
    predicted: float | UnsetType = UNSET
    actual_us: float
    queue_us: float
    elapsed_us: float
    index_version: str
    size_in_range: bool | UnsetType = UNSET
    unknown: tuple[str, ...] | UnsetType = UNSET
    missing: int | UnsetType = UNSET
    best_next: BestNext | UnsetType = UNSET
    fetched: dict[str, Fetched] | UnsetType = UNSET
    fetch_us: float | UnsetType = UNSET
    price: float | UnsetType = UNSET
    explained: tuple[Explained, ...] | UnsetType = UNSET


class BatchTerms(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The terms of a batch, in the query or the body of `POST /v1/batch`.

    None means the default: bad items are skipped, models may stop early, and columns
    that records lack are fetched as planned. `max_price` is what the fetches of all
    items may cost together.
    """

    model: str | None = None
    budget_ms: float | None = None
    budget: float | None = None
    count: Annotated[int, msgspec.Meta(ge=0)] | None = None
    on_bad_item: Literal["skip", "stop"] | None = None
    label: str | None = None
    top: Annotated[int, msgspec.Meta(ge=1, le=10_000)] | None = None
    exact: bool | None = None
    fetch: FetchMode | None = None
    max_price: float | None = None


class BatchItem(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One item of a batch. In msgpack, `image_base64` holds the image's raw bytes."""

    text: str | None = None
    record: Record | None = None
    image_base64: bytes | None = None

    def ask(self) -> PredictRequest:
        """Return a request for this item alone, without terms."""
        return PredictRequest(
            text=self.text, record=self.record, image_base64=self.image_base64
        )


class BatchBody(BatchTerms, forbid_unknown_fields=True, kw_only=True):
    """Body of `POST /v1/batch` as one JSON object: all items, and the terms."""

    items: list[msgspec.Raw]


class Entry(Answer, kw_only=True):
    """The answer to one item of a batch. `item` is the item's number, from 0."""

    item: int


class ErrorEntry(msgspec.Struct, kw_only=True):
    """The error of one item of a batch, in place of its answer."""

    item: int
    error: str
    code: str


class Totals(msgspec.Struct, kw_only=True, omit_defaults=True, repr_omit_defaults=True):
    """The totals of a batch.

    `budget_us` and `spent_us` are present if the index counts seconds, `budget` and
    `spent` if it counts money. `expected_quality` and `expected_accuracy` are means
    over the answered items; the accuracy is null if the index predicts numbers. If an
    error ended the batch early, `error` and `code` describe it.
    """

    items: int
    errors: int
    expected_quality: float | None
    expected_accuracy: float | None
    budget_met: bool
    budget_us: float | None = None
    spent_us: float | None = None
    budget: float | None = None
    spent: float | None = None
    error: str | None = None
    code: str | None = None


encode = msgspec.json.Encoder().encode
encode_msgpack = msgspec.msgpack.Encoder().encode
