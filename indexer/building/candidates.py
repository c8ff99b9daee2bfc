"""The candidates of an index: the feature sets that it keeps, and their plans."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.polynomial.polynomial import polyval
from numpy.typing import NDArray

from polydom.features.costs.machine import Measured
from polydom.features.costs.polynomials import cost_at, costs_at
from polydom.features.sizes import Size, read_size
from polydom.features.wording import listed

from ..index.package import Orders
from .costs.cost_curves import cost_curves
from .costs.measure_costs import MeasuredCosts
from .fetched import Fetched
from .prepare import Prepared
from .training.quality import residual_interval
from .training.search.lucky_sets import level_lucky_sets
from .training.search.search_sets import SearchedSets
from .training.search.selection_bias import expected_qualities
from .training.train_sets import Trainer

log = logging.getLogger("polydom")

Floats = NDArray[np.float64]

LONG_S = 0.1  # larger budgets may be meant in milliseconds


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """The C feature sets that an index keeps, each with a feature order and a cost."""

    masks: list[int]  # The sets, ascending
    orders: Orders  # Features of each set in the order of computing
    fallbacks: Orders  # Candidates that answer after each of these features
    # (C,) float64: Costs of the models that were searched with, in units of the budget
    model_costs: Floats
    # Quality of every trained set, by mask, less what is luck beside a larger set
    qualities: Mapping[int, float]
    measured: Measured  # Machines that the models were timed on, and how busy they were
    # The smallest and the largest size that the index answers for
    sizes: tuple[Size, Size]


class TimedSets(NamedTuple):
    """Costs of C trained sets, whose models were timed."""

    # (C,) float64: Costs of the models in units of the budget
    model_costs: Floats
    curves: Floats  # (C, T) float64: Cost polynomials of features and models together
    measured: Measured  # Machines that timed the models, and how busy they were


def time_candidates(
    searched: SearchedSets, data: Prepared, trainer: Trainer, costs: MeasuredCosts
) -> TimedSets:
    """Time the models of all searched sets, or read their times from the cache."""
    sets = searched.sets
    models = {mask: partial(trainer.model, mask) for mask in sets}
    key, values = trainer.task.key, data.table.values
    model_costs, measured = costs.of_models(key, models, values)
    curves = cost_curves(costs.table, np.array(sets, np.uint64), model_costs)
    return TimedSets(model_costs, curves, measured)


def kept_rows(
    searched: SearchedSets, curves: Floats, data: Prepared, fetched: Fetched
) -> NDArray[np.int64]:
    """Return the positions of the searched sets that an index keeps.

    `curves` (C, T) are the cost polynomials of `searched.sets`.
    """
    search = data.project.search
    sizes, lacked = search.bounds or sizes_of(data), may_lack(data)
    parts = [*dict.fromkeys([*fetched.readers, *lacked])]
    return searched.keep(curves, sizes, search.budget_range, parts, fetched.withheld)


def keep_candidates(
    searched: SearchedSets,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    fetched: Fetched,
) -> Candidates:
    """Time the models of all searched sets, and choose the sets for the index.

    Dominated sets are dropped, unless they answer for what has come of the fetches.
    Each remaining set gets an order in which its features are computed.
    """
    sets, search = searched.sets, data.project.search
    model_costs, curves, measured = time_candidates(searched, data, trainer, costs)
    sizes, budgets = search.bounds or sizes_of(data), search.budget_range
    low, high = sizes
    if not (budgets is None or isinstance(low, tuple) or isinstance(high, tuple)):
        in_seconds = set(data.project.costs.weights) == {"s"}
        say_odd_budgets(budgets, curves[1:], (low, high), in_seconds=in_seconds)
        costs_of_each = {
            one.name: cost_at(costs.table.of(1 << place).tolist(), low)
            for place, one in enumerate(data.table.features.stored)
        }
        say_slow_features(costs_of_each, budgets[1], in_seconds=in_seconds)
    searched = _levelled(searched, costs_at(curves, high), data, trainer)
    kept = kept_rows(searched, curves, data, fetched)
    masks = [sets[row] for row in kept]
    orders, fallbacks = searched.order(masks, costs.of_set)
    return Candidates(
        masks,
        orders,
        fallbacks,
        model_costs[kept],
        searched.qualities,
        measured,
        sizes,
    )


def _levelled(
    searched: SearchedSets, costs: Floats, data: Prepared, trainer: Trainer
) -> SearchedSets:
    """Take from sets' qualities what is luck beside a set that costs hardly more.

    `costs` (C,) are those of `searched.sets` at the largest size.
    """
    seconds_worth = data.project.costs.weights.get("s", 0.0)
    negligible = data.project.search.negligible_us * 1e-6 * seconds_worth
    if negligible == 0.0:
        return searched
    sets, tested = searched.sets, trainer.tested
    qualities = level_lucky_sets(
        sets,
        np.array([searched.qualities[mask] for mask in sets]),
        costs,
        trainer.parts,
        data.table.dataset.groups[tested],
        trainer.task.weights_of(tested),
        negligible,
    )
    levelled = zip(sets, qualities.tolist(), strict=True)
    return replace(searched, qualities={**searched.qualities, **dict(levelled)})


def sizes_of(data: Prepared) -> tuple[Size, Size]:
    """Return the smallest and the largest size of the items."""
    sizes = data.table.dataset.sizes
    low, high = sizes.min(axis=0).tolist(), sizes.max(axis=0).tolist()
    return read_size(low), read_size(high)


def may_lack(data: Prepared) -> list[int]:
    """Return groups of features, as bit masks, that may be withheld together.

    A group has all features that read the same columns. None of them can be computed
    for a record that lacks all these columns. A feature that may fail is a group by
    itself, and with all others of them that need the same step.
    """
    parts: dict[frozenset[str], int] = {}
    for position, stored in enumerate(data.table.features.stored):
        if stored.reads:
            read = frozenset(stored.reads)
            parts[read] = parts.get(read, 0) | 1 << position
    extractor = data.table.features.extractor
    failing = [k for k, own in enumerate(extractor.features) if own.fails == "without"]
    steps = range(len(extractor.steps))
    needs = [[k for k in failing if step in extractor.needs[k]] for step in steps]
    groups = [[k] for k in failing] + needs
    masks = [*parts.values(), *(sum(1 << k for k in group) for group in groups)]
    return [mask for mask in dict.fromkeys(masks) if mask]


def say_odd_budgets(
    budgets: tuple[float, float],
    curves: Floats,
    sizes: tuple[float, float],
    *,
    in_seconds: bool,
) -> None:
    """Warn if all sets cost less than every budget, or more than every budget.

    `curves` (C, T) are the coefficients of the cost polynomials of all sets but the
    empty set. `budgets` has the smallest and the largest budget, in seconds if
    `in_seconds` is true; `sizes` has the smallest and the largest item size.
    """
    if not len(curves):
        return
    low, high = budgets
    cheapest = float(polyval(sizes[0], curves.T).min())
    dearest = float(polyval(sizes[1], curves.T).max())
    if cheapest <= high and low <= dearest:
        return
    unit, per_unit = (" ms", 1000.0) if in_seconds else ("", 1.0)
    cost = f"{cheapest * per_unit:.2g} to {dearest * per_unit:.2g}{unit}"
    if low > dearest:
        what = "every set costs less than all budgets, so only the best of all is kept"
        is_long = in_seconds and low >= LONG_S
        meant = f"; did you mean [{low / 1000:g}, {high / 1000:g}]?" if is_long else ""
    else:
        what = "no budget buys a feature, so the prior always answers"
        meant = ""
    log.warning(
        "search.budgets is [%g, %g]%s, and feature sets cost %s: %s%s",
        low,
        high,
        ", in seconds" if in_seconds else "",
        cost,
        what,
        meant,
    )


def say_slow_features(
    costs: Mapping[str, float], most: float, *, in_seconds: bool
) -> None:
    """Warn of features that cost more than the largest budget, so that no set has them.

    `costs` are those of each feature for the smallest item; they and the budget `most`
    are in seconds if `in_seconds` is true.
    """
    slow = [f"{name!r} ({cost:.2g})" for name, cost in costs.items() if cost > most]
    if slow:
        log.warning(
            "search.budgets ends at %g%s, and these features cost more, even for the "
            "smallest item: %s; they are left out",
            most,
            ", in seconds" if in_seconds else "",
            listed(slow),
        )


def expected_of(
    masks: Sequence[int],
    qualities: Mapping[int, float],
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
) -> tuple[Floats, Floats]:
    """Return candidates' expected qualities (C,) and accuracies (C,) on fresh items.

    Candidates are chosen for their high measured qualities, so the measured qualities
    are biased upwards. `expected_qualities` corrects this bias. The array of accuracies
    is empty for regression, and if the project's metric is accuracy itself. Candidates
    keep the order of `qualities`, which has every trained set by mask.
    """
    sets, tested = sorted(qualities), trainer.tested
    expected = partial(
        expected_qualities,
        trainer.parts(sets),
        np.array([costs.of_set(mask) for mask in sets]),
        np.searchsorted(sets, masks),
        data.table.dataset.groups[tested],
        trainer.task.weights_of(tested),
        data.project.seed,
    )
    if data.metric.name == "accuracy" or data.task == "regression":
        accuracies = np.empty(0)
    else:
        accuracies = expected(trainer.right(sets))
    levelled = np.array([qualities[mask] for mask in sets])
    return expected(levelled=levelled), accuracies


def intervals_of(masks: Sequence[int], data: Prepared, trainer: Trainer) -> Floats:
    """Return an interval (C, 2) for the error of each candidate's answers.

    The error is the label minus the answer. It lies in the interval for a share
    `project.quality.coverage` of fresh items. If labels are classes, the result has
    shape (0, 2).
    """
    if data.task != "regression":
        return np.empty((0, 2))
    share = data.project.quality.coverage
    residuals = map(trainer.residuals, masks)
    return np.array([residual_interval(own, share) for own in residuals])
