"""Training of sets that a search left out because of a subset whose model is slow."""

from functools import partial

import numpy as np

from polydom.features.costs.polynomials import costs_at

from ....progress import Progress
from ....set_search import slow_models
from ....set_search.poly_dom import train_each
from ...candidates import sizes_of
from ...costs.cost_curves import cost_curves
from ...costs.measure_costs import MeasuredCosts
from ...prepare import Prepared
from ..train_sets import Trainer
from .search_sets import SearchedSets

MOST_FEATURES = 16  # all sets are looked at: 65,536


def train_past_slow_models(
    searched: SearchedSets,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    progress: Progress,
) -> SearchedSets:
    """Train what slow models of smaller sets hide, while the search has seconds left.

    The search proves its alpha for the costs of features. A set that it closed is
    trained now if each trained subset that closes it may cost more in total, by more
    than `[search] negligible_us`. A set's model is taken to need at least the time of
    the quickest model so far. Nothing is trained after a search that did not prove its
    alpha, or has no limit of seconds, or counts trainings, or has more than
    `MOST_FEATURES` features.
    """
    search, m = data.project.search, len(data.table.features.stored)
    limited = search.method == "progressive" or search.budget_s is not None
    if m > MOST_FEATURES or search.trainings is not None or not limited:
        return searched
    if not searched.facts.get("complete", False):  # Greedy proves nothing
        return searched
    limit_s = search.limit_s(trainer.seconds((1 << m) - 1))
    while len(searched.qualities) < 1 << m and trainer.spent.seconds < limit_s:
        hidden = _hidden(searched, data, trainer, costs)
        if not hidden:
            break
        found = dict(searched.qualities)
        with progress.stage("training sets", len(hidden)) as on_progress:
            for done, (mask, quality) in enumerate(
                train_each(trainer.qualities, hidden), 1
            ):
                found[mask] = quality
                on_progress(done)
                if trainer.spent.seconds >= limit_s:
                    break
        searched = searched.joined(found)
    return searched


def _hidden(
    searched: SearchedSets, data: Prepared, trainer: Trainer, costs: MeasuredCosts
) -> list[int]:
    """Return the untrained sets that may cost less than the sets that close them.

    The smallest item size decides: a set's features cost at least as much more than a
    subset's for larger items.
    """
    search = data.project.search
    trained = np.array(searched.sets, np.uint64)
    models = {mask: partial(trainer.model, mask) for mask in searched.sets}
    model_costs, _ = costs.of_models(trainer.task.key, models, data.table.values)
    every = np.arange(1 << len(data.table.features.stored), dtype=np.uint64)
    quickest = np.full(every.size, model_costs[1:].min())
    smallest, _ = search.bounds or sizes_of(data)
    found = slow_models.open_sets(
        searched.qualities,
        costs_at(cost_curves(costs.table, trained, model_costs), smallest),
        costs_at(cost_curves(costs.table, every, quickest), smallest)
        + search.negligible_us * 1e-6 * costs.weight,
        alpha=search.target,
        alpha_of=search.alpha_of,
        tolerance=searched.facts["tolerance"],
    )
    return [int(mask) for mask in found]
