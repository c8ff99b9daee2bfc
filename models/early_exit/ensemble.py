"""Models as sums of base models, of which some can be left out."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import AllAlike, BadInput

from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.classifier import Classifier
from ..scoring.model import Floats, Rows
from ..scoring.scorer import BaseModels, PackedTerms, SumOfTerms
from ..scoring.stopping_rule import NEAR, Margins, Stops
from .early_exits import EarlyExit, MarginExit, make_evaluator
from .fitting_rows import FitScores, shuffle_scores

# Options of the fitting that are about base models one by one.
OF_TERMS = ("order", "costs", "feature_costs", "uses")


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """A compiled classifier seen as the sum of its T base models.

    A base model is a tree, a lattice, or one term of a linear model; in boosting for
    K > 2 classes it is a round, which has a tree for each class. The base scores of
    `terms`, with their bias, decide by their sum for two classes, by the largest of K
    sums for more.
    """

    classifier: Classifier
    terms: BaseModels

    def __repr__(self) -> str:
        return f"Ensemble({self.classifier!r}, {self.size} base models)"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_ensemble, (self.classifier,)

    @property
    def size(self) -> int:
        """T, the number of base models."""
        return self.terms.size

    @property
    def exchangeable(self) -> bool:
        """Whether base models are draws of one kind, as the trees of a forest are."""
        scorer = self.classifier.scorer
        return isinstance(scorer, SumOfTerms) and scorer.gives_shares()

    @property
    def binary(self) -> bool:
        """Whether there are two classes."""
        return len(self.classes) == 2

    @property
    def bias(self) -> NDArray[np.float64]:
        """(K,) what each of K > 2 classes has before the first base model."""
        if self.binary:
            raise BadInput("an ensemble for two classes has a threshold, no bias")
        return self.terms.base_bias()

    @property
    def classes(self) -> NDArray[Any]:
        """(K,) labels."""
        return self.classifier.classes

    @property
    def threshold(self) -> float:
        """The sum of the base scores above which the second of two classes is chosen.

        At the threshold itself the original library's rule decides.
        """
        self._check_binary()
        return -float(self.terms.base_bias()[0])

    def base_scores(self, X: Rows) -> NDArray[np.float64]:
        """Give what each base model adds to the decision for the rows X (N, width).

        (N, T) for two classes, where a forest's tree adds the difference of its two
        class shares; (N, T, K) for more.
        """
        return self._base_scores(self.rows(X))

    def _base_scores(self, X: Rows) -> NDArray[np.float64]:
        scores = self.terms.base_scores(X)
        return scores[:, :, 0] if self.binary else scores

    def rows(self, X: Any) -> Rows:
        """Rows (N, width) as kernels read them, categories of a frame by their codes.

        For `choose` and `over` of an exit, which take arrays only.

        Raises
        ------
        BadInput
            If it is no table of numbers, or a frame that the original was not fitted
            on; the message names the column.
        """
        return self.classifier.rows(X)

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest score (T,) of each base model, whatever the row.

        BadInput for more than two classes, and for linear terms, which have no bounds.
        """
        self._check_binary()
        least, most = self.terms.bounds()
        return least[:, 0], most[:, 0]

    def uses(self, width: int) -> NDArray[np.bool_]:
        """Which columns of rows of `width` columns each base model reads: (T, width).

        For `fit_schedule(..., feature_costs, uses)`, where a column is a feature.
        """
        return self.terms.columns_used(width)

    def decision_function(self, X: Rows) -> NDArray[np.float64]:
        """Sum over all base models: (N,) for two classes, else (N, K).

        The original's `decision_function` to the bit where it has one and sums in
        float64; for a forest of two classes the difference of its probabilities.
        """
        raw = self.classifier.scorer.raw(self.rows(X))
        if raw.shape[1] == 2 and self.binary:
            return raw[:, 1] - raw[:, 0]
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_scores(self, X: Rows) -> NDArray[np.float64]:
        """(N, K) class scores: the original's `predict_proba`, where it has one."""
        return self.classifier.predict_scores(X)

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels, those of the original's `predict`."""
        return self.classifier.predict(X)

    def fit_early_exit(
        self,
        X: Rows,
        *,
        alpha: float,
        confidence: float | None = None,
        calibration: Rows | None = None,
        groups: NDArray[np.int64] | None = None,
        feature_costs: Sequence[float] | Floats | None = None,
        **options: Any,
    ) -> EarlyExit | MarginExit:
        """Fit a schedule on rows, and make the evaluator that follows it.

        Labels are not needed: what counts is what the ensemble itself decides, ties and
        all. Give rows that it was not trained on, of which it is too sure; where there
        are none, see `swap_columns`.

        Trees of a forest keep their order, as none is better than another: what is
        fitted are rows with their trees in many orders.

        Of rows whose base scores would take more than `fit_scores.MOST_BYTES` as many
        as do not are drawn. Linear terms are looked at in blocks of many, unless their
        order or what they cost is given.

        Parameters
        ----------
        X
            (N, width) rows to fit on.
        alpha
            Share of decisions that may change, in [0, 1): on these rows, or with
            `confidence` on fresh ones.
        confidence
            In (0, 1): the rate holds on fresh rows with this confidence, which
            `schedule.promise` of the evaluator then says.
        calibration, groups
            (M, width) rows used for nothing else, which `confidence` needs; (M,) as for
            `fit_schedule`, where they belong together.
        feature_costs
            (width,) what it costs to have each column, >= 0: paid for where a base
            model first reads it.
        **options
            More of `fit_schedule` or, for more than two classes, of
            `fit_margin_schedule`, such as `costs` or `sides="negative"`.

        Raises
        ------
        AllAlike
            If there are two classes, and all rows to fit on are decided alike.
        BadInput
            If an argument is outside its range, or rows are too few.
        """
        X = self.rows(X)
        whole = feature_costs is not None or not options.keys().isdisjoint(OF_TERMS)
        source = self._fit_scores(X, whole=whole or not self.terms.light)
        X = source.draw(X, options.get("seed", 0))
        own: dict[str, Any] = {"confidence": confidence, "groups": groups}
        decisions = own["decisions"] = self._decide(X)
        if self.binary and len(X) and (decisions == decisions[0]).all():
            raise AllAlike(
                f"all {len(X)} decisions are alike; both kinds are needed to fit on"
            )
        if calibration is not None:
            calibration = self.rows(calibration)
            fresh = source.fresh(calibration, self._decide(calibration))
            own["calibration"] = fresh
        if feature_costs is not None:
            own |= {"feature_costs": feature_costs, "uses": self.uses(X.shape[1])}
        if source.blocks is not None:
            own["costs"] = source.blocks.sizes
        own |= options
        scores = source.of(X)
        if self.exchangeable and not whole and "method" not in options:
            schedule = self._fit_shuffled(scores, alpha, own)
        else:
            schedule = self._fit(scores, alpha, own)
        if source.blocks is not None:
            schedule = source.blocks.spread_out(schedule)
        return self.early_exit(schedule)

    def _fit(
        self, scores: Floats, alpha: float, options: dict[str, Any]
    ) -> Schedule | MarginSchedule:
        # Who only evaluates compiles no kernels of the fitting.
        from ..qwyc.fit_schedule import fit_margin_schedule, fit_schedule

        if self.binary:
            return fit_schedule(scores, self.threshold, alpha, **options)
        return fit_margin_schedule(scores, alpha, bias=self.bias, **options)

    def _fit_shuffled(
        self, scores: Floats, alpha: float, options: dict[str, Any]
    ) -> Schedule | MarginSchedule:
        """Fit to rows in many orders of their base models, for the given order.

        Of the rows as given, more may change than of all orders together; then fewer
        are let change of these.
        """
        decisions = options["decisions"]
        many, of_many = shuffle_scores(scores, decisions, options.get("seed", 0))
        kept = {**options, "order": np.arange(self.size), "decisions": of_many}
        schedule, share = self._fit(many, alpha, kept), alpha
        while schedule.promise is None and schedule.changed(
            scores, decisions
        ) > alpha * len(scores):
            share = share / 2 if share * len(many) >= 1 else 0.0
            schedule = self._fit(many, share, kept)
        return schedule

    def _fit_scores(self, X: Rows, whole: bool) -> FitScores:
        """Find how to make base scores to fit on: of blocks, unless `whole`."""
        K = 1 if self.binary else len(self.classes)
        # A round's trees are added up when there are scores of all of them.
        source = FitScores(self._base_scores, 8 * self.size * K * K)
        return source if whole else source.in_blocks(X)

    def _decide(self, X: Rows) -> NDArray[Any]:
        """(N,) what the ensemble decides, as the fitting takes it."""
        classes = self.classifier.head.choose(self.classifier.scorer.raw(X))
        return classes == 1 if self.binary else classes

    def early_exit(self, schedule: Schedule | MarginSchedule) -> EarlyExit | MarginExit:
        """Make the evaluator that follows a schedule.

        A schedule for another threshold than the ensemble's is followed: its own
        decides.

        Raises
        ------
        BadInput
            If the schedule is not one for T base models and as many classes, or its
            bias is another ensemble's.
        """
        if isinstance(schedule, Schedule):
            self._check_binary()
        elif not isinstance(schedule, MarginSchedule):
            raise BadInput(f"{type(schedule).__name__} is no schedule")
        elif self.binary:
            raise BadInput("this schedule is for more than two classes")
        if len(schedule.order) != self.size:
            raise BadInput(
                f"the schedule orders {len(schedule.order)} base models; this ensemble "
                f"has {self.size}"
            )
        if isinstance(schedule, MarginSchedule):
            check_bias(schedule.bias, self.bias, self.classes)
        return make_evaluator(self.classifier, self.terms, schedule)

    def _check_binary(self) -> None:
        if not self.binary:
            raise BadInput("only an ensemble for two classes has one threshold")


@dataclass(frozen=True, slots=True, eq=False)
class ClassSums:
    """Base models for K > 2 classes: `group` terms of a sum each, one after the other.

    A round of boosting is one, with a tree for each class.
    """

    terms: BaseModels
    group: int

    @property
    def size(self) -> int:
        """T, the number of base models."""
        return self.terms.size // self.group

    @property
    def light(self) -> bool:
        """Whether to look at a sum takes longer than to add a base model's scores."""
        return self.terms.light

    def base_bias(self) -> Floats:
        """(K,) sums before the first base model."""
        return self.terms.base_bias()

    def base_scores(self, X: Rows) -> Floats:
        """Give what each base model adds to each class for X (N, width): (N, T, K)."""
        scores = self.terms.base_scores(X)
        if self.group == 1:
            return scores
        shape = len(X), self.size, self.group, scores.shape[2]
        rounds: Floats = scores.reshape(shape).sum(axis=2)
        return rounds

    def bounds(self) -> tuple[Floats, Floats]:
        """Least and most (T, K) that each base model adds to each class."""
        least, most = self.terms.bounds()
        rounds = self.size, self.group, least.shape[1]
        return least.reshape(rounds).sum(axis=1), most.reshape(rounds).sum(axis=1)

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Mark which columns of full rows each base model reads: (T, width)."""
        each = self.terms.columns_used(width)
        return np.logical_or.reduceat(each, np.arange(0, len(each), self.group))

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTerms | None:
        """Pack base models for kernels that stop by margins, where there are any."""
        assert isinstance(stops, Margins)
        terms = order[:, None] * self.group + np.arange(self.group)
        return self.terms.pack(terms.ravel(), replace(stops, group=self.group))


def as_ensemble(classifier: Classifier) -> Ensemble:
    """See a classifier whose scores are sums as an ensemble."""
    scorer = classifier.scorer
    assert isinstance(scorer, SumOfTerms)
    if len(classifier.classes) == 2:
        return Ensemble(classifier, scorer.margin())
    return Ensemble(classifier, ClassSums(*scorer.rounds()))


def check_bias(
    given: NDArray[Any], own: NDArray[np.float64], classes: NDArray[Any]
) -> None:
    """Refuse the bias of a schedule that was fitted for another ensemble."""
    if given.shape != own.shape:
        raise BadInput(
            f"the schedule's bias has shape {given.shape}; this ensemble has "
            f"{len(own)} classes"
        )
    # What went through a text may have lost the last digit.
    apart = np.abs(given - own) > NEAR * np.maximum(1.0, np.abs(own))
    if apart.any():
        k = int(apart.argmax())
        raise BadInput(
            f"the schedule's bias is not this ensemble's: class {classes[k]!r} begins "
            f"at {given[k]:g} instead of {own[k]:g}"
        )
