"""Rungs: candidates that answer with the first base models of another's model.

The sum of an ensemble, in the order of its schedule, may be cut off after any base
model. Each rung of a candidate's ladder is a further candidate of the index, with the
same features: fewer base models, less time and less quality.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from operator import or_
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.early_exit.model_part import ModelPart
from polydom.models.scoring.model import Model

from ...index.package import Package
from ..cache import digest
from ..candidates import Candidates
from ..costs.measure_costs import MeasuredCosts
from ..prepare import Prepared
from ..resources import Resources
from ..training.quality import Metric
from ..training.refit import KeptModels
from ..training.train_sets import Trainer
from .exit_goal import ExitGoal
from .plan_exits import PlanExits
from .schedules import Evaluator, divide_aside, make_schedule_fitter

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

# A candidate has a ladder if its model takes at least LONG_S seconds in a high
# quantile, and at least the share PART of the plan's cost. Otherwise a shorter model
# saves nothing that a caller can feel.
LONG_S = 4e-5
PART = 0.1
FALL = 0.5**0.5  # base models of a rung, as a share of those of the rung above
FEWEST = 8  # least base models of a rung


class Rung(NamedTuple):
    """A candidate that answers with a part of another candidate's model."""

    row: int  # The candidate whose features and model it has
    model: ModelPart
    lost: float  # Quality that the part lacks, compared with the whole model
    lost_accuracy: float  # Accuracy that it lacks
    # Costs of its answers, in units of the budget: a high quantile, and the mean
    cost: float
    mean_cost: float


# Rows (N, width) that neither models nor the orders of their base models were fitted
# to, and the positions of their labels (N,)
Untouched = tuple[NDArray[np.float32], Rows]


def measure_ladders(
    candidates: Candidates,
    kept: KeptModels,
    exits: PlanExits,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    resources: Resources,
) -> tuple[PlanExits, list[Rung]]:
    """Measure quality and cost of the rungs of all candidates whose models take long.

    A long model without a schedule gets one that stops no row, for its order of base
    models. Returns the exits with these schedules, and the rungs. There are no rungs
    without labelled items that no model and no schedule was fitted to.
    """
    goal = data.project.exit_goal
    rows = [  # whose models take long
        row
        for row, mask in enumerate(candidates.masks)
        if is_long(exits.model_costs[row], costs.of_set(mask), costs.weight)
    ]
    tested = _untouched(data, goal) if goal is not None and rows else None
    if goal is None or tested is None:
        return exits, []
    rungs: list[Rung] = []
    evaluators = [*(exits.evaluators or [None] * len(candidates.masks))]
    fitter = make_schedule_fitter(goal, data, trainer, resources)
    with resources.progress.stage("measuring ladders", len(rows)) as on_progress:
        for done, row in enumerate(rows, start=1):
            on_progress(done, None)
            model, mask = kept.models[row], candidates.masks[row]
            evaluator = evaluators[row]
            if evaluator is None and fitter is not None:
                evaluator = _without_stops(fitter.fit(model, mask, goal))
            if evaluator is None or not evaluator.has_parts:
                continue
            parts = [ModelPart(evaluator, count) for count in rung_sizes(evaluator)]
            if not parts:  # too few base models
                continue
            evaluators[row] = evaluator
            key = digest(trainer.task.key, mask, [one.count for one in parts], goal)
            answers = [part.answer for part in parts]
            mean_s, high_s = costs.measurer.compare(
                answers, tested[0], name=f"times/{key}"
            )
            # fewer base models take no longer, whatever noise says
            high_s, mean_s = map(least_onwards, (high_s, mean_s))
            lost = losses(data.metric, model, parts, tested)
            for part, less, high, mean in zip(parts, lost, high_s, mean_s, strict=True):
                seconds = costs.weight * float(high), costs.weight * float(mean)
                rungs.append(Rung(row, part, *less, *seconds))
    if rungs:
        exits = replace(exits, evaluators=tuple(evaluators))
    return exits, rungs


def least_onwards(values: Floats) -> Floats:
    """Return the least of each value (N,) and all values after it."""
    return np.minimum.accumulate(values[::-1])[::-1]


def _without_stops(evaluator: Evaluator | None) -> Evaluator | None:
    """Return an evaluator with the same order and class scores that stops no row."""
    if evaluator is None:
        return None
    schedule = evaluator.schedule.without_stops()
    return as_ensemble(evaluator.classifier).early_exit(schedule, evaluator.lines)


def rung_sizes(evaluator: Evaluator) -> list[int]:
    """Return the numbers of base models of an evaluator's rungs, ascending."""
    size, step = evaluator.size, evaluator.step
    sizes, count = set[int](), size * FALL
    while count >= FEWEST:
        sizes.add(-(-int(count) // step) * step)
        count *= FALL
    return sorted(one for one in sizes if one < size)


def losses(
    metric: Metric, whole: Model, parts: Sequence[Model], tested: Untouched
) -> list[tuple[float, float]]:
    """Return the quality and the accuracy that each part of a model lacks.

    The whole model and its parts answer the same rows. Chance may make a loss negative.
    """
    values, targets = tested

    def measure(model: Model) -> tuple[float, float]:
        answers = metric.answers(model, values)
        right = answers.chosen == targets
        found = metric.evaluate(answers, targets, np.ones(len(right)))
        return found.quality, float(right.mean())

    quality, accuracy = measure(whole)
    return [
        (quality - own_quality, accuracy - own_accuracy)
        for own_quality, own_accuracy in map(measure, parts)
    ]


def is_long(model_cost: float, set_cost: float, weight: float) -> bool:
    """Return True if a model's cost is felt, by itself and beside its features' cost.

    `weight` is the number of units of the budget that a second costs.
    """
    if model_cost < LONG_S * weight or not weight:
        return False
    return model_cost >= PART * (set_cost + model_cost)


def _untouched(data: Prepared, goal: ExitGoal) -> Untouched | None:
    """Return labelled rows that models and schedules were not fitted to, if any."""
    fresh, project = data.fresh, data.project
    if fresh is None or goal.confidence is None:
        return None
    rows = np.arange(len(fresh.codes))
    if project.refits:  # the schedules were fitted to some of the rows
        parts = divide_aside(fresh, goal, project.seed)
        rows = rows[:0] if parts is None else parts[1]
    rows = rows[rows < len(fresh.codes) - fresh.unlabelled]  # which come last
    labels = data.table.dataset.labels
    places = {label: place for place, label in enumerate(labels)}
    codes = np.array([places.get(label, -1) for label in fresh.labels])
    targets = codes[fresh.codes[rows]]
    rows, targets = rows[targets >= 0], targets[targets >= 0]
    return (fresh.values[rows], targets) if len(rows) else None


def add_rungs(
    package: Package, qualities: Floats, rungs: Sequence[Rung]
) -> tuple[Package, Floats]:
    """Return a package and its qualities with the rungs as further candidates.

    A rung is left out if a shorter one is as good. No rung is as good as the whole
    model: a difference in its favour is luck.
    """
    prior = float(qualities[package.masks.tolist().index(0)])
    kept: list[Rung] = []
    found: list[float] = []
    for rung in sorted(rungs, key=lambda one: (one.row, one.model.count)):
        whole = float(qualities[rung.row])
        quality = min(max(whole - rung.lost, 0.0), float(np.nextafter(whole, 0.0)))
        same = kept and kept[-1].row == rung.row
        if quality > (found[-1] if same else prior):
            kept.append(rung)
            found.append(quality)
    if not kept:
        return package, qualities
    qualities = np.append(qualities, found)
    return _joined(package, kept, qualities), qualities


def _joined(package: Package, rungs: Sequence[Rung], qualities: Floats) -> Package:
    """Return a package with rungs; `qualities` are those of all candidates."""
    rows = np.array([rung.row for rung in rungs])
    masks = np.append(package.masks, package.masks[rows])
    model_s = np.append(package.model_s, [rung.cost for rung in rungs])
    orders = [package.orders[row] for row in rows]
    fallbacks = [
        fallbacks_of(rung, order, masks.tolist(), qualities, model_s)
        for rung, order in enumerate(orders, len(package.masks))
    ]
    never = [(np.inf,) * len(answers) for answers in fallbacks]
    at_end = [(0.0,) * len(order) + (1.0,) for order in orders]
    accuracies = package.accuracies
    if len(accuracies):
        lost = [rung.lost_accuracy for rung in rungs]
        accuracies = np.append(accuracies, np.clip(accuracies[rows] - lost, 0.0, 1.0))
    meta = dict(package.meta)
    if observed := meta.get("observed"):
        less = [observed[rung.row] - max(rung.lost, 0.0) for rung in rungs]
        meta["observed"] = [*observed, *less]
    if refitted := meta.get("refitted"):
        meta["refitted"] = [*refitted, *(refitted[row] for row in rows)]
    return replace(
        package,
        masks=masks,
        orders=(*package.orders, *orders),
        fallbacks=(*package.fallbacks, *fallbacks),
        models=(*package.models, *(rung.model for rung in rungs)),
        early_exits=(*package.early_exits, *(rung.model.evaluator for rung in rungs)),
        model_s=model_s,
        whole_s=np.append(package.whole_s, package.whole_s[rows]),
        mean_s=np.append(package.mean_s, [rung.mean_cost for rung in rungs]),
        margins=package.margins and (*package.margins, *never),
        ends=package.ends and (*package.ends, *at_end),
        accuracies=accuracies,
        meta=meta,
    )


def fallbacks_of(
    rung: int,
    order: Sequence[int],
    masks: Sequence[int],
    qualities: Floats,
    costs: Floats,
) -> tuple[int, ...]:
    """Return the rows that answer after 0, 1, ... features of a rung's plan.

    They are the best rows with the features computed so far among those that are not
    better than the rung, and whose models cost no more; the prior is always one.
    `order` are the plan's features; the rest is about all rows of the index. The last
    answer is the rung's.
    """
    cheap = (costs <= costs[rung]) | (np.array(masks) == 0)
    allowed = np.flatnonzero((qualities <= qualities[rung]) & cheap)
    done = accumulate((1 << feature for feature in order[:-1]), or_, initial=0)
    answers = [
        max(
            (row for row in allowed.tolist() if not masks[row] & ~computed),
            key=lambda row: qualities[row],
        )
        for computed in done
    ]
    return (*answers, rung)
