"""The quality of answers by any metric, as a mean of contributions of the items.

Quality is in [0, 1]; higher is better. The quality is the weighted mean of one number
per item, its contribution (`parts`). For a metric that is a mean over items, such as
accuracy, this is the item's score. For AUC, F1 and the like, it is the quality plus the
metric's influence function at the item: a first-order approximation of how the quality
changes with the item's weight. So a bootstrap of any metric needs only averages of
contributions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.models.measures import (
    SURE,
    Evaluation,
    are_probabilities,
    area,
    ranked_precision,
)
from polydom.models.scoring.model import Model

from ..project_tables.quality import OF_SCORES
from .decisions.thresholds import Cut, Found, Goal, choose_cut, found_by

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Answers(NamedTuple):
    """A model's answers for N items, and its scores if the metric needs them."""

    chosen: NDArray[Any]
    scores: Floats | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Metric:
    """A metric that measures the quality of answers, such as accuracy."""

    # A key of `MEASURES`
    name: str
    classes: int  # Number of classes, K; 0 for numbers
    # (K, K): Costs of answering class j for an item of class i; only for "cost". At
    # least one cost is above 0.
    costs: Floats | None = None
    # Goal of the threshold by which the second of two classes is chosen; None if models
    # choose themselves
    goal: Goal | None = None
    positive: int = 1  # Class that the goal is about, 0 or 1

    def facts(self) -> list[Any]:
        """Return plain data that identifies the metric, for keys of the cache."""
        known = [self.name, None if self.costs is None else self.costs.tolist()]
        return known if self.goal is None else [*known, [*self.goal], self.positive]

    def answers(self, model: Model, values: NDArray[np.float32]) -> Answers:
        """Return a model's answers for N items, with scores if the metric uses them."""
        chosen = model.predict(values)
        if self.name not in OF_SCORES and self.goal is None:
            return Answers(chosen)
        own = model.predict_scores(values)
        probable = are_probabilities(own)
        if self.name == "log_loss" and not probable:
            raise BadProject(
                "[quality] measure = 'log_loss' needs probabilities, and the learner "
                "gives none; another learner, or another measure, is needed"
            )
        # a model has no score for a class without training items
        floor = 0.0 if probable else float(own.min(initial=0.0))
        scores = np.full((len(own), self.classes), floor)
        scores[:, model.classes] = own
        return Answers(chosen, scores)

    def cut(self, scores: Floats, targets: Codes, weights: Floats) -> Cut:
        """Choose the cut of the positive class's scores (N,) for N labelled items."""
        assert self.goal is not None
        mean = weights / weights.mean()
        return choose_cut(self.goal, scores, targets == self.positive, mean)

    def found(self, cut: Cut, scores: Floats, targets: Codes, weights: Floats) -> Found:
        """Return what a cut finds; the arrays are those of `cut`."""
        mean = weights / weights.mean()
        return found_by(cut.score, scores, targets == self.positive, mean)

    def decided(
        self, answers: Answers, targets: NDArray[Any], weights: Floats
    ) -> Answers:
        """Return answers in which the best threshold for these items decides.

        Without a goal, the answers are returned unchanged.
        """
        if self.goal is None or answers.scores is None:
            return answers
        scores, positive = answers.scores[:, self.positive], self.positive
        found = scores >= self.cut(scores, targets, weights).score
        return answers._replace(chosen=np.where(found, positive, 1 - positive))

    def evaluate(
        self, answers: Answers, targets: NDArray[Any], weights: Floats
    ) -> Evaluation:
        """Return the quality of answers to N > 0 items with labels `targets` (N,).

        `weights` (N,) are the items' weights, above 0.
        """
        mean = weights / weights.mean()
        return MEASURES[self.name](self, answers, targets, mean)

    def _accuracy(
        self, answers: Answers, targets: Codes, weights: Floats
    ) -> Evaluation:
        right = (answers.chosen == targets).astype(np.float64)
        return _mean(right, weights)

    def _cost(self, answers: Answers, targets: Codes, weights: Floats) -> Evaluation:
        assert self.costs is not None
        return _mean(
            1 - self.costs[targets, answers.chosen] / self.costs.max(), weights
        )

    def _precision(
        self, answers: Answers, targets: Codes, weights: Floats
    ) -> Evaluation:
        return self._share_right(answers.chosen, targets, weights)

    def _recall(self, answers: Answers, targets: Codes, weights: Floats) -> Evaluation:
        return self._share_right(targets, answers.chosen, weights)

    def _share_right(self, among: Codes, others: Codes, weights: Floats) -> Evaluation:
        """Return the share of items that `others` count as positive as `among` does."""
        counted, both = among == self.positive, others == self.positive
        share = float(np.average(counted, weights=weights))
        if not share > 0:
            return Evaluation(0.0, np.zeros(len(among)))
        quality = float(np.average(counted & both, weights=weights)) / share
        return Evaluation(quality, quality + counted * (both - quality) / share)

    def _f_beta(self, answers: Answers, targets: Codes, weights: Floats) -> Evaluation:
        square = 1.0 if self.goal is None else self.goal.beta**2
        own, found = targets == self.positive, answers.chosen == self.positive
        both = float(np.average(found + square * own, weights=weights))
        if not both > 0:
            return Evaluation(0.0, np.zeros(len(targets)))
        hits = (1 + square) * (own & found)
        quality = float(np.average(hits, weights=weights)) / both
        parts = quality + (hits - quality * (found + square * own)) / both
        return Evaluation(quality, parts)

    def _balanced_accuracy(
        self, answers: Answers, targets: Codes, weights: Floats
    ) -> Evaluation:
        right = (answers.chosen == targets).astype(np.float64)
        shares = _shares(targets, weights, self.classes)
        there = np.maximum(shares, SURE)
        recalls = _shares(targets, weights * right, self.classes) / there
        count = np.count_nonzero(shares)
        quality = float(recalls.sum() / count)
        parts = quality + (right - recalls[targets]) / (count * there[targets])
        return Evaluation(quality, parts)

    def _macro_f1(
        self, answers: Answers, targets: Codes, weights: Floats
    ) -> Evaluation:
        chosen, right = answers.chosen, answers.chosen == targets
        shares = _shares(targets, weights, self.classes)
        both = np.maximum(shares + _shares(chosen, weights, self.classes), SURE)
        hits = _shares(targets, weights * right, self.classes)
        there = shares > 0
        count = np.count_nonzero(there)
        each = np.where(there, 2 * hits / both, 0.0)
        quality = float(each.sum() / count)
        # derivatives of 2 hits / both by an item's weight, for its class and its answer
        slopes = np.where(there, each / both, 0.0)
        gains = 2 * right * np.where(there, 1 / both, 0.0)[targets]
        parts = quality + (gains - slopes[targets] - slopes[chosen]) / count
        return Evaluation(quality, parts)

    def _log_loss(
        self, answers: Answers, targets: Codes, weights: Floats
    ) -> Evaluation:
        assert answers.scores is not None
        given = answers.scores[np.arange(len(targets)), targets]
        logs = np.log(np.clip(given, SURE, 1.0))
        mean = float(np.average(logs, weights=weights))
        quality = float(np.exp(mean))
        return Evaluation(quality, quality * (1 + logs - mean))

    def _auc(self, answers: Answers, targets: Codes, weights: Floats) -> Evaluation:
        return self._mean_of_classes(area, answers, targets, weights)

    def _average_precision(
        self, answers: Answers, targets: Codes, weights: Floats
    ) -> Evaluation:
        return self._mean_of_classes(ranked_precision, answers, targets, weights)

    def _mean_of_classes(
        self,
        measure: Callable[[NDArray[np.bool_], Floats, Floats], Evaluation | None],
        answers: Answers,
        targets: Codes,
        weights: Floats,
    ) -> Evaluation:
        """Evaluate each class against the rest, or the positive of two classes."""
        assert answers.scores is not None
        tested = [self.positive] if self.classes == 2 else range(self.classes)
        found = [measure(targets == k, answers.scores[:, k], weights) for k in tested]
        known = [one for one in found if one is not None]
        if not known:
            return Evaluation(0.5, np.full(len(targets), 0.5))
        quality = float(np.mean([one.quality for one in known]))
        return Evaluation(quality, np.mean([one.parts for one in known], axis=0))

    def _r2(self, answers: Answers, targets: Floats, weights: Floats) -> Evaluation:
        centre = np.average(targets, weights=weights)
        errors, spread = (targets - answers.chosen) ** 2, (targets - centre) ** 2
        return _explained(errors, spread, weights)

    def _mae(self, answers: Answers, targets: Floats, weights: Floats) -> Evaluation:
        order = np.argsort(targets)
        half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
        centre = targets[order[min(int(half), len(order) - 1)]]
        errors, spread = abs(targets - answers.chosen), abs(targets - centre)
        return _explained(errors, spread, weights)


MEASURES: Mapping[str, Callable[[Metric, Answers, Any, Floats], Evaluation]] = {
    "accuracy": Metric._accuracy,
    "balanced_accuracy": Metric._balanced_accuracy,
    "macro_f1": Metric._macro_f1,
    "auc": Metric._auc,
    "average_precision": Metric._average_precision,
    "log_loss": Metric._log_loss,
    "cost": Metric._cost,
    "precision_at": Metric._precision,
    "recall_at": Metric._recall,
    "f_beta": Metric._f_beta,
    "r2": Metric._r2,
    "mae": Metric._mae,
}


def residual_interval(residuals: Floats, coverage: float) -> tuple[float, float]:
    """Return an interval with at least the share `coverage` of fresh residuals.

    This is split conformal prediction with equal tails. The bounds are the k-th
    smallest and the k-th largest of N > 0 residuals of held-out items, where k =
    floor((N + 1) (1 - coverage) / 2). If k is 0, the bounds are the smallest and the
    largest residual.
    """
    ordered = np.sort(residuals)
    beyond = int((len(ordered) + 1) * (1 - coverage) / 2)
    place = max(beyond, 1) - 1
    return float(ordered[place]), float(ordered[-1 - place])


def _mean(parts: Floats, weights: Floats) -> Evaluation:
    return Evaluation(float(np.average(parts, weights=weights)), parts)


def _shares(codes: Codes, weights: Floats, classes: int) -> Floats:
    """Return each class's sum of weights (K,), divided by the number of items."""
    return np.bincount(codes, weights, classes) / len(codes)


def _explained(errors: Floats, spread: Floats, weights: Floats) -> Evaluation:
    """Return the quality 1 - mean error / mean spread, or 0 if this is negative.

    `errors` (N,) are the errors of the answers. `spread` (N,) are the errors of the
    constant answer with the smallest mean error.
    """
    error, around = (
        float(np.average(one, weights=weights)) for one in (errors, spread)
    )
    share = error / around if around > 0 else np.inf
    if not share < 1:
        return Evaluation(0.0, np.zeros(len(errors)))
    return Evaluation(1 - share, 1 - share - (errors - share * spread) / around)
