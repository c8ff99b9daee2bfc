"""Class scores of rows whose evaluation ends before the last base model.

For each number of base models, a line predicts the raw scores that all base models
would give from the sums of the evaluated base models. The classifier's head turns the
prediction into class scores. Lines are fitted so that these class scores are, in the
mean over similar rows, the class scores of the whole model. So they are calibrated
where the whole model is (tower property of expectations), and fitting needs no labels.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.classifier import Classifier, gives_shares
from ..scoring.kernels.link import MARGIN, SOFTMAX
from ..scoring.model import Floats
from ..scoring.remaining_bounds import sums_after
from ..scoring.scorer import BaseModels
from ..scoring.stopping_rule import NEAR, Codes, Limits, Margins

Scores = list[float]
Flags = NDArray[np.bool_]
ScoresOf = Callable[[Floats], Floats]  # from raw scores to class scores, row by row

MOST_ROWS = 4096  # largest number of rows that lines are fitted on
# The line of rows that end after some base model is also fitted to other rows, at most
# `OTHERS` of them. Together these weigh as much as `WEIGHT` rows: little, unless hardly
# any row ends here.
OTHERS = 256
WEIGHT = 8.0
# Least slope, so that the class with the largest sum also has the largest score.
LEAST_SLOPE = 1e-3
STEPS = 12  # largest number of steps of Fisher scoring
CLOSE = 1e-7  # relative decrease of the deviance at which the steps end
TINY = 1e-12  # least predicted share
# The same where the whole model is certain: a prediction of 0 costs no more than this.
LEAST_SHARE = 1e-3


@dataclass(frozen=True, slots=True, eq=False)
class EarlyScores:
    """Lines from the sums of some base models to the raw scores of all base models.

    The line (offset, slope) of t base models predicts offset + slope * sums. With two
    classes, there is one sum, without the model's bias, and one raw score: the margin.
    With K > 2 classes, there are K sums, which include the bias, and K raw scores.

    Attributes
    ----------
    early : (T, 2) float64
        Lines for rows that a schedule stops after 1 to T base models; slopes are >= 0.
    partial : (T, 2) float64
        Lines for rows that go on after 1 to T base models, but have no time left.
    """

    early: Floats
    partial: Floats

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return both arrays by name, to be stored."""
        return {"early": self.early, "partial": self.partial}

    def repeat(self, sizes: NDArray[np.int64]) -> "EarlyScores":
        """Return the lines of single base models for lines of blocks of them.

        `sizes` are the numbers of base models of the blocks, in their order.
        """
        return EarlyScores(
            np.repeat(self.early, sizes, axis=0), np.repeat(self.partial, sizes, axis=0)
        )

    def raw(self, used: Codes, totals: Floats, *, stopped: bool) -> Floats:
        """Predict the raw scores (N, R) of all base models.

        Row i has the sums `totals[i]` (R,) after `used[i]` base models. `stopped` is
        True if the schedule stopped the rows.
        """
        lines = (self.early if stopped else self.partial)[used - 1]
        raw: Floats = lines[:, :1] + lines[:, 1:] * totals
        return raw


@dataclass(frozen=True, slots=True, eq=False)
class MarginRange:
    """The range of the margin that is predicted for a row of two classes.

    The margin is possible for the base models that are left, and on the side of the
    row's class. So class scores are within their bounds, and agree with the class.
    """

    # `least`, `most`: (T,): What the bias and the base models after each position add
    # to a sum, at least and at most; infinite if base models have no bounds
    least: Floats
    most: Floats
    tie: float  # Margin above which the second class is chosen
    largest: float  # Largest absolute margin: 1 for shares, else infinite

    @property
    def sides(self) -> tuple[float, float]:
        """Largest margin of the first class, and least margin of the second."""
        near = NEAR * max(1.0, abs(self.tie))
        return self.tie - near, self.tie + near

    def clip(
        self, margins: Floats, used: Codes, totals: Floats, codes: Codes
    ) -> Floats:
        """Return margins (N,) in the range of each row; all arguments are (N,)."""
        at, (below, above) = used - 1, self.sides
        margins = np.clip(margins, totals + self.least[at], totals + self.most[at])
        margins = np.clip(margins, -self.largest, self.largest)
        clipped: Floats = np.where(
            codes, np.maximum(margins, above), np.minimum(margins, below)
        )
        return clipped

    def scorer(
        self, lines: Floats, scores_by: Callable[[float], Scores]
    ) -> Callable[[int, int, float], Scores]:
        """Return a function that computes the class scores of one row.

        Its arguments are the number of base models used, the class, and the sum. It is
        what `EarlyScores.raw` and `clip` do, in plain Python. `scores_by` computes
        class scores from a margin.
        """
        offsets, slopes = lines.T.tolist()
        least, most = self.least.tolist(), self.most.tolist()
        (below, above), largest = self.sides, self.largest

        def scores(used: int, code: int, total: float) -> Scores:
            at = used - 1
            margin = offsets[at] + slopes[at] * total
            if margin < total + least[at]:
                margin = total + least[at]
            elif margin > total + most[at]:
                margin = total + most[at]
            if code:
                if margin < above:
                    return scores_by(above)
                return scores_by(margin if margin < largest else largest)
            if margin > below:
                return scores_by(below)
            return scores_by(margin if margin > -largest else -largest)

        return scores


def range_margins(
    classifier: Classifier, terms: BaseModels, order: Codes, threshold: float
) -> MarginRange:
    """Return the range of margins for base models in an order, for two classes.

    The second class is chosen for sums above `threshold`.
    """
    bias = float(terms.base_bias()[0])
    least, most = np.full((2, len(order)), [[-np.inf], [np.inf]])
    with suppress(BadInput):  # linear terms have no bounds
        least, most = (sums_after(end, order)[:, 0] + bias for end in terms.bounds())
    largest = 1.0 if gives_shares(classifier.scorer) else np.inf
    return MarginRange(least, most, threshold + bias, largest)


def scores_of_raw(classifier: Classifier) -> ScoresOf:
    """Return the head's function from raw scores (N, R) to class scores (N, K).

    With two classes, R is 1: the margin, even if the head reads two raw scores.
    """
    head = classifier.head
    if len(head.classes) != 2 or head.inputs == 1:
        return head.scores
    middle, halves = 0.5 * gives_shares(classifier.scorer), np.array([[-0.5, 0.5]])
    return lambda margins: head.scores(middle + margins * halves)


def fit_early_scores(
    classifier: Classifier,
    scores: Floats,
    order: NDArray[np.int64],
    stops: Limits | Margins,
    start: Floats,
    raw: Floats,
) -> EarlyScores:
    """Fit lines to N rows that the model was not trained on.

    The line of rows that stop at a position is fitted to the rows that do, and the line
    of rows that are cut off there is fitted to the rows that go on. A small weight of
    all other rows makes both lines sensible where these rows are few.

    `scores` (N, T, R) are those of the base models; if N is above `MOST_ROWS`, every
    second, third ... row is used. `start` (R,) are the sums before the first base
    model, and `raw` (N, R) the raw scores of the whole model; with two classes, the
    margin, R = 1.
    """
    step = -(-len(scores) // MOST_ROWS)
    scores, raw = scores[::step], np.ascontiguousarray(raw[::step])
    lines = _Lines(classifier, raw)
    active = np.ones(len(scores), np.bool_)
    early, partial = np.empty((len(order), 2)), np.empty((len(order), 2))
    totals = np.tile(start, (len(scores), 1))
    for r, base in enumerate(order):
        totals += scores[:, base]
        stop = active & stops.beyond(totals, r)
        active &= ~stop
        partial[r] = lines.fit(totals, active)
        early[r] = lines.fit(totals, stop) if stop.any() else partial[r]
    return EarlyScores(early, partial)


class _Lines:
    """Fits lines from sums (N, R) to raw scores (N, R), for class scores (N, K)."""

    def __init__(self, classifier: Classifier, raw: Floats) -> None:
        head = classifier.head
        self._score = scores_of_raw(classifier)
        self._target = self._score(raw)
        self._least = TINY if self._target.min() > 0.0 else LEAST_SHARE
        # True if class scores are linear in raw scores, so that least squares are best
        self._linear = head.link == MARGIN and head.calibration is None
        # True if raw scores are shares of K classes, of which none may get below 0
        several = raw.shape[1] > 1
        self._shares = several and gives_shares(classifier.scorer)
        # True if only the differences between raw scores count
        self._centred = several and head.link == SOFTMAX
        self._raw = _centre(raw) if self._centred else raw

    def fit(self, sums: Floats, chosen: Flags) -> Floats:
        """Return the (offset, slope) of the line that fits the `chosen` rows best."""
        others = np.flatnonzero(~chosen)
        others = others[:: max(1, len(others) // OTHERS)]
        rows = np.concatenate([np.flatnonzero(chosen), others])
        weights = np.ones(len(rows))
        weights[len(rows) - len(others) :] = min(1.0, WEIGHT / max(1, len(others)))
        sums = _centre(sums[rows]) if self._centred else sums[rows]
        line = _least_squares(sums, self._raw[rows], weights)
        if self._shares and line[0] < 0.0:
            return np.array([0.0, self._raw.mean() / sums.mean()])
        if self._linear:
            return line
        return self._least_deviance(line, sums, self._target[rows], weights)

    def _least_deviance(
        self, line: Floats, sums: Floats, target: Floats, weights: Floats
    ) -> Floats:
        """Improve a line by Fisher scoring of the Poisson deviance.

        For class scores that sum to 1 this is the cross entropy.
        """

        def deviance(line: Floats) -> tuple[float, Floats]:
            shares = np.maximum(self._score(line[0] + line[1] * sums), self._least)
            rows = (shares - target * np.log(shares)).sum(axis=1)
            return float(weights @ rows), shares

        widths = 1e-4 * np.array([1.0, 1.0 / max(float(np.abs(sums).max()), TINY)])
        # Near large raw scores the deviance may be flat: begin at the best of four.
        starts = [line * shrunk for shrunk in 4.0 ** -np.arange(4)]
        line = min(starts, key=lambda start: deviance(start)[0])
        least, shares = deviance(line)
        for _ in range(STEPS):
            moved = (deviance(line + width)[1] for width in np.diag(widths))
            slopes = [
                (there - shares) / w for there, w in zip(moved, widths, strict=True)
            ]
            pulls = weights[:, None] / shares
            gradient = [np.sum(pulls * (shares - target) * one) for one in slopes]
            fisher = np.array(
                [[np.sum(pulls * one * two) for one in slopes] for two in slopes]
            )
            fisher[np.diag_indices(2)] += 1e-9 * np.trace(fisher) + TINY
            step = np.linalg.solve(fisher, gradient)
            for tried in _shorter(line, step):
                found, there = deviance(tried)
                if found < least:
                    break
            else:
                return line
            close = least - found <= CLOSE * abs(least)
            line, least, shares = tried, found, there
            if close:
                return line
        return line


def _shorter(line: Floats, step: Floats) -> Iterator[Floats]:
    """Yield `line` less ever smaller parts of `step`, with a slope that is allowed."""
    for shrunk in 4.0 ** -np.arange(6):
        moved = line - shrunk * step
        moved[1] = max(moved[1], LEAST_SLOPE)
        yield moved


def _least_squares(sums: Floats, raw: Floats, weights: Floats) -> Floats:
    """Return the line (offset, slope) of least squares over all entries (N, R)."""
    each = np.broadcast_to(weights[:, None], sums.shape)
    x, y = np.average(sums, weights=each), np.average(raw, weights=each)
    spread = np.sum(each * (sums - x) ** 2)
    slope = np.sum(each * (sums - x) * (raw - y)) / spread if spread > 0 else 1.0
    slope = max(slope, LEAST_SLOPE)
    return np.array([y - slope * x, slope])


def _centre(rows: Floats) -> Floats:
    centred: Floats = rows - rows.mean(axis=1, keepdims=True)
    return centred
