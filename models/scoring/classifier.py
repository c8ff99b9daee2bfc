"""Compiled classifiers: a scorer computes raw scores, and a head chooses the class."""

from dataclasses import dataclass, field
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from .fitted_columns import FittedColumns, ReadsFrames
from .kernels.link import (
    EACH,
    HUBER,
    LARGEST,
    LARGEST_SCORE,
    MARGIN,
    NOT_NEGATIVE,
    POSITIVE,
    SOFTMAX,
    answer_one,
    choices,
    class_scores,
)
from .kernels.native import entry
from .model import Floats, Rows
from .scorer import Scorer
from .stored_arrays import Stored


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
    enter: Any = field(init=False)  # The kernel `answer_one`, compiled

    def __post_init__(self) -> None:
        object.__setattr__(self, "enter", entry(answer_one))
        flaw = find_flaw(self.classes, self.link, self.rule, self.inputs, self.gain)
        if flaw:
            raise BadModel(f"head of a model: {flaw}")

    def __repr__(self) -> str:
        shown = ", ".join(map(repr, self.classes[:5].tolist()))
        more = ", ..." if len(self.classes) > 5 else ""
        return (
            f"Head({len(self.classes)} classes: {shown}{more}; link={self.link}, "
            f"rule={self.rule})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Head, (self.classes, self.link, self.rule, self.inputs, self.gain)

    def scores(self, raw: Floats) -> Floats:
        """Turn the raw scores (N, R) of N rows into class scores (N, K)."""
        out = np.empty((raw.shape[0], len(self.classes)))
        class_scores(raw, self.link, self.gain, out)
        return out

    def choose(self, raw: Floats) -> NDArray[np.int64]:
        """Return the position in `classes` of each row's class, shape (N,).

        `raw` (N, R) are the raw scores of the rows.
        """
        scores = self.scores(raw) if self.rule == LARGEST_SCORE else raw
        out = np.empty(raw.shape[0], np.int64)
        choices(raw, scores, self.rule, out)
        return out

    def answer(self, raw: Floats) -> tuple[int, list[float]]:
        """Return one row's class, as a position in `classes`, and class scores (K,).

        `raw` (R,) are the raw scores of the row.
        """
        out = np.empty(len(self.classes))
        code = self.enter(raw, self.link, self.rule, self.gain, out)
        return code, out.tolist()

    def scores_by(self, margin: float) -> list[float]:
        """Return both class scores of a row whose only raw score is `margin`."""
        if self.link == MARGIN:
            return [-margin, margin]
        margin *= self.gain
        if self.link == HUBER:
            share = (min(max(margin, -1.0), 1.0) + 1.0) / 2.0
        else:
            share = logistic(margin)
        return [1.0 - share, share]

    def choose_by(self, margin: float) -> int:
        """Return the class, 0 or 1, of a row whose only raw score is `margin`."""
        if self.rule == NOT_NEGATIVE:
            return int(margin >= 0.0)
        if self.rule == POSITIVE:
            return int(margin > 0.0)
        return self.answer_by(margin)[0]

    def answer_by(self, margin: float) -> tuple[int, list[float]]:
        """Return the results of `choose_by` and `scores_by` for `margin`."""
        low, high = scores = self.scores_by(margin)
        if self.rule == NOT_NEGATIVE:
            return int(margin >= 0.0), scores
        return int(margin > 0.0 if self.rule == POSITIVE else high > low), scores

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load_head` makes this head again."""
        numbers = [self.link, self.rule, self.inputs, self.gain]
        return {"classes": self.classes, "head": np.array(numbers, np.float64)}


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
    return Head(classes, int(link), int(rule), int(inputs), gain)


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
