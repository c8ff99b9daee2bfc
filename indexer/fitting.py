"""Fitting schedules: `fit_schedule`, the one way in to the methods."""

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Literal, Self, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput
from ..models.sums import whole_sums
from .calibrate import calibrate, fewest_rows, lacking_rows, spread_of, widened
from .doubt import order_by_doubt
from .model_costs import ModelCosts
from .model_order import OrderName, make_order
from .quit import errors_allowed, fit_jointly, fit_thresholds
from .schedule import Schedule, check_scores
from .stopping import Stopping
from .track import SumTrack

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]
Method = Literal["polydom", "qwyc", "fixed"]
Sides = Literal["both", "negative"]
RowsGiven = TypeVar("RowsGiven", bound=Sized)

# While an order is sought, a wrong stop costs as much as `PRICE` whole ensembles, and
# an undecided row is expected to need `ONWARD` of one more. Chosen on a fifth of
# Adult's training rows; the thresholds then have a price of their own.
PRICE = 24.0
ONWARD = 1 / 16
RUNGS = 48  # prices tried on calibration rows


@dataclass(frozen=True, slots=True)
class Task:
    """What is to be fitted: checked scores, full decisions, costs, limits."""

    scores: Floats
    threshold: float
    positive: NDArray[np.bool_]
    alpha: float
    costs: ModelCosts
    both: bool
    threads: int

    @classmethod
    def check(
        cls,
        scores: Floats,
        threshold: float,
        alpha: float,
        costs: Sequence[float] | Floats | None,
        feature_costs: Sequence[float] | Floats | None,
        uses: NDArray[np.bool_] | None,
        sides: Sides,
        threads: int,
        decisions: NDArray[np.bool_] | None = None,
    ) -> Self:
        """Take arguments of `fit_schedule`; BadInput where one is outside its range."""
        scores = check_scores(scores)
        if not 0 <= alpha < 1:
            raise BadInput(f"alpha is {alpha!r}; it must be in [0, 1)")
        if sides not in get_args(Sides):
            raise BadInput(f"sides is {sides!r}; it must be 'both' or 'negative'")
        if threads < 1:
            raise BadInput(f"threads is {threads!r}; it must be at least 1")
        return cls(
            scores,
            float(threshold),
            check_decisions(scores, threshold, decisions),
            alpha,
            ModelCosts.check(scores.shape[1], costs, feature_costs, uses),
            sides == "both",
            threads,
        )

    def schedule(self, order: Rows, lower: Floats, upper: Floats) -> Schedule:
        """Schedule with this task's threshold."""
        return Schedule(order, lower, upper, self.threshold)


def fit_schedule(
    scores: Floats,
    threshold: float,
    alpha: float,
    *,
    costs: Sequence[float] | Floats | None = None,
    feature_costs: Sequence[float] | Floats | None = None,
    uses: NDArray[np.bool_] | None = None,
    method: Method = "polydom",
    order: OrderName | Sequence[int] | Rows | None = None,
    target: Floats | None = None,
    decisions: NDArray[np.bool_] | None = None,
    sides: Sides = "both",
    confidence: float | None = None,
    calibration: Floats | None = None,
    groups: Rows | None = None,
    seed: int = 0,
    threads: int = 2,
) -> Schedule:
    """Order an ensemble's base models and say when to stop early.

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
        a base model reads. A feature is paid for where it is first read, so base
        models are ordered such that whole features are often never computed; see
        `cut_stages`. Without them the features are taken to be there.
    method
        "polydom": order by doubt, thresholds by optimal stopping. "qwyc": QWYC*,
        Algorithm 1. "fixed": Algorithm 2 on `order`.
    order
        Keep this order: "natural", "random", "individual-mse", "greedy-mse" or the
        T base models themselves. Required by "fixed"; "polydom" then fits only its
        thresholds; "qwyc" chooses its own.
    target
        (N,) for the two MSE orders: labels on the scale of the scores; default the
        ensemble's own scores, which needs no labels.
    decisions
        (N,) bool, the ensemble's own decisions, where at a tie it does not do as
        `threshold` says: with those of its `predict`, its `early_exit` keeps to
        `alpha` on these rows, ties and all. Default: positive iff the sum, added base
        model by base model, is at least `threshold`.
    sides
        "negative" for filter-and-score (QWYC, section 3.1): positive rows are always
        evaluated whole.
    confidence
        In (0, 1): make the rate hold on fresh rows with this confidence, by an exact
        binomial bound on `calibration`. Without it nothing is promised about rows
        that were not fitted: `Schedule.promise` is None.
    calibration
        (M, T) scores of rows used for nothing else: not for training the ensemble,
        not in `scores`.
    groups
        (M,) numbers of the groups that calibration rows belong to, where rows of one
        group, such as one patient's, are no independent draws; only groups then are
        (`indexer.calibrate.most_changed`).
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
    task = Task.check(
        scores, threshold, alpha, costs, feature_costs, uses, sides, threads, decisions
    )
    kept = None if order is None else check_order(order, task, target, seed)
    check_method(method, order)
    rows = check_confidence(calibration, confidence, alpha, groups)
    fitter = FITTERS[method](task, kept)
    if confidence is None or rows is None:
        return fitter.within(alpha)
    fresh = check_scores(rows, models=task.scores.shape[1])
    return calibrate(fitter.ladder(), fresh, alpha, confidence, groups)


class StoppingFitter:
    """Method "polydom": order by doubt, thresholds by optimal stopping."""

    def __init__(self, task: Task, order: Rows | None) -> None:
        self.task = task
        total = task.costs.whole
        self.order = (
            order_by_doubt(
                task.scores,
                task.positive,
                costs=task.costs,
                price=PRICE * total,
                onward=ONWARD * total,
                both=task.both,
                threads=task.threads,
            )
            if order is None
            else order
        )
        track = SumTrack(task.scores, self.order, task.positive)
        costs = task.costs.along(self.order)
        self.stopping = Stopping(track, costs=costs, both=task.both)

    def within(self, alpha: float) -> Schedule:
        """Cheapest schedule that changes at most a share `alpha` of these rows."""
        allowed = errors_allowed(alpha, len(self.task.scores))
        return self.schedule(self.stopping.cheapest(allowed))

    def ladder(self) -> Iterator[Schedule]:
        """Schedules from the most careful price to the boldest."""
        careful, *bolder = self.stopping.prices(RUNGS)
        first = self.schedule(self.stopping.cuts(careful))
        spread = spread_of(self.stopping.track, len(self.order))
        yield from widened(first, spread)
        for price in bolder:
            yield self.schedule(self.stopping.cuts(price))

    def schedule(self, cuts: Rows) -> Schedule:
        """Schedule that draws these cuts."""
        lower, upper = self.stopping.thresholds(cuts)
        return Schedule(self.order, lower, upper, self.task.threshold)


class QuitFitter:
    """Methods "qwyc" and "fixed": QWYC's Algorithm 1, and 2 on an order to keep."""

    def __init__(self, task: Task, order: Rows | None) -> None:
        self.task, self.order = task, order

    def within(self, alpha: float) -> Schedule:
        """Schedule of the algorithm for `alpha`."""
        task = self.task
        if self.order is None:
            policy = fit_jointly(
                task.scores,
                task.positive,
                alpha,
                costs=task.costs,
                both=task.both,
                threads=task.threads,
            )
        else:
            policy = fit_thresholds(
                task.scores, self.order, task.positive, alpha, both=task.both
            )
        return Schedule(*policy, task.threshold)

    def ladder(self) -> Iterator[Schedule]:
        """Algorithm 2 for growing shares of changed decisions, on one order."""
        order = self.within(self.task.alpha).order
        fixed = QuitFitter(self.task, order)
        track = SumTrack(self.task.scores, order, self.task.positive)
        yield from widened(fixed.within(0.0), spread_of(track, len(order)))
        for share in np.linspace(0.0, 1.0, RUNGS, endpoint=False)[1:] ** 4:
            yield fixed.within(float(share))


FITTERS: dict[Method, type[StoppingFitter | QuitFitter]] = {
    "polydom": StoppingFitter,
    "qwyc": QuitFitter,
    "fixed": QuitFitter,
}


def check_decisions(
    scores: Floats, threshold: float, decisions: NDArray[np.bool_] | None
) -> NDArray[np.bool_]:
    """Full decision of each row, (N,); both must occur."""
    if not np.isfinite(threshold):
        raise BadInput(f"threshold is {threshold!r}; it must be finite")
    if decisions is None:
        positive: NDArray[np.bool_] = whole_sums(scores) >= threshold
    else:
        positive = np.ascontiguousarray(decisions)
        if positive.dtype != np.bool_ or positive.shape != (len(scores),):
            raise BadInput(
                f"decisions are {positive.dtype} of shape {positive.shape}; they must "
                f"be bool, ({len(scores)},): whether each row is positive"
            )
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


def check_method(method: Method, order: object) -> None:
    """Refuse an unknown method, or one that does not go with `order`."""
    if method not in FITTERS:
        raise BadInput(f"method is {method!r}; it must be one of {', '.join(FITTERS)}")
    if method == "fixed" and order is None:
        raise BadInput("method 'fixed' needs an order")
    if method == "qwyc" and order is not None:
        raise BadInput("method 'qwyc' chooses its own order; use 'fixed' to keep one")


def check_order(
    order: OrderName | Sequence[int] | Rows,
    task: Task,
    target: Floats | None,
    seed: int,
) -> Rows:
    """Order to keep, (T,) int64, by name or as given."""
    if isinstance(order, str):
        full = whole_sums(task.scores)
        goal = full if target is None else np.asarray(target, np.float64)
        if goal.shape != full.shape or not np.isfinite(goal).all():
            raise BadInput(
                f"target has shape {goal.shape}; it must be {full.shape}, finite"
            )
        return make_order(order, task.scores, goal, seed=seed)
    return check_permutation(order, task.scores.shape[1])


def check_permutation(order: Sequence[int] | Rows, models: int) -> Rows:
    """Order of all base models, (T,) int64."""
    kept = np.ascontiguousarray(order, np.int64)
    if not np.array_equal(np.sort(kept), np.arange(models)):
        raise BadInput(
            f"order is not a permutation of the {models} base models, 0 ... "
            f"{models - 1}"
        )
    return kept


def check_confidence(
    calibration: RowsGiven | None,
    confidence: float | None,
    alpha: float,
    groups: Rows | None = None,
) -> RowsGiven | None:
    """Calibration rows where a confidence is asked for: enough of them, else None."""
    if confidence is None:
        if calibration is not None or groups is not None:
            raise BadInput("calibration rows are given without a confidence")
        return None
    if not 0 < confidence < 1:
        raise BadInput(f"confidence is {confidence!r}; it must be in (0, 1)")
    if calibration is None:
        raise BadInput(
            f"confidence {confidence:g} needs calibration rows, used for nothing else; "
            "without them nothing can be promised about fresh rows"
        )
    if alpha == 0:
        raise BadInput(
            "alpha is 0, which no number of calibration rows can show; it must be "
            "above 0 when a confidence is given"
        )
    if groups is not None and np.shape(groups) != (len(calibration),):
        raise BadInput(
            f"groups have shape {np.shape(groups)}; one of each of the "
            f"{len(calibration)} calibration rows is needed"
        )
    if too_few := lacking_rows(len(calibration), alpha, confidence, groups):
        raise BadInput(
            f"of calibration rows there are {too_few}; alpha {alpha:g} with confidence "
            f"{confidence:g} needs at least {fewest_rows(alpha, confidence)} that are "
            "independent"
        )
    return calibration
