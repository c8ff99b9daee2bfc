"""Training of the sets that answer when fetches have not come."""

import math
from collections.abc import Iterable

from ....progress import Progress
from ....set_search.poly_dom import train_each
from ...candidates import kept_rows, time_candidates
from ...costs.measure_costs import MeasuredCosts
from ...fetched import Fetched
from ...prepare import Prepared
from ..train_sets import Trainer
from .search_sets import SearchedSets


def train_without_fetches(
    searched: SearchedSets,
    data: Prepared,
    trainer: Trainer,
    costs: MeasuredCosts,
    fetched: Fetched,
    progress: Progress,
) -> SearchedSets:
    """Train, for each outcome of the fetches, sets of the features that remain.

    An outcome withholds the features whose fetches have not come. The set of all
    features that remain is trained in any case. While the search has seconds left,
    each set that an index would keep is trained without the withheld features, the best
    sets first.
    """
    if not fetched.withheld:
        return searched
    search, every = data.project.search, (1 << len(data.table.features.stored)) - 1
    remaining = [every & ~withheld for withheld in fetched.withheld]
    searched = _trained(remaining, searched, trainer, progress)
    limit_s = math.inf
    if search.method == "progressive" or search.budget_s is not None:
        list(trainer.qualities([every]))  # so that its time is known
        limit_s = search.limit_s(trainer.seconds(every))
    if trainer.spent.seconds >= limit_s:
        return searched
    timed = time_candidates(searched, data, trainer, costs)
    rows = kept_rows(searched, timed.curves, data, fetched)
    kept = [searched.sets[row] for row in rows]
    best_first = sorted(kept, key=lambda mask: -searched.qualities[mask])
    smaller = [mask & ~own for mask in best_first for own in fetched.withheld]
    return _trained(smaller, searched, trainer, progress, limit_s)


def _trained(
    masks: Iterable[int],
    searched: SearchedSets,
    trainer: Trainer,
    progress: Progress,
    limit_s: float = math.inf,
) -> SearchedSets:
    """Train the sets that are not among the searched; none begins after `limit_s`.

    The limit is in seconds.
    """
    found, known = dict[int, float](), {*searched.sets}
    fresh = [mask for mask in dict.fromkeys(masks) if mask not in known]
    if not fresh:
        return searched
    with progress.stage("training sets", len(fresh)) as on_progress:
        trained = train_each(trainer.qualities, fresh)
        for done, (mask, quality) in enumerate(trained, 1):
            found[mask] = quality
            on_progress(done)
            if trainer.spent.seconds >= limit_s:
                break
    return searched.joined(found)
