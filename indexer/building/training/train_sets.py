"""Training of feature sets in parallel, each set once; results are cached."""

import math
import time
import warnings
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject, PolydomError
from polydom.features.threads import one_thread
from polydom.models.importers.compile_model import compile_model
from polydom.models.load import load_model
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Mean, Prior
from polydom.models.selection.arms import fill_empty, weighing
from polydom.models.selection.learners import make_learner

from ...cluster.workers import Workers
from ...index.quality import Task
from ..cache import Cache, SharedArrays, digest
from ..exits.checkpoints import answers_of
from .decision import Decision
from .dull_columns import varying_columns
from .fit_calibration import Evidence, evidence_of, join_evidence
from .quality import Answers, Metric

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

STAGE = "training sets"
ROWS_AT_ONCE = 1 << 14
FLOAT32_MAX = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingTask:
    """All that a worker needs to train a feature set, except the set.

    It is sent with each call to a worker, usually without its arrays, which are shared.
    """

    # Arrays of N items: `values` (N, width) float32 of features and `codes` (N,) int64
    # of classes, 0 if labels are numbers. Optional are `weights` (N,) float64 of the
    # items, `class_weights` (K,) float64 for fitting alone, and `numbers` (N,) float64,
    # the labels.
    items: SharedArrays
    division: SharedArrays  # Rows of each part, by `division_of`
    metric: Metric  # Metric of quality
    learner: dict[str, Any]  # Name and parameters of the learner
    seed: int
    starts: tuple[int, ...]  # First column of each feature, and at the end the width
    key: str  # Name of the trained sets in the cache: entries `sets/{key}/{mask}`

    @property
    def values(self) -> NDArray[np.float32]:
        """Values of all features, shape (N, width)."""
        return self.items["values"]

    @property
    def codes(self) -> Rows:
        """Codes of the items' classes, shape (N,); all 0 if labels are numbers."""
        return self.items["codes"]

    @property
    def numbers(self) -> Floats | None:
        """Labels as numbers, shape (N,); None if labels are classes."""
        return self.items.get("numbers")

    @property
    def splits(self) -> list[tuple[Rows, Rows]]:
        """Pairs of training rows and testing rows: one pair, or one per fold.

        The list is empty if models are trained on all rows, and no row is left for
        testing.
        """
        count = len(self.division) // 2
        names = [(f"train_{part}", f"test_{part}") for part in range(count)]
        return [(self.division[train], self.division[test]) for train, test in names]

    @property
    def targets(self) -> NDArray[Any]:
        """Labels, shape (N,): codes of classes, or numbers for regression."""
        return self.codes if self.numbers is None else self.numbers

    @property
    def kind(self) -> Task:
        """Task that the labels imply: "classes" or "regression"."""
        return "classes" if self.numbers is None else "regression"

    @property
    def tested(self) -> Rows:
        """Positions of the items that quality is measured on, fold by fold."""
        return np.concatenate([test for _, test in self.splits])

    def estimator(self) -> Any:
        """Return a new estimator that is not fitted."""
        return make_learner(self.learner, self.seed, self.kind)

    def fitting_weights(self, rows: Rows) -> Floats | None:
        """Return weights of rows for fitting a learner; None if all are equal.

        A row's weight is the weight of its item times the weight of its class.
        """
        by_class = self.items.get("class_weights")
        if by_class is None and "weights" not in self.items:
            return None
        weights = self.weights_of(rows)
        if by_class is not None:
            weights = weights * by_class[self.codes[rows]]
            weights /= weights.mean()
        return weights

    def weights_of(self, rows: Rows) -> Floats:
        """Return weights of rows for measuring quality; 1 if items have no weights."""
        weights: Floats | None = self.items.get("weights")
        return np.ones(len(rows)) if weights is None else weights[rows]

    def name(self, mask: int) -> str:
        """Return the name of a set's entry in the cache."""
        return f"sets/{self.key}/{mask:x}"


def division_of(splits: Sequence[tuple[Rows, Rows]]) -> dict[str, Rows]:
    """Return splits as named arrays, the form of `TrainingTask.division`."""
    arrays = dict[str, Rows]()
    for part, (train, test) in enumerate(splits):
        arrays |= {f"train_{part}": train, f"test_{part}": test}
    return arrays


@dataclass(slots=True)
class Spent:
    """Seconds that all trainers of one search have spent on trainings."""

    seconds: float = 0.0


class TrainedSet(NamedTuple):
    """A trained feature set, with the content of its cache entry."""

    mask: int
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


class Trainer:
    """Trains feature sets for one task, and caches their qualities and models.

    Quality is measured with the compiled model, on items that the model was not trained
    on. With folds, the model of the last fold is kept. `spent` counts the training time
    of all sets that were asked for, in seconds, divided by the number of processes. A
    set from the cache counts with the time that its training took, so a repeated search
    with a time limit ends at the same set. Models of the sets in `decisions` decide as
    it says.
    """

    def __init__(
        self,
        task: TrainingTask,
        workers: Workers,
        cache: Cache,
        spent: Spent | None = None,
        decisions: Mapping[int, Decision] = MappingProxyType({}),
    ) -> None:
        self.task = task
        self.decisions = decisions
        self.cache = cache
        self.workers = workers.count
        self._workers = workers
        self.spent = spent or Spent()
        self._seconds: dict[int, float] = {}

    @property
    def rows(self) -> int:
        """Number of training rows in the first split."""
        return len(self.task.splits[0][0])

    def seconds(self, mask: int) -> float:
        """Return the seconds that training a set took; call `qualities` first."""
        return self._seconds[mask]

    def qualities(self, masks: Sequence[int]) -> Generator[float]:
        """Yield the quality of each set in turn; train a set first if needed."""
        names = map(self.task.name, masks)
        known = [self.cache.recall(name, self._read) for name in names]
        missing = [m for m, k in zip(masks, known, strict=True) if k is None]
        found = self._train_many(missing)
        for mask, trained in zip(masks, known, strict=True):
            quality, seconds = trained or next(found)
            if mask not in self._seconds:
                self._seconds[mask] = seconds
                self.spent.seconds += seconds / self.workers
            yield quality

    def deciding(self, decisions: Mapping[int, Decision]) -> Self:
        """Return this trainer with what models of some sets decide by."""
        own = self.task, self._workers, self.cache, self.spent, decisions
        made = type(self)(*own)
        made._seconds = self._seconds
        return made

    def on_sample(self, count: int) -> Self:
        """Return a trainer on `count` training rows with the same shares of classes."""
        train, test = self.task.splits[0]
        rows = draw_sample(self.task.codes[train], count, self.task.seed)
        key = digest(self.task.key, "sample", count)
        division = division_of([(train[rows], test)])
        shared = self.cache.share(f"sets/{key}/division", division)
        task = replace(self.task, division=shared, key=key)
        return type(self)(task, self._workers, self.cache, self.spent)

    def _read(
        self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> tuple[float, float]:
        """Return a cache entry's quality and seconds; raise an error if damaged."""
        self._read_model(meta, arrays)
        for name, shape in self._shapes().items():
            if arrays[name].shape != shape:
                raise BadProject(f"{name!r} is of shape {arrays[name].shape}")
        if not all(isinstance(remark, str) for remark in meta["remarks"]):
            raise BadProject("its remarks are no texts")
        return float(meta["quality"]), float(meta["seconds"])

    def _shapes(self) -> dict[str, tuple[int]]:
        """Return the shapes of a cache entry's arrays by name, except the model's."""
        if not self.task.splits:
            return {}
        count = len(self.tested)
        if self.task.numbers is not None:
            return {"residuals": (count,)}
        shapes = {"right": (-(-count // 8),)}
        if self.task.metric.name != "accuracy":
            shapes["parts"] = (count,)
        return shapes

    def _read_model(
        self, meta: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> Model:
        parts = {
            name.removeprefix("model/"): array
            for name, array in arrays.items()
            if name.startswith("model/")
        }
        return load_model(meta["kind"], parts, width=self.task.starts[-1])

    def _train_many(self, masks: Sequence[int]) -> Iterator[tuple[float, float]]:
        if masks:
            calls = ((self.task, mask) for mask in masks)
            for found in self._workers.run(
                _train, calls, stage=STAGE, doing=_describe, keep=self._keep
            ):
                yield found.meta["quality"], found.meta["seconds"]

    def _keep(self, found: "TrainedSet") -> None:
        self.cache.store(self.task.name(found.mask), found.meta, found.arrays)

    def model(self, mask: int) -> Model:
        """Return the compiled model of a trained set."""
        return self._decide(mask, self._read_model(*self._entry(mask)))

    def _decide(self, mask: int, model: Model) -> Model:
        decision = self.decisions.get(mask)
        return model if decision is None else decision.applied(model)

    def evidence(self, mask: int) -> Evidence | None:
        """Return what a calibration reads of a set's answers for N tested items.

        Returns None if the set's models have no raw scores for all classes.
        """
        meta, arrays = self._entry(mask)
        task = self.task
        if len(task.splits) == 1:
            values = task.values[task.splits[0][1]]
            model = self._read_model(meta, arrays)
            return evidence_of(model, values, task.metric.classes)
        if "evidence" not in arrays:
            return None
        z = arrays["evidence"].astype(np.float64)
        return Evidence(z, *map(bool, meta["evidence"]))

    @property
    def tested(self) -> Rows:
        """Positions (N,) of the items that quality is measured on, fold by fold."""
        return self.task.tested

    def right(self, masks: Sequence[int]) -> NDArray[np.bool_]:
        """Return (E, N): True if the model of set e answers tested item n correctly."""
        packed = [self._entry(mask)[1]["right"] for mask in masks]
        count = len(self.tested)
        return np.unpackbits(np.vstack(packed), axis=1, count=count).view(np.bool_)

    def residuals(self, mask: int) -> Floats:
        """Return label minus answer (N,) for N tested items; for regression only."""
        return self._entry(mask)[1]["residuals"].astype(np.float64)

    def parts(self, masks: Sequence[int]) -> NDArray[Any]:
        """Return contributions (E, N) of N tested items to the qualities of E sets."""
        metric, tested = self.task.metric, self.tested
        if metric.name == "accuracy":
            return self.right(masks)
        if self.task.numbers is None:
            return np.vstack([self._entry(mask)[1]["parts"] for mask in masks])
        targets, weights = self.task.numbers[tested], self.task.weights_of(tested)
        parts = np.empty((len(masks), len(tested)), np.float32)
        for row, mask in enumerate(masks):
            answers = Answers(targets - self.residuals(mask))
            parts[row] = metric.evaluate(answers, targets, weights).parts
        return parts

    def answers(self, masks: Sequence[int]) -> tuple[Floats, Rows]:
        """Return margins (N, C) and classes (N, C) of C sets for N tested items.

        With folds, each set is trained again, because only the model of its last fold
        was kept; an item is answered by a model of the other folds.
        """
        task = self.task
        if len(task.splits) == 1:
            values = task.values[task.splits[0][1]]
            pairs = [answers_of(self.model(mask), values) for mask in masks]
        else:
            pairs = [*self._answers_by_fold(masks)]
        margins, choices = zip(*pairs, strict=True)
        return np.column_stack(margins), np.column_stack(choices)

    def _answers_by_fold(self, masks: Sequence[int]) -> Iterator[tuple[Floats, Rows]]:
        """Yield each set's margins and classes for the items of all folds."""
        decisions = [self.decisions.get(mask, Decision()) for mask in masks]
        keys = [one.key for one in decisions]
        names = {
            mask: f"margins/{self.task.key}/{mask:x}{key}"
            for mask, key in zip(masks, keys, strict=True)
        }
        known = {
            m: self.cache.recall(name, self._read_answers) for m, name in names.items()
        }

        def keep(found: TrainedSet) -> None:
            self.cache.store(names[found.mask], found.meta, found.arrays)

        calls = (
            (self.task, mask, decision)
            for mask, decision in zip(masks, decisions, strict=True)
            if known[mask] is None
        )
        found = self._workers.run(
            _answer_by_fold, calls, stage="fitting exits", doing=_describe, keep=keep
        )
        for answers in known.values():
            yield answers or self._read_answers({}, next(found).arrays)

    def _read_answers(
        self, _: dict[str, Any], arrays: dict[str, NDArray[Any]]
    ) -> tuple[Floats, Rows]:
        margins, choices = arrays["margins"], arrays["choices"]
        if not margins.shape == choices.shape == (len(self.tested),):
            raise BadProject(f"answers of shapes {margins.shape} and {choices.shape}")
        return margins, choices

    def remarks(self, masks: Sequence[int]) -> dict[str, int]:
        """Return the learner's warnings from training these sets, with their counts."""
        counts: dict[str, int] = {}
        for mask in masks:
            for remark in self._entry(mask)[0]["remarks"]:
                counts[remark] = counts.get(remark, 0) + 1
        return counts

    def _entry(self, mask: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        entry = self.cache.load(self.task.name(mask))
        if entry is None:
            raise KeyError(f"feature set {mask:#x} has not been trained")
        return entry


def draw_sample(codes: NDArray[np.int64], count: int, seed: int) -> Rows:
    """Draw rows with the same shares of classes; return ascending positions (count,).

    If `count` is at least the number of classes, every class has a row.
    """
    shuffled = np.random.default_rng(seed).permutation(len(codes))
    by_class = shuffled[np.argsort(codes[shuffled], kind="stable")]
    counts = np.bincount(codes)
    starts = np.repeat(np.cumsum(counts) - counts, counts)
    place = (np.arange(len(codes)) - starts) / counts[codes[by_class]]
    return np.sort(by_class[np.argsort(place, kind="stable")[:count]])


def _describe(task: TrainingTask, mask: int, _: object = None) -> str:
    columns = len(columns_of(task.starts, mask))
    return (
        f"training {task.learner['name']} on {len(task.codes):,} items and the "
        f"{columns} columns of feature set {mask:#x}"
    )


def _train(task: TrainingTask, mask: int) -> TrainedSet:
    """Train one set and measure its quality; record the seconds that this took."""
    _warm(msgspec.msgpack.encode(task.learner), task.kind)
    begun_s = time.perf_counter()
    columns = columns_of(task.starts, mask)
    given, remarks = list[Answers](), list[str]()
    found = list[Evidence | None]()
    folds = len(task.splits) > 1 and task.numbers is None
    try:
        for train, test in task.splits:
            model = _fit(task, train, columns, remarks)
            given.append(task.metric.answers(model, task.values[test]))
            if folds:  # only the last fold's model is kept
                values, classes = task.values[test], task.metric.classes
                found.append(evidence_of(model, values, classes))
        if not task.splits:
            model = _fit(task, np.arange(len(task.codes)), columns, remarks)
    except PolydomError:
        raise
    except Exception as error:
        name = task.learner["name"]
        places = range(len(task.starts) - 1)
        chosen = ", ".join(str(f + 1) for f in places if mask >> f & 1)
        raise BadProject(
            f"learner {name!r} failed when trained on feature {chosen} of the "
            f"project's {len(places)}: {type(error).__name__}: {error}"
        ) from error
    quality, arrays = _evaluate(task, given)
    seconds = time.perf_counter() - begun_s
    meta = {
        "quality": quality,
        "seconds": seconds,
        "kind": model.kind,
        "remarks": sorted(set(remarks)),
    }
    arrays |= {f"model/{name}": array for name, array in model.arrays().items()}
    if evidence := join_evidence(found):
        meta["evidence"] = [evidence.logs, evidence.probable]
        with np.errstate(over="ignore"):
            arrays["evidence"] = evidence.z.astype(np.float32)
    return TrainedSet(mask, meta, arrays)


def _evaluate(
    task: TrainingTask, given: Sequence[Answers]
) -> tuple[float, dict[str, NDArray[Any]]]:
    """Return the quality of all folds' answers, and arrays for the cache entry."""
    if not given:
        return math.nan, {}
    tested = task.tested
    targets = task.targets[tested]
    chosen = np.concatenate([one.chosen for one in given])
    scores = [one.scores for one in given if one.scores is not None]
    answers = Answers(chosen, np.concatenate(scores) if scores else None)
    weights = task.weights_of(tested)
    answers = task.metric.decided(answers, targets, weights)
    found = task.metric.evaluate(answers, targets, weights)
    if task.numbers is not None:
        residuals = np.clip(targets - chosen, -FLOAT32_MAX, FLOAT32_MAX)
        return found.quality, {"residuals": residuals.astype(np.float32)}
    arrays: dict[str, NDArray[Any]] = {"right": np.packbits(answers.chosen == targets)}
    if task.metric.name != "accuracy":
        arrays["parts"] = found.parts.astype(np.float32)
    return found.quality, arrays


@lru_cache(maxsize=1)
def _warm(learner: bytes, kind: Task) -> None:
    """Import libraries and compile kernels once per process, before timed trainings.

    This trains the learner on tiny random data, and ignores any error.
    """
    rows = np.random.default_rng(0).normal(size=(60, 3))
    with one_thread(), warnings.catch_warnings(), suppress(Exception):
        warnings.simplefilter("ignore")
        estimator = make_learner(msgspec.msgpack.decode(learner), 0, kind)
        estimator.fit(rows, np.arange(60) % 2)
        compile_model(estimator, np.arange(3)).predict(rows.astype(np.float32))


def _answer_by_fold(task: TrainingTask, mask: int, decision: Decision) -> TrainedSet:
    columns = columns_of(task.starts, mask)
    parts = [
        answers_of(decision.applied(_fit(task, train, columns, [])), task.values[test])
        for train, test in task.splits
    ]
    margins, choices = (np.concatenate(part) for part in zip(*parts, strict=True))
    return TrainedSet(mask, {}, {"margins": margins, "choices": choices})


def _fit(
    task: TrainingTask, train: Rows, columns: NDArray[np.int32], remarks: list[str]
) -> Model:
    targets, weights = task.targets[train], task.fitting_weights(train)
    estimator = task.estimator()
    values = _take(task.values, train, columns)
    told = varying_columns(estimator, values)
    if not told.any():
        kind = Prior if task.numbers is None else Mean
        return kind.fit(targets, weights)
    # a learner by itself may have parameters that count columns
    if hasattr(estimator, "steps"):
        values, columns = values[:, told], columns[told]
    values = fill_empty(estimator, values)
    with one_thread(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimator.fit(values, targets, **weighing(estimator, weights))
    remarks += [f"{w.category.__name__}: {w.message}".splitlines()[0] for w in caught]
    return compile_model(estimator, columns)


def columns_of(starts: Sequence[int], mask: int) -> NDArray[np.int32]:
    """Return a set's columns in the row of all features, as ascending positions."""
    parts = [
        np.arange(starts[f], starts[f + 1], dtype=np.int32)
        for f in range(len(starts) - 1)
        if mask >> f & 1
    ]
    return np.concatenate([np.empty(0, np.int32), *parts])


def _take(
    values: NDArray[np.float32], rows: Rows, columns: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Copy some rows and columns as float64, block by block to save memory."""
    taken = np.empty((len(rows), len(columns)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        taken[part] = values[np.ix_(rows[part], columns)]
    return taken
