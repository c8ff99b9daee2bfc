"""Measures of a model's quality: labels are compared with choices, scores or values.

Functions of labels raise BadInput if there is no row, if shapes differ, or if a number
is out of range.

labels, choices : (N,)
    Classes as whole numbers from 0 on, N > 0. For `r2`, `mae` and `d2_absolute`,
    labels are finite numbers instead.
scores : (N, K)
    Scores of the classes 0 to K - 1; a higher score means a likelier class. A label
    may also be a class from K on, which has no score.
values : (N,)
    Predicted numbers, finite.
weights : (N,), optional
    Weight of each row, finite, >= 0 and not all 0; 1 by default.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydom.features.errors import BadInput

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

SURE = float(np.finfo(np.float64).eps)  # least probability in the log loss
BINS = 15  # parts of [0, 1] in a reliability curve
WHOLE = 1e-5  # largest deviation of a sum of float32 probabilities from 1


class Evaluation(NamedTuple):
    """The quality of N answers, and each answer's contribution to it, shape (N,).

    The quality is the weighted mean of the contributions.
    """

    quality: float
    parts: Floats


def accuracy(
    labels: ArrayLike, choices: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the share of rows whose chosen class equals the label."""
    own, chosen = _codes("labels", labels), _codes("choices", choices)
    return float(np.average(own == chosen, weights=_weights(own, chosen, weights)))


def confusion(
    labels: ArrayLike,
    choices: ArrayLike,
    classes: int,
    weights: ArrayLike | None = None,
) -> Floats:
    """Compute the confusion matrix (classes, classes).

    Entry (i, j) is the total weight of the rows with label i and choice j.
    """
    own, chosen = _codes("labels", labels), _codes("choices", choices)
    each = _weights(own, chosen, weights)
    largest = int(max(own.max(), chosen.max()))
    if largest >= classes:
        raise BadInput(f"there is a class {largest}; all must be below {classes}")
    return _summed(own * classes + chosen, each, classes**2).reshape(classes, classes)


def balanced_accuracy(
    labels: ArrayLike, choices: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the mean recall of the classes that have rows, as in scikit-learn."""
    right, own, _ = _hits(labels, choices, weights)
    there = own > 0
    return float(np.mean(right[there] / own[there]))


def macro_f1(
    labels: ArrayLike, choices: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the mean of the classes' F1, the harmonic mean of precision and recall.

    The mean leaves out classes that are no row's label. Choosing such a class still
    lowers the recall of the label's class.
    """
    right, own, chosen = _hits(labels, choices, weights)
    there = own > 0
    return float(np.mean(2 * right[there] / (own + chosen)[there]))


def log_loss(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the mean negative logarithm of the probability of a row's label, in nats.

    Probabilities below float64's epsilon are raised to epsilon, as in scikit-learn. The
    probability of a label without a score counts as epsilon, too. Raises BadInput if
    scores are not probabilities.
    """
    own, shares = _codes("labels", labels), _probabilities(scores)
    each = _weights(own, shares, weights)
    known = own < shares.shape[1]
    given = np.zeros(len(own))
    given[known] = shares[known, own[known]]
    return float(np.average(-np.log(np.clip(given, SURE, 1.0)), weights=each))


def brier(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the Brier score: the mean squared error of the classes' probabilities.

    For two classes it is the squared error of the second class's probability, in [0,
    1], as in scikit-learn; for more the sum over classes, in [0, 2]. A label without a
    score is a miss of all. Raises BadInput if scores are not probabilities.
    """
    own, shares = _codes("labels", labels), _probabilities(scores)
    each = _weights(own, shares, weights)
    right = own[:, None] == np.arange(shares.shape[1])
    errors = ((shares - right) ** 2).sum(axis=1) + ~right.any(axis=1)
    halves = 2 if shares.shape[1] == 2 else 1
    return float(np.average(errors / halves, weights=each))


class Rates(NamedTuple):
    """How one class is found: precision, recall and F1, each None if undefined."""

    precision: float | None  # Share of the rows with this choice that have this label
    recall: float | None  # Share of the rows with this label that have this choice
    f1: float | None  # Harmonic mean of the two; undefined without rows of either


def rates(
    labels: ArrayLike,
    choices: ArrayLike,
    classes: int,
    weights: ArrayLike | None = None,
) -> list[Rates]:
    """Compute precision, recall and F1 of the classes 0 to `classes` - 1."""
    found = [sums[:classes] for sums in _hits(labels, choices, weights)]
    right, own, chosen = (np.pad(sums, (0, classes - len(sums))) for sums in found)

    def share(hits: float, count: float) -> float | None:
        return float(hits / count) if count > 0 else None

    return [
        Rates(share(r, c), share(r, o), share(2 * r, o + c))
        for r, o, c in zip(right, own, chosen, strict=True)
    ]


def f_beta(one: Rates, beta: float) -> float:
    """Return F-beta of a class: recall counts `beta` times as much as precision.

    It is 0 if the class is never chosen or never a label.
    """
    precision, recall = one.precision or 0.0, one.recall or 0.0
    both = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / both if both else 0.0


class CurvePoint(NamedTuple):
    """Precision and recall of a class that is chosen from a score on."""

    threshold: float
    precision: float
    recall: float


def precision_recall_curve(
    own: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> list[CurvePoint]:
    """Compute precision and recall at each distinct score, the highest first.

    `own` (N,) is 1 for rows of the class and else 0, and `scores` (N,) are the scores
    of the class. Returns an empty list if no row is of the class.
    """
    flags, given = _codes("labels", own), np.asarray(scores, np.float64)
    each = _weights(flags, given, weights)
    _refuse_nan("scores", given)
    order = np.argsort(-given, kind="stable")
    ranked, weighed = given[order], each[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    hits = np.cumsum(weighed * (flags[order] == 1))[last]
    found = np.cumsum(weighed)[last]
    if not hits[-1] > 0:
        return []
    precision = np.divide(hits, found, out=np.zeros_like(hits), where=found > 0)
    points = zip(ranked[last], precision, hits / hits[-1], strict=True)
    return [CurvePoint(*map(float, point)) for point in points]


class Bin(NamedTuple):
    """Rows whose probability lies in one of `BINS` equal parts of [0, 1]."""

    weight: float  # Total weight of the rows
    said: float  # Mean probability
    found: float  # Share of the rows that are of the class


def reliability(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> list[Bin]:
    """Compute a reliability curve: what probabilities say, and what is found.

    With two classes, the probability is the second class's; with more, it is the
    largest, and what is found is whether its class is right. Parts without rows are
    left out. Raises BadInput if scores are not probabilities.
    """
    own, shares = _codes("labels", labels), _probabilities(scores)
    each = _weights(own, shares, weights)
    best = np.ones_like(own) if shares.shape[1] == 2 else shares.argmax(axis=1)
    said, right = shares[np.arange(len(own)), best], own == best
    part = np.minimum((said * BINS).astype(np.int64), BINS - 1)
    total, sums, hits = (
        np.bincount(part, each * one, BINS) for one in (1.0, said, right)
    )
    return [
        Bin(float(total[b]), float(sums[b] / total[b]), float(hits[b] / total[b]))
        for b in np.flatnonzero(total > 0)
    ]


def calibration_error(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the expected calibration error, in [0, 1] (Guo et al., 2017).

    It is the mean distance between what probabilities say and what is found, over the
    rows of `reliability`.
    """
    bins = reliability(labels, scores, weights)
    total = sum(one.weight for one in bins)
    return sum(one.weight * abs(one.said - one.found) for one in bins) / total


def auc(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the area under the ROC curve, in [0, 1]; K >= 2.

    With two classes, the result is the area for the second class against the first.
    With more classes, it is the mean area for each class against the rest (macro
    one-vs-rest). The mean leaves out a class if no row or every row has it, and is NaN
    if no class is left.
    """
    return _mean_of_classes(area, labels, scores, weights)


def average_precision(
    labels: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    positive: int = 1,
) -> float:
    """Compute the average precision, in [0, 1]; K >= 2.

    It is the mean precision of the answers "all rows with at least this score are of
    the class", over the scores of the class's rows. The classes are those of `auc`; of
    two classes, it is that of the class `positive`.
    """
    return _mean_of_classes(ranked_precision, labels, scores, weights, positive)


def r2(labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Compute R^2, the coefficient of determination.

    The result is at most 1, and has no lower limit. If all labels are equal, it is 1 if
    all values equal the labels, else 0, as in scikit-learn.
    """
    own, given, each = _numbers(labels, values, weights)
    largest = np.abs(own).max() or 1.0
    with np.errstate(over="ignore"):
        # Division keeps squares in range, and equal labels then have no deviation.
        own, given = own / largest, given / largest
        own, given = own - own[0], given - own[0]
        rest = each @ (own - given) ** 2
    return _explained(
        own, given, rest, each @ (own - np.average(own, weights=each)) ** 2
    )


def mae(
    labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute the mean absolute error of values, in the unit of the labels."""
    own, given, each = _numbers(labels, values, weights)
    with np.errstate(over="ignore"):
        return float(np.average(np.abs(own - given), weights=each))


def d2_absolute(
    labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Compute D^2: 1 - (sum of absolute errors) / (the same sum for the median label).

    If all labels are equal, the result is 1 if all values equal the labels, else 0.
    """
    own, given, each = _numbers(labels, values, weights)
    order = np.argsort(own, kind="stable")
    total = np.cumsum(each[order])
    # If there are several medians, all have the same sum of absolute deviations.
    median = own[order[np.searchsorted(total, total[-1] / 2)]]
    with np.errstate(over="ignore"):
        rest = each @ np.abs(own / 2 - given / 2)
    most = each @ np.abs(own / 2 - median / 2)
    return _explained(own, given, float(rest), float(most))


def _explained(own: Floats, given: Floats, rest: float, all_: float) -> float:
    """Return 1 - rest / all_.

    If `all_` is 0, return 1 if the values `given` equal the labels `own`, else 0.
    """
    if not all_ > 0:
        return float((own == given).all())
    with np.errstate(over="ignore"):
        return float(1 - rest / all_)


def _numbers(
    labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Check labels, values and weights (N,); return them without rows of weight 0."""
    own, given = np.asarray(labels, np.float64), np.asarray(values, np.float64)
    for name, found in (("labels", own), ("values", given)):
        if found.ndim != 1 or not len(found):
            raise BadInput(
                f"{name} have the shape {found.shape}; (N,) with N > 0 is needed"
            )
        _refuse_nan(name, found)
    each = _weights(own, given, weights)
    each, kept = each / each.max(), each > 0
    return own[kept], given[kept], each[kept]


def are_probabilities(scores: Floats) -> bool:
    """Return True if scores (N, K) are probabilities, up to rounding in float32."""
    sums = scores.sum(axis=1)
    return bool((scores >= 0).all() and (abs(sums - 1) <= WHOLE).all())


def _mean_of_classes(
    measure: Callable[[NDArray[np.bool_], Floats, Floats], Evaluation | None],
    labels: ArrayLike,
    scores: ArrayLike,
    weights: ArrayLike | None,
    positive: int = 1,
) -> float:
    """Compute the mean of a measure over the classes, or that of one of two classes."""
    own, given = _codes("labels", labels), _scores(scores)
    each = _weights(own, given, weights)
    count = given.shape[1]
    if count < 2:
        raise BadInput(f"{count} classes have scores; at least two are needed")
    kept = each > 0
    own, given, each = own[kept], given[kept], each[kept] / each.max()
    tested = [positive] if count == 2 else range(count)
    values = [measure(own == k, given[:, k], each) for k in tested]
    found = [value.quality for value in values if value is not None]
    return float(np.mean(found)) if found else float("nan")


def area(own: NDArray[np.bool_], scores: Floats, weights: Floats) -> Evaluation | None:
    """Return the area under the ROC curve of one class against all others.

    `own` (N,) is True for the items of the class. Returns None if it is True for all
    items or for none. An item's contribution depends on the share of items on the other
    side that the scores order correctly relative to it (DeLong, DeLong and
    Clarke-Pearson, 1988).
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
    return Evaluation(quality, quality + (placed - quality) / shares)


def ranked_precision(
    own: NDArray[np.bool_], scores: Floats, weights: Floats
) -> Evaluation | None:
    """Return the average precision of one class; None if `own` (N,) is never True.

    An item's contribution is the derivative by its weight: an item of the class adds
    its own precision, and each item changes the precision at its score and below.
    """
    _, rank = np.unique(-scores, return_inverse=True)
    hits = np.bincount(rank, np.where(own, weights, 0.0))
    total = hits.sum()
    if not total > 0:
        return None
    seen, right = np.cumsum(np.bincount(rank, weights)), np.cumsum(hits)
    quality = float(hits @ (right / seen) / total)
    # derivatives of the sum of `hits * right / seen`, over this score and lower ones
    missed = np.cumsum((hits * right / seen**2)[::-1])[::-1]
    gained = np.cumsum((hits / seen)[::-1])[::-1] + right / seen
    slopes = np.where(own, gained[rank] - quality, 0.0) - missed[rank]
    return Evaluation(quality, quality + slopes * len(own) / total)


def _hits(
    labels: ArrayLike, choices: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Return three weights for each class: of right choices, of labels, of choices."""
    own, chosen = _codes("labels", labels), _codes("choices", choices)
    each = _weights(own, chosen, weights)
    count = int(max(own.max(), chosen.max())) + 1
    right = _summed(own, each * (own == chosen), count)
    return right, _summed(own, each, count), _summed(chosen, each, count)


def _summed(codes: Codes, weights: Floats, count: int) -> Floats:
    return np.bincount(codes, weights, count).astype(np.float64, copy=False)


def _codes(name: str, values: ArrayLike) -> Codes:
    found = np.asarray(values)
    if found.ndim != 1 or not len(found):
        raise BadInput(
            f"{name} have the shape {found.shape}; (N,) with N > 0 is needed"
        )
    if found.dtype.kind not in "biu" or (found.dtype.kind == "i" and found.min() < 0):
        raise BadInput(f"{name} must be whole numbers, 0 or more")
    return found.astype(np.int64)


def _scores(values: ArrayLike) -> Floats:
    found = np.asarray(values, np.float64)
    if found.ndim != 2:
        raise BadInput(f"scores have the shape {found.shape}; (N, K) is needed")
    _refuse_nan("scores", found)
    return found


def _probabilities(values: ArrayLike) -> Floats:
    found = _scores(values)
    if not are_probabilities(found):
        raise BadInput("scores are no probabilities: each in [0, 1], rows summing to 1")
    return found


def _weights(
    labels: NDArray[Any], others: NDArray[Any], weights: ArrayLike | None
) -> Floats:
    """Check weights and the lengths of arrays; return weights (N,), by default ones."""
    if len(others) != len(labels):
        raise BadInput(f"there are {len(labels)} labels for {len(others)} answers")
    if weights is None:
        return np.ones(len(labels))
    found = np.asarray(weights, np.float64)
    if found.shape != labels.shape:
        raise BadInput(f"weights have the shape {found.shape}, not {labels.shape}")
    _refuse_nan("weights", found)
    if found.min() < 0 or not found.max() > 0:
        raise BadInput("weights must be 0 or more, and not all 0")
    return found


def _refuse_nan(name: str, values: Floats) -> None:
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise BadInput(f"{name}: row {int(bad.argmax())} is not finite")
