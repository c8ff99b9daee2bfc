"""Orders of the base models: polydom's own, by impurity, and those QWYC compares with.

QWYC* counts the rows a base model lets stop, which hangs on the few extreme rows and
credits no progress. Here rows are put into bins of the number they stop by, and a base
model is judged by how much impurity of the full decisions it takes away, per cost. For
two classes the impurity is that of what rows in a bin are likely to decide, by what
their sums still gain, more than of what these few happened to.
Rows settled well enough leave, so that later models are chosen for the hard ones.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.stopping_rule import margins_of
from .active_examples import ActiveExamples, over_columns
from .base_model_costs import ModelCosts
from .kernels.impurity import measure_impurity, measure_margin_impurity
from .kernels.optimal_stopping import cheapest_cuts
from .running_sums import list_entries, thresholds_at, whole_sums

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]
OrderName = Literal["natural", "random", "individual-mse", "greedy-mse"]

# While an order is sought, a wrong stop costs as much as `PRICE` whole ensembles, and
# an undecided row is expected to need `ONWARD` of one more; the thresholds then have a
# price of their own. Chosen on a fifth of the training rows of Adult, and for two
# classes of Covertype: a low price lets rows go that were settled by chance.
PRICE = 200.0
MARGIN_PRICE = 24.0  # K classes
ONWARD = 1 / 16
TAIL = 0.002  # share of the running sums, at each end, that may share the outer bins
SAMPLE = 32_768  # undecided rows that are enough to tell base models apart; ...
MARGIN_SAMPLE = 8192  # ... K classes
OPENINGS = 64  # groups of features that are compared before new ones are computed
FEWEST = 20  # undecided rows below which counts say nothing
AHEAD = 20  # base models, in their own order, of which the next is chosen; K classes


def order_by_impurity(
    scores: Floats,
    positive: Flags,
    threshold: float,
    *,
    costs: ModelCosts,
    both: bool = True,
    threads: int = 1,
) -> Rows:
    """Order base models (T,) by how much impurity each takes away; two classes.

    The running sum of scores (N, T) is put into bins, and the impurity of a bin whose
    sums end at `threshold` or above with chance q is sqrt(q (1 - q)) per row: it falls
    as soon as the two classes move apart. Base models left when no impurity is keep
    their own order.

    Where base models share features, those that need no new one are far cheaper and
    come first. Which features come next is then decided for all base models that they
    make cheap, not for one: see `open_features`.
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
    """Features (F,) to compute next, once every unused base model needs new ones.

    `needs` (L, F) are those that each of `left.models` lacks. The `OPENINGS` commonest
    of its rows are judged by the impurity that all base models they make evaluable take
    away together, per cost of the features and of these models.
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
    """Place in `left.models` (L,) of what takes away most impurity per cost (L,)."""
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
    """Place of the largest fall in impurity per cost, from the largest there is."""
    return int(np.argmax((impurity.max() - impurity) / costs))


def order_by_margin_impurity(
    scores: Floats, chosen: Rows, *, bias: Floats, costs: ModelCosts
) -> Rows:
    """Order base models by how much impurity each takes away; K classes.

    As `order_by_impurity`, with the margin of the best class in the running sum's
    place: the impurity of rows with nearly the same margin is the root of the share
    that another class leads than in the end. At most `MARGIN_SAMPLE` rows are looked
    at. The next base model is one of the first `AHEAD` left, unless they share
    features: the best of all is too often so by chance, and boosting's own order is a
    good one.
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
        stays = unsettled(
            -margins_of(sums), wrong, costs.whole, both=False, price=MARGIN_PRICE
        )
        rows, sums, chosen = rows[stays], sums[stays], chosen[stays]
    return np.array([*order, *left])


def unsettled(
    values: Floats,
    positive: Flags,
    whole: float,
    both: bool,
    price: float = PRICE,
) -> Flags:
    """Find the rows worth going on for, by their numbers and which must not stop low.

    Going on costs `ONWARD` ensembles a row, at `whole` each; a wrong stop `price`.
    """
    ascending = np.argsort(values, kind="stable")
    ordered = values[ascending]
    cuts = cheapest_cuts(
        list_entries(ascending, ordered),
        positive[ascending].astype(np.float64),
        np.full(len(values), ONWARD * whole),
        price * whole,
        both,
    )
    lower, upper = thresholds_at(ordered, *cuts)
    return (values >= lower) & (values <= upper)


def make_order(
    order: OrderName | Sequence[int] | Rows,
    scores: Floats,
    target: Floats | None = None,
    *,
    seed: int = 0,
) -> Rows:
    """Order the base models as given, or by a name as in QWYC's appendix B: (T,).

    Parameters
    ----------
    scores
        (N, T) base-model scores.
    target
        (N,) what the base models should come near; default the full scores.
    seed
        Of the random order.
    """
    if not isinstance(order, str):
        return check_permutation(order, scores.shape[1])
    full = whole_sums(scores)
    goal = full if target is None else np.asarray(target, np.float64)
    if goal.shape != full.shape or not np.isfinite(goal).all():
        raise BadInput(
            f"target has shape {goal.shape}; it must be {full.shape}, finite"
        )
    match order:
        case "natural":
            return np.arange(scores.shape[1])
        case "random":
            return np.random.default_rng(seed).permutation(scores.shape[1])
        case "individual-mse":
            return order_individually(scores, goal)
        case "greedy-mse":
            return order_greedily(scores, goal)
    raise BadInput(
        f"order is {order!r}; it must be natural, random, individual-mse, greedy-mse "
        "or the T base models in some order"
    )


def order_individually(scores: Floats, target: Floats) -> Rows:
    """Order base models by ascending mean squared error of each alone."""
    squares = np.einsum("nt,nt->t", scores, scores)
    return np.argsort(squares - 2 * (target @ scores), kind="stable")


def order_greedily(scores: Floats, target: Floats) -> Rows:
    """Take at each position the base model that leaves the partial sum's MSE least."""
    gram = scores.T @ scores
    # Adding k to a sum with residual e changes the squared error by |f_k|^2 - 2 e.f_k.
    change = np.diag(gram) - 2 * (target @ scores)
    order = []
    for _ in range(len(gram)):
        k = int(np.argmin(change))
        order.append(k)
        change += 2 * gram[k]
        change[k] = np.inf
    return np.array(order)


def check_permutation(order: object, models: int) -> Rows:
    """Order of all base models, (T,) int64; BadInput if it is no permutation."""
    kept = np.ascontiguousarray(order, np.int64)
    if not np.array_equal(np.sort(kept), np.arange(models)):
        raise BadInput(
            f"order is not a permutation of the {models} base models, 0 ... "
            f"{models - 1}"
        )
    return kept
