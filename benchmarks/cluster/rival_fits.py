"""The fits of one search over feature sets, as others spread them over a cluster."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from polydom.indexer.building.training.train_sets import TrainingTask
from polydom.models.selection.learners import make_learner

from .engines import started

Time = Callable[..., dict[str, Any]]
TRIALS = 20  # of FLAML's, which take seconds each


class Fits(NamedTuple):
    """What is fitted: a learner on some columns at a time, judged on other rows."""

    learner: dict[str, Any]
    seed: int
    values: Any
    codes: Any
    train: Any
    test: Any
    columns: list[list[int]]

    @classmethod
    def of(cls, task: TrainingTask, sets: Sequence[int]) -> Self:
        """Take the fits of a task's sets."""
        ((train, test),) = task.splits
        columns = [columns_of(mask, task.starts) for mask in sets]
        values, codes = np.array(task.values), np.array(task.codes)
        return cls(task.learner, task.seed, values, codes, train, test, columns)

    def fit(self, columns: Sequence[int]) -> float:
        """Fit to some columns; the accuracy."""
        model = make_learner(self.learner, self.seed, "classes")
        model.fit(self.values[np.ix_(self.train, columns)], self.codes[self.train])
        rows = self.values[np.ix_(self.test, columns)]
        return float(model.score(rows, self.codes[self.test]))


class OnColumns(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A learner on some columns, as a grid's parameter says."""

    def __init__(self, fits: Fits, columns: Sequence[int] = ()) -> None:
        self.fits, self.columns = fits, columns

    def fit(self, X: Any, y: Any) -> Self:
        """Fit the learner."""
        self.model_ = make_learner(self.fits.learner, self.fits.seed, "classes")
        self.model_.fit(X[:, self.columns], y)
        self.classes_ = self.model_.classes_
        return self

    def predict(self, X: Any) -> Any:
        """Answer."""
        return self.model_.predict(X[:, self.columns])


def columns_of(mask: int, starts: Sequence[int]) -> list[int]:
    """Columns of a set's features."""
    return [
        column
        for feature in range(len(starts) - 1)
        if mask >> feature & 1
        for column in range(starts[feature], starts[feature + 1])
    ]


def sklearn_alone(fits: Fits, time: Time) -> list[dict[str, Any]]:
    """Fit one after the other, by a loop."""
    name = "scikit-learn, a loop"
    return [time(name, 1, lambda: float(np.mean([*map(fits.fit, fits.columns)])))]


def sklearn_on_dask(fits: Fits, time: Time) -> list[dict[str, Any]]:
    """Search a grid of the same columns under joblib's Dask backend."""
    import joblib
    from sklearn.model_selection import GridSearchCV, PredefinedSplit

    fold = np.full(len(fits.codes), -1)
    fold[fits.test] = 0
    small = fits._replace(values=None, codes=None, train=None, test=None, columns=[])
    search = GridSearchCV(
        OnColumns(small),
        {"columns": fits.columns},
        cv=PredefinedSplit(fold),
        refit=False,
    )

    def fit() -> float:
        with joblib.parallel_config("dask"):
            search.fit(fits.values, fits.codes)
        return float(np.mean(search.cv_results_["mean_test_score"]))

    found = []
    for processes in (1, 2):
        with started("Dask", processes) as executor, executor.client.as_current():
            found.append(time("scikit-learn on Dask", processes, fit))
    return found


def flaml_on_ray(fits: Fits, time: Time) -> list[dict[str, Any]]:
    """Try some of them by FLAML's tune on Ray; nothing where it is not installed."""
    try:
        from flaml import tune
    except ImportError:
        return []
    import ray

    numbers = range(min(TRIALS, len(fits.columns)))

    def fit(there: Any) -> float:
        def evaluate(config: dict[str, Any]) -> dict[str, float]:
            own = ray.get(there)
            return {"accuracy": own.fit(own.columns[config["set"]])}

        done = tune.run(
            evaluate,
            config={"set": tune.choice([*numbers])},
            points_to_evaluate=[{"set": number} for number in numbers],
            metric="accuracy",
            mode="max",
            num_samples=len(numbers),
            use_ray=True,
            resources_per_trial={"cpu": 1},
            verbose=0,
        )
        found = [one["accuracy"] for one in done.results.values()]
        assert len(found) == len(numbers)
        return float(np.mean(found))

    found = []
    for processes in (1, 2):
        with started("Ray", processes):
            own = partial(fit, ray.put(fits))
            found.append(time("FLAML on Ray", processes, own, len(numbers)))
    return found
