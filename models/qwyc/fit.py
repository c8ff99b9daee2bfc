"""Fitting schedules for two classes: `fit_schedule`, the one way in to the methods."""

from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.whole_sums import whole_sums
from .algorithms import ThresholdFitter, fit_jointly
from .confidence_bound import Fitter, FreshRows, check_rate, fit_to_rate
from .costs import ModelCosts
from .optimal_stopping import Stopping
from .ordering import OrderName, make_order, order_by_impurity
from .running_sums import ScoreSums
from .schedule import Schedule, check_scores

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]
Method = Literal["polydom", "qwyc", "fixed"]
Sides = Literal["both", "negative"]


def fit_schedule(
    scores: Floats,
    threshold: float,
    alpha: float,
    *,
    costs: Sequence[float] | Floats | None = None,
    feature_costs: Sequence[float] | Floats | None = None,
    uses: Flags | None = None,
    method: Method = "polydom",
    order: OrderName | Sequence[int] | Rows | None = None,
    target: Floats | None = None,
    decisions: Flags | None = None,
    sides: Sides = "both",
    confidence: float | None = None,
    calibration: Floats | FreshRows | None = None,
    calibration_decisions: Flags | None = None,
    groups: Rows | None = None,
    seed: int = 0,
    threads: int = 2,
) -> Schedule:
    """Order an ensemble's base models and find when to stop early; two classes.

    Minimises the mean cost over N unlabelled examples, while at most `alpha` of them
    are decided otherwise than by the whole ensemble.

    Parameters
    ----------
    scores
        (N, T) base-model scores; the ensemble's score is a row's sum.
    threshold
        QWYC's beta: positive iff the sum is at least this.
    alpha
        Share of decisions that may change, in [0, 1): on these rows, or with
        `confidence` on fresh ones.
    costs
        (T,) cost of each base model, any unit, > 0; default 1 each.
    feature_costs, uses
        (F,) cost of each feature, >= 0, in the same unit; (T, F) bool, which of them
        a base model reads. A feature is paid for where it is first read; see
        `cut_stages`. Without them the features are taken to be there.
    method
        "polydom": order by impurity, thresholds by optimal stopping, where rows nearby
        tell how likely a stop is to be wrong. "qwyc": QWYC*, Algorithm 1. "fixed":
        Algorithm 2 on `order`. The last two learn their rows by heart: on others they
        change several times as many decisions.
    order
        Keep this order: "natural", "random", "individual-mse", "greedy-mse" or the
        T base models themselves. Required by "fixed"; "polydom" then fits only its
        thresholds; "qwyc" chooses its own.
    target
        (N,) for the two MSE orders: labels on the scale of the scores; default the
        ensemble's own scores, which needs no labels.
    decisions
        (N,) bool, the ensemble's own decisions, where at a tie it does not do as
        `threshold` says: its `early_exit` then keeps to `alpha`, ties and all. Default:
        positive iff the sum, added base model by base model, is at least `threshold`.
    sides
        "negative" for filter-and-score (QWYC, section 3.1): positive rows are always
        evaluated whole.
    confidence
        In (0, 1): make the rate hold on fresh rows with this confidence, by an exact
        binomial bound on `calibration`. Without it `Schedule.promise` is None.
    calibration, calibration_decisions
        (M, T) scores of rows used for nothing else: not for training the ensemble,
        not in `scores`. (M,) as `decisions`, of these rows: needed where those are.
        Both together, some rows at a time, as `FreshRows`.
    groups
        (M,) numbers or names of the groups that calibration rows belong to, where rows
        of one group, such as one patient's, are no independent draws (`most_changed`).
    seed
        Of the random order.
    threads
        Threads for the scans over base models.

    Raises
    ------
    BadInput
        If an argument is outside its range, a score is not finite, every row falls on
        one side of the threshold, or there are too few calibration rows.
    """
    scores = check_scores(scores, "T")
    models, both = scores.shape[1], sides == "both"
    check_options(method, order, sides, threads)
    own = decisions, calibration_decisions
    check_rate(alpha, confidence, calibration, groups, *own)
    positive = check_decisions(scores, threshold, decisions)
    prices = ModelCosts.check(models, costs, feature_costs, uses)
    fresh: tuple[Any, ...] | FreshRows = ()
    if isinstance(calibration, FreshRows):
        fresh = calibration
    elif calibration is not None:
        others = check_scores(calibration, models)
        fresh = others, full_decisions(others, threshold, calibration_decisions)

    if method == "qwyc":
        kept, lower, upper = fit_jointly(
            scores, positive, alpha, costs=prices, both=both, threads=threads
        )
        if confidence is None:
            return Schedule(kept, lower, upper, float(threshold))
    elif order is None:
        kept = order_by_impurity(
            scores, positive, threshold, costs=prices, both=both, threads=threads
        )
    else:
        kept = make_order(order, scores, target, seed=seed)

    sums = ScoreSums(scores, kept, positive, float(threshold))
    fitter: Fitter = ThresholdFitter(sums, both=both)
    if method == "polydom":
        fitter = Stopping(sums, costs=prices.along(kept), both=both)

    def schedule(lower: Floats, upper: Floats) -> Schedule:
        return Schedule(kept, lower, upper, float(threshold))

    return fit_to_rate(fitter, schedule, alpha, confidence, fresh, groups)


def check_decisions(scores: Floats, threshold: float, decisions: Flags | None) -> Flags:
    """Full decision of each row, (N,); both must occur."""
    if not np.isfinite(threshold):
        raise BadInput(f"threshold is {threshold!r}; it must be finite")
    positive = full_decisions(scores, threshold, decisions)
    if positive.all() or not positive.any():
        if decisions is not None:
            raise BadInput(
                f"all {len(scores)} decisions are alike; both kinds are needed"
            )
        side = "at or above" if positive.all() else "below"
        raise BadInput(
            f"the full scores of all {len(scores)} rows are {side} the threshold "
            f"{threshold:g}; rows on both sides of it are needed"
        )
    return positive


def full_decisions(scores: Floats, threshold: float, decisions: Flags | None) -> Flags:
    """Full decision of each row, (N,): as given, else by the whole sums."""
    if decisions is None:
        return whole_sums(scores) >= threshold
    positive = np.ascontiguousarray(decisions)
    if positive.dtype != np.bool_ or positive.shape != (len(scores),):
        raise BadInput(
            f"decisions are {positive.dtype} of shape {positive.shape}; they must "
            f"be bool, ({len(scores)},): whether each row is positive"
        )
    return positive


def check_options(method: Method, order: object, sides: Sides, threads: int) -> None:
    """Refuse what is no option, and a method that does not go with `order`."""
    if sides not in get_args(Sides):
        raise BadInput(f"sides is {sides!r}; it must be 'both' or 'negative'")
    if threads < 1:
        raise BadInput(f"threads is {threads!r}; it must be at least 1")
    if method not in get_args(Method):
        known = ", ".join(get_args(Method))
        raise BadInput(f"method is {method!r}; it must be one of {known}")
    if method == "fixed" and order is None:
        raise BadInput("method 'fixed' needs an order")
    if method == "qwyc" and order is not None:
        raise BadInput("method 'qwyc' chooses its own order; use 'fixed' to keep one")
