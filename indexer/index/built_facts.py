"""What a build says of itself in an index's `meta`: plain facts, checked at load.

Whoever shows them relies on that. Any of them may lack: an index of an older release,
or one that was made by hand, says less. Keys that are unknown here are passed over.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, UnsetType

from polydom.features.errors import BadIndexFile

from .column_facts import ColumnFacts

LARGEST = 1e30  # of times, costs and other amounts: no true one is near it
MOST = 10**15  # of what is counted
Number = Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)]
Amount = Annotated[float, msgspec.Meta(ge=0, le=LARGEST)]
Above0 = Annotated[float, msgspec.Meta(gt=0, le=LARGEST)]
PAIR = tuple[Above0, Above0]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Inside = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST)]
Counted = Annotated[int, msgspec.Meta(ge=1, le=MOST)]
Quality = Annotated[float, msgspec.Meta(ge=-LARGEST, le=1)]  # R2 has no least value


class BuiltSchedule(msgspec.Struct):
    """How far a model goes that may stop early, as shares of its base models."""

    base_models: Counted
    mean: Share
    p99: Share
    mean_us: Amount | None = None
    p99_us: Amount | None = None
    whole_us: Amount | None = None


class BuiltPlan(msgspec.Struct):
    """How one candidate's exits did on the items that they were fitted on."""

    row: Count
    early: Share
    saved: Share
    changed: Share
    schedule: BuiltSchedule | None = None


class BuiltExits(msgspec.Struct):
    """What early exits promise, and what they save."""

    alpha: Annotated[float, msgspec.Meta(ge=0, lt=1)]
    plans: list[BuiltPlan]
    fitted: Count
    calibrated: Count
    confidence: Inside | None = None


class BuiltTimes(msgspec.Struct):
    """What a curve was fitted to: one list for each number that sizes are of."""

    sizes: list[list[Above0]]
    seconds: list[Amount]


class BuiltCurve(msgspec.Struct):
    """What one feature or step takes.

    `measured` is None where seconds are declared, absent in older files. `points` are
    a size, the median time, the high quantile and what was fitted.
    """

    name: str
    coefficients: Annotated[list[Amount], msgspec.Meta(min_length=1)]
    covered: Share
    measured: BuiltTimes | UnsetType | None = UNSET
    points: list[tuple[Any, Amount, Amount, Amount]] = []


class BuiltMachine(msgspec.Struct):
    """A machine that costs were measured on."""

    processor: str
    cores: Count
    day: str


class BuiltLoad(msgspec.Struct):
    """How busy the machines were meanwhile."""

    busy: bool
    lost: Amount
    others: Amount | None
    processors: Count
    machines: list[BuiltMachine] = []


class BuiltNumbers(msgspec.Struct):
    """What numbers the labels are, and each candidate's mean absolute error."""

    mean: Number
    deviation: Amount
    mae: list[Amount]


class BuiltLearner(msgspec.Struct):
    """What models were trained by."""

    name: str


class BuiltViolations(msgspec.Struct):
    """Where more features hurt."""

    count: Count
    pairs: Count
    largest: Amount
    p95: Amount


class BuiltSearch(msgspec.Struct):
    """Which sets of features were tried; `alpha` may be infinite."""

    method: str
    sets: Count
    expanded: Count
    alpha: Annotated[float, msgspec.Meta(ge=0)] | UnsetType = UNSET
    tolerance: Amount | UnsetType = UNSET
    complete: bool | UnsetType = UNSET
    sequences: Count | UnsetType = UNSET
    violations: BuiltViolations | None = None


class BuiltRace(msgspec.Struct):
    """A race between learners; each one's curve is of examples, scores and seconds."""

    strategy: str
    learner: str
    score: Number
    seconds: Amount
    full_s: float
    curves: dict[str, list[tuple[Count, float, Amount]]]
    low: Count = 0
    high: Count = 0


class BuiltTesting(msgspec.Struct):
    """What a project's [search] asked for."""

    budgets: tuple[Amount, Amount] | None = None
    folds: Count | None = None
    trainings: Count | None = None


class BuiltGaps(msgspec.Struct):
    """How often records of the build lacked something, as shares of them.

    Attributes
    ----------
    columns
        Of each column that was ever empty: where it was.
    features
        Of each feature of which ever all columns were empty: where they were.
    """

    columns: dict[str, Share]
    features: dict[str, Share]


class BuiltPace(msgspec.Struct):
    """Seconds of each sample: see `MachineTimes`, which checks them further."""

    overhead: list[float]
    step: list[list[float]]
    feature: list[list[float]]
    model: list[list[float]]


class MetaFacts(msgspec.Struct):
    """What there is in a package's `meta`, by its keys.

    `exits` and `selection` are empty, or what `exits_of` and `races_of` read.
    """

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

    @classmethod
    def read(cls, meta: Mapping[str, Any]) -> "MetaFacts":
        """Take what is known out of `meta`.

        Raises
        ------
        BadIndexFile
            If it is of another form, or a number out of its range.
        """
        facts: MetaFacts = _convert(meta, cls, "meta")
        if facts.weights and (facts.weights.keys() == {"s"}) != (facts.unit == "s"):
            raise BadIndexFile(
                f"damaged: its unit is {facts.unit!r}, but what counts is "
                f"{', '.join(sorted(facts.weights))}"
            )
        exits_of(meta)
        for race in races_of(meta):
            if not race.curves.get(race.learner):
                raise BadIndexFile(
                    f"damaged: {race.learner!r} won a race that it was not in"
                )
        return facts


def exits_of(meta: Mapping[str, Any]) -> BuiltExits | None:
    """Read what is said of early exits; None where there are none, or why is said."""
    exits = meta.get("exits") or {}
    _convert(exits.get("lacking", ""), str, "meta.exits.lacking")
    if not exits.keys() & set(BuiltExits.__struct_fields__):
        return None
    told: BuiltExits = _convert(exits, BuiltExits, "meta.exits")
    return told


def gaps_of(meta: Mapping[str, Any]) -> BuiltGaps | None:
    """Read what was empty in the records of a build; None where that is not known."""
    gaps = meta.get("gaps")
    return None if gaps is None else _convert(gaps, BuiltGaps, "meta.gaps")


def races_of(meta: Mapping[str, Any]) -> list[BuiltRace]:
    """Read the races that chose learners; none where the project named one."""
    race = meta.get("selection") or {}
    levels = race.get("levels", [race]) if race else []
    races: list[BuiltRace] = _convert(levels, list[BuiltRace], "meta.selection")
    return races


def check_curves(
    curves: Sequence[BuiltCurve], names: Sequence[str], steps: int, pairs: bool
) -> None:
    """Refuse curves, where there are any, that are not those of an index.

    `names` are its features'; sizes are of two numbers with `pairs`.
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
