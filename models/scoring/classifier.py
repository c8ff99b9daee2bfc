"""Compiled classifiers: a scorer computes raw scores, and a head chooses the class."""

from dataclasses import dataclass, field
from math import exp, inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from .calibration import Calibration, load_calibration
from .fitted_columns import FittedColumns, ReadsFrames
from .float_order import first_with
from .kernels.link import (
    EACH,
    HUBER,
    LARGEST,
    LARGEST_SCORE,
    MARGIN,
    NOT_NEGATIVE,
    SOFTMAX,
    answer_one,
    choices,
    class_scores,
)
from .kernels.native import entry
from .model import Floats, Model, Rows
from .scorer import Scorer, SumOfTerms
from .stored_arrays import Stored

# Links whose class scores the difference of two raw scores determines.
BY_MARGIN = (MARGIN, SOFTMAX)


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """The last step of a classifier: turns raw scores into class scores and a class."""

    classes: NDArray[Any]  # (K,): Labels, ascending: the estimator's `classes_`
    # Code of the function from raw scores to class scores; see `kernels/link.py`.
    link: int
    # Code of the rule that chooses the class; see `kernels/link.py`. Libraries differ
    # only at ties: at a raw score of 0, scikit-learn's GradientBoosting chooses the
    # positive class, all others the negative one.
    rule: int
    inputs: int  # R, the number of raw scores: 1 for a binary margin, else K
    gain: float = 1.0  # Factor of raw scores before the link function
    # Map from the link's class scores to those of the answer; None leaves them as
    # they are. The chosen class does not depend on it, unless there is a threshold.
    calibration: Calibration | None = None
    # Score of the second of two classes from which it is chosen; None: `rule` chooses
    threshold: float | None = None
    enter: Any = field(init=False)  # The kernel `answer_one`, compiled
    # Least margin (the second raw score less the first, or the only one) at which the
    # score of the second class reaches `threshold`, NaN if it never does; None without
    # a threshold
    cut: float | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "enter", entry(answer_one))
        flaw = find_flaw(self.classes, self.link, self.rule, self.inputs, self.gain)
        if not flaw and self.calibration is not None:
            flaw = self.calibration.find_flaw(len(self.classes))
        if not flaw and self.threshold is not None:
            flaw = self._flaw_of_threshold()
        if flaw:
            raise BadModel(f"head of a model: {flaw}")
        cut, threshold = None, self.threshold
        if threshold is not None:
            cut = first_with(lambda margin: self.scores_by(margin)[1] >= threshold)
        object.__setattr__(self, "cut", cut)

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.classes[:5].tolist()))
        more = ", ..." if len(self.classes) > 5 else ""
        return (
            f"Head({len(self.classes)} classes: {shown}{more}; link={self.link}, "
            f"rule={self.rule})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        plain = self.classes, self.link, self.rule, self.inputs, self.gain
        return Head, (*plain, self.calibration, self.threshold)

    @property
    def border(self) -> float:
        """Score of the second of two classes at which the choice changes."""
        if self.threshold is not None:
            return self.threshold
        return self.scores_by(0.0)[1]

    def _flaw_of_threshold(self) -> str | None:
        if len(self.classes) != 2 or (self.inputs == 2 and self.link not in BY_MARGIN):
            return f"a threshold is for two classes, not {len(self.classes)}"
        shares = self.calibration is not None or self.link != MARGIN
        threshold = self.threshold
        assert threshold is not None
        low, high = (0.0, 1.0) if shares else (-inf, inf)
        if not low <= threshold <= high:
            return f"its threshold {threshold!r} is not from {low:g} to {high:g}"
        return None

    def scores(self, raw: Floats) -> Floats:
        """Turn the raw scores (N, R) of N rows into class scores (N, K)."""
        out = self._plain(raw)
        if self.calibration is not None:
            self.calibration.apply(raw, self.gain, out)
        return out

    def _plain(self, raw: Floats) -> Floats:
        out = np.empty((raw.shape[0], len(self.classes)))
        class_scores(raw, self.link, self.gain, out)
        return out

    def choose(self, raw: Floats) -> NDArray[np.int64]:
        """Return the position in `classes` of each row's class, shape (N,).

        `raw` (N, R) are the raw scores of the rows.
        """
        if self.cut is not None:
            chosen: NDArray[np.int64] = (margin_of(raw) >= self.cut).astype(np.int64)
            return chosen
        scores = self._plain(raw) if self.rule == LARGEST_SCORE else raw
        out = np.empty(raw.shape[0], np.int64)
        choices(raw, scores, self.rule, out)
        return out

    def answer(self, raw: Floats) -> tuple[int, list[float]]:
        """Return one row's class, as a position in `classes`, and class scores (K,).

        `raw` (R,) are the raw scores of the row.
        """
        out = np.empty(len(self.classes))
        code = self.enter(raw, self.link, self.rule, self.gain, out)
        if self.calibration is not None:
            self.calibration.one(raw, self.gain, self.calibration.table, out)
        if self.cut is not None:
            code = int(margin_of(raw) >= self.cut)
        return code, out.tolist()

    def scores_by(self, margin: float) -> list[float]:
        """Return both class scores of a row with this margin.

        The margin is the only raw score, or the second of two raw scores less the
        first. Two raw scores that are no logarithms count as shares that sum to 1.
        """
        calibration = self.calibration
        if calibration is None:
            return self._plain_by(margin)
        if calibration.logs:
            share = calibration.by_scores(*self._plain_by(margin), calibration.table)
        else:
            share = calibration.by_odds(self.gain * margin, calibration.table)
        return [1.0 - share, share]

    def _plain_by(self, margin: float) -> list[float]:
        link = self.link
        if link == MARGIN:
            if self.inputs == 1:
                return [-margin, margin]
            return [0.5 - 0.5 * margin, 0.5 + 0.5 * margin]
        margin *= self.gain
        if link == SOFTMAX:
            return [logistic(-margin), logistic(margin)]
        if link == HUBER:
            share = (min(max(margin, -1.0), 1.0) + 1.0) / 2.0
        else:
            share = logistic(margin)
        return [1.0 - share, share]

    def choose_by(self, margin: float) -> int:
        """Return the class, 0 or 1, of a row whose only raw score is `margin`."""
        if self.cut is not None:
            return int(margin >= self.cut)
        if self.rule == NOT_NEGATIVE:
            return int(margin >= 0.0)
        if self.rule != LARGEST_SCORE:
            return int(margin > 0.0)
        low, high = self._plain_by(margin)
        return int(high > low)

    def answer_by(self, margin: float) -> tuple[int, list[float]]:
        """Return the results of `choose_by` and `scores_by` for `margin`."""
        low, high = scores = self.scores_by(margin)
        if self.cut is not None:
            return int(margin >= self.cut), scores
        if self.rule == NOT_NEGATIVE:
            return int(margin >= 0.0), scores
        if self.rule == LARGEST_SCORE and self.calibration is not None:
            return self.choose_by(margin), scores
        return int(high > low if self.rule == LARGEST_SCORE else margin > 0.0), scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load_head` makes this head again."""
        numbers = [self.link, self.rule, self.inputs, self.gain]
        own = {"classes": self.classes, "head": np.array(numbers, np.float64)}
        if self.calibration is not None:
            own["calibration"] = self.calibration.table
        if self.threshold is not None:
            own["threshold"] = np.array([self.threshold])
        return own


def border_of(model: Model) -> float | None:
    """Return the score of the second of two classes from which it is chosen.

    Returns None if the class with the larger score is chosen, and for other models.
    """
    if not isinstance(model, Classifier) or len(model.classes) != 2:
        return None
    head = model.head
    if head.threshold is None and head.calibration is None:
        return None
    return None if head.border == 0.5 else head.border


def gives_probabilities(model: Model) -> bool:
    """Return True if a model's class scores are probabilities, whatever its rows."""
    if not isinstance(model, Classifier):
        return True
    head = model.head
    return (
        head.calibration is not None
        or head.link != MARGIN
        or gives_shares(model.scorer)
    )


def gives_shares(scorer: Scorer) -> bool:
    """Return True if raw scores are class probabilities, as in forests."""
    return isinstance(scorer, SumOfTerms) and scorer.gives_shares()


def margin_of(raw: Floats) -> Any:
    """Return the margins (...) of raw scores (..., 1 or 2) of two classes."""
    return raw[..., 0] if raw.shape[-1] == 1 else raw[..., 1] - raw[..., 0]


def logistic(margin: float) -> float:
    """Return 1 / (1 + exp(-margin)), without overflow.

    For one number, plain Python is faster than a call of the compiled kernel.
    """
    if margin >= 0.0:
        return 1.0 / (1.0 + exp(-margin))
    power = exp(margin)
    return power / (1.0 + power)


def labels_of(classes: Any, count: int) -> NDArray[Any]:
    """Return `classes` as an array, or the labels 0 to `count` - 1 if it is None.

    Raises BadModel if `classes` does not have `count` labels.
    """
    labels = np.arange(count) if classes is None else np.asarray(classes)
    if len(labels) != count:
        raise BadModel(f"{len(labels)} labels for a model of {count} classes")
    return labels


def load_head(stored: Stored) -> Head:
    """Load a head; raise BadModel if its link, rule and classes do not fit together."""
    link, rule, inputs, gain = stored.finite("head", (4,)).tolist()
    classes = stored.classes()
    flaw = find_flaw(classes, link, rule, inputs, gain)
    if not flaw and len(classes) == 1:
        flaw = "one class leaves nothing to choose"
    if flaw:
        raise stored.fail(flaw)
    plain, threshold = (classes, int(link), int(rule), int(inputs), gain), None
    if "threshold" in stored.arrays:
        threshold = float(stored.finite("threshold", (1,))[0])
    try:
        return Head(*plain, load_calibration(stored), threshold)
    except BadModel as error:
        raise stored.fail(str(error).removeprefix("head of a model: ")) from error


def find_flaw(
    classes: NDArray[Any], link: float, rule: float, inputs: float, gain: float
) -> str | None:
    """Describe what is wrong with the settings of a head; return None if nothing is."""
    if link not in range(MARGIN, EACH + 1) or rule not in range(LARGEST_SCORE + 1):
        return f"unknown link {link:g} or rule {rule:g}"
    if not gain > 0:
        return f"its scores are multiplied by {gain:g}, not above 0"
    one = link not in (SOFTMAX, EACH) and rule != LARGEST
    binary = inputs == 1 and len(classes) == 2 and one
    if binary or (inputs == len(classes) and rule >= LARGEST):
        return None
    return (
        f"{inputs:g} raw scores with link {link:g} and rule {rule:g} cannot choose "
        f"between {len(classes)} classes"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Classifier(ReadsFrames):
    """A compiled classifier: its scorer computes raw scores, its head chooses a class.

    Attributes
    ----------
    scorer
        Computes raw scores.
    head
        Turns raw scores into class scores, and chooses a class.
    fitted
        Columns that the original model was fitted on, to read data frames; None if the
        classifier reads only arrays.
    """

    scorer: Scorer
    head: Head
    fitted: FittedColumns | None = None

    def __repr__(self) -> str:
        return f"Classifier({self.scorer!r}, {self.head!r})"

    def __post_init__(self) -> None:
        if self.head.inputs != self.scorer.outputs:
            raise BadModel(
                f"a {self.kind} model gives {self.scorer.outputs} raw scores, its head "
                f"reads {self.head.inputs}"
            )

    @property
    def classes(self) -> NDArray[Any]:
        """Labels (K,), ascending."""
        return self.head.classes

    def choose(self, row: Rows) -> int:
        """Choose a class for one full row; return its position in `classes`."""
        margin = self.scorer.margin_one(row)
        if margin is not None:
            return self.head.choose_by(margin)
        return self.head.answer(self._raw_one(row))[0]

    def answer(self, row: Rows) -> tuple[int, list[float]]:
        """Return a row's class, as a position in `classes`, and class scores (K,)."""
        margin = self.scorer.margin_one(row)
        if margin is not None:
            return self.head.answer_by(margin)
        return self.head.answer(self._raw_one(row))

    def _raw_one(self, row: Rows) -> Floats:
        return self.scorer.raw_one(row if self.fitted is None else self.row(row))

    def predict_scores(self, X: Rows) -> Floats:
        """Compute the class scores (N, K) of rows X."""
        return self.head.scores(self.scorer.raw(self.rows(X)))

    def predict(self, X: Rows) -> NDArray[Any]:
        """Predict the labels (N,) of rows X."""
        return self.classes[self.head.choose(self.scorer.raw(self.rows(X)))]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load_model` makes this classifier again."""
        return {**self.head.arrays(), **self.scorer.arrays()}


def load_classifier(scorer: Scorer, stored: Stored) -> Classifier:
    """Make a classifier of a scorer and its stored head.

    Raises BadModel if the head does not fit the scorer, or if scores could exceed
    float64.
    """
    head = load_head(stored)
    with np.errstate(over="ignore", invalid="ignore"):
        # Softmax multiplies differences of scores, which reach twice the largest score.
        widest = 2.0 * scorer.reach() * max(head.gain, 1.0)
    if not widest < np.inf:
        raise stored.fail("its scores leave the range of float64")
    return Classifier(scorer, head)
