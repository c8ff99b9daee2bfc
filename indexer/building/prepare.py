"""The work before training: reading and dividing items, computing features."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.tables.records import Records

from ..index.quality import Task
from .cache import digest
from .cache_keys import Keys
from .costs.arrival_times import made_by, open_fetches
from .data.dataset import Dataset, Rows
from .data.describe_data import DataFacts, describe_columns, describe_data, say_data
from .data.fetch_keys import KeyRow, take_keys
from .data.fetched_vectors import with_vectors
from .data.read_items import read_items
from .data.split import joined_apart
from .data.unlabelled import read_unlabelled
from .divide_items import (
    DividedItems,
    Division,
    divide_items,
    splits_of,
    without_rare,
)
from .exits.exit_goal import ExitGoal
from .features.choose_features import (
    ProjectFeatures,
    choose_features,
    refuse_unknown_features,
)
from .features.feature_values import FeatureTable, compute_values
from .features.learn_features import FeatureLearner, learn_features, lesson_of
from .features.network_files import with_network_files
from .features.reduce_columns import fit_reductions, projected, with_reductions
from .project import Project
from .resources import Resources
from .terms import Terms, check_learner, resolve_terms, strategy_of
from .training.class_weights import class_weights, metric_of
from .training.dull_columns import say_dull_columns
from .training.quality import Metric


class ExitItems(NamedTuple):
    """Items for early exits alone: those set aside, then those without labels."""

    values: NDArray[np.float32]  # (N, width): Values of their features
    groups: Rows  # (N,): Numbers of their groups
    codes: Rows  # (N,): Their classes; a guess for items without labels
    labels: tuple[str, ...]  # (K,): Names of the classes
    digest: str  # Hash of the items
    unlabelled: int  # Number of items without labels
    warnings: Sequence[str]  # About features that failed or have missing values

    def lacking(self, goal: ExitGoal) -> str:
        """Return why the items are too few for a goal, or "" if there are enough."""
        return goal.of_known(self.labels).lacking(self.groups, self.codes, self.labels)

    @classmethod
    def of(
        cls, aside: FeatureTable | None, unlabelled: FeatureTable | None
    ) -> "ExitItems | None":
        """Join the two tables; None if there is neither."""
        tables = [one for one in (aside, unlabelled) if one is not None]
        if not tables:
            return None
        groups, codes = np.empty(0, np.int64), np.empty(0, np.int64)
        for table in tables:
            groups = joined_apart(groups, table.dataset.groups)
            codes = np.concatenate([codes, table.dataset.codes])
        return cls(
            np.vstack([table.values for table in tables]),
            groups,
            codes,
            tables[0].dataset.labels,
            digest(*[table.dataset.digest for table in tables]),
            0 if unlabelled is None else len(unlabelled.values),
            [warning for table in tables for warning in table.warnings],
        )


@dataclass(frozen=True, slots=True, eq=False)
class Prepared:
    """A project's items and the values of their features, ready for training."""

    terms: Terms  # The project, resolved for these items
    facts: DataFacts  # Columns of a table, and warnings about the data
    # Items to train and test on. Features are learned from the items that quality is
    # not measured on.
    table: FeatureTable
    # The same items for the models that an index keeps, with features learned from all
    # of them; `table` itself if the features are the same
    final: FeatureTable
    # Items to fit and calibrate exits on, if any, with the features of `final`
    fresh: ExitItems | None
    # Training rows and testing rows of `table`, one pair, or one pair a fold
    splits: list[Division]
    metric: Metric  # Scorer of answers, by the project's measure
    # (K,): Weights of the classes for fitting; None if all count alike
    class_weights: NDArray[np.float64] | None
    keys: Keys  # Names of the build's entries in the cache
    lacking: str  # Reason why early exits that are wanted cannot be promised; else ""
    # Rows of the table whose keys are asked for when fetches are timed
    key_rows: list[KeyRow]

    @property
    def project(self) -> Project:
        """The project, with all settings that depend on its items filled in."""
        return self.terms.project

    @property
    def task(self) -> Task:
        """Task that the labels imply: "classes" or "regression"."""
        return self.terms.task


def prepare_data(
    project: Project,
    resources: Resources,
    given: Dataset | None = None,
    strategy: str | None = None,
) -> Prepared:
    """Read a project's items, divide them, and compute their features.

    Also fills in the settings that depend on the items. If `given` is not None, its
    items replace the project's. If `strategy` is given, a race by this strategy chooses
    the learner, even if the project names one. Wrong settings raise BadProject before
    any slow work begins.
    """
    strategy = strategy or strategy_of(project)
    if strategy is None:
        check_learner(project)
    if project.costs.measured == "here":
        open_fetches(project)  # raises errors early
    project = with_network_files(project, resources.cache, resources.progress)
    whole = (
        read_items(project, resources.cache, resources.progress)
        if given is None
        else given
    )
    whole, key_rows = take_keys(project, whole)
    terms = resolve_terms(project, whole, strategy)
    if given is None:
        facts = describe_data(whole)
        say_data(facts)
    else:
        facts = DataFacts(describe_columns(given), [])
    unlabelled = read_unlabelled(
        terms.project, whole, resources.cache, resources.progress
    )
    divided = divide_items(whole, terms, resources.progress, unlabelled)
    divided = _with_vectors(divided, project, resources)
    prepared = _compute_features(divided, terms, facts, key_rows, resources)
    if prepared.table.dataset.kind == "record":
        # `say_data` has named columns of a table that are dull in all rows
        named = given is None and isinstance(prepared.table.dataset.items, Records)
        say_dull_columns(
            prepared.table.features.extractor,
            prepared.table.values,
            [train for train, _ in prepared.splits],
            everywhere=not named,
        )
    return prepared


def _with_vectors(
    divided: DividedItems, project: Project, resources: Resources
) -> DividedItems:
    """Let texts and images have the vectors that fetches bring."""
    if divided.rest.kind == "record" or not project.fetches:
        return divided
    fetches = [(one, made_by(project, one.name)) for one in open_fetches(project)]
    for fetch, _ in fetches:
        fetch.bound_to_items(divided.rest.kind)
    refuse_unknown_features(project)  # before a call that may cost money
    given = fetches, resources.cache, resources.progress
    unlabelled = divided.unlabelled
    return divided._replace(
        rest=with_vectors(divided.rest, *given),
        fresh=with_vectors(divided.fresh, *given),
        unlabelled=unlabelled and with_vectors(unlabelled, *given),
    )


def _compute_features(
    divided: DividedItems,
    terms: Terms,
    facts: DataFacts,
    key_rows: list[KeyRow],
    resources: Resources,
) -> Prepared:
    project, parts = terms.project, divided.parts

    def values(dataset: Dataset, features: ProjectFeatures) -> FeatureTable:
        whole = compute_values(
            dataset,
            with_reductions(features, {}),
            on_bad_item=project.data.on_bad_item,
            workers=resources.workers,
            cache=resources.cache,
            progress=resources.progress,
        )
        return projected(whole, features)

    computed = values(divided.rest, choose_features(project, divided.rest))
    computed = _without_rare(computed, parts, terms)
    splits = splits_of(computed.dataset, parts, terms)
    computed = _reduce(computed, splits, project, resources)
    table = final = _learn(computed, splits, terms, resources)
    # with folds features are learned from all items already
    if computed.features.recipes and project.refits and project.search.folds is None:
        every = np.arange(len(computed.dataset.items))
        final = _learn(computed, [(every, np.empty(0, np.int64))], terms, resources)
    fresh = ExitItems.of(
        values(divided.fresh, final.features) if divided.fresh.items else None,
        None
        if divided.unlabelled is None
        else values(divided.unlabelled, final.features),
    )
    lacking, goal = terms.lacking or divided.lacking, project.exit_goal
    if not lacking and goal is not None and fresh is not None:
        lacking = fresh.lacking(goal)  # some items may have been unusable
    told = dict.fromkeys(
        [terms.rare, *computed.warnings, *(fresh.warnings if fresh else ())]
    )
    facts = facts._replace(warnings=[*facts.warnings, *filter(None, told)])
    metric = metric_of(terms, table.dataset)
    return Prepared(
        terms,
        facts,
        table,
        final,
        fresh,
        splits,
        metric,
        class_weights(project.quality, metric, table.dataset),
        Keys.of(project, table.dataset, table.features.stored),
        lacking,
        key_rows,
    )


def _without_rare(table: FeatureTable, parts: int, terms: Terms) -> FeatureTable:
    """Treat classes that became rare because unusable items were left out."""
    dataset, rows = without_rare(table.dataset, parts, terms)
    values = table.values
    if len(rows) < len(values):  # a large table is not copied for nothing
        values = values[rows]
    return table._replace(dataset=dataset, values=values)


def _reduce(
    table: FeatureTable,
    divisions: Sequence[Division],
    project: Project,
    resources: Resources,
) -> FeatureTable:
    """Reduce columns of networks, by analyses of the training items of all divisions.

    Models that are trained on all items later read the same columns.
    """
    most = {one.name: one.most_columns for one in project.features.networks}
    most |= {name: one.most_columns for name, one in project.fetches.items()}
    trained = np.unique(np.concatenate([train for train, _ in divisions]))
    fitted = fit_reductions(
        table, trained, most, project.seed, resources.cache, resources.progress
    )
    return projected(table, with_reductions(table.features, fitted))


def _learn(
    table: FeatureTable,
    divisions: Sequence[Division],
    terms: Terms,
    resources: Resources,
) -> FeatureTable:
    if not table.features.recipes:
        return table
    lesson = lesson_of(table.dataset, divisions, terms.project.seed)
    learner = FeatureLearner(resources.workers, resources.cache, resources.progress)
    return learn_features(table, lesson, learner)
