"""Fitting schedules for more than two classes: `fit_margin_schedule`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.whole_sums import whole_sums
from .confidence_bound import FreshRows, check_rate, fit_to_rate
from .costs import ModelCosts
from .optimal_stopping import Stopping
from .ordering import check_permutation, order_by_margin_impurity
from .running_sums import MarginSums
from .schedule import MarginSchedule, check_scores

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


def fit_margin_schedule(
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
    calibration: Floats | FreshRows | None = None,
    calibration_decisions: Rows | None = None,
    groups: Rows | None = None,
) -> MarginSchedule:
    """Order an ensemble's base models and find at which margins to stop; K classes.

    `fit_schedule` for K >= 2 classes, of which the largest sum is chosen. QWYC is for
    two; this is the method "polydom", by the margin of the best class over the second.

    Parameters
    ----------
    scores
        (N, T, K) of unlabelled examples, base models and classes. Boosting that adds
        K trees a round has a round for a base model. Take examples that the ensemble
        was not trained on: of the others it is too sure, and exits come too early.
    bias
        (K,) what the classes have before the first base model; default 0 each.
    order
        Keep this order of the T base models; default that of
        `order_by_margin_impurity`.
    decisions
        (N,) positions of the classes that the ensemble itself chooses, where at a tie
        it does not choose the first of the largest sums.
    alpha, costs, feature_costs, uses, confidence, groups
        As for `fit_schedule`.
    calibration, calibration_decisions
        As for `fit_schedule`, (M, T, K) and (M,).

    Raises
    ------
    BadInput
        If an argument is outside its range, a score is not finite, or there are too
        few calibration rows.
    """
    scores = check_scores(scores, "T", "K")
    models, classes = scores.shape[1:]
    start = check_bias(bias, classes)
    prices = ModelCosts.check(models, costs, feature_costs, uses)
    chosen = check_choices(scores, start, decisions)
    own = decisions, calibration_decisions
    check_rate(alpha, confidence, calibration, groups, *own)
    fresh: tuple[Any, ...] | FreshRows = ()
    if isinstance(calibration, FreshRows):
        fresh = calibration
    elif calibration is not None:
        others = check_scores(calibration, models, classes)
        fresh = others, check_choices(others, start, calibration_decisions)

    if order is None:
        kept = order_by_margin_impurity(scores, chosen, bias=start, costs=prices)
    else:
        kept = check_permutation(order, models)
    sums = MarginSums(scores, kept, chosen, bias=start)
    stopping = Stopping(sums, costs=prices.along(kept), both=False)

    def schedule(lower: Floats, _: Floats) -> MarginSchedule:
        return MarginSchedule(kept, -lower, start)

    return fit_to_rate(stopping, schedule, alpha, confidence, fresh, groups)


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
