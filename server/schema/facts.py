"""Structures of responses that describe a server and its models."""

from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.items import Kind
from polydom.features.sizes import Size

# As in `models.trees.self_test`, repeated here so that clients need not import that.
Kernels = Literal["vector", "portable"]
Task = Literal["classes", "regression"]
RescalingState = Literal["rescaled", "not_yet", "off", "no_time", "no_samples"]


class Health(msgspec.Struct):
    """Answer of `/livez` and `/readyz`."""

    status: str


class ScheduleFacts(msgspec.Struct, frozen=True):
    """How much of a model that may stop early is evaluated, and how long that takes.

    The guarantee about changed answers is in `ExitFacts`, because it holds for whole
    plans.
    """

    base_models: int  # Number of trees, lattices or linear terms in the whole model
    # Share of base models that are evaluated: mean and 99th percentile
    mean_used: float
    p99_used: float
    # Microseconds of the model on the serving machine: mean, the high quantile that
    # plans count, and time of all base models; None if unknown
    mean_us: float | None = None
    p99_us: float | None = None
    whole_us: float | None = None


class SetFacts(msgspec.Struct):
    """One feature set that the index may answer with.

    `cost` has the coefficients of a polynomial in the item's size, in the index's unit.
    Its terms are 1, n, n^2, ... for a size n, or 1, a, b, a^2, ab, b^2, ... for a size
    of two numbers, a and b. `schedule` is null if the set's model never stops early.
    `base_models` is present if only so many base models of the set's model surely fit
    into that cost; the set is then listed again with all of them. `threshold` names one
    of two classes and the score from which it is answered; it is null in all sets of an
    index that always answers the class with the larger score.
    """

    features: tuple[str, ...]
    expected_quality: float
    expected_accuracy: float | None
    cost: list[float]
    schedule: ScheduleFacts | None = None
    base_models: int | UnsetType = UNSET
    threshold: dict[str, float] | None = None


class ColumnFacts(msgspec.Struct):
    """One column of a record, and the kind of its values.

    `words` are the 100 most frequent values of a column of words. `words` is absent in
    other columns, and if the caller may not see training items.
    """

    name: str
    kind: Literal["number", "words", "date", "text"]
    words: list[str] | UnsetType = UNSET


class FeatureFacts(msgspec.Struct):
    """A feature: the number of its outputs, and the record's columns that it reads.

    `columns` is absent if the items are not records.
    """

    name: str
    width: int
    columns: list[ColumnFacts] | UnsetType = UNSET


class FetchFacts(msgspec.Struct):
    """A call that brings columns of a record while a request waits, by a key.

    `features` are the features that need it, and `price` is that of one key, by unit.
    50, 90 and 99 % of the build's calls had come within `p50_ms`, `p90_ms` and
    `p99_ms`, which are null if fewer ever came. `never` is the share of calls that
    never came.
    """

    name: str
    key: list[str]
    columns: list[str]
    features: list[str]
    price: dict[str, float]
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    never: float


class WaitFacts(msgspec.Struct):
    """What can be expected of a budget in an index with fetches.

    `came` has the share of requests for which each fetch has come within the budget, in
    the order of `fetches`. `quality` is the expected quality of answers with what has
    come.
    """

    budget_ms: float
    came: list[float]
    quality: float


class ModelFacts(msgspec.Struct):
    """One served model; `version` is null if no index is loaded for it.

    `reason` says why the model does not answer; it is empty if the model is ready.
    """

    name: str
    version: str | None
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    reason: str


class ModelsFacts(msgspec.Struct):
    """Answer of `GET /v1/models`: all models, the default model first.

    `budget_ms` is the budget of a request that names no budget. `max_budget_ms` is the
    largest budget that a request can have.
    """

    models: list[ModelFacts]
    budget_ms: float
    max_budget_ms: float


class MachineFacts(msgspec.Struct):
    """A type of machine that measured costs, and the last day of measuring (UTC)."""

    processor: str
    cores: int
    day: str


class MeasuredFacts(msgspec.Struct):
    """The machines that measured an index's costs, and their load by other programs.

    `lost` is the share of the measured time that other programs took. `busy` is true if
    `lost` exceeds 2 %. `others` is the mean number of processors, out of `processors`,
    that other programs used; null if unknown.
    """

    busy: bool
    lost: float
    others: float | None
    processors: int
    machines: list[MachineFacts] = []


class PartFactor(NamedTuple):
    """The cost factor of one part: "feature", "step", "models" (all), or "overhead"."""

    part: str
    name: str
    factor: float


class Rescaling(msgspec.Struct, frozen=True):
    """Factors that convert costs in the index to costs on the serving machine."""

    # "rescaled", or why all factors are 1: "not_yet" (the warm-up goes on), "off" (by
    # the operator), "no_time" (costs count no time), "no_samples" (with known times)
    state: RescalingState
    # Factors of the overhead of a plan, and of models
    overhead: float = 1.0
    models: float = 1.0
    # Factors of steps and of features, by name
    steps: dict[str, float] = msgspec.field(default_factory=dict)
    features: dict[str, float] = msgspec.field(default_factory=dict)

    def parts(self) -> list[PartFactor]:
        """Return the factors of the overhead, models, steps and features."""
        return [
            PartFactor("overhead", "", self.overhead),
            PartFactor("models", "", self.models),
            *(PartFactor("step", *named) for named in self.steps.items()),
            *(PartFactor("feature", *named) for named in self.features.items()),
        ]


class ClassExitFacts(msgspec.Struct, frozen=True):
    """What is promised of the items that a whole plan answers with one class."""

    label: str
    bound: float  # Largest share of these items whose answer early exits change
    # Calibration items that the whole plan answers with the class, and changed ones
    items: int
    changed: int


class ForecastFacts(msgspec.Struct, frozen=True):
    """How good class scores are: log loss, calibration error, and Brier score."""

    log_loss: float
    calibration_error: float  # Expected calibration error, in [0, 1]
    brier: float | None


class ScoreFacts(msgspec.Struct, frozen=True):
    """How good class scores are for `items` held-out items that a plan answers early.

    `early` is of the early answers, `whole` of the whole plan's answers to these items.
    """

    items: int
    early: ForecastFacts
    whole: ForecastFacts


class PlanExitFacts(msgspec.Struct, frozen=True):
    """The effect of one plan's early exits on the items that they were fitted on."""

    features: tuple[str, ...]  # Features of the plan's set in the order of computation
    early: float  # Share of items answered before the last feature
    saved: float  # Share of the features' cost that early exits save
    changed: float  # Share of answers that differ from those of the whole plan
    # Promises by class; empty if nothing is promised, or only for all answers together
    classes: list[ClassExitFacts] = []
    # Class scores of early answers; None if there are none, or they were not measured
    scores: ScoreFacts | None = None


class ExitFacts(msgspec.Struct, frozen=True):
    """The guarantee of an index's early exits, and the share of cost that they save."""

    # Largest share of a class's answers that exits of a plan may change. In indexes of
    # older releases, which have no `alphas`: the same of all answers of a plan
    alpha: float
    # Confidence that `alpha` holds for new items; None without that guarantee
    confidence: float | None
    # Number of items that fitted the exits, and of items that calibrated the guarantee
    fitted: int
    calibrated: int
    # Means over the plans of `PlanExitFacts.early` and `saved`
    early: float
    saved: float
    plans: list[PlanExitFacts]  # Results for each set's plan
    # Share of each class's answers that may change, by label
    alphas: dict[str, float] = {}
    # Classes that may be answered early, if there are two: "both", "negative" for the
    # first only, "positive" for the second only
    sides: Literal["both", "negative", "positive"] = "both"


class IndexFacts(msgspec.Struct):
    """Answer of `GET /v1/index`: the facts about a served index.

    `quality` is the quality of the best feature set, as `measure` defines it.
    `accuracy` is the accuracy of the same set, or null if answers are numbers.
    `coverage` is the share of true values inside the answers' intervals, or null if
    answers are classes. `drift` is the ratio of measured to predicted times. `quantile`
    is the share of items whose true cost is at most the predicted cost. `samples` is
    the number of sample items that the caller may see. `fetches` are the calls that
    bring columns of records, and `waits` say what can be expected of a few budgets;
    both are absent if requests bring all columns.
    """

    version: str
    kind: Kind
    unit: str
    task: Task
    measure: str
    labels: tuple[str, ...]
    size: tuple[str, ...]
    smallest_size: Size
    largest_size: Size
    quality: float
    accuracy: float | None
    coverage: float | None
    features: list[FeatureFacts]
    sets: list[SetFacts]
    rescaling: Rescaling
    drift: float
    kernels: Kernels
    exits: ExitFacts | None
    quantile: float
    samples: int
    measured: MeasuredFacts | None = None
    fetches: list[FetchFacts] | UnsetType = UNSET
    waits: list[WaitFacts] | UnsetType = UNSET


class PartFacts(msgspec.Struct):
    """The cost of one feature, or of one step that several features share."""

    part: Literal["feature", "step"]
    name: str
    steps: list[str]  # Names of the steps that the feature needs
    # Cost polynomial on the serving machine, in the index's unit
    cost: list[float]
    # Cost on the serving machine divided by the cost on the index's machine
    factor: float
    # Polynomial in seconds fitted to the measured times; null if seconds are declared,
    # or if the index does not store the polynomial
    fitted: list[float] | None
    # Share of the measured times that the polynomial covers; null if `fitted` is null
    covered: float | None
    # Measured times as (size, seconds), at most 480, evenly spaced; empty if the index
    # stores none
    measured: list[tuple[Size, float]]


class CurvesFacts(msgspec.Struct):
    """Answer of `GET /v1/index/curves`: the features' costs by the size of an item.

    The cost of a feature set is the sum of `overhead`, the costs of its features, the
    costs of their steps (each step once), and a constant for the set's models.
    """

    version: str
    unit: str
    quantile: float
    overhead: list[float]
    parts: list[PartFacts]


class ShiftFacts(msgspec.Struct):
    """Present items beside the build's, in one column or one number of the size."""

    name: str
    items: int  # Number of present items that were sampled
    # Population stability index above `chance`; null if too few items have the number
    psi: float | None
    # Value that the index exceeds by chance in a twentieth of all cases
    chance: float
    # Names of the bins, the first for missing values; and shares of the build's items
    # and of the present items
    bins: list[str]
    built: list[float]
    now: list[float]


class InputsFacts(msgspec.Struct):
    """Answer of `GET /v1/index/inputs`: how present items differ from the build's.

    `items` were sampled lately by this process, and `built_items` are the build's. Both
    are 0 if the index does not say how its items are distributed, or if the server does
    not compare. The `columns` with the largest differences come first. `answers`
    compares present answers with the build's labels.
    """

    version: str
    items: int
    built_items: int
    columns: list[ShiftFacts]
    answers: ShiftFacts | None
    # Mean share of a text's words that the build did not learn: of present texts, and
    # of the build's held-out texts; null if unknown
    unseen_words: float | None = None
    built_unseen_words: float | None = None
