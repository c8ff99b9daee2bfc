"""Facts about a build in an index's `meta`, checked when the index is loaded.

Any fact may be missing: older releases, and indexes made by hand, stored fewer facts.
Unknown keys are ignored.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.errors import BadIndexFile

from .column_facts import ColumnFacts
from .input_reference import BuiltInputs
from .quality import AlphaOf

LARGEST = 1e30  # largest time, cost or other amount; no true one is near it
MOST = 10**15  # largest count
Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Above0 = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Inside = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Counted = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Quality = Annotated[float, msgspec.Meta(ge=-LARGEST, le=1)]  # R2 has no least value


class BuiltSchedule(msgspec.Struct):
    """Share of its base models that a model evaluates: mean and 0.99 quantile.

    The fields in microseconds are times of an answer: the mean, a high quantile, and
    the time of all base models.
    """

    base_models: Counted
    mean: Share
    p99: Share
    mean_us: Amount | None = None
    p99_us: Amount | None = None
    whole_us: Amount | None = None


class BuiltClass(msgspec.Struct):
    """What is promised of the items that a plan answers with one class.

    Early exits change at most the share `bound` of such items. Of `items` calibration
    items, `changed` did change.
    """

    bound: Share
    items: Count
    changed: Count


class BuiltForecast(msgspec.Struct):
    """Log loss and expected calibration error of class scores on held-out items.

    `brier` is the Brier score, where it is known.
    """

    log_loss: Amount
    error: Share
    brier: Amount | None = None


class BuiltScores(msgspec.Struct):
    """How good class scores are for items that a plan answers early.

    `early` is of the early answers, `whole` of the whole plan's answers to the same
    `items`.
    """

    items: Counted
    early: BuiltForecast
    whole: BuiltForecast


class BuiltPlan(msgspec.Struct):
    """Effects of one candidate's early exits on the items to which they were fitted.

    `call` is the cost of a whole call without exits, and `gain` what the best exits
    save of it in the mean, in the index's unit. If they save too little, the plan has
    none. Older files do not have the two.
    """

    row: Count
    early: Share
    saved: Share
    changed: Share
    schedule: BuiltSchedule | None = None
    classes: list[BuiltClass] = []  # (K,): In the order of the labels; [] if unknown
    # None if the plan has no early answers, or their scores were not measured
    scores: BuiltScores | None = None
    call: Amount | None = None
    gain: Number | None = None


class BuiltExits(msgspec.Struct):
    """The promise of an index's early exits, and their effects on each candidate.

    `alphas` (K,) has a share for each class, in the order of the labels; `alpha` is the
    largest of them. Indexes of older releases have only `alpha`, a share of all
    answers. `unlabelled` is the number of calibration items without labels.
    """

    alpha: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    plans: list[BuiltPlan]
    fitted: Count
    calibrated: Count
    confidence: Inside | None = None
    unlabelled: Count = 0
    alphas: list[Annotated[float, msgspec.Meta(ge=0, lt=1)]] = []
    sides: Literal["both", "negative", "positive"] = "both"


class BuiltTimes(msgspec.Struct):
    """Measured seconds by item size.

    `sizes` has one list of numbers, or two lists if a size is two numbers.
    """

    sizes: list[list[Above0]]
    seconds: list[Amount]


class BuiltCurve(msgspec.Struct):
    """Cost curve of one feature or step.

    `covered` is the share of measured times that are not above the curve. `measured` is
    None if the seconds are declared; older files do not have it. Each of `points` has
    four values: a size, and at this size the median seconds, their high quantile, and
    the seconds of the curve. `waits` is the share of its time that the feature or step
    waits, as for a network; older files do not have it.
    """

    name: str
    coefficients: Annotated[list[Amount], msgspec.Meta(min_length=1)]
    covered: Share
    measured: BuiltTimes | UnsetType | None = UNSET
    points: list[tuple[Any, Amount, Amount, Amount]] = []
    waits: Share = 0.0


class BuiltMachine(msgspec.Struct):
    """A machine that costs were measured on."""

    processor: str
    cores: Count
    day: str


class BuiltLoad(msgspec.Struct):
    """Load of the machines by other programs while costs were measured."""

    busy: bool
    lost: Amount
    others: Amount | None
    processors: Count
    machines: list[BuiltMachine] = []


class BuiltNumbers(msgspec.Struct):
    """Mean and standard deviation of numeric labels, and candidates' mean errors."""

    mean: Number
    deviation: Amount
    mae: list[Amount]


class BuiltLearner(msgspec.Struct):
    """The learner that trained the models."""

    name: str


class BuiltViolations(msgspec.Struct):
    """Violations: pairs of feature sets in which the larger set had a lower quality."""

    count: Count
    pairs: Count
    largest: Amount
    p95: Amount


class BuiltSearch(msgspec.Struct):
    """Results of the search for feature sets; `alpha` is infinite if unproven.

    `alpha_of` says whether alpha is a factor of gains over the prior or of qualities,
    as in older files.
    """

    method: str
    sets: Count
    expanded: Count
    alpha: Annotated[float, msgspec.Meta(ge=0)] | UnsetType = UNSET
    alpha_of: AlphaOf = "accuracy"
    tolerance: Amount | UnsetType = UNSET
    complete: bool | UnsetType = UNSET
    sequences: Count | UnsetType = UNSET
    violations: BuiltViolations | None = None


class BuiltRace(msgspec.Struct):
    """A race of learners; points of `curves` are (amount in `unit`, score, seconds)."""

    strategy: str
    learner: str
    score: Number
    seconds: Amount
    curves: dict[str, list[tuple[Count, float, Amount]]]
    unit: str = "examples"
    low: Count = 0
    high: Count = 0


class BuiltTesting(msgspec.Struct):
    """Settings from the section [search] of a project."""

    budgets: tuple[Amount, Amount] | None = None
    folds: Count | None = None
    trainings: Count | None = None


class BuiltGaps(msgspec.Struct):
    """How often the build's records lacked columns, as shares of all records."""

    # Share of records without the column, for each column that was ever empty
    columns: dict[str, Share]
    # Share of records without any column of a feature, if any record had none
    features: dict[str, Share]


class BuiltCalibration(msgspec.Struct):
    """The calibration of a candidate's class scores.

    `form` is None without one. `before` is None if the model's own scores are no
    probabilities, or too few items are known.
    """

    form: Literal["prior", "temperature", "slopes", "offsets", "isotonic"] | None = None
    before: BuiltForecast | None = None
    after: BuiltForecast | None = None


class BuiltShare(msgspec.Struct):
    """A share of held-out items, and the ends of its interval of 95 %."""

    share: Share
    low: Share
    high: Share


class BuiltFound(msgspec.Struct):
    """What a candidate's threshold finds among held-out items.

    `items` is the weight of the items of the class, of which `recall` is the share that
    is found. `precision` is the share of the items found that are of the class. A share
    of nothing is None.
    """

    items: Amount
    recall: BuiltShare | None = None
    precision: BuiltShare | None = None


class BuiltPace(msgspec.Struct):
    """Median seconds of each kind of work on each sample item; see `MachineTimes`."""

    overhead: list[float]
    step: list[list[float]]
    feature: list[list[float]]
    model: list[list[float]]


class MetaFacts(msgspec.Struct):
    """The facts in a package's `meta`; each field has the name of its key."""

    unit: Annotated[str, msgspec.Meta(min_length=1)] = "s"
    weights: dict[str, Amount] = {}
    quantile: Inside = 0.99
    samples: list[Any] = []
    exits: dict[str, Any] = {}
    coverage: Inside = 0.9
    confusion_costs: list[list[Amount]] = []
    curves: list[BuiltCurve] = []
    measured: BuiltLoad | None = None
    pace: BuiltPace | None = None
    gaps: BuiltGaps | None = None
    inputs: BuiltInputs | None = None
    learner: BuiltLearner | UnsetType = UNSET
    selection: dict[str, Any] | None = None
    search: BuiltSearch | UnsetType = UNSET
    testing: BuiltTesting | UnsetType = UNSET
    numbers: BuiltNumbers | None = None
    items: Count = 0
    tested: Counted = 1
    skipped: list[tuple[str, str]] = []
    columns: list[ColumnFacts] = []
    warnings: list[str] = []
    remarks: dict[str, Count] = {}
    observed: Annotated[list[Quality], msgspec.Meta(min_length=1)] | UnsetType = UNSET
    refitted: list[bool] = []
    # What a threshold was chosen for: `least`, `confidence` and `beta`
    goal: dict[str, Amount] = {}
    positive: Literal[0, 1] = 1  # The class of two that thresholds are about
    # Of each candidate; None for one without raw scores
    calibration: list[BuiltCalibration | None] = []
    found: list[BuiltFound | None] = []  # Of each candidate with a threshold

    @classmethod
    def read(cls, meta: Mapping[str, Any]) -> "MetaFacts":
        """Read the known facts of `meta`; raise BadIndexFile if one is not valid."""
        facts: MetaFacts = _convert(meta, cls, "meta")
        if facts.weights and (facts.weights.keys() == {"s"}) != (facts.unit == "s"):
            raise BadIndexFile(
                f"damaged: its unit is {facts.unit!r}, but what counts is "
                f"{', '.join(sorted(facts.weights))}"
            )
        exits_of(meta)
        if (
            facts.search
            and facts.search.sequences is UNSET
            and UNSET in (facts.search.alpha, facts.search.tolerance)
        ):
            raise BadIndexFile("damaged: its search has no alpha or no tolerance")
        for race in races_of(meta):
            if not race.curves.get(race.learner):
                raise BadIndexFile(
                    f"damaged: {race.learner!r} won a race that it was not in"
                )
        return facts


def exits_of(meta: Mapping[str, Any]) -> BuiltExits | None:
    """Read the facts of early exits from a `meta`; None if the index has no exits."""
    exits = meta.get("exits") or {}
    _convert(exits.get("lacking", ""), str, "meta.exits.lacking")
    if not exits.keys() & set(BuiltExits.__struct_fields__):
        return None
    told: BuiltExits = _convert(exits, BuiltExits, "meta.exits")
    return told


def gaps_of(meta: Mapping[str, Any]) -> BuiltGaps | None:
    """Read how often columns were empty from a `meta`; None if it is not known."""
    gaps = meta.get("gaps")
    return None if gaps is None else _convert(gaps, BuiltGaps, "meta.gaps")


def races_of(meta: Mapping[str, Any]) -> list[BuiltRace]:
    """Read the races of learners from a `meta`; [] if the project named a learner."""
    race = meta.get("selection") or {}
    levels = race.get("levels", [race]) if race else []
    races: list[BuiltRace] = _convert(levels, list[BuiltRace], "meta.selection")
    return races


def check_curves(
    curves: Sequence[BuiltCurve], names: Sequence[str], steps: int, pairs: bool
) -> None:
    """Raise BadIndexFile unless there are curves of the features and the steps.

    The features are `names`, and `steps` is the number of steps. `pairs` is True if
    sizes are two numbers.
    """
    if not curves:
        return
    named = [curve.name for curve in curves[: len(names)]]
    if named != list(names) or len(curves) != len(names) + steps:
        raise BadIndexFile("damaged: the curves told of are not its features'")
    for curve in curves:
        found = curve.measured or BuiltTimes([[]] * (1 + pairs), [])
        counts = {len(found.seconds), *map(len, found.sizes)}
        sizes = [size for size, *_ in curve.points]
        _convert(
            sizes, list[tuple[Above0, Above0]] if pairs else list[Above0], "meta.curves"
        )
        if len(found.sizes) != 1 + pairs or len(counts) > 1:
            raise BadIndexFile(
                f"damaged: the times told of {curve.name!r} are not of its sizes"
            )


def _convert(plain: Any, form: Any, where: str) -> Any:
    try:
        return msgspec.convert(plain, form)
    except msgspec.ValidationError as error:
        raise BadIndexFile(f"damaged: {where}: {error}") from error
