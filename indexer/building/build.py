"""The whole build: from a project's items to an index, one hop after the other."""

import math
import os
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import read_size
from polydom.models.selection.learners import make_learner

from ..index.index import Index
from ..progress import Progress, Silence
from .assemble import Assembler
from .cache import FOLDER, Cache
from .cache_keys import Keys
from .choose_features import ProjectFeatures, choose_features
from .dataset import Dataset, draw_groups, parts_of, split, treat_rare_classes
from .feature_values import FeatureTable, compute_values
from .learner_race import (
    AUTO,
    DEFAULT_STRATEGY,
    VALIDATION,
    Division,
    LearnerChoice,
    Watch,
    choose_learner,
)
from .measure_costs import Measurer, measuring_items
from .plan_exits import check_exits
from .project import Project
from .readers import load_data
from .search_sets import CostOf, SearchedSets, search_sets
from .train_sets import Task, Trainer


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


@dataclass(frozen=True)
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
        table = self.data()
        fresh = self.fresh(table.features)
        dataset, features, _ = table
        terms = self.project.costs
        measurer = Measurer(
            features.extractor, terms.quantile, self.cache, self.progress
        )
        curves = measurer.curves(
            measuring_items(dataset, terms.items),
            terms.repeats,
            self.project.seed,
            name=self._keys(table).times,
        )
        costs = curves.weighed(features.extractor, terms.weights)
        choice = self.choose(table)
        trainer = self.trainer(table, choice)
        middle = read_size(np.median(dataset.sizes, axis=0).tolist())

        def cost_of(mask: int) -> float:
            return cost_at(costs.of(mask).tolist(), middle)

        searched = self.search(trainer, len(features.stored), cost_of)
        return Assembler(
            project=self.project,
            progress=self.progress,
            table=table,
            fresh=fresh,
            measurer=measurer,
            curves=curves,
            costs=costs,
            cost_of=cost_of,
            choice=choice,
            trainer=trainer,
            searched=searched,
        ).index()

    def select(self, strategy: str) -> LearnerChoice:
        """Go only as far as the choice of a learner."""
        return self.choose(self.data(race=True), strategy)

    def data(self, *, race: bool = False) -> FeatureTable:
        """Read the items and compute their features, but for those that calibrate.

        What the labels tell is checked before any feature is computed, `race` says
        whether for a race too, and again where unusable items were left out.
        """
        project = self.project
        race = race or project.learner["name"] == AUTO
        if not race:
            make_learner(project.learner, project.seed)  # wrong names cost no wait
        check_exits(project.exits, self.items[1].groups)
        fewest = self._fewest(race)
        dataset, _ = treat_rare_classes(self.items[0], project.data, fewest)
        with self.progress.stage("dividing items", None) as on_progress:
            self._race_division(dataset) if race else self.splits(dataset)
            on_progress(len(dataset.items))
        table = self._values(dataset, choose_features(project, dataset))
        dataset, rows = treat_rare_classes(table.dataset, project.data, fewest)
        return FeatureTable(dataset, table.features, table.values[rows])

    @cached_property
    def items(self) -> tuple[Dataset, Dataset]:
        """The items, and those set aside to calibrate exits on, of which may be none.

        They are drawn by whole groups and before anything else is done, so that what a
        build makes of the others depends on none of them.
        """
        with self.progress.stage("reading items", None) as on_progress:
            whole = load_data(self.project, on_progress)
        share = 0.0
        if self.project.exits.confidence is not None:
            share = 1 / (2 * parts_of(self.project.search.held_out))
        drawn = draw_groups(whole.groups, share, self.project.seed)
        rest, fresh = (whole.only(np.flatnonzero(part)) for part in (~drawn, drawn))
        return replace(rest, skipped=whole.skipped), fresh

    def fresh(self, features: ProjectFeatures) -> FeatureTable | None:
        """Give the items set aside to calibrate exits on, if there are such."""
        fresh = self.items[1]
        if not fresh.items:
            return None
        table = self._values(fresh, features)
        check_exits(self.project.exits, table.dataset.groups)
        return table

    def _values(self, dataset: Dataset, features: ProjectFeatures) -> FeatureTable:
        return compute_values(
            dataset,
            features,
            on_bad_item=self.project.data.on_bad_item,
            workers=self.workers,
            cache=self.cache,
            progress=self.progress,
        )

    @property
    def _parts(self) -> int:
        """Parts that the items are divided into, of which one at a time is tested on.

        Where items were set aside to calibrate exits on, they are half of what the
        project holds out, and what is tested on is the other half.
        """
        search = self.project.search
        count = search.folds or parts_of(search.held_out)
        return count if self.project.exits.confidence is None else 2 * count - 1

    def _fewest(self, race: bool) -> int:
        """Count the groups that a class must come in; a race is divided twice."""
        fewest = self._parts
        while race and fewest - math.ceil(fewest / self._parts) < parts_of(VALIDATION):
            fewest += 1
        return fewest

    def _keys(self, table: FeatureTable) -> Keys:
        return Keys.of(self.project, table.dataset, table.features.stored)

    def choose(self, table: FeatureTable, strategy: str | None = None) -> LearnerChoice:
        """Take the learner that the project names, or race them if it is to be found.

        The race sees none of the items that accuracy is measured on later, unless
        that is done by cross-validation, which uses all of them.
        """
        project = self.project
        if strategy is None and project.learner["name"] != AUTO:
            return LearnerChoice(project.learner, {})
        strategy = strategy or DEFAULT_STRATEGY
        return choose_learner(
            table.values,
            table.dataset.codes,
            self._race_division(table.dataset),
            seed=project.seed,
            cache=self.cache,
            name=self._keys(table).race(strategy),
            progress=self.progress,
            strategy=strategy,
            watch=self.watch,
            limit_s=project.training_limit_s,
        )

    def splits(self, dataset: Dataset) -> list[Division]:
        """Split the items for measuring accuracy."""
        return split(
            dataset,
            seed=self.project.seed,
            held_out=1 / self._parts,
            folds=self.project.search.folds,
        )

    def _race_division(self, dataset: Dataset) -> Division:
        """Split what accuracy is not measured on, for a race between learners."""
        ((train, _), *_) = self.splits(dataset)
        ((fit, test),) = split(
            dataset.only(train), seed=self.project.seed, held_out=VALIDATION, folds=None
        )
        return train[fit], train[test]

    def trainer(self, table: FeatureTable, choice: LearnerChoice) -> Trainer:
        """Prepare training on any feature set."""
        key = self._keys(table).sets(choice.setting)
        task = Task(
            values=self.cache.matrix(f"sets/{key}/values", table.values),
            codes=table.dataset.codes,
            splits=self.splits(table.dataset),
            learner=choice.setting,
            seed=self.project.seed,
            starts=table.features.starts,
            cache=self.cache,
            key=key,
        )
        return Trainer(task, self.workers)

    def search(self, trainer: Trainer, m: int, cost_of: CostOf) -> SearchedSets:
        """Train the sets that the project's search needs."""
        with self.progress.stage("training sets", None) as on_progress:
            return search_sets(
                self.project.search, m, trainer.accuracies, cost_of, on_progress
            )
