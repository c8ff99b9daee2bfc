"""Ensembles: compiled classifiers as sums of base models, which can stop early."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import AllAlike, BadInput

from ..qwyc.promise import shares_by_label
from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.classifier import Classifier, gives_shares
from ..scoring.model import Floats, Rows
from ..scoring.scorer import BaseModels, PackedTerms, SumOfTerms
from ..scoring.stopping_rule import NEAR, Margins, Stops
from .early_exits import (
    EarlyExit,
    MarginExit,
    make_evaluator,
    threshold_of,
)
from .early_scores import MOST_ROWS, EarlyScores, fit_early_scores
from .evaluator import stops_of
from .fitting_rows import FitScores, shuffle_scores
from .proven_stops import proven_limits, proven_margins

# Options of fitting that refer to single base models, and so exclude blocks.
OF_TERMS = ("order", "costs", "feature_costs", "uses")


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """A compiled classifier as the sum of its T base models.

    A base model is a tree, a lattice, or one term of a linear model. In boosting for
    more than two classes, a base model is a round, with one tree for each class. With
    two classes, the bias and all base scores are added to one sum, whose sign decides.
    With more classes, there is one such sum for each class, and the largest decides.
    """

    classifier: Classifier
    terms: BaseModels

    def __repr__(self) -> str:
        return f"Ensemble({self.classifier!r}, {self.size} base models)"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_ensemble, (self.classifier,)

    @property
    def size(self) -> int:
        """The number T of base models."""
        return self.terms.size

    @property
    def exchangeable(self) -> bool:
        """True if base models are equally good in any order, like a forest's trees."""
        return gives_shares(self.classifier.scorer)

    @property
    def binary(self) -> bool:
        """True if there are two classes."""
        return len(self.classes) == 2

    @property
    def bias(self) -> NDArray[np.float64]:
        """Values (K,) at which the classes' sums begin; BadInput unless K > 2."""
        if self.binary:
            raise BadInput("an ensemble for two classes has a threshold, no bias")
        return self.terms.base_bias()

    @property
    def classes(self) -> NDArray[Any]:
        """Labels (K,)."""
        return self.classifier.classes

    @property
    def threshold(self) -> float:
        """Sum of base scores above which the second of two classes is chosen.

        A sum equal to the threshold is decided as in the original library.
        """
        self._check_binary()
        return threshold_of(self.classifier, self.terms)

    def base_scores(self, X: Rows) -> NDArray[np.float64]:
        """Return the scores that base models add to the sums, for rows X (N, width).

        The scores are (N, T) for two classes, and (N, T, K) for more. In a forest for
        two classes, a tree's score is its share of the second class minus that of the
        first.
        """
        return self._base_scores(self.rows(X))

    def _base_scores(self, X: Rows) -> NDArray[np.float64]:
        scores = self.terms.base_scores(X)
        return scores[:, :, 0] if self.binary else scores

    def rows(self, X: Any) -> Rows:
        """Convert an array or data frame to rows (N, width); categories become codes.

        Raises BadInput if X is not a table of numbers, or is a data frame with other
        columns than the model was fitted on.
        """
        return self.classifier.rows(X)

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the smallest and the largest score (T,) of each base model.

        Raises BadInput for more than two classes, and for linear terms, which have no
        bounds.
        """
        self._check_binary()
        least, most = self.terms.bounds()
        return least[:, 0], most[:, 0]

    def uses(self, width: int) -> NDArray[np.bool_]:
        """Return a mask (T, width): True for the columns that each base model reads.

        If each column is a feature, this is the argument `uses` of `fit_schedule`.
        """
        return self.terms.columns_used(width)

    def decision_function(self, X: Rows) -> NDArray[np.float64]:
        """Return the sum over all base models: (N,) for two classes, else (N, K).

        The sums equal those of the original model's `decision_function` to the bit, if
        it exists and adds in float64. For a forest of two classes, a sum is the
        probability of the second class minus that of the first.
        """
        return self._sums(self.rows(X))

    def _sums(self, X: Rows) -> NDArray[np.float64]:
        raw = self.classifier.scorer.raw(X)
        if raw.shape[1] == 2 and self.binary:
            return raw[:, 1] - raw[:, 0]
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict_scores(self, X: Rows) -> NDArray[np.float64]:
        """Return class scores (N, K), equal to those of the original's `predict_proba`.

        If the original has no `predict_proba`, class scores are computed from its
        `decision_function`.
        """
        return self.classifier.predict_scores(X)

    def predict(self, X: Rows) -> NDArray[Any]:
        """Return labels (N,), equal to those of the original's `predict`."""
        return self.classifier.predict(X)

    def fit_early_exit(
        self,
        X: Rows,
        *,
        alpha: float | Mapping[Any, float],
        confidence: float | None = None,
        calibration: Rows | None = None,
        groups: NDArray[np.int64] | None = None,
        feature_costs: Sequence[float] | Floats | None = None,
        seed: int = 0,
        **options: Any,
    ) -> EarlyExit | MarginExit:
        """Fit a schedule on rows, and make the evaluator that follows it.

        Labels are not needed: a schedule keeps the ensemble's own decisions, ties
        included. Use rows that the ensemble was not trained on, as it is too sure of
        its training rows; without such rows, see `swap_columns`.

        A forest's trees keep their order, as they are equally good. The schedule is
        then fitted on copies of the rows in which the trees have random orders.

        If base scores would need more than `fitting_rows.MOST_BYTES` bytes, a random
        sample of the rows is used. Linear terms are evaluated in blocks, with one test
        for an early exit after each block, unless their order or costs are given.

        Parameters
        ----------
        X
            (N, width) rows to fit on.
        alpha
            Share of each class's decisions that may change, in [0, 1): of the rows that
            the whole ensemble decides as this class. One number for all classes, or a
            number by label, such as `{"fraud": 0.0, "*": 0.01}`, where `"*"` stands for
            all labels that are not named and is 0.005 by default. The shares refer to
            these rows, or to fresh rows if `confidence` is given.
        confidence
            Confidence in (0, 1) with which `alpha` holds on fresh rows for all classes
            together; the evaluator's `schedule.promise` states it. A class with too few
            calibration rows, or whose share is 0, is never left early: rows stop in
            favour of another class only where no base model that is left could decide
            for this class.
        calibration, groups
            Rows (M, width) that serve only to prove the promise, needed with
            `confidence`; and their groups (M,), as for `fit_schedule`.
        feature_costs
            (width,) cost of each column, >= 0. The first base model that reads a column
            pays for it.
        seed
            Seed of the draws of rows, and of the trees' orders.
        **options
            Further parameters of `fit_schedule` or, for more than two classes, of
            `fit_margin_schedule`, such as `costs` or, for two classes,
            `sides="negative"`: only rows that are answered as the first class stop.

        Raises
        ------
        AllAlike
            If there are two classes, and all rows to fit on get the same decision.
        BadInput
            If an argument is outside its range, `alpha` names a class that there is
            not, or there are too few rows.
        """
        alphas = shares_by_label(alpha, self.classes.tolist())
        if "sides" in options and not self.binary:
            raise BadInput(
                f"sides is {options['sides']!r}, and there are {len(self.classes)} "
                "classes; sides are for two: give alpha by class, 0 for each class "
                "that is never to be left early"
            )
        X = self.rows(X)
        whole = feature_costs is not None or not options.keys().isdisjoint(OF_TERMS)
        source = self._fit_scores(X, whole=whole or not self.terms.light)
        X = source.draw(X, seed)
        decisions = self._decide(X)
        if self.binary and len(X) and (decisions == decisions[0]).all():
            raise AllAlike(
                f"all {len(X)} decisions are alike; both kinds are needed to fit on"
            )
        own = self._options(source, confidence, calibration)
        own |= {"confidence": confidence, "groups": groups, "decisions": decisions}
        if feature_costs is not None:
            own |= {"feature_costs": feature_costs, "uses": self.uses(X.shape[1])}
        own |= options
        scores = source.of(X)
        if self.exchangeable and not whole and "method" not in options:
            schedule = self._fit_shuffled(scores, alphas, own, seed)
        else:
            schedule = self._fit(scores, alphas, own)
        lines = self._fit_lines(schedule, scores, X)
        if source.blocks is not None:
            lines = lines.repeat(source.blocks.sizes[schedule.order])
            schedule = source.blocks.spread_out(schedule)
        return self.early_exit(schedule, lines)

    def fit_early_scores(
        self, schedule: Schedule | MarginSchedule, X: Rows
    ) -> EarlyExit | MarginExit:
        """Make the evaluator that follows a schedule, with class scores for all rows.

        The class scores of rows that stop early are fitted to rows X (N, width), which
        the ensemble was not trained on; labels are not needed. Use this method for a
        schedule that `fit_early_exit` did not fit, such as that of `exact_schedule`.
        Raises what `early_exit` raises, and BadInput without rows.
        """
        exits, X = self.early_exit(schedule), self.rows(X)
        if not len(X):
            raise BadInput("no rows came; class scores are fitted to one row or more")
        X = self._fit_scores(X, whole=True).draw(X, 0)[:MOST_ROWS]
        lines = self._fit_lines(exits.schedule, self._base_scores(X), X)
        return self.early_exit(schedule, lines)

    def _fit_lines(
        self, schedule: Schedule | MarginSchedule, scores: Floats, X: Rows
    ) -> EarlyScores:
        """Fit `EarlyScores` to rows X with base scores (N, T) or (N, T, K)."""
        stops, raw = stops_of(schedule), self._sums(X)
        if self.binary:
            scores, raw = scores[:, :, None], raw[:, None]
        start = stops.start(self.terms.base_bias())
        order = schedule.order
        return fit_early_scores(self.classifier, scores, order, stops, start, raw)

    def _proven(self) -> Any:
        if self.binary:
            return partial(proven_limits, self.terms, self.threshold)
        return partial(proven_margins, self.terms, self.classifier.head)

    def _options(
        self, source: FitScores, confidence: float | None, calibration: Rows | None
    ) -> dict[str, Any]:
        """Return options of fitting that follow from base models and calibration."""
        own: dict[str, Any] = {}
        if source.blocks is not None:
            own["costs"] = source.blocks.sizes
        elif confidence is not None:
            own["proven"] = self._proven()
        if calibration is not None:
            rows = self.rows(calibration)
            own["calibration"] = source.fresh(rows, self._decide(rows))
        return own

    def _fit(
        self, scores: Floats, alphas: Floats, options: dict[str, Any]
    ) -> Schedule | MarginSchedule:
        # Imported here, so that evaluating a model does not load kernels of fitting.
        from ..qwyc.fit_schedule import fit_margin_schedule, fit_schedule

        if self.binary:
            return fit_schedule(scores, self.threshold, alphas, **options)
        return fit_margin_schedule(scores, alphas, bias=self.bias, **options)

    def _fit_shuffled(
        self, scores: Floats, alphas: Floats, options: dict[str, Any], seed: int
    ) -> Schedule | MarginSchedule:
        """Fit a schedule with the given order, on shuffled copies of `scores`.

        In the copies, the base models of each row have random orders. While the
        schedule changes more than the shares `alphas` (K,) of the classes' decisions on
        `scores`, the fit is repeated with half the shares.
        """
        decisions = options["decisions"]
        many, of_many = shuffle_scores(scores, decisions, seed)
        kept = {**options, "order": np.arange(self.size), "decisions": of_many}
        classes = len(alphas)
        allowed = alphas * np.bincount(decisions, minlength=classes)

        def exceeds(schedule: Schedule | MarginSchedule) -> bool:
            changed = schedule.changed(scores, decisions)
            return bool((np.bincount(changed, minlength=classes) > allowed).any())

        schedule, shares = self._fit(many, alphas, kept), alphas
        while schedule.promise is None and exceeds(schedule):
            shares = shares / 2 if shares.max() * len(many) >= 1 else 0.0 * shares
            schedule = self._fit(many, shares, kept)
        return schedule

    def _fit_scores(self, X: Rows, whole: bool) -> FitScores:
        K = 1 if self.binary else len(self.classes)
        # The scores of all trees of a round exist before they are added up.
        source = FitScores(self._base_scores, 8 * self.size * K * K)
        return source if whole else source.in_blocks(X)

    def _decide(self, X: Rows) -> NDArray[Any]:
        classes = self.classifier.head.choose(self.classifier.scorer.raw(X))
        return classes == 1 if self.binary else classes

    def early_exit(
        self,
        schedule: Schedule | MarginSchedule,
        lines: EarlyScores | None = None,
    ) -> EarlyExit | MarginExit:
        """Make the evaluator that follows a schedule.

        `lines` give class scores to rows that stop early. Without them only the rows
        that use all base models have class scores. The schedule's threshold decides,
        even if it differs from the ensemble's. Raises BadInput if the schedule has
        another number of base models or classes, or another bias, than the ensemble.
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
        return make_evaluator(self.classifier, self.terms, schedule, lines)

    def _check_binary(self) -> None:
        if not self.binary:
            raise BadInput("only an ensemble for two classes has one threshold")


@dataclass(frozen=True, slots=True, eq=False)
class ClassSums:
    """Base models for K > 2 classes; each consists of `group` terms.

    For example, the terms of a boosting round are its trees, one for each class.
    """

    terms: BaseModels
    group: int

    @property
    def size(self) -> int:
        """The number T of base models."""
        return self.terms.size // self.group

    @property
    def light(self) -> bool:
        """True if adding a term costs less than comparing a sum with a threshold."""
        return self.terms.light

    def base_bias(self) -> Floats:
        """Return the values (K,) at which the classes' sums begin."""
        return self.terms.base_bias()

    def base_scores(self, X: Rows) -> Floats:
        """Return the scores (N, T, K) of base models for rows X (N, width)."""
        scores = self.terms.base_scores(X)
        if self.group == 1:
            return scores
        shape = len(X), self.size, self.group, scores.shape[2]
        rounds: Floats = scores.reshape(shape).sum(axis=2)
        return rounds

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the smallest and largest score of each base model for each class.

        Both arrays have the shape (T, K).
        """
        least, most = self.terms.bounds()
        rounds = self.size, self.group, least.shape[1]
        return least.reshape(rounds).sum(axis=1), most.reshape(rounds).sum(axis=1)

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Return a mask (T, width): True for the columns that each base model reads."""
        each = self.terms.columns_used(width)
        return np.logical_or.reduceat(each, np.arange(0, len(each), self.group))

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTerms | None:
        """Pack base models, in `order`, for a kernel that applies the rule `stops`.

        Return None if there is no kernel for the base models.
        """
        assert isinstance(stops, Margins)
        terms = order[:, None] * self.group + np.arange(self.group)
        return self.terms.pack(terms.ravel(), replace(stops, group=self.group))


def as_ensemble(classifier: Classifier) -> Ensemble:
    """Make an ensemble of a classifier whose scorer is a sum of terms."""
    scorer = classifier.scorer
    assert isinstance(scorer, SumOfTerms)
    if len(classifier.classes) == 2:
        return Ensemble(classifier, scorer.margin())
    return Ensemble(classifier, ClassSums(*scorer.rounds()))


def check_bias(
    given: NDArray[Any], own: NDArray[np.float64], classes: NDArray[Any]
) -> None:
    """Raise BadInput unless a schedule's bias, `given`, equals the ensemble's, `own`.

    Rounding errors are allowed. The error names the class, from `classes`.
    """
    if given.shape != own.shape:
        raise BadInput(
            f"the schedule's bias has shape {given.shape}; this ensemble has "
            f"{len(own)} classes"
        )
    # A bias that was once written as text may have lost its last digit.
    apart = np.abs(given - own) > NEAR * np.maximum(1.0, np.abs(own))
    if apart.any():
        k = int(apart.argmax())
        raise BadInput(
            f"the schedule's bias is not this ensemble's: class {classes[k]!r} begins "
            f"at {given[k]:g} instead of {own[k]:g}"
        )
