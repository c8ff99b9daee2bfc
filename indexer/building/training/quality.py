"""How good answers are by any measure, and what each item adds to that.

Quality is in [0, 1], and more of it is better. What an item adds is such that the
weighted mean of all is the quality, and that an item that counts a little more changes
it by that: its influence function, exact for a mean over items such as accuracy, and
the first-order term for AUC, F1 and the like. So what is drawn again and again, to see
what luck is worth, is a mean whatever the measure.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.models.measures import SURE, are_probabilities
from polydom.models.scoring.model import Model

from ..project import OF_SCORES

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Answers(NamedTuple):
    """What a model answers for N items.

    Attributes
    ----------
    chosen : (N,)
        Classes as codes, or numbers.
    scores : (N, K)
        Of each class, where the measure needs them.
    """

    chosen: NDArray[Any]
    scores: Floats | None = None


class Judgement(NamedTuple):
    """The quality of some answers, and what each item adds to it (N,)."""

    quality: float
    parts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Judge:
    """Judges answers by a measure.

    Attributes
    ----------
    measure
        "accuracy", "balanced_accuracy", "macro_f1", "auc", "log_loss" or "cost" of
        classes, "r2" or "mae" of numbers.
    classes
        K; 0 where numbers are answered.
    costs : (K, K)
        What it costs to answer class j for an item of class i, with "cost"; the
        greatest is above 0.
    """

    measure: str
    classes: int
    costs: Floats | None = None

    def facts(self) -> list[Any]:
        """Give all that quality depends on, as plain data."""
        return [self.measure, None if self.costs is None else self.costs.tolist()]

    def answers(self, model: Model, values: NDArray[np.float32]) -> Answers:
        """Ask a model for all that the measure needs of the items with these values."""
        chosen = model.predict(values)
        if self.measure not in OF_SCORES:
            return Answers(chosen)
        own = model.predict_scores(values)
        probable = are_probabilities(own)
        if self.measure == "log_loss" and not probable:
            raise BadProject(
                "[quality] measure = 'log_loss' needs probabilities, and the learner "
                "gives none; another learner, or another measure, is needed"
            )
        # of a class that no training item has nothing is known
        floor = 0.0 if probable else float(own.min(initial=0.0))
        scores = np.full((len(own), self.classes), floor)
        scores[:, model.classes] = own
        return Answers(chosen, scores)

    def judge(
        self, answers: Answers, targets: NDArray[Any], weights: Floats
    ) -> Judgement:
        """Judge answers for N > 0 items.

        Parameters
        ----------
        targets : (N,)
            What would have been right: codes, or numbers.
        weights : (N,)
            How much each item counts, above 0.
        """
        mean = weights / weights.mean()
        return MEASURES[self.measure](self, answers, targets, mean)

    def _accuracy(self, answers: Answers, targets: Codes, weights: Floats) -> Judgement:
        right = (answers.chosen == targets).astype(np.float64)
        return _mean(right, weights)

    def _cost(self, answers: Answers, targets: Codes, weights: Floats) -> Judgement:
        assert self.costs is not None
        return _mean(
            1 - self.costs[targets, answers.chosen] / self.costs.max(), weights
        )

    def _balanced_accuracy(
        self, answers: Answers, targets: Codes, weights: Floats
    ) -> Judgement:
        right = (answers.chosen == targets).astype(np.float64)
        shares = _shares(targets, weights, self.classes)
        there = np.maximum(shares, SURE)
        recalls = _shares(targets, weights * right, self.classes) / there
        count = np.count_nonzero(shares)
        quality = float(recalls.sum() / count)
        parts = quality + (right - recalls[targets]) / (count * there[targets])
        return Judgement(quality, parts)

    def _macro_f1(self, answers: Answers, targets: Codes, weights: Floats) -> Judgement:
        chosen, right = answers.chosen, answers.chosen == targets
        shares = _shares(targets, weights, self.classes)
        both = np.maximum(shares + _shares(chosen, weights, self.classes), SURE)
        hits = _shares(targets, weights * right, self.classes)
        there = shares > 0
        count = np.count_nonzero(there)
        each = np.where(there, 2 * hits / both, 0.0)
        quality = float(each.sum() / count)
        # of 2 hits / both by the weight of an item: of its own class and of its answer
        slopes = np.where(there, each / both, 0.0)
        gains = 2 * right * np.where(there, 1 / both, 0.0)[targets]
        parts = quality + (gains - slopes[targets] - slopes[chosen]) / count
        return Judgement(quality, parts)

    def _log_loss(self, answers: Answers, targets: Codes, weights: Floats) -> Judgement:
        assert answers.scores is not None
        given = answers.scores[np.arange(len(targets)), targets]
        logs = np.log(np.clip(given, SURE, 1.0))
        mean = float(np.average(logs, weights=weights))
        quality = float(np.exp(mean))
        return Judgement(quality, quality * (1 + logs - mean))

    def _auc(self, answers: Answers, targets: Codes, weights: Floats) -> Judgement:
        assert answers.scores is not None
        tested = [1] if self.classes == 2 else range(self.classes)
        found = [_area(targets == k, answers.scores[:, k], weights) for k in tested]
        judged = [one for one in found if one is not None]
        if not judged:
            return Judgement(0.5, np.full(len(targets), 0.5))
        quality = float(np.mean([one.quality for one in judged]))
        return Judgement(quality, np.mean([one.parts for one in judged], axis=0))

    def _r2(self, answers: Answers, targets: Floats, weights: Floats) -> Judgement:
        centre = np.average(targets, weights=weights)
        errors, spread = (targets - answers.chosen) ** 2, (targets - centre) ** 2
        return _explained(errors, spread, weights)

    def _mae(self, answers: Answers, targets: Floats, weights: Floats) -> Judgement:
        order = np.argsort(targets)
        half = np.searchsorted(np.cumsum(weights[order]), weights.sum() / 2)
        centre = targets[order[min(int(half), len(order) - 1)]]
        errors, spread = abs(targets - answers.chosen), abs(targets - centre)
        return _explained(errors, spread, weights)


MEASURES: Mapping[str, Callable[[Judge, Answers, Any, Floats], Judgement]] = {
    "accuracy": Judge._accuracy,
    "balanced_accuracy": Judge._balanced_accuracy,
    "macro_f1": Judge._macro_f1,
    "auc": Judge._auc,
    "log_loss": Judge._log_loss,
    "cost": Judge._cost,
    "r2": Judge._r2,
    "mae": Judge._mae,
}


def residual_interval(residuals: Floats, coverage: float) -> tuple[float, float]:
    """Give two bounds between which that share of fresh residuals lies, or more.

    Split conformal prediction, with half of what may be missed on either side: of N
    residuals that answers were not made with, the k-th smallest and the k-th largest,
    k = floor((N + 1) (1 - coverage) / 2), or the ends where N is too small for that.

    Parameters
    ----------
    residuals : (N,)
        Label minus answer, N > 0.
    coverage
        In (0, 1).
    """
    ordered = np.sort(residuals)
    beyond = int((len(ordered) + 1) * (1 - coverage) / 2)
    place = max(beyond, 1) - 1
    return float(ordered[place]), float(ordered[-1 - place])


def _mean(parts: Floats, weights: Floats) -> Judgement:
    return Judgement(float(np.average(parts, weights=weights)), parts)


def _shares(codes: Codes, weights: Floats, classes: int) -> Floats:
    """Sum of the weights of each class, (K,), by the number of items."""
    return np.bincount(codes, weights, classes) / len(codes)


def _explained(errors: Floats, spread: Floats, weights: Floats) -> Judgement:
    """1 - mean error / mean spread, and 0 where errors are larger, or nothing spreads.

    Below 0 answers are no use; which are worst is of no account.
    """
    error, around = (
        float(np.average(one, weights=weights)) for one in (errors, spread)
    )
    share = error / around if around > 0 else np.inf
    if not share < 1:
        return Judgement(0.0, np.zeros(len(errors)))
    return Judgement(1 - share, 1 - share - (errors - share * spread) / around)


def _area(own: NDArray[np.bool_], scores: Floats, weights: Floats) -> Judgement | None:
    """Area under one class's ROC curve; None where it has all items, or none.

    An item adds the share of the other side that it is rightly above or below (DeLong,
    DeLong and Clarke-Pearson, 1988).
    """
    _, rank = np.unique(scores, return_inverse=True)
    inside, outside = np.where(own, weights, 0.0), np.where(own, 0.0, weights)
    total, others = inside.sum(), outside.sum()
    if not (total > 0 and others > 0):
        return None
    at_in, at_out = np.bincount(rank, inside), np.bincount(rank, outside)
    below = (np.cumsum(at_out) - at_out / 2) / others
    above = (at_in[::-1].cumsum()[::-1] - at_in / 2) / total
    quality = float(at_in @ below / total)
    shares = np.where(own, total, others) / len(own)
    placed = np.where(own, below[rank], above[rank])
    return Judgement(quality, quality + (placed - quality) / shares)
