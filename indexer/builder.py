"""The whole build: from a project's items to an index, one hop after the other."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..features.cost import CostTable
from ..features.sizes import cost_at, read_size
from ..models.learners import make_learner
from .assembly import Assembly
from .cache import FOLDER, Cache
from .catalogue import choose_features, project_files
from .choosing import (
    AUTO,
    DEFAULT_STRATEGY,
    VALIDATION,
    Choice,
    Contest,
    Division,
    Watch,
)
from .costing import Curve, measure_curves, weigh_costs
from .data import Dataset, load_data, split
from .description import describe
from .index import Index
from .keys import Keys
from .plan_exits import check_exits
from .progress import Progress, Silence
from .project import Project
from .searching import CostOf, Found, search_sets
from .stored import StoredFeature, load_extractor
from .training import Task, Trainer
from .values import compute_values


def build(
    project: Project | str | os.PathLike[str],
    *,
    output: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    watch: Watch | None = None,
) -> Index:
    """Build the index that a project describes.

    What is finished is kept in `cache`: an interrupted build goes on where it stopped,
    and the same project with the same measured times gives the same bytes.

    Parameters
    ----------
    project
        A `Project`, or the path of its PROJECT.toml.
    output
        Where to save the index; it appears there whole or not at all.
    cache
        Folder for finished work, made if it is not there; None for `.polydom-cache`
        in the project's folder. What is kept is named by items, settings, code and
        versions of libraries, and found again only where all are the same.
    progress
        Told of each stage.
    watch
        Called with the race of `learner = "auto"` after each of its trainings:
        `race.log[-1]` is the newest, `race.left_s` an estimate of the seconds to go.

    Raises
    ------
    BadProject
        If the project or its data cannot be used.
    BadFeature
        If a feature breaks its promise on some item, which is named.
    """
    if not isinstance(project, Project):
        project = Project.load(project)
    kept = Cache(Path(cache or project.path(FOLDER)))
    builder = Builder(project, kept, progress or Silence(), watch)
    index = builder.index()
    if output is not None:
        index.save(output)
        index = Index.load(output)
    return index


@dataclass(frozen=True, slots=True)
class Builder:
    """One build's settings, and its hops."""

    project: Project
    cache: Cache
    progress: Progress
    watch: Watch | None = None

    @property
    def workers(self) -> int:
        """Processes to use."""
        return self.project.workers or os.cpu_count() or 1

    def index(self) -> Index:
        """Build: the hops in order."""
        dataset, features, values = self.data()
        tested = sum(len(test) for _, test in self.splits(dataset))
        check_exits(self.project.exits, tested)
        curves, costs = self.costs(dataset, features)
        choice = self.choose(dataset, features, values)
        trainer = self.trainer(dataset, features, values, choice)
        middle = read_size(np.median(dataset.sizes, axis=0).tolist())

        def cost_of(mask: int) -> float:
            return cost_at(costs.of(mask).tolist(), middle)

        found = self.search(trainer, len(features), cost_of)
        report = describe(self.project, dataset, curves, choice, trainer, found)
        assembly = Assembly(
            project=self.project,
            cache=self.cache,
            progress=self.progress,
            dataset=dataset,
            features=features,
            values=values,
            curves=curves,
            costs=costs,
            cost_of=cost_of,
            trainer=trainer,
            found=found,
        )
        return assembly.index(report)

    def select(self, strategy: str) -> Choice:
        """Go only as far as the choice of a learner."""
        dataset, features, values = self.data()
        return self.choose(dataset, features, values, strategy)

    def data(
        self,
    ) -> tuple[Dataset, tuple[StoredFeature, ...], NDArray[np.float32]]:
        """Read the items and compute their features."""
        project = self.project
        if project.learner["name"] != AUTO:
            make_learner(project.learner, project.seed)  # wrong names cost no wait
        with self.progress.stage("reading items", None) as tell:
            dataset = load_data(project, tell)
        features = choose_features(project, dataset)
        dataset, values = compute_values(
            dataset,
            features,
            project_files(project),
            on_bad_item=project.data.on_bad_item,
            workers=self.workers,
            cache=self.cache,
            progress=self.progress,
        )
        return dataset, features, values

    def choose(
        self,
        dataset: Dataset,
        features: Sequence[StoredFeature],
        values: NDArray[np.float32],
        strategy: str | None = None,
    ) -> Choice:
        """Take the learner that the project names, or race them if it is to be found.

        The race sees none of the items that accuracy is measured on later, unless
        that is done by cross-validation, which uses all of them.
        """
        project = self.project
        if strategy is None and project.learner["name"] != AUTO:
            return Choice(project.learner, {})
        ((train, _), *_) = self.splits(dataset)
        part = dataset.only(train)
        ((fit, test),) = split(part, seed=project.seed, held_out=VALIDATION, folds=None)
        strategy = strategy or DEFAULT_STRATEGY
        contest = Contest(
            values,
            dataset.codes,
            (train[fit], train[test]),
            seed=project.seed,
            cache=self.cache,
            name=Keys.of(project, dataset, features).race(strategy),
            progress=self.progress,
            strategy=strategy,
            watch=self.watch,
            limit_s=project.training_limit_s,
        )
        if project.learner.get("per_level"):
            return contest.per_level(_starts(features))
        return contest.one()

    def splits(self, dataset: Dataset) -> list[Division]:
        """Split the items for measuring accuracy."""
        search = self.project.search
        return split(
            dataset,
            seed=self.project.seed,
            held_out=search.held_out,
            folds=search.folds,
        )

    def costs(
        self, dataset: Dataset, features: Sequence[StoredFeature]
    ) -> tuple[list[Curve], CostTable]:
        """Fit the curves of features and steps, and weigh them."""
        project = self.project
        extractor = load_extractor(features, project_files(project))
        of_features, of_steps, overhead = measure_curves(
            extractor,
            dataset,
            project.costs,
            project.seed,
            cache=self.cache,
            name=Keys.of(project, dataset, features).times,
            progress=self.progress,
        )
        weights = project.costs.weights
        costs = weigh_costs(extractor, of_features, of_steps, overhead, weights)
        return [*of_features, *of_steps], costs

    def trainer(
        self,
        dataset: Dataset,
        features: Sequence[StoredFeature],
        values: NDArray[np.float32],
        choice: Choice,
    ) -> Trainer:
        """Prepare training on any feature set."""
        learners = choice.levels or (choice.setting,)
        key = Keys.of(self.project, dataset, features).sets(learners)
        task = Task(
            values=self.cache.matrix(f"sets/{key}/values", values),
            codes=dataset.codes,
            splits=self.splits(dataset),
            learner=choice.setting,
            seed=self.project.seed,
            starts=_starts(features),
            cache=self.cache,
            key=key,
            levels=choice.levels,
        )
        return Trainer(task, self.workers)

    def search(self, trainer: Trainer, m: int, cost_of: CostOf) -> Found:
        """Train the sets that the project's search needs."""
        with self.progress.stage("training sets", None) as tell:
            return search_sets(
                self.project.search, m, trainer.accuracies, cost_of, tell
            )


def _starts(features: Sequence[StoredFeature]) -> tuple[int, ...]:
    """First column of each feature, and after the last the width."""
    return (0, *accumulate(feature.width for feature in features))
