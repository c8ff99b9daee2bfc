"""Choose an order of base models by the impurity that each removes.

The order puts rows with similar running sums (or margins) into bins. A bin is
impure if the whole ensemble decides some of its rows differently from the others. The
next base model is the one that removes the most impurity per cost. Rows whose decision
has become nearly certain are then dropped. QWYC* instead chooses the base model after
which the most rows can stop; their number depends on a few extreme rows.
"""

import numpy as np

from polydom.features.errors import BadInput

from ..scoring.stopping_rule import margins_of
from .active_examples import ActiveExamples, over_columns
from .base_model_costs import ModelCosts
from .kernels.impurity import measure_impurity, measure_margin_impurity
from .kernels.optimal_stopping import cheapest_cuts
from .running_sums import Flags, Floats, Rows, list_entries, thresholds_at

# Costs in whole ensembles, by which an order decides which rows to drop: PENALTY of a
# wrong stop, ONWARD of going on with an active row. (Thresholds are fitted later, with
# another penalty.) Chosen on a fifth of Adult's training rows, and on two classes of
# Covertype: lower penalties drop rows that look sure by chance.
PENALTY = 200.0
MARGIN_PENALTY = 24.0  # PENALTY for K classes
ONWARD = 1 / 16
TAIL = 0.002  # share of the running sums in each of the two outermost bins
SAMPLE = 32_768  # active rows that suffice to compare base models, for two classes
MARGIN_SAMPLE = 8192  # SAMPLE for K classes
OPENINGS = 64  # sets of new features that are compared
FEWEST = 20  # least number of active rows for which counts are meaningful
AHEAD = 20  # for K classes: the next base model is among the first AHEAD unused ones


def order_by_impurity(
    scores: Floats,
    positive: Flags,
    threshold: float,
    *,
    costs: ModelCosts,
    both: bool = True,
    threads: int = 1,
) -> Rows:
    """Return an order (T,) of base models, most impurity removed per cost first.

    This is for two classes. If a row of a bin ends at `threshold` or above with
    probability q, the impurity of the bin is sqrt(q (1 - q)) per row. Base models that
    need no new feature come first. When all unused base models need new features,
    `open_features` chooses which to compute next. Once no impurity is left, the
    remaining base models follow in ascending order.
    """
    left = ActiveExamples(scores, positive)
    least, most = scores.min(axis=0), scores.max(axis=0)
    order = []
    done: Flags = np.zeros(len(costs.features), np.bool_)
    while len(left.models) > 1 and len(left) >= FEWEST:
        if left.positives in (0, len(left)):
            break
        needs = costs.uses[left.models] & ~done
        if len(costs.features) and needs.any(axis=1).all():
            done |= open_features(left, threshold, costs, needs)
        paid = costs.next(left.models, done)
        place = purest(left, threshold, least, most, paid, threads)
        order.append(left.take(place))
        done |= costs.uses[order[-1]]
        left.keep(unsettled(left.sums, left.positive, costs.whole, both))
    return np.array([*order, *left.models])


def open_features(
    left: ActiveExamples, threshold: float, costs: ModelCosts, needs: Flags
) -> Flags:
    """Return a mask (F,) of the features to compute next.

    `needs` (L, F) marks the features that each of the L unused base models still needs;
    each needs at least one.
    """
    rows, sums, final = left.sample(SAMPLE)
    openings, counts = np.unique(needs, axis=0, return_counts=True)
    openings = openings[np.argsort(-counts, kind="stable")[:OPENINGS]]
    groups: Flags = np.logical_not((needs[None] & ~openings[:, None]).any(axis=2))
    added = left.scores[np.ix_(rows, left.columns)] @ groups.T.astype(np.float64)
    added = np.ascontiguousarray(np.column_stack([added, np.zeros(len(rows))]))
    totals = sums[:, None] + added
    impurity = np.empty(len(groups) + 1)
    columns, ends = np.arange(len(impurity)), (totals.min(axis=0), totals.max(axis=0))
    places = np.arange(len(rows))
    here = places, sums, final, threshold
    measure_impurity(added, *here, columns, *ends, impurity)
    paid = openings @ costs.features + groups @ costs.own[left.models]
    best: Flags = openings[np.argmax((impurity[-1] - impurity[:-1]) / paid)]
    return best


def purest(
    left: ActiveExamples,
    threshold: float,
    least: Floats,
    most: Floats,
    costs: Floats,
    threads: int,
) -> int:
    """Return the position in `left.models` of the base model to use next.

    This is the base model that removes the most impurity per cost.
    """
    models = left.models
    low, high = np.quantile(left.sums, [TAIL, 1 - TAIL])
    here = *left.sample(SAMPLE), threshold

    def scan(places: Rows) -> Floats:
        out = np.empty(len(places))
        ends = low + least[models[places]], high + most[models[places]]
        columns = left.columns[places]
        measure_impurity(left.scores, *here, columns, *ends, out)
        return out

    impurity = over_columns(scan, np.arange(len(models)), threads)
    return most_gain(impurity, costs)


def most_gain(impurity: Floats, costs: Floats) -> int:
    """Return the position at which the impurity falls most per cost.

    The fall is measured from the largest impurity in the array.
    """
    return int(np.argmax((impurity.max() - impurity) / costs))


def order_by_margin_impurity(
    scores: Floats, chosen: Rows, *, bias: Floats, costs: ModelCosts
) -> Rows:
    """Return an order (T,) of base models for K classes, by impurity removed per cost.

    Rows with similar margins form a bin. If the leading class is not the class that the
    whole ensemble chooses for a share p of its rows, the impurity of the bin is sqrt(p)
    per row. If base models share features, the next base model is the best of all
    unused ones. Otherwise it is one of the first `AHEAD` unused ones: the best of all
    is often the best by chance, and boosting's own order is good.
    """
    every = -(-len(scores) // MARGIN_SAMPLE)
    rows = np.arange(0, len(scores), every)
    chosen = chosen[rows]
    sums = np.tile(bias, (len(rows), 1))
    left, order = np.arange(scores.shape[1]), []
    done: Flags = np.zeros(len(costs.features), np.bool_)
    while len(left) > 1 and len(rows) >= FEWEST:
        near = left if len(costs.features) else left[:AHEAD]
        impurity = np.empty(len(near))
        measure_margin_impurity(scores, rows, sums, chosen, near, impurity)
        place = most_gain(impurity, costs.next(near, done))
        order.append(int(near[place]))
        done |= costs.uses[order[-1]]
        left = np.delete(left, place)
        sums = sums + scores[rows, order[-1]]
        wrong = sums.argmax(axis=1) != chosen
        active = unsettled(
            -margins_of(sums), wrong, costs.whole, both=False, penalty=MARGIN_PENALTY
        )
        rows, sums, chosen = rows[active], sums[active], chosen[active]
    return np.array([*order, *left])


def unsettled(
    values: Floats, positive: Flags, whole: float, both: bool, penalty: float = PENALTY
) -> Flags:
    """Return a mask (n,) of the rows that should not stop now at their `values` (n,).

    Costs are multiples of `whole`, the cost of all base models together: `penalty` for
    a wrong stop, `ONWARD` for continuing.
    """
    ascending = np.argsort(values, kind="stable")
    ordered, wrong = values[ascending], positive[ascending].astype(np.float64)
    cuts = cheapest_cuts(
        list_entries(ascending, ordered),
        penalty * whole * wrong,
        penalty * whole * (1.0 - wrong),
        np.full(len(values), ONWARD * whole),
        both,
    )
    lower, upper = thresholds_at(ordered, *cuts)
    return (values >= lower) & (values <= upper)


def check_permutation(order: object, models: int) -> Rows:
    """Return `order` as int64 (T,); BadInput unless it lists T models once each."""
    try:
        kept = np.ascontiguousarray(order, np.int64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"order is {order!r}; whole numbers are needed") from error
    if not np.array_equal(np.sort(kept), np.arange(models)):
        raise BadInput(
            f"order is not a permutation of the {models} base models, 0 ... "
            f"{models - 1}"
        )
    return kept
