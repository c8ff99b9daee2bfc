"""A search that trains good sets early, and then bounds the quality of all others.

First, `order_by_gain` finds two orders of the features, with models trained on a sample
of the rows. Then sets are trained on all rows: those of the first 1, 2, ... features of
each order, each feature with all that cost hardly more beside it, and others that were
the best for their cost on the sample. Last, Poly-Dom runs with smaller and smaller
alphas, until the project's alpha is proven or the time is up.
"""

import logging
import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import partial

import numpy as np

from ....progress import OnProgress, Progress
from ....set_search import poly_dom
from ....set_search.feature_order import prefixes
from ....set_search.greedy import order_by_gain
from ....set_search.monotonicity import measure_violations
from ...project_tables.search import Search
from ..train_sets import Trainer

# Shares of the time that is left after training on all features
TRYING = 0.25  # for ordering features
TRAINING = 0.6  # after which no more beginnings are trained
LEAST = 0.25  # share of the whole time that is left at least, even beyond its end
TRIALS = 4  # trainings per feature that ordering takes, about
FEWEST = 1000  # rows at least for ordering features
LONG = 0.5  # share of the time that training all features may take without a warning
HARDLY = 0.05  # share of a set's cost below which another feature costs hardly anything
COVERED = 0.95  # share of the violations within a measured tolerance

CostOf = Callable[[int], float]
Order = tuple[int, ...]

log = logging.getLogger("polydom")


@dataclass(frozen=True, slots=True)
class ProgressiveSearch:
    """The result of a progressive search."""

    # Sets trained on all rows, and the alpha that they prove
    search: poly_dom.PolyDomSearch
    sample: int  # Number of rows that features were ordered on
    tried: int  # Number of sets trained on these rows


def search_progressively(
    search: Search,
    m: int,
    trainer: Trainer,
    cost_of: CostOf,
    progress: Progress,
    tolerance: float | None = 0.0,
) -> ProgressiveSearch:
    """Search sets of m features until the project's alpha is proven or the time is up.

    Time is counted as the sum of training times. The cache stores them with the trained
    sets, so a repeated search ends at the same set. If training on all features takes
    most of the time, a quarter of it still remains for other sets. `cost_of` returns
    the cost of a set's features. `tolerance` is the loss of quality that Poly-Dom
    allows when features are added. None measures it on the sets that are trained before
    Poly-Dom starts: the quantile `COVERED` of their losses.
    """
    full = (1 << m) - 1
    ends = [0, full]
    with progress.stage("training all features", 2) as on_progress:
        _say_if_long(trainer.expected_s(full), search)
        known: dict[int, float] = {}
        for mask, accuracy in zip(ends, trainer.qualities(ends), strict=True):
            known[mask] = accuracy
            on_progress(len(known))
    limit_s, begun_s = search.limit_s(trainer.seconds(full)), trainer.spent.seconds
    rest_s = max(limit_s - begun_s, LEAST * limit_s)
    trying = _on_few_rows(trainer, m, rest_s)
    tried = known if trying is trainer else {}
    free = _spread(sorted(with_free(m, cost_of), key=cost_of))
    orders = _find_orders(m, trying, cost_of, tried, free, TRYING * rest_s, progress)
    passed = {*free, *(mask for order in orders for mask in prefixes(order))}
    wanted = [mask for mask in _promising(passed, tried, cost_of) if mask not in known]
    taken_s = {mask: trying.seconds(mask) / trainer.workers for mask in tried}
    training_s = TRAINING * rest_s
    share_s = training_s / max(len(wanted), 1) * trying.rows / trainer.rows
    quick = [mask for mask in wanted if _expected_s(mask, taken_s) <= share_s]
    slow = [mask for mask in wanted if mask not in quick]
    # The quick sets, which small budgets need, take no more than their share.
    ordered, until_s = [*quick, *slow], begun_s + training_s
    with progress.stage("training sets", None) as on_progress:
        trained = poly_dom.train_each(trainer.qualities, ordered)
        for count, (mask, accuracy) in enumerate(trained, 1):
            known[mask] = accuracy
            on_progress(len(known))
            if count >= len(quick) and trainer.spent.seconds >= until_s:
                break
        if tolerance is None:
            tolerance = _violation(known)
        left_s = limit_s - trainer.spent.seconds
        found = run_poly_dom(
            search, m, trainer, known, tolerance, on_progress, left_s=left_s
        )
    return ProgressiveSearch(found, trying.rows, len(tried))


def _say_if_long(expected_s: float, search: Search) -> None:
    """Warn if one training on all features leaves little time for other sets."""
    limit_s = search.limit_s(expected_s)
    if expected_s > LONG * limit_s:
        log.warning(
            "training on all features, which comes first, may take %.0f s, and the "
            "search has %.0f s: fewer columns, such as a smaller most_columns of a "
            "network, or a quicker learner, such as 'lda', leave more time for other "
            "sets, and so does a larger [search] budget_s",
            expected_s,
            limit_s,
        )


def run_poly_dom(
    search: Search,
    m: int,
    trainer: Trainer,
    known: Mapping[int, float],
    tolerance: float,
    on_progress: OnProgress,
    *,
    left: int | None = None,
    left_s: float | None = None,
) -> poly_dom.PolyDomSearch:
    """Run Poly-Dom on sets of m features, of which `known` were trained before.

    It may train `left` sets for `left_s` seconds; None for no limit.
    """
    return poly_dom.search(
        m,
        trainer.qualities,
        batch=True,
        alpha=search.target,
        alpha_of=search.alpha_of,
        tolerance=tolerance,
        covering=search.covering,
        budget=left,
        budget_s=None if left_s is None else max(left_s, 1e-9),
        known=known,
        progress=on_progress,
        now=lambda: trainer.spent.seconds,
    )


def _violation(known: Mapping[int, float]) -> float:
    """Return the `COVERED` quantile of the quality lost when features are added."""
    masks = np.array(sorted(known), np.uint64)
    qualities = np.array([known[mask] for mask in masks.tolist()])
    return measure_violations(masks, qualities).quantile(COVERED)


def _on_few_rows(trainer: Trainer, m: int, limit_s: float) -> Trainer:
    """Return a trainer for ordering features, on as many rows as `limit_s` allows."""
    trials_s = TRIALS * m * trainer.seconds((1 << m) - 1) / trainer.workers
    share = min(1.0, TRYING * limit_s / max(trials_s, 1e-9))
    count = max(FEWEST, round(share * trainer.rows))
    return trainer if count >= trainer.rows else trainer.on_sample(count)


def _find_orders(
    m: int,
    trainer: Trainer,
    cost_of: CostOf,
    known: dict[int, float],
    between: Sequence[int],
    limit_s: float,
    progress: Progress,
) -> list[Order]:
    """Return two orders of the features: by gain per cost, and by gain.

    The sets `between` are tried after the first order, which begins with the cheapest
    features. Each of the three may take a third of `limit_s`. Sets that are trained for
    these purposes are added to `known`, with their qualities.
    """
    begun_s = trainer.spent.seconds

    def is_over(thirds: int) -> bool:
        return trainer.spent.seconds - begun_s >= limit_s * thirds / 3

    def order(thirds: int, *, per_cost: bool) -> Order:
        return order_by_gain(
            m,
            trainer.qualities,
            cost_of,
            known=known,
            per_cost=per_cost,
            is_over=partial(is_over, thirds),
            on_trained=lambda: on_progress(len(known)),
        )

    with progress.stage("trying features", None) as on_progress:
        if 0 not in known:
            (known[0],) = trainer.qualities([0])
        by_gain_per_cost = order(1, per_cost=True)
        fresh = [mask for mask in between if mask not in known]
        for mask, accuracy in poly_dom.train_each(trainer.qualities, fresh):
            known[mask] = accuracy
            on_progress(len(known))
            if is_over(2):
                break
        return [by_gain_per_cost, order(3, per_cost=False)]


def with_free(m: int, cost_of: CostOf) -> list[int]:
    """Return sets of one of m features and of all that cost hardly more beside it.

    Of a network, they are the first 1, 2, ... pieces at one side or length. Sets of one
    feature alone are left out, and no set comes twice.
    """
    found = dict[int, None]()
    for one in range(m):
        alone = 1 << one
        limit = (1 + HARDLY) * cost_of(alone)
        free = [k for k in range(m) if k != one and cost_of(alone | 1 << k) < limit]
        if free:
            found[alone | sum(1 << k for k in free)] = None
    return [*found]


def _promising(
    passed: Set[int], tried: Mapping[int, float], cost_of: CostOf
) -> list[int]:
    """List sets to train on all rows: the first that are better than all cheaper ones.

    These are among the sets `passed`, which are all listed, and all others that were
    tried.
    """
    best, on_skyline, others = -1.0, list[int](), list[int]()
    for mask in sorted(passed | tried.keys(), key=cost_of):
        accuracy = tried.get(mask, -1.0)
        if accuracy > best:
            on_skyline.append(mask)
        elif mask in passed:
            others.append(mask)
        best = max(best, accuracy)
    return [*_spread(on_skyline), *_spread(others)]


def _expected_s(mask: int, taken_s: Mapping[int, float]) -> float:
    """Return the seconds that training a set took, or else its features one by one.

    The result is infinite if that is not known.
    """
    if mask in taken_s:
        return taken_s[mask]
    alone = (1 << f for f in range(mask.bit_length()) if mask >> f & 1)
    return sum(taken_s.get(one, math.inf) for one in alone)


def _spread(masks: list[int]) -> list[int]:
    """Reorder a list so that its first k entries spread evenly over it, for any k."""
    bits = len(masks).bit_length()
    places = sorted(range(len(masks)), key=lambda place: f"{place:0{bits}b}"[::-1])
    return [masks[place] for place in places]
