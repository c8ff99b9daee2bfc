"""Models as sums of base models, of which some can be left out."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadModel

from ..importers.classifiers import compile_model, read_file
from ..importers.from_lightgbm import read_lightgbm
from ..importers.from_xgboost import read_xgboost
from ..scoring.classifier import BaseModels, Classifier, PackedTerms, SumOfTerms
from ..scoring.model import Rows
from ..scoring.rows import take_rows
from ..scoring.stops import NEAR, Floats, Limits, Margins, Stops
from .evaluators import EarlyExit, MarginExit, make_evaluator


class Schedule(Protocol):
    """In which order base models are evaluated, and when that is enough.

    After base model `order[t]` the answer is the negative class if the sum so far is
    below `lower[t]`, the positive one if it is above `upper[t]`. Where it has a
    `threshold` of its own, a whole sum is positive iff it is at least that; without
    one the original's rule decides.
    """

    @property
    def order(self) -> NDArray[np.int64]:
        """(T,) positions of the base models."""

    @property
    def lower(self) -> NDArray[np.float64]:
        """(T,) below this after each base model: negative."""

    @property
    def upper(self) -> NDArray[np.float64]:
        """(T,) above this after each base model: positive."""


@runtime_checkable
class MarginSchedule(Protocol):
    """In which order base models are evaluated, and which lead is enough.

    From `bias` on, every base model adds to the sums of K classes. After base model
    `order[t]` the best class is answered if it leads the second best by more than
    `margin[t]`; of equals the first leads.
    """

    @property
    def order(self) -> NDArray[np.int64]:
        """(T,) positions of the base models."""

    @property
    def margin(self) -> NDArray[np.float64]:
        """(T,) beyond this lead after each base model: stop."""

    @property
    def bias(self) -> NDArray[np.float64]:
        """(K,) sums before the first base model."""


@dataclass(frozen=True, slots=True, eq=False)
class Ensemble:
    """A compiled classifier seen as the sum of its T base models.

    A base model is a tree, a lattice, or one term of a linear model; in boosting for
    K > 2 classes it is a round, which has a tree for each class.

    Attributes
    ----------
    classifier
        The whole of it.
    terms
        For two classes base scores of which the sum, with its bias, decides; for more
        base scores of which, with their bias, the largest sum wins.
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
        scores = self.terms.base_scores(take_rows(X))
        return scores[:, :, 0] if self.binary else scores

    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Smallest and largest score (T,) of each base model, whatever the row.

        Raises
        ------
        BadInput
            If there are more than two classes, or the base models are linear terms,
            which have no bounds.
        """
        self._check_binary()
        return self.terms.bounds()

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
        raw = self.classifier.scorer.raw(take_rows(X))
        if raw.shape[1] == 2 and self.binary:
            return raw[:, 1] - raw[:, 0]
        return raw[:, 0] if raw.shape[1] == 1 else raw

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels, those of the original's `predict`."""
        return self.classifier.predict(X)

    def predict_early(
        self, X: Rows, schedule: Schedule | MarginSchedule
    ) -> NDArray[Any]:
        """(N,) labels, of which those that the schedule cuts short may differ."""
        return self.early_exit(schedule).predict(X)

    def early_exit(self, schedule: Schedule | MarginSchedule) -> EarlyExit | MarginExit:
        """Make the evaluator that follows a schedule, for more than one call.

        Raises
        ------
        BadInput
            If the schedule is not one for T base models and as many classes, or its
            bias is another ensemble's.
        """
        if isinstance(schedule, MarginSchedule):
            stops: Limits | Margins = self._margins(schedule)
        else:
            stops = self._limits(schedule)
        order = check_order(schedule.order, self.size)
        return make_evaluator(self.classifier, self.terms, order, stops)

    def _margins(self, schedule: MarginSchedule) -> Margins:
        if self.binary:
            raise BadInput("this schedule is for more than two classes")
        check_order(schedule.order, self.size)
        margin = check_limits("margin", schedule.margin, self.size)
        check_bias(np.asarray(schedule.bias), self.bias, self.classes)
        return Margins(margin)

    def _limits(self, schedule: Schedule) -> Limits:
        self._check_binary()
        check_order(schedule.order, self.size)
        lower, upper = (
            check_limits(name, getattr(schedule, name), self.size)
            for name in ("lower", "upper")
        )
        threshold = float(getattr(schedule, "threshold", self.threshold))
        if not np.isfinite(threshold):
            raise BadInput(
                f"the schedule's threshold is {threshold}; it must be finite"
            )
        return Limits(lower, upper, threshold)

    def _check_binary(self) -> None:
        if not self.binary:
            raise BadInput("only an ensemble for two classes has one threshold")


@dataclass(frozen=True, slots=True, eq=False)
class ClassSums:
    """Base models for K > 2 classes, of which each may be several terms of a sum.

    A base model is a round of boosting, which has a tree for each class, a tree of a
    forest, a lattice, or a term of a linear model.

    Attributes
    ----------
    terms
        They, with any divisor in each.
    group
        Terms of a base model, one after the other.
    """

    terms: BaseModels
    group: int

    @property
    def size(self) -> int:
        """T, the number of base models."""
        return self.terms.size // self.group

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
        """Refuse: there are bounds of one raw score only."""
        return self.terms.bounds()

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
    """See a classifier as an ensemble; BadModel if its scores are no sums."""
    scorer = classifier.scorer
    if not isinstance(scorer, SumOfTerms):
        raise BadModel(f"a {classifier.kind} model is no sum of base models")
    if len(classifier.classes) == 2:
        return Ensemble(classifier, scorer.margin())
    return Ensemble(classifier, ClassSums(*scorer.rounds()))


def check_order(order: Any, size: int) -> NDArray[np.int64]:
    """Order of a schedule, for `size` base models; BadInput if it is for others."""
    order = np.asarray(order)
    if order.ndim != 1 or order.dtype.kind not in "iu":
        raise BadInput(
            f"the schedule's order is {order.dtype} of shape {order.shape}; it must "
            f"name {size} base models"
        )
    if len(order) != size:
        raise BadInput(
            f"the schedule orders {len(order)} base models; this ensemble has {size}"
        )
    if not np.array_equal(np.sort(order), np.arange(size)):
        raise BadInput(
            f"the schedule is not an order of {size} base models: each of 0 to "
            f"{size - 1} must be there once"
        )
    return np.ascontiguousarray(order, np.int64)


def check_limits(name: str, limits: Any, size: int) -> NDArray[np.float64]:
    """Limits of a schedule, (size,); BadInput if they are others, or NaN."""
    given: NDArray[np.float64] = np.array(limits, np.float64)
    if given.shape != (size,) or np.isnan(given).any():
        raise BadInput(
            f"the schedule's {name!r} has shape {given.shape}; it must be ({size},), "
            "a number for each base model, none of them NaN"
        )
    return given


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


def compile_ensemble(source: Any) -> Ensemble:
    """Compile an ensemble whose base models can be evaluated one by one.

    Parameters
    ----------
    source
        A fitted classifier that `compile_model` takes, if it is linear, or a sum of
        trees or lattices; or the path of a LightGBM text file or of an XGBoost JSON
        or UBJSON file (`save_model`), which are read without their packages.

    Raises
    ------
    BadModel
        If it is neither.
    OSError
        If the file cannot be read.
    """
    if isinstance(source, str | Path):
        return as_ensemble(read_file(Path(source), read_lightgbm, read_xgboost))
    model = compile_model(source)
    if not isinstance(model, Classifier):
        raise BadModel(f"a {model.kind} model is no sum of base models")
    return as_ensemble(model)
