"""The order of `polydom`'s own schedules: whichever base model leaves least doubt."""

import numpy as np
from numpy.typing import NDArray

from ._schedule_kernels import cheapest_cuts, measure_doubt
from .cuts import parted, thresholds_at
from .model_costs import ModelCosts
from .pool import Pool, over_columns

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

TAIL = 0.002  # share of the running sums, at each end, that may share the outer bins
SAMPLE = 8192  # undecided rows that are enough to tell base models apart
OPENINGS = 64  # groups of features that are compared before new ones are computed
FEWEST = 20  # undecided rows below which counts say nothing


def order_by_doubt(
    scores: Floats,
    positive: NDArray[np.bool_],
    *,
    costs: ModelCosts,
    price: float,
    onward: float,
    both: bool = True,
    threads: int = 1,
) -> Rows:
    """Order base models by how much doubt about the full decision each takes away.

    QWYC* counts the rows a base model lets stop, which hangs on the few extreme rows
    and credits no progress. Here the running sum is put into bins and the doubt of a
    bin with share q of positives is sqrt(q (1 - q)) per row: it falls as soon as the
    two classes move apart. Rows settled well enough leave, so that later models are
    chosen for the hard ones.

    Where base models share features, those that need no new one are far cheaper and
    come first. Which features come next is then decided for all base models that they
    make cheap, not for one: see `open_features`.

    Parameters
    ----------
    scores, positive
        (N, T) scores and (N,) full decisions.
    costs
        Of the T base models and their features; doubt taken away is counted per cost.
    price
        Cost of one wrong stop, in the unit of `costs`.
    onward
        What an undecided row is expected to cost still.

    Returns
    -------
    (T,) base models; those left when no doubt is keep their own order.
    """
    pool = Pool(scores, positive)
    least, most = scores.min(axis=0), scores.max(axis=0)
    order = []
    done: Flags = np.zeros(len(costs.features), np.bool_)
    while len(pool.models) > 1 and len(pool) >= FEWEST:
        if pool.positives in (0, len(pool)):
            break
        needs = costs.uses[pool.models] & ~done
        if len(costs.features) and needs.any(axis=1).all():
            done |= open_features(pool, costs, needs)
        place = clearest(pool, least, most, costs.next(pool.models, done), threads)
        order.append(pool.take(place))
        done |= costs.uses[order[-1]]
        pool.keep(unsettled(pool, price, onward, both))
    return np.array([*order, *pool.models])


def open_features(pool: Pool, costs: ModelCosts, needs: Flags) -> Flags:
    """Features (F,) to compute next, once every unused base model needs new ones.

    Parameters
    ----------
    needs
        (L, F) features that each of `pool.models` needs and that are not there yet.

    Each different row of `needs`, the `OPENINGS` commonest, is judged by the doubt
    that all base models it makes evaluable take away together, per cost of the
    features and of these models.
    """
    rows, sums, positives = sampled(pool)
    openings, counts = np.unique(needs, axis=0, return_counts=True)
    openings = openings[np.argsort(-counts, kind="stable")[:OPENINGS]]
    groups: Flags = np.logical_not((needs[None] & ~openings[:, None]).any(axis=2))
    added = pool.scores[np.ix_(rows, pool.columns)] @ groups.T.astype(np.float64)
    added = np.ascontiguousarray(np.column_stack([added, np.zeros(len(rows))]))
    totals = sums[:, None] + added
    doubt = np.empty(len(groups) + 1)
    measure_doubt(
        added,
        np.arange(len(rows)),
        sums,
        positives,
        np.arange(len(doubt)),
        totals.min(axis=0),
        totals.max(axis=0),
        doubt,
    )
    paid = openings @ costs.features + groups @ costs.own[pool.models]
    best: Flags = openings[np.argmax((doubt[-1] - doubt[:-1]) / paid)]
    return best


def clearest(
    pool: Pool, least: Floats, most: Floats, costs: Floats, threads: int
) -> int:
    """Place in `pool.models` (L,) of what takes away most doubt per cost (L,)."""
    models = pool.models
    low, high = np.quantile(pool.sums, [TAIL, 1 - TAIL])
    rows, sums, positives = sampled(pool)

    def scan(places: Rows) -> Floats:
        out = np.empty(len(places))
        measure_doubt(
            pool.scores,
            rows,
            sums,
            positives,
            pool.columns[places],
            low + least[models[places]],
            high + most[models[places]],
            out,
        )
        return out

    doubt = over_columns(scan, np.arange(len(models)), threads)
    return most_gain(doubt, costs)


def sampled(pool: Pool) -> tuple[Rows, Floats, int]:
    """Rows, sums and number of positives of a part of the pool, positives first."""
    sample, positives = pool.sample(SAMPLE)
    return pool.rows[sample], pool.sums[sample], positives


def most_gain(doubt: Floats, costs: Floats) -> int:
    """Largest fall in doubt per cost, measured from the largest doubt there is."""
    return int(np.argmax((doubt.max() - doubt) / costs))


def unsettled(pool: Pool, price: float, onward: float, both: bool) -> NDArray[np.bool_]:
    """Which rows are worth `onward` more, rather than `price` times being wrong."""
    ascending = np.argsort(pool.sums, kind="stable")
    values = pool.sums[ascending]
    ids = np.where(parted(values)[:-1], ascending, ~ascending).astype(np.int32)
    cuts = cheapest_cuts(
        ids,
        pool.positive[ascending],
        np.full(len(values), float(onward)),
        np.ones(len(values), np.bool_),
        price,
        both,
    )
    lower, upper = thresholds_at(values, *cuts)
    return (pool.sums >= lower) & (pool.sums <= upper)
