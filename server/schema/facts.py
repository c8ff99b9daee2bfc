"""What a server says of itself and of what it serves; structs of the wire."""

from typing import Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.items import Kind
from polydom.features.sizes import Size

# As of `models.trees.self_test`, which whoever only reads answers need not load.
Kernels = Literal["vector", "portable"]
Task = Literal["classes", "regression"]
RescalingState = Literal["rescaled", "not_yet", "off", "no_time", "no_samples"]


class Health(msgspec.Struct):
    """Answer of `/livez` and `/readyz`."""

    status: str


class ScheduleFacts(msgspec.Struct, frozen=True):
    """How far a set's model goes where it stops once the answer is sure.

    What that may change is promised for the whole plan: see `ExitFacts`.

    Attributes
    ----------
    base_models
        Trees, lattices or linear terms of the whole model.
    mean_used, p99_used
        Share of them that answer: the mean, and what 99 of 100 items need at most.
    mean_us, p99_us, whole_us
        Microseconds of the model where it is served: the mean, the high quantile that
        plans are priced by, and those of the whole; None where they are unknown.
    """

    base_models: int
    mean_used: float
    p99_used: float
    mean_us: float | None = None
    p99_us: float | None = None
    whole_us: float | None = None


class SetFacts(msgspec.Struct):
    """One feature set that the index may answer with.

    `cost` is its polynomial in the item's size, in the index's unit: 1, n, n^2 ..., or
    1, a, b, a^2, ab, b^2 ... where a size is of two numbers. `schedule` says how early
    its model stops; null where it never does.
    """

    features: tuple[str, ...]
    expected_quality: float
    expected_accuracy: float | None
    cost: list[float]
    schedule: ScheduleFacts | None = None


class ColumnFacts(msgspec.Struct):
    """One column of a record that is asked about, and what it holds.

    `words` are those known of a column of words, the most frequent first and at most
    100; absent where nothing of single training items is shown.
    """

    name: str
    kind: Literal["number", "words", "date", "text"]
    words: list[str] | UnsetType = UNSET


class FeatureFacts(msgspec.Struct):
    """One feature, how many numbers it gives, and the record's columns it reads."""

    name: str
    width: int
    columns: list[ColumnFacts] | UnsetType = UNSET


class ModelFacts(msgspec.Struct):
    """One name that is served; `version` is null while nothing answers for it.

    `reason` says why it does not.
    """

    name: str
    version: str | None
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    reason: str


class ModelsFacts(msgspec.Struct):
    """Answer of `GET /v1/models`; the first is served where no name is given.

    `budget_ms` is that of a request that names none, `max_budget_ms` the largest that
    one gets.
    """

    models: list[ModelFacts]
    budget_ms: float
    max_budget_ms: float


class MachineFacts(msgspec.Struct):
    """A kind of machine that costs were measured on, last on that day (UTC)."""

    processor: str
    cores: int
    day: str


class MeasuredFacts(msgspec.Struct):
    """Where an index's costs were measured, and what others took of it meanwhile.

    `lost` is a share of the time of what was timed, `others` are processors, null where
    the system did not tell, of `processors`.
    """

    busy: bool
    lost: float
    others: float | None
    processors: int
    machines: list[MachineFacts] = []


class PartFactor(NamedTuple):
    """A factor, and what it belongs to: `part` is of a "feature", "step" and so on."""

    part: str
    name: str
    factor: float


class Rescaling(msgspec.Struct, frozen=True):
    """Whether costs are this machine's, and by how much they differ from the build's.

    Attributes
    ----------
    state
        "rescaled"; or why not: "not_yet" timed, turned "off", "no_time" among what the
        index counts, "no_samples" whose times the index knows.
    overhead, models
        How many times as long as where the index was built they take here.
    steps, features
        The same by name.
    """

    state: RescalingState
    overhead: float = 1.0
    models: float = 1.0
    steps: dict[str, float] = msgspec.field(default_factory=dict)
    features: dict[str, float] = msgspec.field(default_factory=dict)

    def parts(self) -> list[PartFactor]:
        """List every factor with what it belongs to."""
        return [
            PartFactor("overhead", "", self.overhead),
            PartFactor("models", "", self.models),
            *(PartFactor("step", *named) for named in self.steps.items()),
            *(PartFactor("feature", *named) for named in self.features.items()),
        ]


class PlanExitFacts(msgspec.Struct, frozen=True):
    """How the exits of one set's plan did on the items that they were fitted on.

    Attributes
    ----------
    features
        The set, in computing order.
    early
        Share of items that were answered before the last feature.
    saved
        Share of the features' cost that this leaves out.
    changed
        Share of answers that differ from the whole plan's.
    """

    features: tuple[str, ...]
    early: float
    saved: float
    changed: float


class ExitFacts(msgspec.Struct, frozen=True):
    """What an index's exits promise, and what they save.

    Attributes
    ----------
    alpha
        Share of each plan's answers that its exits may change.
    confidence
        With which that holds for fresh items; None where nothing is promised of them.
    fitted, calibrated
        Items that the exits were fitted on, and calibrated on for the promise.
    early, saved
        Means of the plans'.
    plans
        One for each set.
    """

    alpha: float
    confidence: float | None
    fitted: int
    calibrated: int
    early: float
    saved: float
    plans: list[PlanExitFacts]


class IndexFacts(msgspec.Struct):
    """Answer of `GET /v1/index`: what is being served.

    `quality` is the best set's, by `measure`, and `accuracy` that set's; null where
    answers are numbers. Only then there is a `coverage`: the share of labels that lie
    in their answers' intervals. `quantile` is the share of items that keep to the
    costs; so many `samples` are shown.
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


class PartFacts(msgspec.Struct):
    """What one feature, or one step that features share, costs.

    Attributes
    ----------
    part, name
        Which it is.
    steps
        Names of the steps that a feature needs.
    cost
        Its polynomial, in the index's unit, on the machine that serves.
    factor
        How many times as long as where the index was built it takes there.
    fitted
        The polynomial in seconds that was fitted to what was measured; null where
        seconds are declared, or the index says nothing of it.
    covered
        Share of the measured times that are at most what that says; null likewise.
    measured
        Sizes and seconds that were measured, at most 480, evenly chosen; none in an
        index that kept none.
    """

    part: Literal["feature", "step"]
    name: str
    steps: list[str]
    cost: list[float]
    factor: float
    fitted: list[float] | None
    covered: float | None
    measured: list[tuple[Size, float]]


class CurvesFacts(msgspec.Struct):
    """Answer of `GET /v1/index/curves`: what features cost, by an item's size.

    The cost of a set is `overhead`, which is always paid, its features and all that
    these need, each once, and a constant for its model and those asked on the way.
    """

    version: str
    unit: str
    quantile: float
    overhead: list[float]
    parts: list[PartFacts]
