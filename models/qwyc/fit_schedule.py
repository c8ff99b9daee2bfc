"""Fit schedules of early exits to the scores of an ensemble.

`fit_schedule` is for two classes, `fit_margin_schedule` for two or more.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .algorithms import Algorithm2, algorithm_1
from .base_model_costs import ModelCosts
from .fixed_sequence import (
    FreshRows,
    Thresholds,
    calibrate,
    calibrate_sides,
    check_confidence,
    make_tests,
)
from .optimal_stopping import Stopping
from .ordering import (
    check_permutation,
    order_by_impurity,
    order_by_margin_impurity,
)
from .promise import Sides, shares_by_class
from .running_sums import Flags, Floats, MarginSums, Rows, ScoreSums, whole_sums
from .schedule import MarginSchedule, Schedule, check_scores

Method = Literal["polydom", "qwyc", "fixed"]
# Functions of an order (T,) of base models. The first returns limits beyond which no
# base model that is left can overrule a decision; the second returns, for each class,
# margins (T, K) that no base models that are left can make up in favour of this class.
ProvenLimits = Callable[[Rows], Thresholds]
ProvenMargins = Callable[[Rows], Floats]


def fit_schedule(
    scores: Floats,
    threshold: float,
    alpha: float | Sequence[float] | Floats,
    *,
    costs: Sequence[float] | Floats | None = None,
    feature_costs: Sequence[float] | Floats | None = None,
    uses: Flags | None = None,
    method: Method = "polydom",
    order: Sequence[int] | Rows | None = None,
    decisions: Flags | None = None,
    sides: Sides = "both",
    confidence: float | None = None,
    calibration: Floats | FreshRows | None = None,
    calibration_decisions: Flags | None = None,
    groups: Rows | None = None,
    proven: ProvenLimits | None = None,
    threads: int = 2,
) -> Schedule:
    """Choose an order of base models and the sums at which to stop, for two classes.

    The schedule is fitted to N rows, which need no labels, for a low mean cost per row.
    Of the rows that the whole ensemble decides as negative, at most the share `alpha`
    gets another decision, and the same holds for positive rows.

    Parameters
    ----------
    scores
        (N, T) scores of T base models. The ensemble's score of a row is the sum of the
        row's T scores.
    threshold
        A row is positive if its sum is at least this number: QWYC's beta.
    alpha
        Share of the decisions of each class that may change, in [0, 1): one number, or
        two numbers for negative and positive rows. It holds for these N rows or, with
        `confidence`, for fresh rows. For the methods "qwyc" and "fixed" without a
        confidence, it is one number for all decisions, as published.
    costs
        (T,) cost of each base model in any unit, > 0; default 1 each.
    feature_costs
        (F,) cost of each feature in the same unit, >= 0. The first base model that
        reads a feature pays for it. By default features cost nothing.
    uses
        (T, F) bool, True for the features that each base model reads.
    method
        "polydom": order by impurity, thresholds by optimal stopping; the probability
        that a stop is wrong is estimated from rows with similar sums. "qwyc": QWYC*,
        that is Algorithm 1. "fixed": Algorithm 2 on `order`. "qwyc" and "fixed"
        overfit: on new rows they change several times as many decisions.
    order
        Fixed order: a permutation of 0 ... T - 1. "fixed" needs an order; "polydom"
        then fits only thresholds; "qwyc" refuses an order.
    decisions
        (N,) bool, the ensemble's decisions, needed if it decides ties differently;
        `alpha` then counts changes of these decisions. Default: True if the sum, added
        base model by base model, is at least `threshold`.
    sides
        "both", or "negative" for filter-and-score (QWYC, section 3.1): rows stop only
        as negative, so all rows that are answered as positive use all base models.
        "positive" is the reverse.
    confidence
        Probability in (0, 1) with which `alpha` holds on fresh rows for both classes
        together, by exact binomial bounds computed from `calibration` (`ClassTests`).
        If there are too few calibration rows of a class, or its share is 0, rows stop
        in favour of the other class only by `proven` limits. If None,
        `Schedule.promise` is None.
    calibration
        (M, T) scores of rows that were neither used to train the ensemble nor are in
        `scores`. Alternatively `FreshRows`, which include the decisions, and are read
        in parts to save memory.
    calibration_decisions
        (M,) bool, the ensemble's decisions for the calibration rows, needed if
        `decisions` is given.
    groups
        (M,) number or name of each calibration row's group, needed if rows of the same
        group, such as one patient's, are not independent (`most_changed`).
    proven
        Function from an order (T,) of base models to limits (lower, upper), (T,) each,
        beyond which the other base models cannot overrule a decision; used with a
        `confidence`. If None, no limits are known.
    threads
        Number of threads that compare base models, >= 1.

    Raises
    ------
    BadInput
        If an argument is outside its range, a score is not finite, all rows are on one
        side of the threshold, or there are too few calibration rows.
    """
    scores = check_scores(scores, "T")
    models, both, turned = scores.shape[1], sides == "both", sides == "positive"
    check_options(method, order, sides, threads)
    alphas = shares_by_class(alpha, 2)
    own = decisions, calibration_decisions
    groups = check_confidence(alphas, confidence, calibration, groups, *own)
    positive = check_decisions(scores, threshold, decisions)
    model_costs = ModelCosts.check(models, costs, feature_costs, uses)
    if confidence is None and method != "polydom" and alphas[0] != alphas[1]:
        raise BadInput(
            f"method {method!r} counts all decisions alike, as published: alpha must "
            "be one number, or a confidence be given"
        )
    border, fresh, tests = float(threshold), None, None
    if turned:  # what follows stops rows low only, if not on both sides
        scores, border, positive, alphas = -scores, -border, ~positive, alphas[::-1]
    if confidence is not None:

        def decide(rows: Floats) -> Flags:
            return full_decisions(rows, threshold, calibration_decisions)

        fresh = _fresh(calibration, (models,), decide)
        fresh = _turned(fresh) if turned else fresh
        # Stops on one side only change rows that the ensemble decides as the other.
        asked = alphas * [both, True]
        tests = make_tests(fresh.decisions, asked, confidence, groups, apart=True)

    limits = None
    if method == "qwyc":
        kept, *limits = algorithm_1(
            scores, positive, alphas[0], costs=model_costs, both=both, threads=threads
        )
    elif order is None:
        kept = order_by_impurity(
            scores, positive, border, costs=model_costs, both=both, threads=threads
        )
    else:
        kept = check_permutation(order, models)
    sums = ScoreSums(scores, kept, positive, border)
    fitter: Algorithm2 | Stopping = Algorithm2(sums, both=both)
    if method == "polydom":
        fitter = Stopping(sums, costs=model_costs.along(kept), both=both)

    def schedule(lower: Floats, upper: Floats) -> Schedule:
        return Schedule(kept, lower, upper, border)

    if fresh is None or tests is None:
        found = schedule(*(limits or fitter.within(alphas)))
    else:  # for "qwyc" too, Algorithm 2 fits a ladder to the order
        never = np.full(models, np.inf)
        below, above = (-never, never) if proven is None else proven(kept)
        below, above = (-above, -below) if turned else (below, above)
        ends = below, above if both else never
        found = calibrate_sides(fitter.ladder(alphas), schedule, fresh, tests, ends)
    return found.turned(float(threshold)) if turned else found


def _fresh(
    calibration: Floats | FreshRows | None,
    shape: tuple[int, ...],
    decide: Callable[[Floats], NDArray[Any]],
) -> FreshRows:
    """Return calibration rows with their decisions, by `decide` if scores came."""
    if isinstance(calibration, FreshRows):
        return calibration
    assert calibration is not None
    scores = check_scores(calibration, *shape)
    decisions = decide(scores)
    return FreshRows.of(decisions, scores, decisions)


def _turned(fresh: FreshRows) -> FreshRows:
    """Return calibration rows with the opposite scores and decisions."""
    read = fresh.read
    return FreshRows(~fresh.decisions, lambda: ((-s, ~own) for s, own in read()))


def fit_margin_schedule(
    scores: Floats,
    alpha: float | Sequence[float] | Floats,
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
    proven: ProvenMargins | None = None,
) -> MarginSchedule:
    """Choose an order of base models and the margins at which to stop, for K classes.

    This is `fit_schedule` for ensembles that choose the class with the largest of K >=
    2 sums. A row's margin is its largest sum minus its second largest. The method is
    always "polydom", as QWYC is only for two classes.

    Parameters
    ----------
    scores
        (N, T, K) scores of N rows by T base models for K classes. A round of boosting
        with K trees is one base model. Use rows that the ensemble was not trained on:
        margins of training rows are too large, so that fresh rows would stop too early.
    bias
        (K,) sums of the classes before the first base model; default 0 each.
    order
        Fixed order of the T base models; default `order_by_margin_impurity`.
    decisions
        (N,) positions of the classes that the ensemble chooses, needed if it decides
        ties differently. Default: the first class with the largest sum.
    alpha
        Share of the decisions of each class that may change, in [0, 1): one number, or
        K numbers.
    costs, feature_costs, uses, confidence, groups
        As for `fit_schedule`.
    calibration, calibration_decisions
        As for `fit_schedule`, with shapes (M, T, K) and (M,).
    proven
        Function from an order (T,) of base models to margins (T, K). If the leading
        class is ahead of class k by more than the margin at a position, the later base
        models cannot put class k in the lead. With a `confidence`, margins are at least
        these for each class that has too few calibration rows, or of which no decision
        may change. If None, no row stops early if there is such a class.

    Raises
    ------
    BadInput
        If an argument is outside its range, a score is not finite, or there are too few
        calibration rows.
    """
    scores = check_scores(scores, "T", "K")
    models, classes = scores.shape[1:]
    start = check_bias(bias, classes)
    model_costs = ModelCosts.check(models, costs, feature_costs, uses)
    chosen = check_choices(scores, start, decisions)
    alphas = shares_by_class(alpha, classes)
    own = decisions, calibration_decisions
    groups = check_confidence(alphas, confidence, calibration, groups, *own)
    fresh, tests = None, None
    if confidence is not None:

        def decide(rows: Floats) -> Rows:
            return check_choices(rows, start, calibration_decisions)

        fresh = _fresh(calibration, (models, classes), decide)
        tests = make_tests(fresh.decisions, alphas, confidence, groups)

    if order is None:
        kept = order_by_margin_impurity(scores, chosen, bias=start, costs=model_costs)
    else:
        kept = check_permutation(order, models)
    sums = MarginSums(scores, kept, chosen, bias=start)
    stopping = Stopping(sums, costs=model_costs.along(kept), both=False)
    if fresh is None or tests is None:
        return MarginSchedule(kept, -stopping.within(alphas)[0], start)

    least = np.full(models, -np.inf)
    if tests.lacking.any():
        least = np.full(models, np.inf)
        if proven is not None:
            least = proven(kept)[:, tests.lacking].max(axis=1)
    rungs = (
        MarginSchedule(kept, np.maximum(-lower, least), start)
        for lower, _ in stopping.ladder(alphas)
    )
    return calibrate(rungs, fresh, tests)


def check_decisions(scores: Floats, threshold: float, decisions: Flags | None) -> Flags:
    """Return the decisions of the whole ensemble, shape (N,), True for positive rows.

    Raises BadInput if all rows have the same decision, or an argument is invalid.
    """
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
    """Return the decisions of the whole ensemble, shape (N,), True for positive rows.

    If `decisions` is None, a row is positive if the sum of its scores is at least
    `threshold`. Raises BadInput unless given `decisions` are bool of shape (N,).
    """
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
    """Raise BadInput for unknown options, or an `order` that does not suit `method`."""
    if sides not in get_args(Sides):
        known = ", ".join(get_args(Sides))
        raise BadInput(f"sides is {sides!r}; it must be one of {known}")
    if threads < 1:
        raise BadInput(f"threads is {threads!r}; it must be at least 1")
    if method not in get_args(Method):
        known = ", ".join(get_args(Method))
        raise BadInput(f"method is {method!r}; it must be one of {known}")
    if method == "fixed" and order is None:
        raise BadInput("method 'fixed' needs an order")
    if method == "qwyc" and order is not None:
        raise BadInput("method 'qwyc' chooses its own order; use 'fixed' to keep one")


def check_choices(scores: Floats, bias: Floats, decisions: Rows | None) -> Rows:
    """Return the positions of the classes that the whole ensemble chooses, shape (N,).

    If `decisions` is None, each row's class is the first with the largest sum. Raises
    BadInput unless given `decisions` are positions of classes, shape (N,).
    """
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
    """Return the bias as an array (K,) of float64; zeros if `bias` is None."""
    if bias is None:
        return np.zeros(classes)
    start = np.ascontiguousarray(bias, np.float64)
    if start.shape != (classes,) or not np.isfinite(start).all():
        raise BadInput(
            f"bias is of shape {start.shape}; it must be ({classes},) finite numbers, "
            "one per class"
        )
    return start
