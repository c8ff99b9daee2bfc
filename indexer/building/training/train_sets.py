"""Training of feature sets in parallel, each set once; results are cached."""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject
from polydom.models.load import load_model
from polydom.models.scoring.model import Model
from polydom.models.selection.splits import nested_order

from ...cluster.workers import Workers
from ..cache import Cache, digest
from ..exits.checkpoints import answers_of
from .decisions.decision import Decision
from .decisions.evidence import Evidence, evidence_of
from .quality import Answers
from .train_one_set import TrainedSet, answer_by_fold, describe, train_set
from .training_task import TrainingTask, division_of

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

STAGE = "training sets"
SAMPLE = 1000  # rows from whose training the time of all rows is estimated
MANY_SAMPLES = 4  # fewer samples than this in all rows, and nothing is estimated


@dataclass(slots=True)
class Spent:
    """Seconds that all trainers of one search have spent on trainings."""

    seconds: float = 0.0


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

    def expected_s(self, mask: int) -> float:
        """Estimate the seconds that training a set will take; 0 for a trained set.

        The estimate is a straight line through the times of two trainings on few rows,
        but at most in proportion to the rows. These times do not count as spent. If the
        few rows are a large part of all, nothing is trained, and the result is 0.
        """
        rows = self.rows * len(self.task.splits)
        trained = self.cache.recall(self.task.name(mask), self._read)
        if trained or rows < MANY_SAMPLES * SAMPLE:
            return 0.0
        taken_s = []
        for count in (SAMPLE // 2, SAMPLE):
            sample = self.on_sample(count)
            sample.spent = Spent()
            list(sample.qualities([mask]))
            taken_s.append(sample.seconds(mask))
        half_s, whole_s = taken_s
        more_s = max(whole_s - half_s, 0.0) / (SAMPLE // 2)
        fold_s = min(
            whole_s + more_s * (self.rows - SAMPLE), whole_s * self.rows / SAMPLE
        )
        return len(self.task.splits) * fold_s

    def deciding(self, decisions: Mapping[int, Decision]) -> Self:
        """Return this trainer with what models of some sets decide by."""
        own = self.task, self._workers, self.cache, self.spent, decisions
        made = type(self)(*own)
        made._seconds = self._seconds
        return made

    def on_sample(self, count: int) -> Self:
        """Return a trainer on `count` training rows with the same shares of classes."""
        train, test = self.task.splits[0]
        rng = np.random.default_rng(self.task.seed)
        rows = np.sort(nested_order(self.task.codes[train], rng)[:count])
        key = digest(self.task.key, "nested", count)
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
                train_set, calls, stage=STAGE, doing=describe, keep=self._keep
            ):
                yield found.meta["quality"], found.meta["seconds"]

    def _keep(self, found: TrainedSet) -> None:
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
            answer_by_fold, calls, stage="fitting exits", doing=describe, keep=keep
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
