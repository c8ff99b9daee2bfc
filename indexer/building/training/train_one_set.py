"""One call of a worker: the training of one feature set."""

import math
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject, PolydomError
from polydom.features.threads import one_thread
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Mean, Prior
from polydom.models.selection.arms import fill_empty, weighing
from polydom.models.selection.learners import make_learner

from ...index.quality import Task
from ..exits.checkpoints import answers_of
from .decisions.decision import Decision
from .decisions.evidence import Evidence, evidence_of, join_evidence
from .decisions.fit_calibration import at_best_temperature
from .dull_columns import varying_columns
from .quality import Answers
from .training_task import TrainingTask, columns_of

Rows = NDArray[np.int64]

ROWS_AT_ONCE = 1 << 14
FLOAT32_MAX = float(np.finfo(np.float32).max)


class TrainedSet(NamedTuple):
    """A trained feature set, with the content of its cache entry."""

    mask: int
    meta: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def describe(task: TrainingTask, mask: int, _: object = None) -> str:
    """Return what a worker does with a task and a set, in words."""
    columns = len(columns_of(task.starts, mask))
    return (
        f"training {task.learner['name']} on {len(task.codes):,} items and the "
        f"{columns} columns of feature set {mask:#x}"
    )


def train_set(task: TrainingTask, mask: int) -> TrainedSet:
    """Train one set and measure its quality; record the seconds that this took."""
    _warm(msgspec.msgpack.encode(task.learner), task.kind)
    begun_s = time.perf_counter()
    columns = columns_of(task.starts, mask)
    given, remarks = list[Answers](), list[str]()
    found = list[Evidence | None]()
    folds = len(task.splits) > 1 and task.numbers is None
    read = folds or task.metric.name == "log_loss"
    try:
        for train, test in task.splits:
            model = _fit(task, train, columns, remarks)
            given.append(task.metric.answers(model, task.values[test]))
            if read:
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
    evidence = join_evidence(found)
    quality, arrays = _evaluate(task, given, evidence)
    seconds = time.perf_counter() - begun_s
    meta = {
        "quality": quality,
        "seconds": seconds,
        "kind": model.kind,
        "remarks": sorted(set(remarks)),
    }
    arrays |= {f"model/{name}": array for name, array in model.arrays().items()}
    if folds and evidence is not None:  # only the last fold's model is kept
        meta["evidence"] = [evidence.logs, evidence.probable]
        with np.errstate(over="ignore"):
            arrays["evidence"] = evidence.z.astype(np.float32)
    return TrainedSet(mask, meta, arrays)


def _evaluate(
    task: TrainingTask, given: Sequence[Answers], evidence: Evidence | None
) -> tuple[float, dict[str, NDArray[Any]]]:
    """Return the quality of all folds' answers, and arrays for the cache entry.

    Log loss is of scores that a temperature has calibrated, as those of the index are.
    """
    if not given:
        return math.nan, {}
    tested = task.tested
    targets = task.targets[tested]
    chosen = np.concatenate([one.chosen for one in given])
    scores = [one.scores for one in given if one.scores is not None]
    answers = Answers(chosen, np.concatenate(scores) if scores else None)
    weights = task.weights_of(tested)
    if task.metric.name == "log_loss" and evidence is not None:
        by_class = task.class_weights()
        shift = None if by_class is None else np.log(by_class)
        known = evidence, targets, weights, shift, task.seed
        answers = answers._replace(scores=at_best_temperature(*known))
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


def answer_by_fold(task: TrainingTask, mask: int, decision: Decision) -> TrainedSet:
    """Answer the items of each fold by a model of the other folds."""
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


def _take(
    values: NDArray[np.float32], rows: Rows, columns: NDArray[np.int32]
) -> NDArray[np.float64]:
    """Copy some rows and columns as float64, block by block to save memory."""
    taken = np.empty((len(rows), len(columns)))
    for start in range(0, len(rows), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        taken[part] = values[np.ix_(rows[part], columns)]
    return taken
