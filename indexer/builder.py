"""The whole build: from a project's items to an index, one hop after the other."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..features.cost import CostTable
from ..features.polynomials import cost_at
from ..features.sizes import read_size
from ..models.learners import make_learner
from .assembly import Assembly, Fresh
from .cache import FOLDER, Cache
from .catalogue import choose_features, project_files
from .choosing import (
    AUTO,
    DEFAULT_STRATEGY,
    VALIDATION,
    Choice,
    Division,
    Watch,
    choose_learner,
)
from .costing import Curves, measure_curves
from .data import Dataset, load_data, parts_of, split
from .dealing import draw_groups
from .description import describe
from .index import Index
from .keys import Keys
from .plan_exits import check_exits
from .progress import Progress, Silence
from .project import Project
from .rare import settle_rare
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
        dataset, features, values = self.data()
        fresh = self.fresh(features)
        curves, costs = self.costs(dataset, features)
        choice = self.choose(dataset, features, values)
        trainer = self.trainer(dataset, features, values, choice)
        middle = read_size(np.median(dataset.sizes, axis=0).tolist())

        def cost_of(mask: int) -> float:
            return cost_at(costs.of(mask).tolist(), middle)

        found = self.search(trainer, len(features), cost_of)
        report = describe(self.project, dataset, curves.all, choice, trainer, found)
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
            fresh=fresh,
        )
        return assembly.index(report)

    def select(self, strategy: str) -> Choice:
        """Go only as far as the choice of a learner."""
        dataset, features, values = self.data(race=True)
        return self.choose(dataset, features, values, strategy)

    def data(
        self, *, race: bool = False
    ) -> tuple[Dataset, tuple[StoredFeature, ...], NDArray[np.float32]]:
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
        dataset, _ = settle_rare(self.items[0], project.data, fewest)
        with self.progress.stage("dividing items", None) as tell:
            self._race_division(dataset) if race else self.splits(dataset)
            tell(len(dataset.items))
        features = choose_features(project, dataset)
        dataset, values = self._values(dataset, features)
        dataset, rows = settle_rare(dataset, project.data, fewest)
        return dataset, features, values[rows]

    @cached_property
    def items(self) -> tuple[Dataset, Dataset]:
        """The items, and those set aside to calibrate exits on, of which may be none.

        They are drawn by whole groups and before anything else is done, so that what a
        build makes of the others depends on none of them.
        """
        with self.progress.stage("reading items", None) as tell:
            whole = load_data(self.project, tell)
        share = 0.0
        if self.project.exits.confidence is not None:
            share = 1 / (2 * parts_of(self.project.search.held_out))
        drawn = draw_groups(whole.groups, share, self.project.seed)
        rest, fresh = (whole.only(np.flatnonzero(part)) for part in (~drawn, drawn))
        return replace(rest, skipped=whole.skipped), fresh

    def fresh(self, features: Sequence[StoredFeature]) -> Fresh | None:
        """Give the items set aside to calibrate exits on, if there are such."""
        fresh = self.items[1]
        if not fresh.items:
            return None
        dataset, values = self._values(fresh, features)
        check_exits(self.project.exits, dataset.groups)
        return Fresh(values, dataset.groups)

    def _values(
        self, dataset: Dataset, features: Sequence[StoredFeature]
    ) -> tuple[Dataset, NDArray[np.float32]]:
        return compute_values(
            dataset,
            features,
            project_files(self.project),
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
        strategy = strategy or DEFAULT_STRATEGY
        return choose_learner(
            values,
            dataset.codes,
            self._race_division(dataset),
            seed=project.seed,
            cache=self.cache,
            name=Keys.of(project, dataset, features).race(strategy),
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

    def costs(
        self, dataset: Dataset, features: Sequence[StoredFeature]
    ) -> tuple[Curves, CostTable]:
        """Fit the curves of features and steps, and weigh them."""
        project = self.project
        extractor = load_extractor(features, project_files(project))
        curves = measure_curves(
            extractor,
            dataset,
            project.costs,
            project.seed,
            cache=self.cache,
            name=Keys.of(project, dataset, features).times,
            progress=self.progress,
        )
        return curves, curves.weighed(extractor, project.costs.weights)

    def trainer(
        self,
        dataset: Dataset,
        features: Sequence[StoredFeature],
        values: NDArray[np.float32],
        choice: Choice,
    ) -> Trainer:
        """Prepare training on any feature set."""
        key = Keys.of(self.project, dataset, features).sets(choice.setting)
        task = Task(
            values=self.cache.matrix(f"sets/{key}/values", values),
            codes=dataset.codes,
            splits=self.splits(dataset),
            learner=choice.setting,
            seed=self.project.seed,
            starts=_starts(features),
            cache=self.cache,
            key=key,
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
