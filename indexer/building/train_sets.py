"""Training a learner on feature sets: in parallel, each once, kept between runs."""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import delayed
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from polydom.features.errors import BadProject, PolydomError
from polydom.models.importers.classifiers import compile_model
from polydom.models.load import load_model
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Prior
from polydom.models.selection.learners import make_learner

from ..exits.checkpoints import answers_of
from .cache import Cache
from .parallel import in_processes

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What training on any feature set needs; sent to worker processes once a call.

    Attributes
    ----------
    values
        A file with the feature values (N, width) float32.
    codes : (N,) int64
        Class of each item.
    splits
        (training rows, testing rows), once, or once for each fold.
    starts
        First column of each feature, and after the last the width.
    cache, key
        Where trained sets are kept: entries `sets/{key}/{mask}`.
    weights : (N,) float64
        How much each item counts; None where all count alike.
    """

    values: Path
    codes: NDArray[np.int64]
    splits: Sequence[tuple[Rows, Rows]]
    learner: dict[str, Any]
    seed: int
    starts: tuple[int, ...]
    cache: Cache
    key: str
    weights: Floats | None = None

    def weights_of(self, rows: Rows) -> Floats:
        """How much each of some items counts."""
        return np.ones(len(rows)) if self.weights is None else self.weights[rows]

    def name(self, mask: int) -> str:
        """Return the cache entry of a trained set."""
        return f"sets/{self.key}/{mask:x}"


class Trainer:
    """Trains feature sets of one task and remembers their accuracy and model.

    Accuracy is that of the compiled model, which is what will be served, on items it
    was not trained on: those held out, or all of them fold by fold. With held-out items
    the model kept is the one measured; with folds it is trained on all items.
    """

    def __init__(self, task: Task, workers: int) -> None:
        self.task = task
        self.workers = workers

    def accuracies(self, masks: Sequence[int]) -> Iterator[float]:
        """Yield the accuracy of each set, training those that have not been yet."""
        known = [self._accuracy(mask) for mask in masks]
        missing = [m for m, k in zip(masks, known, strict=True) if k is None]
        trained = self._train_many(missing)
        for accuracy in known:
            yield next(trained) if accuracy is None else accuracy
        # joblib wants to be asked once more than it has results
        next(trained, None)

    def _accuracy(self, mask: int) -> float | None:
        entry = self.task.cache.load(self.task.name(mask))
        return None if entry is None else float(entry[0]["accuracy"])

    def _train_many(self, masks: Sequence[int]) -> Iterator[float]:
        if masks:
            calls = (delayed(_train)(self.task, mask) for mask in masks)
            yield from in_processes(calls, self.workers, stage="training sets")

    def model(self, mask: int) -> Model:
        """Return the compiled model of a trained set."""
        meta, arrays = self._entry(mask)
        return load_model(meta["kind"], arrays, width=self.task.starts[-1])

    def answers(self, masks: Sequence[int]) -> tuple[Floats, Rows]:
        """Margins (N, C) and choices (N, C) of C trained sets for the N items tested.

        With held-out items by the model kept; with folds, where those are all items,
        fold after fold by models of the other folds, which are trained once more.
        """
        task = self.task
        if len(task.splits) == 1:
            values = _map(task.values)[task.splits[0][1]]
            pairs = [answers_of(self.model(mask), values) for mask in masks]
        else:
            calls = (delayed(_answers_by_fold)(task, mask) for mask in masks)
            pairs = list(in_processes(calls, self.workers, stage="fitting exits"))
        margins, choices = zip(*pairs, strict=True)
        return np.column_stack(margins), np.column_stack(choices)

    def remarks(self, masks: Sequence[int]) -> dict[str, int]:
        """Count what the learner warned of while training these sets."""
        counts: dict[str, int] = {}
        for mask in masks:
            for remark in self._entry(mask)[0]["remarks"]:
                counts[remark] = counts.get(remark, 0) + 1
        return counts

    def _entry(self, mask: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        entry = self.task.cache.load(self.task.name(mask))
        if entry is None:
            raise KeyError(f"feature set {mask:#x} has not been trained")
        return entry


def _train(task: Task, mask: int) -> float:
    """Train one set, keep its model, return its accuracy."""
    columns = columns_of(task.starts, mask)
    values = _map(task.values)[:, columns].astype(np.float64)
    right, remarks = 0.0, list[str]()
    tested = sum(float(task.weights_of(test).sum()) for _, test in task.splits)
    try:
        for train, test in task.splits:
            model = _fit(task, values, train, columns, remarks)
            is_right = model.predict(_map(task.values)[test]) == task.codes[test]
            right += float(task.weights_of(test)[is_right].sum())
        if len(task.splits) > 1:
            everything = np.arange(len(task.codes))
            model = _fit(task, values, everything, columns, remarks)
    except PolydomError:
        raise
    except Exception as error:
        name = task.learner["name"]
        raise BadProject(
            f"learner {name!r} failed on feature set {mask:#x}: "
            f"{type(error).__name__}: {error}"
        ) from error
    accuracy = right / tested
    meta = {"accuracy": accuracy, "kind": model.kind, "remarks": sorted(set(remarks))}
    task.cache.store(task.name(mask), meta, model.arrays())
    return accuracy


def _answers_by_fold(task: Task, mask: int) -> tuple[Floats, Rows]:
    """Margins and choices of one set for each fold's items, which are kept."""
    name = f"margins/{task.key}/{mask:x}"
    stored = task.cache.load(name)
    if stored is None:
        columns = columns_of(task.starts, mask)
        values = _map(task.values)[:, columns].astype(np.float64)
        parts = [
            answers_of(_fit(task, values, train, columns, []), _map(task.values)[test])
            for train, test in task.splits
        ]
        margins, choices = (np.concatenate(part) for part in zip(*parts, strict=True))
        task.cache.store(name, {}, {"margins": margins, "choices": choices})
        return margins, choices
    return stored[1]["margins"], stored[1]["choices"]


def _fit(
    task: Task,
    values: NDArray[np.float64],
    train: Rows,
    columns: NDArray[np.int32],
    remarks: list[str],
) -> Model:
    codes, weights = task.codes[train], None
    if task.weights is not None:
        weights = task.weights[train]
    if not len(columns):
        return Prior.fit(codes, weights)
    estimator = make_learner(task.learner, task.seed)
    with threadpool_limits(1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(values[train], codes, **weighing(estimator, weights))
    remarks += [f"{w.category.__name__}: {w.message}".splitlines()[0] for w in caught]
    return compile_model(estimator, columns)


def weighing(estimator: Any, weights: Floats | None) -> dict[str, Floats]:
    """Arguments with which an estimator, or a pipeline's last step, is fitted.

    Raises
    ------
    BadProject
        If there are weights and it takes none.
    """
    if weights is None:
        return {}
    from sklearn.utils.validation import has_fit_parameter

    name, last = getattr(estimator, "steps", [("", estimator)])[-1]
    if not has_fit_parameter(last, "sample_weight"):
        raise BadProject(
            f"[data] weight: {type(last).__name__} takes no weights; another learner, "
            "or no weights, are needed"
        )
    return {f"{name}__sample_weight" if name else "sample_weight": weights}


def columns_of(starts: Sequence[int], mask: int) -> NDArray[np.int32]:
    """Positions in the full row of a set's columns, ascending.

    `starts` holds each feature's first column and, at its end, the width.
    """
    parts = [
        np.arange(starts[f], starts[f + 1], dtype=np.int32)
        for f in range(len(starts) - 1)
        if mask >> f & 1
    ]
    return np.concatenate([np.empty(0, np.int32), *parts])


@lru_cache(maxsize=1)
def _map(path: Path) -> NDArray[np.float32]:
    mapped: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped
