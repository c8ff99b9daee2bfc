"""Fitting schedules for more than two classes: `fit_lead_schedule`."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput
from ..models.sums import whole_sums
from ._lead_kernels import measure_lead_doubt
from ._schedule_kernels import cheapest_cuts
from .calibrate import calibrate, spread_of, widened
from .cuts import parted, thresholds_at
from .doubt import FEWEST, SAMPLE, most_gain
from .fitting import ONWARD, PRICE, RUNGS, check_confidence, check_permutation
from .lead import LeadSchedule, check_class_scores
from .model_costs import ModelCosts
from .quit import errors_allowed
from .stopping import Stopping
from .track import LeadTrack, lead

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]

# Base models, in their own order, of which the next is chosen.
AHEAD = 20


def fit_lead_schedule(
    scores: Floats,
    alpha: float,
    *,
    bias: Sequence[float] | Floats | None = None,
    costs: Sequence[float] | Floats | None = None,
    feature_costs: Sequence[float] | Floats | None = None,
    uses: Flags | None = None,
    order: Sequence[int] | Rows | None = None,
    decisions: Rows | None = None,
    confidence: float | None = None,
    calibration: Floats | None = None,
    groups: Rows | None = None,
) -> LeadSchedule:
    """Order an ensemble's base models and say at which lead of a class to stop.

    `fit_schedule` for K >= 2 classes, of which the largest sum is chosen. QWYC is for
    two; this is its method "polydom" by the margin between the leading classes.

    Parameters
    ----------
    scores
        (N, T, K) of unlabelled examples, base models and classes. Boosting that adds
        K trees a round has a round for a base model. Take examples that the ensemble
        was not trained on: of the others it is too sure, and exits come too early.
    alpha
        Share of choices that may change, in [0, 1): on these rows, or with
        `confidence` on fresh ones.
    bias
        (K,) what the classes have before the first base model; default 0 each.
    costs, feature_costs, uses, confidence
        As for `fit_schedule`.
    order
        Keep this order of the T base models; by default whichever of the next
        `AHEAD` takes away most doubt per cost, or of all, if they share features.
    decisions
        (N,) positions of the classes that the ensemble itself chooses, where at a tie
        it does otherwise: as for `fit_schedule`. Default: the first largest sum.
    calibration
        (M, T, K) scores of rows used for nothing else.
    groups
        (M,) as for `fit_schedule`.

    Raises
    ------
    BadInput
        If an argument is outside its range, a score is not finite, or there are too
        few calibration rows.
    """
    scores = check_class_scores(scores)
    models, classes = scores.shape[1:]
    if not 0 <= alpha < 1:
        raise BadInput(f"alpha is {alpha!r}; it must be in [0, 1)")
    start = check_bias(bias, classes)
    prices = ModelCosts.check(models, costs, feature_costs, uses)
    chosen = check_choices(scores, start, decisions)
    if order is None:
        kept = order_by_lead(scores, start, prices, chosen)
    else:
        kept = check_permutation(order, models)
    fitter = LeadFitter(scores, kept, start, prices, chosen)
    rows = check_confidence(calibration, confidence, alpha, groups)
    if confidence is None or rows is None:
        return fitter.within(alpha)
    fresh = check_class_scores(rows, (models, classes))
    return calibrate(fitter.ladder(), fresh, alpha, confidence, groups)


class LeadFitter:
    """Thresholds on the lead by optimal stopping, along one order."""

    def __init__(
        self,
        scores: Floats,
        order: Rows,
        bias: Floats,
        costs: ModelCosts,
        chosen: Rows | None = None,
    ) -> None:
        self.order, self.bias = order, bias
        track = LeadTrack(scores, order, bias, chosen)
        self.stopping = Stopping(track, costs=costs.along(order), both=False)

    def within(self, alpha: float) -> LeadSchedule:
        """Cheapest schedule that changes at most a share `alpha` of the rows."""
        allowed = errors_allowed(alpha, self.stopping.rows)
        return self.schedule(self.stopping.cheapest(allowed))

    def ladder(self) -> Iterator[LeadSchedule]:
        """Schedules from the most careful price to the boldest."""
        careful, *bolder = self.stopping.prices(RUNGS)
        first = self.schedule(self.stopping.cuts(careful))
        spread = spread_of(self.stopping.track, len(self.order))
        yield from widened(first, spread)
        for price in bolder:
            yield self.schedule(self.stopping.cuts(price))

    def schedule(self, cuts: Rows) -> LeadSchedule:
        """Schedule that draws these cuts."""
        lower, _ = self.stopping.thresholds(cuts)
        return LeadSchedule(self.order, -lower, self.bias)


def order_by_lead(
    scores: Floats, bias: Floats, costs: ModelCosts, chosen: Rows | None = None
) -> Rows:
    """Order base models by how much doubt about the final choice each takes away.

    As `order_by_doubt`, with the lead in the running sum's place: the doubt of rows
    with nearly the same lead is the root of the share that another class leads than
    in the end. (N, T, K) scores and (K,) bias; at most `SAMPLE` rows are looked at.
    The next base model is one of the `AHEAD` that come first among those left, unless
    they share features: of all there are, the one that seems best on the rows at hand
    is too often so by chance, and boosting's own order is a good one to begin with.
    """
    if chosen is None:
        chosen = whole_sums(scores, bias).argmax(axis=1)
    every = -(-len(scores) // SAMPLE)
    rows = np.arange(0, len(scores), every)
    chosen = chosen[rows]
    sums = np.tile(bias, (len(rows), 1))
    left, order = np.arange(scores.shape[1]), []
    done: Flags = np.zeros(len(costs.features), np.bool_)
    while len(left) > 1 and len(rows) >= FEWEST:
        near = left if len(costs.features) else left[:AHEAD]
        doubt = np.empty(len(near))
        measure_lead_doubt(scores, rows, sums, chosen, near, doubt)
        place = most_gain(doubt, costs.next(near, done))
        order.append(int(near[place]))
        done |= costs.uses[order[-1]]
        left = np.delete(left, place)
        sums = sums + scores[rows, order[-1]]
        stays = unsettled(sums, chosen, costs.whole)
        rows, sums, chosen = rows[stays], sums[stays], chosen[stays]
    return np.array([*order, *left])


def unsettled(sums: Floats, chosen: Rows, whole: float) -> Flags:
    """Which rows are worth going on for, when a wrong stop costs PRICE ensembles."""
    values = -lead(sums)
    wrong = sums.argmax(axis=1) != chosen
    ascending = np.argsort(values, kind="stable")
    ids = np.where(parted(values[ascending])[:-1], ascending, ~ascending)
    cuts = cheapest_cuts(
        ids.astype(np.int32),
        wrong[ascending],
        np.full(len(values), ONWARD * whole),
        np.ones(len(values), np.bool_),
        PRICE * whole,
        False,
    )
    lower, _ = thresholds_at(values[ascending], *cuts)
    return values >= lower


def check_choices(scores: Floats, bias: Floats, decisions: Rows | None) -> Rows:
    """Full decisions (N,), positions of classes."""
    if decisions is None:
        own: Rows = whole_sums(scores, bias).argmax(axis=1)
        return own
    chosen, (N, _, K) = np.asarray(decisions), scores.shape
    whole = chosen.dtype.kind in "iu" and chosen.shape == (N,)
    if not whole or not (chosen.min() >= 0 and chosen.max() < K):
        raise BadInput(
            f"decisions are {chosen.dtype} of shape {chosen.shape}; they must be "
            f"({N},) positions of classes, 0 ... {K - 1}"
        )
    return np.ascontiguousarray(chosen, np.int64)


def check_bias(bias: Sequence[float] | Floats | None, classes: int) -> Floats:
    """Bias as (K,) float64, zeros by default."""
    if bias is None:
        return np.zeros(classes)
    start = np.ascontiguousarray(bias, np.float64)
    if start.shape != (classes,) or not np.isfinite(start).all():
        raise BadInput(
            f"bias is of shape {start.shape}; it must be ({classes},) finite numbers, "
            "one per class"
        )
    return start
