"""How good answers are, each in one number: from labels, and choices or scores."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydom.features.errors import BadInput

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

SURE = float(np.finfo(np.float64).eps)  # the least probability that log loss sees
WHOLE = 1e-5  # by how much probabilities in float32 may miss a sum of 1


def accuracy(
    labels: ArrayLike, choices: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Share of rows whose choice is their label.

    Parameters
    ----------
    labels, choices : (N,)
        Classes as whole numbers from 0 on, N > 0.
    weights : (N,), optional
        Of the rows, finite and not all zero; 1 each by default.

    Returns
    -------
    In [0, 1].

    Raises
    ------
    BadInput
        If there is no row, shapes differ, or a number cannot be used.
    """
    own, chosen = _codes("labels", labels), _codes("choices", choices)
    return float(np.average(own == chosen, weights=_weights(own, chosen, weights)))


def confusion(
    labels: ArrayLike,
    choices: ArrayLike,
    classes: int,
    weights: ArrayLike | None = None,
) -> Floats:
    """Weight of the rows of each class for which each class was chosen.

    Parameters
    ----------
    labels, choices, weights
        As for `accuracy`.
    classes
        How many there are; labels and choices are below it.

    Returns
    -------
    (classes, classes); row i holds what was chosen for rows of class i.

    Raises
    ------
    BadInput
        As `accuracy`, and if a label or choice is no such class.
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
    """Mean over classes of the share of its rows that are chosen right.

    Classes that no row has do not count. Arguments, range and errors are those of
    `accuracy`; the definition is scikit-learn's.
    """
    right, own, _ = _hits(labels, choices, weights)
    there = own > 0
    return float(np.mean(right[there] / own[there]))


def macro_f1(
    labels: ArrayLike, choices: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Mean over classes of F1, the harmonic mean of precision and recall.

    Classes that no row has do not count, though choosing one is an error;
    scikit-learn's `f1_score` does the same with `labels=np.unique(labels)`. Arguments,
    range and errors are those of `accuracy`.
    """
    right, own, chosen = _hits(labels, choices, weights)
    there = own > 0
    return float(np.mean(2 * right[there] / (own + chosen)[there]))


def log_loss(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Mean of the negative logarithm of the probability of a row's own class.

    Parameters
    ----------
    labels : (N,)
        Classes as whole numbers from 0 on, N > 0. One that has no column has the
        probability 0.
    scores : (N, K)
        Probability of each class; rows sum to 1.
    weights : (N,), optional
        As for `accuracy`.

    Returns
    -------
    In nats, 0 or more, and at most 36.05: no probability counts as less than float64's
    epsilon, as in scikit-learn.

    Raises
    ------
    BadInput
        As `accuracy`, and if scores are no probabilities.
    """
    own, shares = _codes("labels", labels), _scores(scores)
    each = _weights(own, shares, weights)
    if not are_probabilities(shares):
        raise BadInput("scores are no probabilities: each in [0, 1], rows summing to 1")
    known = own < shares.shape[1]
    given = np.zeros(len(own))
    given[known] = shares[known, own[known]]
    return float(np.average(-np.log(np.clip(given, SURE, 1.0)), weights=each))


def auc(
    labels: ArrayLike, scores: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Area under the ROC curve: the chance that a class's row outscores another's.

    Ties count one half. Of two classes it is that of the second, of more the mean of
    each against all others (macro one-vs-rest).

    Parameters
    ----------
    labels : (N,)
        Classes as whole numbers from 0 on, N > 0. Rows of one that has no column are
        others to every class.
    scores : (N, K)
        Of each class, the higher the likelier; K >= 2.
    weights : (N,), optional
        As for `accuracy`.

    Returns
    -------
    In [0, 1]. Classes that all rows have, or none, do not count; NaN where no other is
    left.

    Raises
    ------
    BadInput
        As `accuracy`, and if there are fewer than two columns.
    """
    own, given = _codes("labels", labels), _scores(scores)
    each = _weights(own, given, weights)
    count = given.shape[1]
    if count < 2:
        raise BadInput(f"{count} classes have scores; at least two are needed")
    tested = [1] if count == 2 else range(count)
    areas = [_area(own == k, given[:, k], each) for k in tested]
    found = [area for area in areas if area is not None]
    return float(np.mean(found)) if found else float("nan")


def r2(labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None) -> float:
    """Share of the labels' squared deviation from their mean that answers explain.

    1 - sum w (y - f)^2 / sum w (y - mean)^2.

    Parameters
    ----------
    labels, values : (N,)
        Numbers y that were to be answered, and answers f; finite, N > 0.
    weights : (N,), optional
        Of the rows, finite and not all zero; 1 each by default.

    Returns
    -------
    At most 1, perhaps -infinity; 0 is what the mean gives, less is worse than it.
    Where labels are all alike, 1 if all answers are right and else 0, as in
    scikit-learn, which has no answer to a single row.

    Raises
    ------
    BadInput
        If there is no row, shapes differ, or a number cannot be used.
    """
    own, given, each = _numbers(labels, values, weights)
    largest = np.abs(own).max() or 1.0
    with np.errstate(over="ignore"):
        # so that squares stay in range, and what is all alike has no deviation
        own, given = own / largest, given / largest
        own, given = own - own[0], given - own[0]
        rest = each @ (own - given) ** 2
    return _explained(
        own, given, rest, each @ (own - np.average(own, weights=each)) ** 2
    )


def mae(
    labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Mean absolute error of answers, in units of the labels, 0 or more.

    Arguments and errors are those of `r2`.
    """
    own, given, each = _numbers(labels, values, weights)
    with np.errstate(over="ignore"):
        return float(np.average(np.abs(own - given), weights=each))


def d2_absolute(
    labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None = None
) -> float:
    """Share of the labels' absolute deviation from their median that answers explain.

    1 - sum w |y - f| / sum w |y - median|. Arguments, range and errors are those of
    `r2`; the name is scikit-learn's.
    """
    own, given, each = _numbers(labels, values, weights)
    order = np.argsort(own, kind="stable")
    reached = np.cumsum(each[order])
    # any median will do: they have the same sum of deviations
    median = own[order[np.searchsorted(reached, reached[-1] / 2)]]
    with np.errstate(over="ignore"):
        rest = each @ np.abs(own / 2 - given / 2)
    most = each @ np.abs(own / 2 - median / 2)
    return _explained(own, given, float(rest), float(most))


def _explained(own: Floats, given: Floats, rest: float, all_: float) -> float:
    """Give 1 - rest / all; where labels are all alike, whether answers are right."""
    if not all_ > 0:
        return float((own == given).all())
    with np.errstate(over="ignore"):
        return float(1 - rest / all_)


def _numbers(
    labels: ArrayLike, values: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Check labels, answers and weights (N,); leave out rows that weigh nothing."""
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
    """Say whether rows of scores (N, K) are probabilities, as float32 has them."""
    sums = scores.sum(axis=1)
    return bool((scores >= 0).all() and (abs(sums - 1) <= WHOLE).all())


def _area(is_own: NDArray[np.bool_], scores: Floats, weights: Floats) -> float | None:
    """Area under one class's curve; None where it has all the weight, or none."""
    _, rank = np.unique(scores, return_inverse=True)
    own = np.bincount(rank, weights * is_own)
    others = np.bincount(rank, weights * ~is_own)
    pairs = own.sum() * others.sum()
    if not pairs > 0:
        return None
    below = np.cumsum(others) - others
    return float(own @ (below + others / 2) / pairs)


def _hits(
    labels: ArrayLike, choices: ArrayLike, weights: ArrayLike | None
) -> tuple[Floats, Floats, Floats]:
    """Weight (K,) of the rows of each class chosen right, of all, and of its choices.

    Sums along one class need no matrix of all pairs, which thousands would make large.
    """
    own, chosen = _codes("labels", labels), _codes("choices", choices)
    each = _weights(own, chosen, weights)
    count = int(max(own.max(), chosen.max())) + 1
    right = _summed(own, each * (own == chosen), count)
    return right, _summed(own, each, count), _summed(chosen, each, count)


def _summed(codes: Codes, weights: Floats, count: int) -> Floats:
    """Sum up the weights (N,) of each of so many codes."""
    return np.bincount(codes, weights, count).astype(np.float64, copy=False)


def _codes(name: str, values: ArrayLike) -> Codes:
    """Check classes (N,)."""
    found = np.asarray(values)
    if found.ndim != 1 or not len(found):
        raise BadInput(
            f"{name} have the shape {found.shape}; (N,) with N > 0 is needed"
        )
    if found.dtype.kind not in "biu" or (found.dtype.kind == "i" and found.min() < 0):
        raise BadInput(f"{name} must be whole numbers, 0 or more")
    return found.astype(np.int64)


def _scores(values: ArrayLike) -> Floats:
    """Check scores (N, K)."""
    found = np.asarray(values, np.float64)
    if found.ndim != 2:
        raise BadInput(f"scores have the shape {found.shape}; (N, K) is needed")
    _refuse_nan("scores", found)
    return found


def _weights(
    labels: NDArray[Any], others: NDArray[Any], weights: ArrayLike | None
) -> Floats:
    """Check that all are of one length, and the weights (N,)."""
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
