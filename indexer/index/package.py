"""What a server needs beside the look-up: features, models, and what each costs."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import msgspec
import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.costs.polynomials import costs_at
from polydom.features.errors import BadFeature, BadIndexFile, BadModel
from polydom.features.extract import Extractor
from polydom.features.items import Kind
from polydom.features.sizes import Size
from polydom.features.term_scores import NOTHING, TermWeights
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.early_exit.stored_schedule import load_early_exit
from polydom.models.load import load_model
from polydom.models.qwyc.schedule import Promise
from polydom.models.scoring.mean import Mean
from polydom.models.scoring.model import Model
from polydom.models.scoring.regressor import Regressor

from .built_facts import (
    LARGEST,
    BuiltExits,
    BuiltPlan,
    MetaFacts,
    check_curves,
    exits_of,
)
from .quality import OF_CLASSES, OF_NUMBERS, Task, task_of
from .stored_features import StoredFeature, load_extractor

Array = NDArray[Any]
Orders = tuple[tuple[int, ...], ...]  # of features, or of candidates, by candidate

MOST_COLUMNS = 2**24  # of a full row, which a server makes for every request
ROUNDING = 1e-9  # of sums, which may be added up in another order
MOST_BITS = 62  # features or steps, which kernels keep as bits of an int64
NEVER = float(np.finfo(np.float64).max)  # a margin in a file, where all is finite


@dataclass(frozen=True, slots=True, eq=False)
class Package:
    """Everything that turns a look-up's row into an answer; immutable.

    Row r of every per-candidate field belongs to row r of the index. The empty set
    is always one of the rows.

    Attributes
    ----------
    kind
        What the items are: "image", "text" or "record".
    labels
        Class names; models answer with positions in them. Empty where answers are
        numbers: then each model has the one class 0, whose score is the value.
    features
        The m features, in the order of the bits of `masks`.
    costs
        Cost curves of features and of the steps they share.
    masks : (C,) uint64
        Feature set of each candidate.
    orders
        Feature positions of each candidate's set in the order to compute them.
    fallbacks
        `fallbacks[r][k]` is the most accurate row whose set lies within the first k
        features of `orders[r]`, for k = 0 .. len(orders[r]).
    models
        The model of each candidate; it reads the full row of all features.
    model_s : (C,) float64
        Seconds that each model takes to answer, where it stops early if it may.
    overhead_s
        Seconds that every plan costs, whatever it computes.
    meta
        Plain data for people and for warming up: see docs/reference/file.md.
    margins
        `margins[r][k]`: the margin of its best class over the second beyond which the
        model of `fallbacks[r][k]` answers after k features, infinite where work always
        goes on. Empty in an index without exits.
    early_exits
        What follows the schedule of each candidate's model; None where it has none.
        Empty in an index without schedules.
    whole_s, mean_s : (C,) float64
        Seconds that evaluating each model whole takes, and that it takes on average
        where it stops early if it may; empty without schedules.
    ends
        `ends[r][k]`: share of the items that plan r answers after k features. Empty in
        an index without exits and schedules, and where that is not known.
    typical : (m + s,) float64
        Median share of its cost curve that each feature, then each step, takes, in
        (0, 1]; empty where it is not known.
    learned
        What the features learned that were, by name.
    measure
        What quality is here: a name of `quality.OF_CLASSES` or `quality.OF_NUMBERS`.
    accuracies : (C,) float64
        Expected accuracy of each candidate where quality is another measure of
        classes; else empty.
    intervals : (C, 2) float64
        Between which residuals, label less value, the label of an answer is expected;
        empty where answers are classes. `meta` says with what chance, its "coverage".
    """

    kind: Kind
    labels: tuple[str, ...]
    features: tuple[StoredFeature, ...]
    costs: CostTable
    masks: NDArray[np.uint64]
    orders: Orders
    fallbacks: Orders
    models: tuple[Model, ...]
    model_s: NDArray[np.float64]
    overhead_s: float
    meta: dict[str, Any]
    margins: tuple[tuple[float, ...], ...] = ()
    typical: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    early_exits: tuple[EarlyExit | MarginExit | None, ...] = ()
    whole_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    mean_s: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    ends: tuple[tuple[float, ...], ...] = ()
    learned: Mapping[str, TermWeights] = field(default_factory=dict)
    measure: str = "accuracy"
    accuracies: NDArray[np.float64] = field(default_factory=lambda: np.empty(0))
    intervals: NDArray[np.float64] = field(default_factory=lambda: np.empty((0, 2)))

    @property
    def numeric(self) -> bool:
        """Whether answers are numbers, not classes."""
        return self.task == "regression"

    @property
    def task(self) -> Task:
        """What its answers are."""
        return task_of(self.measure)

    @property
    def coverage(self) -> float | None:
        """Share of labels in their answers' intervals; None where these are classes."""
        return float(self.meta["coverage"]) if self.numeric else None

    @property
    def confusion_costs(self) -> NDArray[np.float64] | None:
        """(K, K) what each answer costs by the right class; None where nothing does."""
        costs = self.meta.get("confusion_costs")
        if self.measure != "cost" or not costs:
            return None
        return np.array(costs, np.float64)

    @property
    def checked_s(self) -> NDArray[np.float64]:
        """(C,) seconds of each model evaluated whole, as at checkpoints."""
        return self.whole_s if len(self.whole_s) else self.model_s

    def names(self, row: int) -> tuple[str, ...]:
        """Return the names of the features in `row`'s set, in computing order."""
        return tuple(self.features[f].name for f in self.orders[row])

    def extractor(self, files: Sequence[Path] = ()) -> Extractor:
        """Find the code of every feature, and check it: see `load_extractor`.

        Raises
        ------
        BadIndexFile
            If the costs are those of features that need other steps.
        """
        extractor = load_extractor(self.features, files, self.learned)
        steps = len(extractor.steps), len(self.costs.step_coefficients)
        if extractor.needs != self.costs.needs or steps[0] != steps[1]:
            raise BadIndexFile("damaged: its features need other steps than it says")
        return extractor


class PackageFacts(msgspec.Struct, forbid_unknown_fields=True):
    """The part of a package that goes into a file's header."""

    kind: Kind
    labels: list[str]
    features: list[StoredFeature]
    needs: list[list[int]]
    model_kinds: list[str]
    overhead_s: float
    meta: dict[str, Any]
    measure: str = "accuracy"


def pack(package: Package) -> tuple[dict[str, Any], dict[str, Array]]:
    """Split a package into plain data and named arrays, for a file."""
    facts = PackageFacts(
        package.kind,
        list(package.labels),
        list(package.features),
        [list(steps) for steps in package.costs.needs],
        [model.kind for model in package.models],
        package.overhead_s,
        package.meta,
        package.measure,
    )
    arrays: dict[str, Array] = {
        "costs/features": package.costs.feature_coefficients,
        "costs/steps": package.costs.step_coefficients,
        "costs/overhead": package.costs.overhead,
        "masks": package.masks,
        "orders": _pad(package.orders, -1, np.int32),
        "fallbacks": _pad(package.fallbacks, -1, np.int32),
        "model_s": package.model_s,
        "costs/typical": package.typical,
    }
    if package.margins:
        finite = [np.minimum(own, NEVER) for own in package.margins]
        arrays["margins"] = _pad(finite, NEVER, np.float64)
    if package.ends:
        arrays["ends"] = _pad(package.ends, 0.0, np.float64)
    if len(package.accuracies):
        arrays["accuracies"] = package.accuracies
    if len(package.intervals):
        arrays["intervals"] = package.intervals
    for row, model in enumerate(package.models):
        for name, array in model.arrays().items():
            arrays[f"models/{row}/{name}"] = array
    for position, feature in enumerate(package.features):
        if feature.learned is not UNSET:
            for name, array in package.learned[feature.name].arrays().items():
                arrays[f"features/{position}/{name}"] = array
    if package.early_exits:
        arrays |= {"whole_s": package.whole_s, "mean_s": package.mean_s}
    for row, exits in enumerate(package.early_exits):
        if exits is not None:
            for name, array in exits.arrays().items():
                arrays[f"schedules/{row}/{name}"] = array
    plain: dict[str, Any] = msgspec.to_builtins(facts, builtin_types=(bytes,))
    return plain, arrays


def unpack(plain: Any, arrays: Mapping[str, Array]) -> Package:
    """Put a package together again, checking what the numbers mean.

    Raises
    ------
    BadIndexFile
        If sets, orders, fallbacks or costs contradict each other, or a model's arrays
        would lead its evaluator astray.
    """
    try:
        facts = msgspec.convert(plain, PackageFacts)
        costs = CostTable(
            _take_costs(arrays, "costs/features", 2),
            _take_costs(arrays, "costs/steps", 2),
            tuple(tuple(steps) for steps in facts.needs),
            _take_costs(arrays, "costs/overhead", 1),
        )
    except (msgspec.ValidationError, ValueError) as error:
        raise BadIndexFile(f"damaged: {error}") from error
    masks = _take(arrays, "masks", "<u8", 1)
    if len(facts.model_kinds) != len(masks):
        raise BadIndexFile("damaged: its candidates are incomplete")
    models = _models(facts, arrays)
    early_exits = _early_exits(models, arrays)
    package = Package(
        kind=facts.kind,
        labels=tuple(facts.labels),
        features=tuple(facts.features),
        costs=costs,
        masks=masks,
        orders=_rows(arrays, "orders", len(masks)),
        fallbacks=_rows(arrays, "fallbacks", len(masks)),
        models=models,
        model_s=_take_costs(arrays, "model_s", 1),
        overhead_s=facts.overhead_s,
        meta=facts.meta,
        margins=_margins(arrays, len(masks)),
        ends=_ends(arrays, len(masks)),
        typical=_take(arrays, "costs/typical", "<f8", 1)
        if "costs/typical" in arrays
        else np.empty(0),
        early_exits=early_exits,
        whole_s=_take_costs(arrays, "whole_s", 1) if early_exits else np.empty(0),
        mean_s=_take_costs(arrays, "mean_s", 1) if early_exits else np.empty(0),
        learned=_learned(facts.features, arrays),
        measure=facts.measure,
        accuracies=_take(arrays, "accuracies", "<f8", 1)
        if "accuracies" in arrays
        else np.empty(0),
        intervals=_take(arrays, "intervals", "<f8", 2)
        if "intervals" in arrays
        else np.empty((0, 2)),
    )
    _check(package)
    return package


def _models(facts: PackageFacts, arrays: Mapping[str, Array]) -> tuple[Model, ...]:
    own = _by_position("models", arrays, len(facts.model_kinds))
    width = sum(feature.width for feature in facts.features)
    models = []
    for row, kind in enumerate(facts.model_kinds):
        try:
            models.append(load_model(kind, own.get(row, {}), width=width))
        except BadModel as error:
            raise BadIndexFile(f"damaged: models/{row}: {error}") from error
    return tuple(models)


def _early_exits(
    models: Sequence[Model], arrays: Mapping[str, Array]
) -> tuple[EarlyExit | MarginExit | None, ...]:
    own = _by_position("schedules", arrays, len(models))
    made: list[EarlyExit | MarginExit | None] = [None] * len(models)
    for row, parts in own.items():
        try:
            made[row] = load_early_exit(models[row], parts)
        except BadModel as error:
            raise BadIndexFile(f"damaged: schedules/{row}: {error}") from error
    return tuple(made) if own else ()


def _learned(
    features: Sequence[StoredFeature], arrays: Mapping[str, Array]
) -> dict[str, TermWeights]:
    """Take what learned features learned, by name, and check it."""
    own = _by_position("features", arrays, len(features), "feature")
    learned: dict[str, TermWeights] = {}
    for position, feature in enumerate(features):
        parts, facts = own.get(position, {}), feature.learned
        if facts is UNSET and not parts:
            continue
        if facts is UNSET or parts.keys() != NOTHING.arrays().keys():
            raise BadIndexFile(f"damaged: the arrays of features/{position} are others")
        weights = learned[feature.name] = TermWeights(**parts)
        try:
            weights.check()
        except BadFeature as error:
            raise BadIndexFile(f"damaged: features/{position}: {error}") from error
        if weights.weights.shape != (facts.terms, feature.width):
            raise BadIndexFile(f"damaged: features/{position} is of another shape")
    return learned


def _by_position(
    noun: str, arrays: Mapping[str, Array], count: int, owner: str = "model"
) -> dict[int, dict[str, Array]]:
    """Arrays named `noun/row/part`, by row and part; BadIndexFile for other rows."""
    own: dict[int, dict[str, Array]] = {}
    for name, array in arrays.items():
        if name.startswith(f"{noun}/"):
            _, row, part = name.split("/", 2)
            if not row.isdecimal() or int(row) >= count:
                raise BadIndexFile(f"damaged: array {name!r} belongs to no {owner}")
            own.setdefault(int(row), {})[part] = array
    return own


def _take(arrays: Mapping[str, Array], name: str, dtype: str, axes: int) -> Array:
    array = arrays.get(name)
    if array is None or array.dtype.str != dtype or array.ndim != axes:
        raise BadIndexFile(f"damaged: array {name!r} is missing or of another form")
    if not np.isfinite(array).all():
        raise BadIndexFile(f"damaged: array {name!r} holds numbers that are not finite")
    return array


def _take_costs(arrays: Mapping[str, Array], name: str, axes: int) -> Array:
    costs = _take(arrays, name, "<f8", axes)
    if (costs < 0).any():
        raise BadIndexFile(f"damaged: array {name!r} holds a cost below zero")
    if (costs > LARGEST).any():
        raise BadIndexFile(f"damaged: array {name!r} holds a cost beyond {LARGEST:g}")
    return costs


def _pad(rows: Sequence[Any], filler: float, dtype: type) -> Array:
    shape = len(rows), max(map(len, rows), default=0)
    padded: Array = np.full(shape, filler, dtype)
    for row, values in enumerate(rows):
        padded[row, : len(values)] = values
    return padded


def _rows(arrays: Mapping[str, Array], name: str, count: int) -> Orders:
    padded = _take(arrays, name, "<i4", 2)
    if len(padded) != count or padded.shape[1] > MOST_BITS + 1:
        raise BadIndexFile(f"damaged: array {name!r} is not its candidates'")
    return tuple(tuple(v for v in row if v >= 0) for row in padded.tolist())


def _margins(arrays: Mapping[str, Array], count: int) -> tuple[tuple[float, ...], ...]:
    if "margins" not in arrays:
        return ()
    padded = _by_checkpoint(arrays, "margins", count)
    return _unpad(np.where(padded < NEVER, padded, np.inf), arrays)


def _ends(arrays: Mapping[str, Array], count: int) -> tuple[tuple[float, ...], ...]:
    if "ends" not in arrays:
        return ()
    ends = _unpad(_by_checkpoint(arrays, "ends", count), arrays)
    if any(abs(sum(own) - 1) > 1e-9 for own in ends):
        raise BadIndexFile("damaged: shares of items that end early are no shares")
    return ends


def _by_checkpoint(arrays: Mapping[str, Array], name: str, count: int) -> Array:
    """Numbers (C, m + 1) of checkpoints, none below zero."""
    padded = _take(arrays, name, "<f8", 2)
    if len(padded) != count or padded.shape[1] != arrays["fallbacks"].shape[1]:
        raise BadIndexFile("damaged: its exits are not its candidates'")
    if (padded < 0).any():
        raise BadIndexFile(f"damaged: array {name!r} holds a number below zero")
    return padded


def _unpad(padded: Array, arrays: Mapping[str, Array]) -> tuple[tuple[float, ...], ...]:
    lengths = (arrays["fallbacks"] >= 0).sum(axis=1)
    return tuple(
        tuple(row[:length].tolist())
        for row, length in zip(padded, lengths.tolist(), strict=True)
    )


def _check(package: Package) -> None:
    count, m = len(package.masks), len(package.features)
    if not 0 <= m <= MOST_BITS or package.kind not in get_args(Kind):
        raise BadIndexFile(f"damaged: {m} features of kind {package.kind!r}")
    if len({feature.name for feature in package.features}) < m:
        raise BadIndexFile("damaged: two features have the same name")
    if any(feature.width < 1 for feature in package.features):
        raise BadIndexFile("damaged: a feature without columns")
    if sum(feature.width for feature in package.features) > MOST_COLUMNS:
        raise BadIndexFile(f"damaged: more than {MOST_COLUMNS:,} columns")
    if any(feature >= m for order in package.orders for feature in order):
        raise BadIndexFile("damaged: a candidate has features that there are not")
    fields = (package.orders, package.fallbacks, package.models, package.model_s)
    if any(len(field) != count for field in fields) or 0 not in package.masks:
        raise BadIndexFile("damaged: its candidates are incomplete")
    if len(np.unique(package.masks)) != count:
        raise BadIndexFile("damaged: two candidates have the same features")
    _check_model_costs(package)
    if package.overhead_s != package.costs.overhead[0]:
        raise BadIndexFile("damaged: its overhead is not that of its cost curves")
    if len(package.costs.needs) != m:
        raise BadIndexFile("damaged: its cost curves are not its features'")
    typical, steps = package.typical, len(package.costs.step_coefficients)
    if steps > MOST_BITS or any(len(set(n)) < len(n) for n in package.costs.needs):
        raise BadIndexFile("damaged: a feature needs a step twice, or too many")
    if len(typical) not in (0, m + steps) or not ((typical > 0) & (typical <= 1)).all():
        raise BadIndexFile("damaged: its typical times are not its curves'")
    _check_answers(package)
    _check_exits(package)
    _check_told(package)
    owner = np.repeat(np.arange(m), [feature.width for feature in package.features])
    for row in range(count):
        _check_row(package, row, owner)


def _check_model_costs(package: Package) -> None:
    """Check what models cost whole and on average, where some stop early."""
    count = len(package.masks) if package.early_exits else 0
    whole_s, mean_s = package.whole_s, package.mean_s
    if len(whole_s) != count or len(mean_s) != count:
        raise BadIndexFile("damaged: its whole models' costs are not its candidates'")
    for row, exits in enumerate(package.early_exits):
        if exits is None and not mean_s[row] == whole_s[row] == package.model_s[row]:
            raise BadIndexFile(
                f"damaged: candidate {row}'s model never stops early, and costs less so"
            )


def _check_exits(package: Package) -> None:
    """Check where plans may answer early, and how many items do."""
    never = tuple((np.inf,) * len(own) for own in package.fallbacks)
    margins = package.margins or never
    for row, own in enumerate(margins):
        # the empty set's model is never sure, and the last answers in any case
        if np.inf not in own[:1] or np.inf not in own[-1:]:
            raise BadIndexFile(
                f"damaged: candidate {row} exits before its first feature or at its end"
            )
    for row, ends in enumerate(package.ends):
        passed = zip(ends[:-1], margins[row], strict=False)
        if any(share and margin == np.inf for share, margin in passed):
            raise BadIndexFile(
                f"damaged: items end where candidate {row} always goes on"
            )


def _check_told(package: Package) -> None:
    """Check what the build says of candidates: it is of these, and not of others."""
    facts, count = MetaFacts.read(package.meta), len(package.masks)
    errors = facts.numbers.mae if facts.numbers else []
    for told in (facts.observed or [], facts.refitted, errors):
        if len(told) not in (0, count):
            raise BadIndexFile(
                f"damaged: it tells of {len(told)} candidates, and has {count}"
            )
    exits = exits_of(package.meta)
    if exits is None:
        return
    rows = [plan.row for plan in exits.plans]
    if len({*rows}) < len(rows) or max(rows, default=0) >= count:
        raise BadIndexFile("damaged: the exits told of are not its candidates'")
    for plan in exits.plans:
        _check_plan(package, plan)
    for one in package.early_exits:
        if one is not None:
            _check_promise(one.schedule.promise, exits)


def _check_promise(promise: Promise | None, exits: BuiltExits) -> None:
    """Check that a schedule promises no less than is told of the whole index."""
    if promise is None:
        if exits.confidence is not None:
            raise BadIndexFile("damaged: a schedule lacks the promise that is told of")
        return
    least = exits.confidence or 0.0
    if promise.bound > exits.alpha * (1 + ROUNDING) or promise.confidence < least:
        raise BadIndexFile(
            f"damaged: a schedule may change {promise.bound:g} of the answers with "
            f"confidence {promise.confidence:g}; all are told to do {exits.alpha:g} "
            f"with {least:g}"
        )


def _check_plan(package: Package, plan: BuiltPlan) -> None:
    """Check that a plan has the exits that are told of it."""
    row = plan.row
    exits = package.early_exits[row] if package.early_exits else None
    size = exits.size if exits else 0
    if plan.schedule is not None:
        if plan.schedule.base_models != size:
            raise BadIndexFile(
                f"damaged: it tells of a schedule for {plan.schedule.base_models} base "
                f"models of candidate {row}, which has one for {size}"
            )
        used = min(plan.schedule.mean, plan.schedule.p99) * size
        if used < 1 - ROUNDING:
            raise BadIndexFile(f"damaged: {used:g} base models are told to be used")
    margins = package.margins[row] if package.margins else ()
    if plan.early and not np.isfinite(margins).any():
        raise BadIndexFile(f"damaged: candidate {row} has none of the exits told of")
    if package.ends and abs(1 - package.ends[row][-1] - plan.early) > ROUNDING:
        raise BadIndexFile(
            f"damaged: {plan.early:g} of candidate {row}'s items are told to end "
            f"early, and it is {1 - package.ends[row][-1]:g}"
        )


def _check_costs(costs: list[list[float]] | None, classes: int) -> None:
    """Check what wrong answers cost, where that is said."""
    if not costs:
        return
    shaped = len(costs) == classes and all(len(row) == classes for row in costs)
    if not (shaped and 0 < max(map(max, costs)) < np.inf):
        raise BadIndexFile("damaged: costs of answers are not its classes'")


def _check_answers(package: Package) -> None:
    """Check what is said of answers, classes or numbers, and how good they are."""
    count, measure = len(package.masks), package.measure
    if measure not in (OF_CLASSES | OF_NUMBERS):
        raise BadIndexFile(f"damaged: its quality is an unknown measure, {measure!r}")
    labels, accuracies, intervals = (
        package.labels,
        package.accuracies,
        package.intervals,
    )
    if len(set(labels)) != len(labels):
        raise BadIndexFile("damaged: its class names are not distinct")
    if bool(labels) == package.numeric:
        raise BadIndexFile(f"damaged: class names and the measure {measure!r} disagree")
    is_other = not package.numeric and measure != "accuracy"
    if len(accuracies) != (count if is_other else 0):
        raise BadIndexFile("damaged: its accuracies are not its candidates'")
    if not ((accuracies >= 0) & (accuracies <= 1)).all():
        raise BadIndexFile("damaged: an accuracy outside [0, 1]")
    if intervals.shape != (count if package.numeric else 0, 2):
        raise BadIndexFile("damaged: its intervals are not its candidates'")
    _check_costs(package.meta.get("confusion_costs"), len(labels))
    if not (intervals[:, 0] <= intervals[:, 1]).all():
        raise BadIndexFile("damaged: an interval ends before it begins")
    if package.numeric and "coverage" not in package.meta:
        raise BadIndexFile("damaged: its intervals do not say how much they cover")
    if package.numeric and (package.margins or package.early_exits):
        raise BadIndexFile("damaged: numbers have no classes to be sure of")


def check_choice(
    package: Package, coefficients: Array, qualities: Array, largest: Size
) -> None:
    """Refuse candidates, (C, T) and (C,), that promise what their plans cannot hold.

    A candidate costs at least what its features and its model do, and the models that
    are asked at its exits; the empty set's may be free. At the `largest` size all that
    can be computed costs a finite amount. What answers after another feature is no less
    accurate.

    Raises
    ------
    BadIndexFile
        If one does not.
    """
    costs = package.costs
    if len(package.masks) != len(coefficients):
        raise BadIndexFile("damaged: its package has other candidates")
    names = [feature.name for feature in package.features]
    curves, steps = MetaFacts.read(package.meta).curves, len(costs.step_coefficients)
    check_curves(curves, names, steps, isinstance(largest, tuple))
    if len(costs.overhead) != coefficients.shape[1]:
        raise BadIndexFile("damaged: its package has costs of another form")
    with np.errstate(over="ignore", invalid="ignore"):
        least = costs.of_many(package.masks)
        least[:, 0] += np.where(package.masks > 0, package.model_s, 0.0)
        least[:, 0] += _checks_s(package)
        whole = costs.of((1 << len(package.features)) - 1)
        ends = costs_at(np.vstack([coefficients, whole]), largest)
    if not np.isfinite(ends).all():
        raise BadIndexFile("damaged: a cost is infinite at its largest size")
    if not (coefficients >= least * (1 - ROUNDING)).all():
        raise BadIndexFile("damaged: a candidate costs less than its parts")
    gains = qualities.tolist()
    for row, fallbacks in enumerate(package.fallbacks):
        reached = [gains[other] for other in fallbacks]
        if reached != sorted(reached) or reached[-1] < gains[row]:
            raise BadIndexFile(f"damaged: candidate {row}'s fallbacks are no better")


def _checks_s(package: Package) -> Array:
    """Cost (C,) of the models that plans ask at their exits."""
    checks_s = np.zeros(len(package.masks))
    for row, margins in enumerate(package.margins):
        for other, margin in zip(package.fallbacks[row], margins, strict=True):
            if margin < np.inf:
                checks_s[row] += package.checked_s[other]
    return checks_s


def _check_row(package: Package, row: int, owner: Array) -> None:
    """Check one candidate; `owner` (width,) is the feature of each column."""
    order, fallbacks = package.orders[row], package.fallbacks[row]
    mask = int(package.masks[row])
    if len(set(order)) != len(order) or sum(1 << f for f in order) != mask:
        raise BadIndexFile(f"damaged: candidate {row}'s order is not its feature set")
    if len(fallbacks) != len(order) + 1:
        raise BadIndexFile(f"damaged: candidate {row}'s fallbacks are incomplete")
    done = 0
    for k, other in enumerate(fallbacks):
        done |= 1 << order[k - 1] if k else 0
        if other >= len(package.masks) or int(package.masks[other]) & ~done:
            raise BadIndexFile(
                f"damaged: candidate {row} falls back on what is not done"
            )
    classes = package.models[row].classes
    if (
        classes.dtype.kind not in "iu"
        or not ((classes >= 0) & (classes < (len(package.labels) or 1))).all()
    ):
        raise BadIndexFile(f"damaged: candidate {row}'s model answers no known class")
    if isinstance(package.models[row], Regressor | Mean) != package.numeric:
        what = "class" if package.numeric else "number"
        raise BadIndexFile(f"damaged: candidate {row}'s model answers with a {what}")
    columns = package.models[row].columns
    if len(np.unique(columns)) < len(columns):
        raise BadIndexFile(f"damaged: candidate {row}'s model reads a column twice")
    if not np.isin(owner[columns], order).all():
        raise BadIndexFile(f"damaged: candidate {row}'s model reads other features")
