"""Weights of terms, fitted to labelled texts by regression or naive Bayes.

Weights give each text K scores. With two classes, K is 1: the score grows with the
probability of the second class. With more classes, there is one score for each class.
If labels are numbers, K is 1: the score grows with the number.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.ready_made.learned_text import TermWeights

from .term_table import TermTable, Vocabulary, choose_vocabulary, score, weigh

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Codes = NDArray[np.int64]
Scores = NDArray[np.float64]

# Passes of coordinate descent over the texts: on all data tried, more passes change the
# weights but not the held-out accuracy.
PASSES = 12
SMOOTHING = 0.03  # added texts per term in Bayes' rule


class Fitting(NamedTuple):
    """Settings for fitting the weights of terms."""

    classes: int  # Number of classes; 0 if labels are numbers
    most: int  # Number of terms to keep at most
    # C of logistic or linear regression, above 0; None for Bayes' rule
    strength: float | None
    seed: int  # Seed of the order in which the regression visits texts


class TrainingTexts(NamedTuple):
    """N texts to learn from: their terms, their labels (N,), and their folds (N,).

    Labels are codes of classes, or numbers scaled to mean 0 and standard deviation 1.
    """

    table: TermTable
    labels: NDArray[Any]
    folds: Codes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays of the texts by name, for sharing with other processes."""
        own = {"labels": self.labels, "folds": self.folds}
        return {**self.table._asdict(), **own}

    @classmethod
    def of(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make the texts from the result of `arrays`."""
        table = TermTable(*(arrays[name] for name in TermTable._fields))
        return cls(table, arrays["labels"], arrays["folds"])

    def only(self, chosen: NDArray[np.bool_]) -> "TrainingTexts":
        """Return the texts that are True in the mask `chosen`."""
        rows = np.flatnonzero(chosen)
        return TrainingTexts(self.table.only(rows), self.labels[rows], self.folds[rows])


def scores_of(classes: int) -> int:
    """Return the number of scores of a text; `classes` is 0 if labels are numbers."""
    return classes if classes > 2 else 1


def standardised(numbers: Scores) -> Scores:
    """Return numbers (N,) scaled to mean 0 and standard deviation 1.

    If all numbers are equal, the results are 0.
    """
    spread = numbers.std()
    shifted: Scores = (numbers - numbers.mean()) / (spread if spread > 0 else 1.0)
    return shifted


def signs_of(codes: Codes, classes: int) -> NDArray[np.float64]:
    """Return the target sign of each score (N, K): 1 for the text's class, else -1."""
    wanted = np.arange(1, 2) if classes == 2 else np.arange(classes)
    return np.where(codes[:, None] == wanted, 1.0, -1.0)


def fit_terms(table: TermTable, labels: NDArray[Any], fitting: Fitting) -> TermWeights:
    """Choose terms, and fit their weights so that scores predict `labels` (N,)."""
    vocabulary = choose_vocabulary(table, fitting.most)
    return _fit(table, vocabulary, weigh(table, vocabulary), labels, fitting)


def score_part(
    arrays: Mapping[str, NDArray[Any]],
    fold: int,
    fitting: Fitting,
    strengths: Sequence[float | None],
) -> list[Scores]:
    """Score the M texts of one fold by weights that are fitted on the other folds.

    Returns one array of scores (M, K) for each regularisation strength in `strengths`.
    """
    texts = TrainingTexts.of(arrays)
    own = texts.folds == fold
    table, labels, _ = texts.only(~own)
    vocabulary = choose_vocabulary(table, fitting.most)
    rows = weigh(table, vocabulary)
    taught = weigh(texts.only(own).table, vocabulary)
    fittings = [fitting._replace(strength=strength) for strength in strengths]
    return [
        score(taught, _fit(table, vocabulary, rows, labels, each)) for each in fittings
    ]


def least_loss(
    texts: TrainingTexts,
    folds: Sequence[int],
    tried: Sequence[Sequence[Scores]],
    classes: int,
) -> int:
    """Return the position of the strength with the lowest loss of out-of-fold scores.

    `tried[i][j]` are the scores of the texts in fold `folds[i]` with strength j. The
    loss is the mean logistic loss of all scores, or the squared error if labels are
    numbers.
    """
    losses = np.zeros(len(tried[0]))
    signs = signs_of(texts.labels, classes) if classes else None
    for fold, each in zip(folds, tried, strict=True):
        own = texts.folds == fold
        if signs is None:
            wanted = texts.labels[own, None]
            losses += [((wanted - scores) ** 2).sum() for scores in each]
        else:
            wanted = signs[own]
            losses += [np.logaddexp(0, -wanted * scores).sum() for scores in each]
    return int(losses.argmin())


def _fit(
    table: TermTable,
    vocabulary: Vocabulary,
    rows: "csr_array",
    labels: NDArray[Any],
    fitting: Fitting,
) -> TermWeights:
    if not fitting.classes:
        weights, intercepts = _linear(rows, labels, fitting)
    elif fitting.strength is None:
        weights, intercepts = _bayes(rows, labels, fitting)
    else:
        weights, intercepts = _logistic(rows, labels, fitting)
    return TermWeights(
        table.hashes[vocabulary.terms],
        vocabulary.rarity,
        np.ascontiguousarray(weights, np.float32),
        intercepts.astype(np.float32),
    )


def _logistic(
    rows: "csr_array", codes: Codes, fitting: Fitting
) -> tuple[Scores, Scores]:
    """Fit each score by logistic regression: weights (V, K) and intercepts (K,)."""
    from sklearn.linear_model import LogisticRegression

    signs = signs_of(codes, fitting.classes)
    weights = np.zeros((rows.shape[1], signs.shape[1]))
    intercepts = np.zeros(signs.shape[1])
    for k, wanted in enumerate(signs.T):
        if abs(wanted.sum()) == len(wanted) or not rows.shape[1]:
            share = (np.sum(wanted > 0) + 1) / (len(wanted) + 2)
            intercepts[k] = np.log(share / (1 - share))
            continue
        model = LogisticRegression(solver="liblinear", **_options(fitting))
        _fit_by_passes(model, rows, wanted)
        weights[:, k], intercepts[k] = model.coef_[0], model.intercept_[0]
    return weights, intercepts


def _linear(
    rows: "csr_array", numbers: Scores, fitting: Fitting
) -> tuple[Scores, Scores]:
    """Fit one score by ridge regression: weights (V, 1) and an intercept (1,)."""
    from sklearn.svm import LinearSVR

    if not rows.shape[1]:
        return np.zeros((0, 1)), np.array([numbers.mean()])
    # ridge regression, if no error is free
    loss = "squared_epsilon_insensitive"
    model = LinearSVR(loss=loss, epsilon=0.0, **_options(fitting))
    _fit_by_passes(model, rows, numbers)
    return model.coef_.reshape(-1, 1), np.atleast_1d(model.intercept_)


def _options(fitting: Fitting) -> dict[str, Any]:
    """Return the options that both of liblinear's estimators share."""
    return {
        "C": fitting.strength,
        "dual": True,
        "max_iter": PASSES,
        "random_state": fitting.seed,
    }


def _fit_by_passes(model: Any, rows: "csr_array", targets: NDArray[Any]) -> None:
    """Fit an estimator that may stop after `PASSES` passes before it converges."""
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(rows, targets)


def _bayes(rows: "csr_array", codes: Codes, fitting: Fitting) -> tuple[Scores, Scores]:
    """Find weights (V, K) and intercepts (K,) by multinomial naive Bayes."""
    from scipy.sparse import csr_array

    count, classes = len(codes), fitting.classes
    own = csr_array((np.ones(count), (codes, np.arange(count))), shape=(classes, count))
    mass = (own @ rows).toarray() + SMOOTHING
    weights = np.log(mass) - np.log(mass.sum(axis=1, keepdims=True))
    intercepts = np.log((np.bincount(codes, minlength=classes) + 1) / count)
    return (weights - weights.mean(axis=0)).T, intercepts - intercepts.mean()
