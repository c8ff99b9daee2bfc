"""The order of `polydom`'s own schedules: whichever base model leaves least doubt."""

import numpy as np
from numpy.typing import NDArray

from ._schedule_kernels import cheapest_cuts, measure_doubt
from .cuts import parted, thresholds_at
from .pool import Pool, over_columns

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

TAIL = 0.002  # share of the running sums, at each end, that may share the outer bins
SAMPLE = 8192  # undecided rows that are enough to tell base models apart
FEWEST = 20  # undecided rows below which counts say nothing


def order_by_doubt(
    scores: Floats,
    positive: NDArray[np.bool_],
    *,
    costs: Floats,
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

    Parameters
    ----------
    scores, positive
        (N, T) scores and (N,) full decisions.
    costs
        (T,) cost of each base model; doubt taken away is counted per cost.
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
    while len(pool.models) > 1 and len(pool) >= FEWEST:
        if pool.positives in (0, len(pool)):
            break
        order.append(pool.take(clearest(pool, least, most, costs, threads)))
        pool.keep(unsettled(pool, price, onward, both))
    return np.array([*order, *pool.models])


def clearest(
    pool: Pool, least: Floats, most: Floats, costs: Floats, threads: int
) -> int:
    """Place in `pool.models` of the model that takes away most doubt per cost."""
    models = pool.models
    low, high = np.quantile(pool.sums, [TAIL, 1 - TAIL])
    sample, positives = pool.sample(SAMPLE)
    rows, sums = pool.rows[sample], pool.sums[sample]

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
    return most_gain(doubt, costs[models])


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
        pool.positive,
        np.full(len(values), float(onward)),
        np.ones(len(values), np.bool_),
        price,
        both,
    )
    lower, upper = thresholds_at(values, *cuts)
    return (pool.sums >= lower) & (pool.sums <= upper)
