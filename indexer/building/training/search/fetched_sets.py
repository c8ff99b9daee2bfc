"""Training of the sets that answer when fetches have not come."""

import math
from collections.abc import Iterable, Sequence
from itertools import accumulate
from operator import or_

from ....progress import Progress
from ....set_search.poly_dom import train_each
from ...candidates import kept_rows, time_candidates
from ...costs.measure_costs import MeasuredCosts
from ...fetched import Fetched
from ...prepare import Prepared
from ..train_sets import Trainer
from .search_sets import SearchedSets

MORE = 0.5  # share of the search's seconds that there is in any case
CHAINED = 4  # outcomes for which small sets are trained
TINY = 1e-9  # least cost of a feature


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
    features that remain is trained in any case. While there are seconds left, each set
    that an index would keep is trained without the withheld features, the best sets
    first. The search may have used up its seconds; then half as many are added.

    Features that are computed while an item waits need sets for small budgets, too:
    a fetched feature costs nothing, so that the search hardly tried sets without it.
    For the likeliest outcomes these are the first 1, 2, ... remaining features, ordered
    by what each alone gains for its cost.
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
        limit_s = max(limit_s, trainer.spent.seconds + MORE * limit_s)
    if not data.table.features.extractor.whole:
        for own in remaining[:CHAINED]:
            alone = [1 << k for k in range(own.bit_length()) if own >> k & 1]
            searched = _trained(alone, searched, trainer, progress, limit_s)
            chain = _chain(alone, searched, costs)
            searched = _trained(chain, searched, trainer, progress, limit_s)
    timed = time_candidates(searched, data, trainer, costs)
    rows = kept_rows(searched, timed.curves, data, fetched)
    kept = [searched.sets[row] for row in rows]
    best_first = sorted(kept, key=lambda mask: -searched.qualities[mask])
    smaller = [mask & ~own for mask in best_first for own in fetched.withheld]
    return _trained(smaller, searched, trainer, progress, limit_s)


def _chain(
    alone: Sequence[int], searched: SearchedSets, costs: MeasuredCosts
) -> list[int]:
    """Return the sets of the first 1, 2, ... features, by their gain for their cost.

    `alone` has a mask of each feature. Those whose quality is not known come last.
    """
    prior, least = searched.qualities[0], costs.of_set(0)

    def worth(mask: int) -> float:
        gain = searched.qualities.get(mask, -math.inf) - prior
        return gain / max(costs.of_set(mask) - least, TINY)

    return [*accumulate(sorted(alone, key=worth, reverse=True), or_)]


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
