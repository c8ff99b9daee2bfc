"""A build carried out stage by stage, for tests that look between two of them."""

from functools import cached_property
from pathlib import Path

from polydom.indexer import Index, Project
from polydom.indexer.building.build import make_index
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.costs.measure_costs import measure_costs
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import read_items
from polydom.indexer.building.divide_items import DividedItems, divide_items
from polydom.indexer.building.features.feature_values import FeatureTable
from polydom.indexer.building.learner_race import choose_learner
from polydom.indexer.building.prepare import Prepared, prepare_data
from polydom.indexer.building.resources import Resources
from polydom.indexer.building.terms import Terms, resolve_terms, strategy_of
from polydom.indexer.building.training.search.search_sets import (
    SearchedSets,
    make_trainer,
    search_sets,
)
from polydom.indexer.building.training.train_sets import Trainer
from polydom.indexer.building.tune_learner import tune_learner
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.progress import Progress, Silence


class StagedBuild:
    """Stages of one build; each is carried out once, when a test first asks for it."""

    def __init__(
        self, project: Project, cache: Path, progress: Progress | None = None
    ) -> None:
        kept = Cache(cache)
        workers = Workers.here(project.workers or 1)
        self.project = project
        self.own = Resources(workers, kept, kept, progress or Silence())

    @cached_property
    def whole(self) -> Dataset:
        """All items."""
        return read_items(self.project, self.own.cache, self.own.progress)

    @cached_property
    def terms(self) -> Terms:
        """The project, resolved for its items."""
        return resolve_terms(self.project, self.whole, strategy_of(self.project))

    @cached_property
    def divided(self) -> DividedItems:
        """The items, and those set aside."""
        return divide_items(self.whole, self.terms, self.own.progress)

    @cached_property
    def data(self) -> Prepared:
        """All that comes before training."""
        return prepare_data(self.project, self.own)

    @property
    def table(self) -> FeatureTable:
        """The items to train and test on, with their features."""
        return self.data.table

    @cached_property
    def trainer(self) -> Trainer:
        """The trainer of sets."""
        choice = choose_learner(self.data, self.own)
        choice = tune_learner(choice, self.data, self.own)
        return make_trainer(self.data, choice.setting, self.own)

    @cached_property
    def searched(self) -> SearchedSets:
        """The sets trained."""
        return search_sets(
            self.data.project.search,
            len(self.table.features.stored),
            self.trainer,
            self.own.progress,
            measure_costs(self.data, self.own).of_set,
            grows=self.data.metric.name == "accuracy",
        )

    def index(self) -> Index:
        """Build the index."""
        return make_index(self.data, self.own)
