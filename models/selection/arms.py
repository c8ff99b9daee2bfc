"""Arms of a race: they train scikit-learn learners and measure CPU seconds."""

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadProject
from polydom.features.threads import one_thread

from .race import TrainingOutcome
from .splits import Split
from .validation_scores import Score

Clock = Callable[[], float]
Weights = NDArray[np.float64]

# Learners that may continue from a smaller training without changing the model. For
# ADDITIVE learners, `partial_fit` on added rows gives what `fit` on all rows gives, up
# to rounding. CONVEX learners have one optimum, so a warm start only saves steps.
ADDITIVE = ("BernoulliNB", "ComplementNB", "GaussianNB", "MultinomialNB")
CONVEX = ("LogisticRegression",)
# scikit-learn's HistGradientBoosting draws DRAWN rows at most to bin columns. If there
# are more than FEW rows, it first sets some rows aside for early stopping.
DRAWN, FEW = 200_000, 10_000
# A column needs this many values that are not missing, so that no draw finds it empty.
KNOWN = 6


@dataclass(eq=False)
class ExamplesArm:
    """An arm that trains a learner on the first n training rows of each split.

    Scores are averaged over the splits. If continuing a smaller training gives the same
    model as training anew, the learner continues it. The training score is computed on
    the first `scored` training rows; None means all rows, 0 no training score. A
    training on n rows is validated on the first max(least_valid, 4 n) validation rows,
    or on all of them if n is all training rows or `least_valid` is None. Fitted models
    are kept for `model` if `keeps` is true, else only if a larger training may continue
    them: forests of many rows are large.
    """

    learner: Any
    splits: Sequence[Split]
    measure: Score
    seed: int = 0
    scored: int | None = None
    least_valid: int | None = None
    every: Split | None = None
    keeps: bool = True
    now: Clock = time.process_time
    _models: list[Any] = field(init=False, default_factory=list)
    _had: int = field(init=False, default=0)

    def __call__(self, amount: int) -> TrainingOutcome:
        """Train on the first `amount` rows of each split; return the mean scores."""
        warm = 0 < self._had < amount and self._continues()
        earlier = self._models if warm else [None] * len(self.splits)
        had, self._had, self._models = self._had, 0, []
        with collected_warnings() as found:
            outcomes = []
            for part, model in zip(self.splits, earlier, strict=True):
                start_s = self.now()
                model = self._fit(part, amount, model, had)
                trained = len(part.y[:amount][: self.scored])
                seen = part.first(trained, self._checked(part, amount))
                outcomes.append(validate(model, self.measure, seen, start_s, self.now))
                self._models.append(model if self.keeps or self._continues() else None)
        self._had = amount
        return replace(mean(outcomes), warnings=tuple(found))

    def model(self, amount: int) -> Any:
        """Return an estimator fitted to all rows of `every`.

        If `every` is None, it is fitted to the first `amount` training rows of the only
        split.
        """
        if self.every is not None:
            with collected_warnings():
                fresh = seeded_copy(self.learner, self.seed)
                return _fit(fresh, self.every)
        if self._had != amount or self._models[0] is None:
            self.keeps = True
            self(amount)
        return self._models[0]

    def _continues(self) -> bool:
        kind = type(last_step(self.learner)).__name__
        return kind in CONVEX or type(self.learner).__name__ in ADDITIVE

    def _fit(self, part: Split, amount: int, model: Any, had: int) -> Any:
        if type(self.learner).__name__ in ADDITIVE:
            model = model or seeded_copy(self.learner, self.seed)
            new = slice(had, amount)
            weights = None if part.weights is None else part.weights[new]
            own = weighing(model, weights)
            return model.partial_fit(part.X[new], part.y[new], np.unique(part.y), **own)
        if model is None or type(last_step(self.learner)).__name__ not in CONVEX:
            model = seeded_copy(self.learner, self.seed)
        if type(last_step(model)).__name__ in CONVEX:
            last_step(model).set_params(warm_start=True)
        return _fit(model, part.first(amount, 0))

    def _checked(self, part: Split, amount: int) -> int:
        if self.least_valid is None or amount >= len(part.y):
            return len(part.y_valid)
        return max(self.least_valid, 4 * amount)


@dataclass(eq=False)
class FoldsArm:
    """An arm that trains on the rows of one fold, and then on one fold after another.

    `folds` has an arm for each fold, of the same learner. An amount of at most `rows`,
    the rows of a fold, is a number of rows of the first fold; k times `rows` is all
    rows of k folds, and the score is the mean over those. A fold that had all its rows
    is not trained again.
    """

    folds: Sequence[ExamplesArm]
    rows: int
    _done: dict[int, TrainingOutcome] = field(init=False, default_factory=dict)

    def __call__(self, amount: int) -> TrainingOutcome:
        """Train on `amount` rows in total; return the mean scores and new seconds."""
        if amount < self.rows:
            return self.folds[0](amount)
        outcomes = []
        for number in range(amount // self.rows):
            known = self._done.get(number)
            new = known or self.folds[number](self.rows)
            self._done[number] = replace(new, fit_s=0.0, score_s=0.0)
            outcomes.append(self._done[number] if known else new)
        warned = [text for outcome in outcomes for text in outcome.warnings]
        return replace(mean(outcomes), warnings=tuple(dict.fromkeys(warned)))

    def model(self, amount: int) -> Any:
        """Return an estimator fitted as `ExamplesArm.model` says."""
        return self.folds[0].model(min(amount, self.rows))


@dataclass(eq=False)
class IterationsArm:
    """An arm that trains a learner for more and more iterations on all training rows.

    If the learner has `partial_fit`, each iteration gets the next `batch` training
    rows, from the first row again after the last; None for all rows. If it has
    `warm_start`, each iteration raises `n_estimators` or `max_iter` by one. `scored` is
    as in `ExamplesArm`.
    """

    learner: Any
    split: Split
    measure: Score
    batch: int | None = None
    seed: int = 0
    scored: int | None = 0
    now: Clock = time.process_time
    _model: Any = field(init=False, default=None)
    _had: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if not hasattr(self.learner, "partial_fit") and self._count() is None:
            raise BadInput(
                f"{type(self.learner).__name__} cannot be trained by iterations; it "
                "needs partial_fit, or warm_start with n_estimators or max_iter"
            )

    def __call__(self, amount: int) -> TrainingOutcome:
        """Train until `amount` iterations in total; return scores and seconds."""
        if self._model is None or amount < self._had:
            self._model, self._had = seeded_copy(self.learner, self.seed), 0
        with collected_warnings() as found:
            start_s = self.now()
            self._carry_on(amount)
            seen = self.split.first(self.scored, None)
            outcome = validate(self._model, self.measure, seen, start_s, self.now)
        self._had = amount
        return replace(outcome, warnings=tuple(found))

    def model(self, amount: int) -> Any:
        """Return the estimator, fitted with `amount` iterations in total."""
        if self._had != amount:
            self(amount)
        return self._model

    def _count(self) -> str | None:
        """Return the parameter that counts iterations of a warm start, or None."""
        parameters = self.learner.get_params()
        counts = [p for p in ("n_estimators", "max_iter") if p in parameters]
        return counts[0] if "warm_start" in parameters and counts else None

    def _carry_on(self, amount: int) -> None:
        y, count = self.split.y, self._count()
        X = fill_empty(self.learner, self.split.X)
        if not hasattr(self._model, "partial_fit"):
            self._model.set_params(warm_start=True, **{str(count): amount}).fit(X, y)
            return
        batch = min(self.batch or len(y), len(y))
        classes = (np.unique(y),) if self.measure.labels else ()
        for iteration in range(self._had, amount):
            rows = (iteration * batch + np.arange(batch)) % len(y)
            self._model.partial_fit(X[rows], y[rows], *classes)


def validate(
    model: Any, measure: Score, rows: Split, start_s: float, now: Clock
) -> TrainingOutcome:
    """Score a newly trained model on the split `rows`; return scores and seconds.

    Its training began at `start_s`. The training score is computed only if `rows` has
    training rows.
    """
    fitted_s = now()
    score = measure.make_scorer()
    counted = {} if rows.counts is None else {"sample_weight": rows.counts}
    valid = float(score(model, rows.X_valid, rows.y_valid, **counted))
    train = float(score(model, rows.X, rows.y)) if len(rows.y) else None
    return TrainingOutcome(valid, train, fitted_s - start_s, now() - fitted_s)


def _fit(model: Any, rows: Split) -> Any:
    """Fit a model to training rows, with their weights if it takes any."""
    own = weighing(model, rows.weights) if takes_weights(model) else {}
    return model.fit(fill_empty(model, rows.X), rows.y, **own)


def seeded_copy(learner: Any, seed: int) -> Any:
    """Return an unfitted copy of a learner whose random generators get the seed."""
    from sklearn.base import clone

    model = clone(learner)
    parameters = model.get_params()
    seeds = [p for p in parameters if p.split("__")[-1] == "random_state"]
    return model.set_params(**dict.fromkeys(seeds, seed))


def last_step(learner: Any) -> Any:
    """Return the last step of a Pipeline, or the learner itself."""
    steps = getattr(learner, "steps", None)
    return steps[-1][1] if steps else learner


@contextmanager
def collected_warnings() -> Iterator[dict[str, None]]:
    """Run the `with` block with one thread, and collect its warnings.

    Yields a dict. After the block, its keys are the distinct warnings, as texts.
    """
    found: dict[str, None] = {}
    with warnings.catch_warnings(record=True) as caught, one_thread():
        warnings.simplefilter("always")
        yield found
        for warning in caught:
            found[f"{warning.category.__name__}: {warning.message}"] = None


def mean(outcomes: Sequence[TrainingOutcome]) -> TrainingOutcome:
    """Return the mean scores and the total seconds of trainings on several folds."""
    trained = [o.train_score for o in outcomes if o.train_score is not None]
    return TrainingOutcome(
        score=float(np.mean([outcome.score for outcome in outcomes])),
        train_score=float(np.mean(trained)) if trained else None,
        fit_s=sum(outcome.fit_s for outcome in outcomes),
        score_s=sum(outcome.score_s for outcome in outcomes),
    )


def weighing(estimator: Any, weights: Weights | None) -> dict[str, Weights]:
    """Return keyword arguments that pass sample weights to `fit`; {} if there are none.

    Raises BadProject if the estimator accepts no weights.
    """
    if weights is None:
        return {}
    if not takes_weights(estimator):
        raise BadProject(
            f"weights: {type(last_step(estimator)).__name__} takes none; another "
            "learner, or neither [data] weight nor [quality] class_weights, is needed"
        )
    step = f"{estimator.steps[-1][0]}__" if hasattr(estimator, "steps") else ""
    return {f"{step}sample_weight": weights}


def takes_weights(estimator: Any) -> bool:
    """Return True if an estimator, or a pipeline's last step, takes sample weights."""
    from sklearn.utils.validation import has_fit_parameter

    return bool(has_fit_parameter(last_step(estimator), "sample_weight"))


def fill_empty(estimator: Any, X: Any) -> Any:
    """Return X, or for HistGradientBoosting a copy in which nearly empty columns are 0.

    scikit-learn's HistGradientBoosting draws rows, and fails if a column has no value
    in them. Only columns for which this may happen are set to 0, so that the model
    ignores them.
    """
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        HistGradientBoostingRegressor,
    )

    kinds = HistGradientBoostingClassifier, HistGradientBoostingRegressor
    if not (isinstance(estimator, kinds) and _has_gaps(X)):
        return X
    rows = len(X)
    known = (rows - np.isnan(X).sum(axis=0)) * min(1.0, DRAWN / rows)
    scarce = known < (KNOWN if rows > FEW else 1)
    if not scarce.any():
        return X
    filled = X.copy()
    filled[:, scarce] = 0.0
    return filled


def _has_gaps(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype.kind == "f" and bool(np.isnan(X).any())
