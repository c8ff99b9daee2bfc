"""`learner = "auto"`: learners compete on all features before sets are searched."""

import os
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.selection.arms import takes_weights
from polydom.models.selection.portfolio import Setting, installed, make_portfolio
from polydom.models.selection.race import Allocation, Race
from polydom.models.selection.select import (
    STRATEGIES,
    Running,
    Selection,
    Strategy,
    select,
)
from polydom.models.selection.validation_scores import Score, class_scores

from ..index.quality import Task
from ..progress import Progress
from .cache import Cache
from .divide_items import Division, race_divisions
from .prepare import Prepared
from .resources import Resources
from .terms import STRATEGY, asks_weights
from .training.quality import Answers, Metric

LEAST_VALID = 2000  # validation rows of the smallest trainings
SCORED = ("daub", "obms")  # strategies that use scores of the training rows
NONE: Mapping[str, Any] = {}
ONCE = ("knockout",)  # strategies for which more folds do not cost all trainings again

Watch = Callable[[Race], object]


@dataclass(frozen=True, slots=True)
class LearnerChoice:
    """The learner of a build, and the log of the race that chose it, if any."""

    # Name and parameters of the learner, as the table `[learner]` holds them
    setting: Setting
    # Plain data of the race: winner, score, seconds, learning curves, failures,
    # warnings. Empty without a race.
    facts: dict[str, Any]


def choose_learner(
    data: Prepared,
    resources: Resources,
    watch: Watch | None = None,
    parameters: Mapping[str, Any] | None = None,
) -> LearnerChoice:
    """Return the learner that the project names, or else the winner of a race.

    `parameters` are those of the race's strategy. Validation is on training items
    alone.
    """
    project, table, strategy = data.project, data.table, data.terms.strategy
    if strategy is None:
        return LearnerChoice(project.setting, {})
    weights = data.class_weights
    weighed = None if weights is None else weights.tolist()
    return race_learners(
        table.values,
        table.dataset.targets,
        race_divisions(table.dataset, data.splits, data.terms),
        metric=data.metric,
        seed=project.seed,
        cache=resources.cache,
        name=data.keys.race(
            strategy, data.task, data.metric.facts(), weighed, parameters or {}
        ),
        progress=resources.progress,
        strategy=strategy,
        parameters=parameters or {},
        watch=watch,
        limit_s=project.training_limit_s,
        class_weights=weights,
        weights=table.dataset.weights,
        weighed=asks_weights(project),
        jobs=jobs_of(resources),
    )


def jobs_of(resources: Resources) -> int:
    """Return how many trainings of a race run at a time, all on this machine."""
    return min(resources.workers.count, os.cpu_count() or 1)


def row_weights(
    targets: NDArray[Any],
    weights: NDArray[np.float64] | None,
    class_weights: NDArray[np.float64] | None,
) -> NDArray[np.float64] | None:
    """Return weights (N,) of rows for fitting; None if all rows count alike."""
    if class_weights is None:
        return weights
    by_class: NDArray[np.float64] = class_weights[targets]
    return by_class if weights is None else by_class * weights


def race_learners(
    values: NDArray[np.float32],
    targets: NDArray[Any],
    divisions: Sequence[Division],
    *,
    metric: Metric,
    seed: int,
    cache: Cache,
    name: str,
    progress: Progress,
    strategy: str = STRATEGY,
    parameters: Mapping[str, Any] = NONE,
    settings: Mapping[str, Setting] | None = None,
    watch: Watch | None = None,
    limit_s: float | None = None,
    class_weights: NDArray[np.float64] | None = None,
    weights: NDArray[np.float64] | None = None,
    weighed: bool = False,
    jobs: int = 1,
) -> LearnerChoice:
    """Train several learners, and return the best learner.

    `values` (N, width) and `targets` (N,) are for all items; `divisions` has the
    training rows and the validation rows of each fold. The race's log is stored in the
    cache under `name`; trainings in the log are not repeated. If `limit_s` is given,
    each training runs in its own process, and a learner leaves the race if this process
    crashes or takes longer. Learners that accept weights get `class_weights` (K,).
    If items have `weights` (N,), or if `weighed` is true, only learners that accept
    weights take part. `parameters` are keyword arguments of the strategy. `jobs` is the
    number of trainings at a time; it does not change the result.
    """
    task: Task = "classes" if metric.classes else "regression"
    settings = installed(task) if settings is None else settings
    learners = make_portfolio(settings, seed, task)
    if weights is not None or weighed:
        learners = {k: one for k, one in learners.items() if takes_weights(one)}
    log = cache.recall(name, partial(_read_log, learners)) or []
    folds = divisions if strategy in ONCE else divisions[:1]
    rule: str | Strategy = strategy
    if parameters:
        rule = partial(STRATEGIES[strategy], **parameters)
    scored = strategy in SCORED and parameters.get("training_bound", True)
    with progress.stage("choosing a learner", None) as on_progress:

        def keep(race: Race) -> None:
            lines = [line.to_dict() for line in race.log]
            if len(lines) > len(log):  # else all lines are from the log
                cache.store(name, {"log": lines}, {})
            on_progress(len(lines))
            if watch is not None:
                watch(race)

        chosen = select(
            learners,
            values.astype(np.float64),
            targets,
            strategy=rule,
            scored=None if scored else 0,
            measure=score_of(metric),
            validation=list(folds),
            least_valid=LEAST_VALID,
            refit=False,
            seed=seed,
            weights=row_weights(targets, weights, class_weights),
            counts=weights,
            running=Running(log=log, progress=keep, limit_s=limit_s, jobs=jobs),
        )
    return LearnerChoice(settings[chosen.name], _facts(strategy, learners, chosen))


def _read_log(
    learners: Container[str], meta: Mapping[str, Any], _: object
) -> list[dict[str, Any]]:
    lines = [Allocation.from_dict(line) for line in meta["log"]]
    for line in lines:
        if line.learner not in learners:
            raise BadInput(f"no learner {line.learner!r} is in this race")
    return [line.to_dict() for line in lines]


def score_of(metric: Metric) -> str | Score:
    """Return a race's validation score: the metric's name, or a `Score` of its own."""
    if metric.name != "cost" and metric.goal is None:
        return metric.name
    return Score(partial(_saved, metric), 1.0)


def _saved(
    metric: Metric, model: Any, X: Any, y: Any, sample_weight: Any = None
) -> float:
    """Return the quality of a model's answers for rows `X`, by their best threshold."""
    weights = np.ones(len(y)) if sample_weight is None else sample_weight
    answers = Answers(model.predict(X))
    if metric.goal is not None and len(model.classes_) == 2:
        answers = metric.decided(
            Answers(answers.chosen, class_scores(model, X)), y, weights
        )
    return metric.evaluate(answers, y, weights).quality


def _facts(strategy: str, learners: Iterable[str], chosen: Selection) -> dict[str, Any]:
    warned: dict[str, dict[str, None]] = {learner: {} for learner in learners}
    for line in chosen.log:
        warned[line.learner] |= dict.fromkeys(line.warnings)  # each text once
    return {
        "strategy": strategy,
        "learner": chosen.name,
        "score": chosen.score,
        "seconds": chosen.seconds,
        "curves": {
            learner: [[line.amount, line.score, line.seconds] for line in curve]
            for learner, curve in chosen.curves.items()
        },
        "failed": dict(chosen.failed),
        "warnings": {
            learner: list(texts) for learner, texts in warned.items() if texts
        },
    }
