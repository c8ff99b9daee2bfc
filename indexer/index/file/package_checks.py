"""Checks of a package that was read from a file, before it is used."""

from typing import Any, get_args

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.costs.polynomials import costs_at
from polydom.features.errors import BadIndexFile
from polydom.features.items import Kind
from polydom.features.sizes import Size
from polydom.models.early_exit.model_part import ModelPart
from polydom.models.qwyc.promise import Promise
from polydom.models.scoring.prior import Mean
from polydom.models.scoring.regressor import Regressor

from ..built_facts import BuiltExits, BuiltPlan, MetaFacts, check_curves, exits_of
from ..fetches.stored_fetches import fault_of
from ..input_reference import check_inputs
from ..package import MOST_BITS, MOST_COLUMNS, Package, exit_costs
from ..quality import OF_CLASSES, OF_NUMBERS

Array = NDArray[Any]

ROUNDING = 1e-9  # tolerance of sums: their terms may be added in another order


def check_package(package: Package) -> None:
    """Raise BadIndexFile at the first contradiction between parts of a package."""
    count, m = len(package.masks), len(package.features)
    widths = [feature.width for feature in package.features]
    if m > MOST_BITS or package.kind not in get_args(Kind):
        raise BadIndexFile(f"damaged: {m} features of kind {package.kind!r}")
    names = {feature.name for feature in package.features}
    if len(names) < m:
        raise BadIndexFile("damaged: two features have the same name")
    if min(widths, default=1) < 1:
        raise BadIndexFile("damaged: a feature without columns")
    if sum(widths) > MOST_COLUMNS:
        raise BadIndexFile(f"damaged: more than {MOST_COLUMNS:,} columns")
    if any(feature >= m for order in package.orders for feature in order):
        raise BadIndexFile("damaged: a candidate has features that there are not")
    fields = (package.orders, package.fallbacks, package.models, package.model_s)
    if any(len(field) != count for field in fields) or 0 not in package.masks:
        raise BadIndexFile("damaged: its candidates are incomplete")
    pairs = zip(package.masks.tolist(), package.base_models, strict=True)
    if len({*pairs}) != count:
        raise BadIndexFile(
            "damaged: two candidates have the same features, and as many base models"
        )
    _check_networks(package)
    _check_fetches(package)
    _check_costs(package)
    _check_answers(package)
    _check_exits(package)
    _check_meta(package)
    owner = np.repeat(np.arange(m), widths)
    for row in range(count):
        _check_candidate(package, row)
        _check_model(package, row, owner)


def _check_networks(package: Package) -> None:
    networks = {network.facts.name: network for network in package.networks}
    for position in package.used:
        feature = package.features[position]
        if feature.stage is UNSET:
            continue
        network, piece = networks.get(feature.stage.network), feature.stage.piece
        if network is None or not 0 <= piece < len(network.models):
            raise BadIndexFile(f"damaged: feature {feature.name!r} is of no network")
        parts = [network.models[k] for k in network.needed([piece])]
        if network.tokenizer is not None:
            parts.append(network.tokenizer)
        if not all(map(len, parts)):
            raise BadIndexFile(
                f"damaged: what computes feature {feature.name!r} is not there"
            )


def _check_fetches(package: Package) -> None:
    fault = fault_of(package.fetches, package.features, package.arrivals, package.kind)
    if fault:
        raise BadIndexFile(f"damaged: {fault}")
    if package.fetches and _unit_of(package) != "s":
        raise BadIndexFile("damaged: fetches are only for budgets of seconds")
    if not np.isin(package.gains.pairs, package.masks).all():
        raise BadIndexFile("damaged: it has gains of sets that are no candidates")


def _unit_of(package: Package) -> str:
    return str(package.meta.get("unit", "s"))


def _check_costs(package: Package) -> None:
    costs, typical = package.costs, package.typical
    m, steps = len(package.features), len(costs.step_coefficients)
    rows = len(package.masks) if package.early_exits else 0
    whole_s, mean_s = package.whole_s, package.mean_s
    if len(whole_s) != rows or len(mean_s) != rows:
        raise BadIndexFile("damaged: its whole models' costs are not its candidates'")
    for row, exits in enumerate(package.early_exits):
        if exits is None and not mean_s[row] == whole_s[row] == package.model_s[row]:
            raise BadIndexFile(
                f"damaged: candidate {row}'s model never stops early, and costs less so"
            )
    if package.overhead_s != costs.overhead[0]:
        raise BadIndexFile("damaged: its overhead is not that of its cost curves")
    if len(costs.needs) != m:
        raise BadIndexFile("damaged: its cost curves are not its features'")
    if steps > MOST_BITS or any(len({*needs}) < len(needs) for needs in costs.needs):
        raise BadIndexFile("damaged: a feature needs a step twice, or too many")
    if len(typical) not in (0, m + steps) or not ((typical > 0) & (typical <= 1)).all():
        raise BadIndexFile("damaged: its typical times are not its curves'")


def _check_answers(package: Package) -> None:
    count, measure, numeric = len(package.masks), package.measure, package.numeric
    labels, intervals = package.labels, package.intervals
    accuracies = package.accuracies
    if measure not in (OF_CLASSES | OF_NUMBERS):
        raise BadIndexFile(f"damaged: its quality is an unknown measure, {measure!r}")
    if len({*labels}) != len(labels):
        raise BadIndexFile("damaged: its class names are not distinct")
    if bool(labels) == numeric:
        raise BadIndexFile(f"damaged: class names and the measure {measure!r} disagree")
    has_accuracies = not numeric and measure != "accuracy"
    if len(accuracies) != (count if has_accuracies else 0):
        raise BadIndexFile("damaged: its accuracies are not its candidates'")
    if not ((accuracies >= 0) & (accuracies <= 1)).all():
        raise BadIndexFile("damaged: an accuracy outside [0, 1]")
    if intervals.shape != (count if numeric else 0, 2):
        raise BadIndexFile("damaged: its intervals are not its candidates'")
    _check_confusion_costs(package.meta.get("confusion_costs"), len(labels))
    if not (intervals[:, 0] <= intervals[:, 1]).all():
        raise BadIndexFile("damaged: an interval ends before it begins")
    if numeric and "coverage" not in package.meta:
        raise BadIndexFile("damaged: its intervals do not say how much they cover")
    if numeric and (package.margins or package.early_exits):
        raise BadIndexFile("damaged: numbers have no classes to be sure of")


def _check_confusion_costs(costs: list[list[float]] | None, classes: int) -> None:
    if not costs:
        return
    shaped = len(costs) == classes and all(len(row) == classes for row in costs)
    if not (shaped and 0 < max(map(max, costs)) < np.inf):
        raise BadIndexFile("damaged: costs of answers are not its classes'")


def _check_exits(package: Package) -> None:
    never = tuple((np.inf,) * len(own) for own in package.fallbacks)
    margins = package.margins or never
    for row, own in enumerate(margins):
        # the empty set's model is never sure, and the last one answers in any case
        if np.inf not in own[:1] or np.inf not in own[-1:]:
            raise BadIndexFile(
                f"damaged: candidate {row} exits before its first feature or at its end"
            )
        if isinstance(package.models[row], ModelPart) and min(own) < np.inf:
            raise BadIndexFile(
                f"damaged: candidate {row} exits after some features, and its model is "
                "a part of another"
            )
    for row, ends in enumerate(package.ends):
        passed = zip(ends[:-1], margins[row], strict=False)
        if any(share and margin == np.inf for share, margin in passed):
            raise BadIndexFile(
                f"damaged: items end where candidate {row} always goes on"
            )


def _check_meta(package: Package) -> None:
    facts, count = MetaFacts.read(package.meta), len(package.masks)
    errors = facts.numbers.mae if facts.numbers else []
    for told in (facts.observed or [], facts.refitted, errors):
        if len(told) not in (0, count):
            raise BadIndexFile(
                f"damaged: it tells of {len(told)} candidates, and has {count}"
            )
    if facts.inputs is not None:
        widths = {feature.name: feature.width for feature in package.features}
        check_inputs(facts.inputs, widths, package.labels)
    exits = exits_of(package.meta)
    if exits is None:
        return
    rows = [plan.row for plan in exits.plans]
    if len({*rows}) < len(rows) or max(rows, default=0) >= count:
        raise BadIndexFile("damaged: the exits told of are not its candidates'")
    classes = len(package.labels)
    told_of = {len(exits.alphas), *(len(plan.classes) for plan in exits.plans)}
    if not told_of <= {0, classes} or (exits.sides != "both" and classes != 2):
        raise BadIndexFile("damaged: the promises told of are not its classes'")
    for plan in exits.plans:
        _check_plan(package, plan)
    for one in package.early_exits:
        if one is not None:
            _check_promise(one.schedule.promise, one.classifier.classes, exits)


def _check_promise(promise: Promise | None, classes: Array, exits: BuiltExits) -> None:
    """Raise BadIndexFile if a schedule promises less than the index's `exits`."""
    if promise is None:
        if exits.confidence is not None:
            raise BadIndexFile("damaged: a schedule lacks the promise that is told of")
        return
    least = exits.confidence or 0.0
    told = np.full(len(promise.bounds), exits.alpha)
    if promise.by_class and exits.alphas:
        told = np.array(exits.alphas)[classes]
    for bound, alpha in zip(promise.bounds, told.tolist(), strict=True):
        if bound > alpha * (1 + ROUNDING) or promise.confidence < least:
            raise BadIndexFile(
                f"damaged: a schedule may change {bound:g} of the answers with "
                f"confidence {promise.confidence:g}; all are told to do {alpha:g} "
                f"with {least:g}"
            )


def _check_plan(package: Package, plan: BuiltPlan) -> None:
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
    early = 1 - package.ends[row][-1] if package.ends else plan.early
    if abs(early - plan.early) > ROUNDING:
        raise BadIndexFile(
            f"damaged: {plan.early:g} of candidate {row}'s items are told to end "
            f"early, and it is {early:g}"
        )


def _check_candidate(package: Package, row: int) -> None:
    order, fallbacks = package.orders[row], package.fallbacks[row]
    if len({*order}) != len(order) or sum(1 << feature for feature in order) != int(
        package.masks[row]
    ):
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


def _check_model(package: Package, row: int, owner: Array) -> None:
    """Check a candidate's model; `owner` (width,) has the feature of each column."""
    model, classes = package.models[row], package.models[row].classes
    known = (classes >= 0) & (classes < (len(package.labels) or 1))
    if classes.dtype.kind not in "iu" or not known.all():
        raise BadIndexFile(f"damaged: candidate {row}'s model answers no known class")
    if isinstance(model, Regressor | Mean) != package.numeric:
        raise BadIndexFile(
            f"damaged: candidate {row}'s model answers with a "
            f"{'class' if package.numeric else 'number'}"
        )
    if len(np.unique(model.columns)) < len(model.columns):
        raise BadIndexFile(f"damaged: candidate {row}'s model reads a column twice")
    if not np.isin(owner[model.columns], package.orders[row]).all():
        raise BadIndexFile(f"damaged: candidate {row}'s model reads other features")


def check_choice(
    package: Package, coefficients: Array, qualities: Array, largest: Size
) -> None:
    """Raise BadIndexFile if costs or qualities of candidates contradict the package.

    `coefficients` (C, T) and `qualities` (C,) are the index's. A candidate must not
    cost less than the sum of its features, its model and the models at its exits; the
    model of the empty set may be free. All costs must be finite at the `largest` size.
    Along a plan, the quality of the fallbacks must not fall.
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
        least[:, 0] += exit_costs(package.margins, package.fallbacks, package.checked_s)
        whole = costs.of((1 << len(package.features)) - 1)
        ends = costs_at(np.vstack([coefficients, whole]), largest)
    if not np.isfinite(ends).all():
        raise BadIndexFile("damaged: a cost is infinite at its largest size")
    if not (coefficients >= least * (1 - ROUNDING)).all():
        raise BadIndexFile("damaged: a candidate costs less than its parts")
    gains = qualities.tolist()
    for row, fallbacks in enumerate(package.fallbacks):
        answered = [gains[other] for other in fallbacks]
        if answered != sorted(answered) or answered[-1] < gains[row]:
            raise BadIndexFile(f"damaged: candidate {row}'s fallbacks are no better")
