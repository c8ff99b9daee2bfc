"""Compute the metrics of each predictor from the replies of a comparison."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from math import exp
from typing import Any, ClassVar, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType, structs
from numpy.typing import NDArray

from polydom.indexer.index.package import Package
from polydom.models import measures

from ..schema.wire import Answer
from .comparison import Comparison, Reply
from .fetch_metrics import report_fetches
from .predictors import Predictor, Prior
from .results import (
    BaselineResult,
    Bought,
    BudgetResult,
    ClassRates,
    Confusion,
    CurvePoint,
    EarlyResult,
    Forecasts,
    Pair,
    ReliabilityBin,
)

CURVE = 50  # most points of a precision-recall curve
COMMONEST = 5  # number of feature sets that a result names
# groups of items; each is left out once to estimate the standard error of quality
PARTS = 20

Flags = NDArray[np.bool_]
Codes = NDArray[np.int64]
Floats = NDArray[np.float64]
# returns the quality, given the weight of each trial
Measure = Callable[[Floats], float | None]


class Paired(NamedTuple):
    """The quality of two predictors of the same items, and the second one's gain.

    `error` is the standard error of the gain; None for a single item. All are None if
    the quality is undefined.
    """

    first: float | None
    second: float | None
    gain: float | None
    error: float | None


class Metrics(ABC):
    """Computes metrics of predictors; subclasses handle classes and numbers.

    The comparison must have a finished trial. In all methods, the argument `place` is a
    predictor's position in the list of predictors.
    """

    within: ClassVar[str]  # the field of the result that `_within` computes

    def __init__(
        self, comparison: Comparison, predictors: Sequence[Predictor], unit: str
    ) -> None:
        self._trials = comparison.trials
        self._predictors = predictors
        self._counts_time = unit == "s"

    @abstractmethod
    def _fields(self, place: int) -> dict[str, Any]:
        """Return the fields of a `Result` for one predictor, by name."""

    @abstractmethod
    def _measure_of(self, place: int) -> Measure:
        """Return a function that computes the quality of one predictor."""

    def paired(self, first: int, second: int) -> Paired:
        """Compare the quality of two predictors, item by item."""
        both = self._measure_of(first), self._measure_of(second)

        def gain(weights: Floats) -> float | None:
            old, new = (measure(weights) for measure in both)
            return None if old is None or new is None else new - old

        every = np.ones(len(self._trials))
        found = self._measured(gain)
        old, new = both[0](every), both[1](every)
        return Paired(old, new, found["quality"], found["quality_error"])

    @abstractmethod
    def _within(self, place: int, inside: Flags) -> float:
        """Return the quality if answers outside the budget are treated as missing.

        `inside` (N,) is True for each answer inside the budget.
        """

    def at_budget(self, place: int, amount: float) -> BudgetResult:
        """Return the metrics of the index within one budget, `amount`.

        `place` is the position of the predictor that has this budget.
        """
        replies = self._replies(place)
        inside = self._inside(replies, amount)
        answers = [one.answer for one in replies if isinstance(one.answer, Answer)]
        count = max(len(answers), 1)
        early = sum(map(_is_early, answers))
        bought = Counter(answer.features for answer in answers)
        accuracies = [one.expected_accuracy for one in answers]
        within: dict[str, Any] = {self.within: self._within(place, inside)}
        result = BudgetResult(
            **self._fields(place),
            **within,
            expected_quality=_mean([one.expected_quality for one in answers]),
            expected_accuracy=_mean([a for a in accuracies if a is not None]),
            inside=float(inside.mean()),
            early=early / count,
            plans=[
                Bought(features, number / count)
                for features, number in bought.most_common(COMMONEST)
            ],
        )
        report_fetches(result, answers)
        if self._counts_time:
            result.budget_ms = amount
            given_us = [one.budget_us for one in answers if one.budget_us is not UNSET]
            if given_us and min(given_us) < amount * 1e3 - 1:
                result.given_ms = min(given_us) / 1e3
        else:
            result.budget = amount
            costs = [one.predicted for one in answers if one.predicted is not UNSET]
            result.mean_cost = _mean(costs) or 0.0
        return result

    def without_budget(self, place: int, amounts: Sequence[float]) -> BaselineResult:
        """Return the metrics of a predictor that has no budget.

        They include, for each budget in `amounts`, the share of answers inside it.
        """
        replies = self._replies(place)
        mean_cost: float | UnsetType | None = UNSET
        known = True
        if not self._counts_time:
            costs = [getattr(one.answer, "cost", None) for one in replies]
            known = any(cost is not None for cost in costs)
            mean_cost = _mean([cost for cost in costs if cost is not None])
        inside = [self._inside(replies, amount) for amount in amounts if known]
        nothing: list[float | None] = [None] * len(amounts)
        within: dict[str, Any] = {
            self.within: [self._within(place, one) for one in inside] or nothing
        }
        return BaselineResult(
            **self._fields(place),
            **within,
            features=self._predictors[place].features,
            inside=[float(one.mean()) for one in inside] or nothing,
            mean_cost=mean_cost,
        )

    def _timed(self, place: int) -> dict[str, Any]:
        replies = self._replies(place)
        took_ms = np.array([one.took_s for one in replies]) * 1e3
        p50_ms, p99_ms = np.quantile(took_ms, [0.5, 0.99]).tolist()
        errors = [str(one.error) for one in replies if one.error is not None]
        return {
            "name": self._predictors[place].name,
            "p50_ms": p50_ms,
            "p99_ms": p99_ms,
            "unanswered": len(errors),
            "error": errors[0] if errors else None,
        }

    def _replies(self, place: int) -> list[Reply]:
        return [one.replies[place] for one in self._trials]

    def _inside(self, replies: Sequence[Reply], amount: float) -> Flags:
        """Return a mask (N,): True for each answer inside the budget `amount`."""
        if not self._counts_time:
            return np.array([_costs_at_most(one, amount) for one in replies])
        took_ms = [one.took_s * 1e3 for one in replies]
        times = zip(replies, took_ms, strict=True)
        return np.array([one.answer is not None and t <= amount for one, t in times])

    def _standard_error(self, values: Flags | Floats) -> float | None:
        """Return the standard error of the mean of `values` (N,), one value per trial.

        Repeated trials of the same item are averaged first. None if there is a single
        item.
        """
        positions = np.array([one.position for one in self._trials])
        asked = np.bincount(positions)
        means = np.bincount(positions, values)[asked > 0] / asked[asked > 0]
        if len(means) < 2:
            return None
        return float(means.std(ddof=1) / np.sqrt(len(means)))

    def _measured(self, measure: Measure) -> dict[str, float | None]:
        """Return the quality and its standard error, by the delete-a-group jackknife.

        The items are divided into g groups, and the quality is computed g times, each
        time without one group. The squared error is (g - 1) / g times the sum of
        squared deviations of these qualities from their mean (Wu, Annals of Statistics,
        1986).
        """
        trials = np.array([one.position for one in self._trials])
        _, own = np.unique(trials, return_inverse=True)
        count = int(own.max()) + 1
        parts = min(PARTS, count)
        part = (np.random.default_rng(0).permutation(count) % parts)[own]
        quality, error = measure(np.ones(len(own))), None
        if parts > 1:
            left = [measure((part != one).astype(float)) for one in range(parts)]
            known = np.array([one for one in left if one is not None])
            if len(known) == parts:
                spread = np.square(known - known.mean()).sum()
                error = float(np.sqrt(spread * (parts - 1) / parts))
        return {"quality": quality, "quality_error": error}


class ClassMetrics(Metrics):
    """Computes metrics of answers that are classes.

    `labels` are the index's classes; `measure` names the index's measure of quality.
    For the measure "cost", `costs[i, j]` is the cost of answering class j for an item
    of class i; its shape is (K, K). `positive` is the class of two that measures of one
    class are about, and `beta` the weight of recall in "f_beta".
    """

    within = "right_inside"

    def __init__(
        self,
        comparison: Comparison,
        predictors: Sequence[Predictor],
        unit: str,
        labels: Sequence[str],
        measure: str = "accuracy",
        costs: Floats | None = None,
        positive: str | None = None,
        beta: float = 1.0,
    ) -> None:
        super().__init__(comparison, predictors, unit)
        self._costs = costs
        self._positive = labels.index(positive) if positive is not None else 1
        self._beta = beta
        self._known = len(labels)
        self._codes = {label: code for code, label in enumerate(labels)}
        self._own = self._coded([one.item.label for one in self._trials])
        self._measure = measure

    def confusion(self, place: int, amount: float) -> Confusion:
        """Return the confusion matrix of a predictor whose budget is `amount`."""
        answered = self._answered(place)
        names: list[str | None] = [*self._codes, None]
        counts = measures.confusion(self._own, answered, len(names)).astype(int)
        own = np.unique(self._own)
        chosen = np.union1d(np.arange(self._known), answered)
        sums = counts.sum(axis=1)
        pairs = [
            Pair(
                str(names[i]),
                names[j],
                int(counts[i, j]),
                float(counts[i, j] / sums[i]),
            )
            for i, j in np.argwhere(counts).tolist()
            if i != j
        ]
        return Confusion(
            amount,
            [str(names[i]) for i in own],
            [names[j] for j in chosen],
            counts[np.ix_(own, chosen)].tolist(),
            sorted(pairs, key=lambda pair: -pair.count),
        )

    def early(self, place: int, whole: int, amount: float) -> EarlyResult | None:
        """Compare early answers with whole answers to the same items.

        `place` and `whole` are predictors with the budget `amount`; the second one's
        answers are never early. Returns None without early answers that have scores.
        """
        pairs = zip(self._replies(place), self._replies(whole), strict=True)
        at = [i for i, (one, exact) in enumerate(pairs) if _beside_exact(one, exact)]
        own = self._own[at]
        scores = [
            None if not at else self._scores([self._replies(who)[i] for i in at])
            for who in (place, whole)
        ]
        if scores[0] is None or scores[1] is None:
            return None
        return EarlyResult(amount, len(at), *(_forecasts(own, one) for one in scores))

    def _fields(self, place: int) -> dict[str, Any]:
        own, answered = self._own, self._answered(place)
        scores = self._scores(self._replies(place))
        every = np.ones(len(own))
        error = self._standard_error(self._rights(place))
        right = measures.accuracy(own, answered)
        measured = {"quality": right, "quality_error": error}
        if self._measure != "accuracy":
            measured = self._measured(self._measure_of(place))
        return {
            **self._timed(place),
            **measured,
            "standard_error": error,
            "accuracy": right,
            "balanced_accuracy": measures.balanced_accuracy(own, answered),
            "macro_f1": measures.macro_f1(own, answered),
            "average_precision": self._ranked("average_precision", scores, every),
            "classes": self._rates(answered),
            **structs.asdict(_forecasts(own, scores)),
            "reliability": _reliability(own, scores),
            "precision_recall": self._curve(scores),
        }

    def _measure_of(self, place: int) -> Measure:
        scores = self._scores(self._replies(place))
        return partial(self._quality, self._answered(place), scores)

    def _rates(self, answered: Codes) -> list[ClassRates]:
        names = [*self._codes][: self._known]
        count = len(self._codes) + 1
        found = measures.rates(self._own, answered, count)[: self._known]
        return [ClassRates(name, *one) for name, one in zip(names, found, strict=True)]

    def _curve(self, scores: Floats | None) -> list[CurvePoint]:
        """Return the precision-recall curve of the positive class, thinned."""
        if scores is None or self._known != 2:
            return []
        own = self._own == self._positive
        found = measures.precision_recall_curve(own, scores[:, self._positive])
        if not found:
            return []
        # about equal steps of recall, and both ends
        recalls = [point.recall for point in found]
        at = np.searchsorted(recalls, np.linspace(recalls[0], 1.0, CURVE))
        kept = np.unique(np.minimum(at, len(found) - 1)).tolist()
        return [CurvePoint(*found[k]) for k in kept]

    def _of_positive(self, answered: Codes, weights: Floats) -> float | None:
        """Return precision, recall or F-beta of the positive class, by the measure."""
        count = len(self._codes) + 1
        one = measures.rates(self._own, answered, count, weights)[self._positive]
        if self._measure == "f_beta":
            return measures.f_beta(one, self._beta)
        found = one.precision if self._measure == "precision_at" else one.recall
        return found or 0.0

    def _quality(
        self, answered: Codes, scores: Floats | None, weights: Floats
    ) -> float | None:
        """Return the quality by the index's measure.

        `weights` (N,) has the weight of each trial. The result is None if the measure
        cannot be computed, for example because scores are missing.
        """
        if self._costs is not None:
            return self._saved(self._costs, answered, weights)
        if self._measure in ("precision_at", "recall_at", "f_beta"):
            return self._of_positive(answered, weights)
        if self._measure in ("auc", "average_precision"):
            return self._ranked(self._measure, scores, weights)
        if self._measure == "log_loss":
            if scores is None or not measures.are_probabilities(scores):
                return None
            return exp(-measures.log_loss(self._own, scores, weights))
        measure = getattr(measures, self._measure)
        return float(measure(self._own, answered, weights))

    def _saved(self, costs: Floats, answered: Codes, weights: Floats) -> float:
        """Return 1 - mean cost / largest cost.

        The largest cost is charged for a missing answer, and if the class of the answer
        or of the item is unknown to the index.
        """
        known = self._known
        whole = np.full((len(self._codes) + 1,) * 2, costs.max())
        whole[:known, :known] = costs
        paid = np.average(whole[self._own, answered], weights=weights)
        return float(1 - paid / costs.max())

    def _within(self, place: int, inside: Flags) -> float:
        return float((inside & self._rights(place)).mean())

    def _coded(self, labels: Sequence[str]) -> Codes:
        """Return the class codes (N,) of labels; unknown classes get new codes."""
        codes = self._codes
        numbers = [codes.setdefault(label, len(codes)) for label in labels]
        return np.array(numbers, np.int64)

    def _answered(self, place: int) -> Codes:
        """Return the class codes (N,) of answers; missing answers get an extra code."""
        replies = self._replies(place)
        told = [str(one.answer.label) for one in replies if one.answer is not None]
        found = np.full(len(replies), -1)
        found[[one.answer is not None for one in replies]] = self._coded(told)
        return np.where(found < 0, len(self._codes), found)

    def _rights(self, place: int) -> Flags:
        rights: Flags = self._answered(place) == self._own
        return rights

    def _scores(self, replies: Sequence[Reply]) -> Floats | None:
        """Return all answers' scores (N, K); None if any are missing or not finite."""
        given = [None if one.answer is None else one.answer.scores for one in replies]
        scores: Floats = np.zeros((len(given), self._known))
        for row, named in zip(scores, given, strict=True):
            if named is None:
                return None
            for label, score in named.items():
                if self._codes.get(label, self._known) < self._known:
                    row[self._codes[label]] = score
        if self._known < 2 or not np.isfinite(scores).all():
            return None
        return scores

    def _ranked(
        self, measure: str, scores: Floats | None, weights: Floats
    ) -> float | None:
        """Return a measure of how scores order answers; None without scores."""
        if scores is None:
            return None
        positive = {} if measure == "auc" else {"positive": self._positive}
        found = getattr(measures, measure)(self._own, scores, weights, **positive)
        value = float(found)
        return None if np.isnan(value) else value


class NumericMetrics(Metrics):
    """Computes metrics of answers that are numbers, for the measures "r2" and "mae".

    The prior's number replaces a missing or late answer, as a client with a timeout
    would do.
    """

    within = "quality_inside"

    def __init__(
        self,
        comparison: Comparison,
        predictors: Sequence[Predictor],
        unit: str,
        measure: str,
        prior: float,
    ) -> None:
        super().__init__(comparison, predictors, unit)
        self._labels = np.array([float(one.item.label) for one in comparison.trials])
        self._measure = measures.r2 if measure == "r2" else measures.d2_absolute
        self._prior = prior

    def _fields(self, place: int) -> dict[str, Any]:
        replies, own = self._replies(place), self._labels
        given = self._given(replies)
        return {
            **self._timed(place),
            **self._measured(self._measure_of(place)),
            "standard_error": self._standard_error(np.abs(own - given)),
            "r2": measures.r2(own, given),
            "mae": measures.mae(own, given),
            "rmse": float(np.sqrt(np.mean((own - given) ** 2))),
            "covered": self._covered(replies),
        }

    def _within(self, place: int, inside: Flags) -> float:
        """Return the quality with the prior's number for answers outside the budget."""
        given = np.where(inside, self._given(self._replies(place)), self._prior)
        return self._measure(self._labels, given)

    def _measure_of(self, place: int) -> Measure:
        return partial(self._measure, self._labels, self._given(self._replies(place)))

    def _given(self, replies: Sequence[Reply]) -> Floats:
        """Return the answered numbers (N,); the prior's number for missing answers."""
        values = [None if one.answer is None else one.answer.value for one in replies]
        return np.array(
            [value if isinstance(value, float) else self._prior for value in values]
        )

    def _covered(self, replies: Sequence[Reply]) -> float | None:
        """Return the share of labels inside their intervals; None without intervals."""
        lies = []
        for one, label in zip(replies, self._labels.tolist(), strict=True):
            interval = None if one.answer is None else one.answer.interval
            if isinstance(interval, tuple):
                lies.append(interval[0] <= label <= interval[1])
        return float(np.mean(lies)) if lies else None


def metrics_of(
    comparison: Comparison,
    predictors: Sequence[Predictor],
    package: Package,
    prior: Prior,
) -> Metrics:
    """Return the metrics of predictors by the measure of an index.

    `package` is that of the index, and `prior` its prior.
    """
    common = comparison, predictors, str(package.meta.get("unit", "s"))
    if prior.said.value is not None:
        return NumericMetrics(*common, package.measure, prior.said.value)
    goal = package.meta.get("goal", {})
    return ClassMetrics(
        *common,
        package.labels,
        package.measure,
        package.confusion_costs,
        package.positive,
        goal.get("beta", 1.0),
    )


def _forecasts(own: Codes, scores: Floats | None) -> Forecasts:
    area = None if scores is None else measures.auc(own, scores)
    if area is not None and np.isnan(area):
        area = None
    if scores is None or not measures.are_probabilities(scores):
        return Forecasts(area, None, None, None)
    return Forecasts(
        area,
        measures.log_loss(own, scores),
        measures.brier(own, scores),
        measures.calibration_error(own, scores),
    )


def _reliability(own: Codes, scores: Floats | None) -> list[ReliabilityBin]:
    if scores is None or not measures.are_probabilities(scores):
        return []
    bins = measures.reliability(own, scores)
    return [ReliabilityBin(round(one.weight), one.said, one.found) for one in bins]


def _beside_exact(one: Reply, exact: Reply) -> bool:
    """Return True if `one` is an early answer, and both have scores."""
    given = [one.answer, exact.answer]
    if not all(isinstance(a, Answer) and a.scores is not None for a in given):
        return False
    return isinstance(one.answer, Answer) and _is_early(one.answer)


def _is_early(answer: Answer) -> bool:
    if answer.early is True:
        return True
    # servers of older versions do not say it
    used, count = answer.base_models_used, answer.base_models
    if answer.reason == "sure":
        return True
    return used is not UNSET and count is not UNSET and used < count


def _costs_at_most(reply: Reply, amount: float) -> bool:
    if isinstance(reply.answer, Answer):
        return reply.answer.budget_met
    cost = None if reply.answer is None else reply.answer.cost
    return cost is not None and cost <= amount


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
