"""What a server says of itself and of what it serves; structs of the wire."""

from typing import Literal, NamedTuple

import msgspec

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


class FeatureFacts(msgspec.Struct):
    """One feature, and how many columns it gives."""

    name: str
    width: int


class ModelFacts(msgspec.Struct):
    """One name that is served; `version` is null while nothing answers for it.

    `reason` says why it does not.
    """

    name: str
    version: str | None
    state: Literal["READY", "LOADING", "UNAVAILABLE"]
    reason: str


class ModelsFacts(msgspec.Struct):
    """Answer of `GET /v1/models`; the first is served where no name is given."""

    models: list[ModelFacts]


class MeasuredFacts(msgspec.Struct):
    """What others took of the machine while an index's costs were measured.

    `lost` is a share of the time of what was timed, `others` are processors, null where
    the system did not tell, of `processors`.
    """

    busy: bool
    lost: float
    others: float | None
    processors: int


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
    in their answers' intervals.
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
    measured: MeasuredFacts | None = None
