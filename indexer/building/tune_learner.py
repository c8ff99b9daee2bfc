"""`tune_s`: the settings of a project's learner are tuned before sets are searched."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from polydom.features.errors import BadProject
from polydom.models.selection.race import Allocation, Race
from polydom.models.selection.settings_space import space_of
from polydom.models.selection.splits import split
from polydom.models.selection.tune import Tuned, tune
from polydom.models.selection.validation_scores import find_score

from .divide_items import race_divisions
from .learner_race import LearnerChoice, Watch, jobs_of, row_weights, score_of
from .prepare import Prepared
from .resources import Resources


def tune_learner(
    choice: LearnerChoice,
    data: Prepared,
    resources: Resources,
    watch: Watch | None = None,
) -> LearnerChoice:
    """Return the learner with the best settings that `tune_s` seconds find.

    Settings are compared on the rows and folds of a race, with the project's measure.
    The log is kept in the cache with its seconds, so a repetition ends at the same
    setting. A learner that won a race and has nothing to tune stays as it is; one that
    the project names was refused before.
    """
    project, table = data.project, data.table
    dataset, tune_s = table.dataset, project.tune_s
    fixed = data.terms.strategy is None  # the winner of a race has no settings of users
    if tune_s is None or not _tunable(choice, fixed):
        return choice
    measure, weights = find_score(score_of(data.metric)), data.class_weights
    told = None if weights is None else weights.tolist()
    name = data.keys.tuning(choice.setting, data.task, data.metric.facts(), told)
    past = resources.cache.recall(name, _read_log) or []
    splits = split(
        table.values.astype(np.float64),
        dataset.targets,
        validation=race_divisions(dataset, data.splits, data.terms),
        labels=measure.labels,
        seed=project.seed,
        weights=row_weights(dataset.targets, dataset.weights, weights),
        counts=dataset.weights,
    )
    with resources.progress.stage("tuning the learner, seconds", None) as on_progress:
        lines: list[dict[str, Any]] = []

        def keep(race: Race, spent_s: float) -> None:
            lines.append(race.log[-1].to_dict())
            if len(lines) > len(past):  # else all lines are from the log
                resources.cache.store(name, {"log": lines}, {})
            on_progress(int(spent_s), max(int(tune_s - spent_s), 0))
            if watch is not None:
                watch(race)

        tuned = tune(
            choice.setting,
            splits,
            measure,
            task=data.task,
            seed=project.seed,
            tune_s=tune_s,
            fixed=fixed,
            past=past,
            progress=keep,
            jobs=jobs_of(resources),
        )
    races = [choice.facts] if choice.facts else []
    return LearnerChoice(tuned.setting, {"levels": [*races, _facts(tuned)]})


def _tunable(choice: LearnerChoice, fixed: bool) -> bool:
    try:
        space_of(choice.setting if fixed else {"name": choice.setting["name"]})
    except BadProject:
        return False
    return True


def _read_log(meta: Mapping[str, Any], _: object) -> list[Allocation]:
    return [Allocation.from_dict(line) for line in meta["log"]]


def _facts(tuned: Tuned) -> dict[str, Any]:
    curves: dict[str, list[list[float]]] = {}
    for line in tuned.log:
        if line.score is not None:
            point = [line.amount, line.score, line.seconds]
            curves.setdefault(line.learner, []).append(point)
    return {
        "strategy": "successive halving",
        "unit": "iterations" if tuned.by_iterations else "examples",
        "learner": tuned.name,
        "score": tuned.score,
        "seconds": sum(line.seconds for line in tuned.log),
        "curves": curves,
        "failed": {line.learner: line.error for line in tuned.log if line.error},
    }
