"""The whole build: from a project's items to an index, one hop after the other."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.features.costs.machine import Measured
from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadProject
from polydom.features.items import make_item
from polydom.features.sizes import Size, read_size
from polydom.features.tables.records import Records
from polydom.models.qwyc.confidence_bound import fewest_rows
from polydom.models.scoring.model import Model
from polydom.models.selection.learners import CLASSIFIERS, REGRESSORS, make_learner

from ..cluster.connect import checked, connect, workers_of
from ..cluster.workers import Workers
from ..index.index import Index
from ..index.package import Orders, Package
from ..index.pdx_file import MAX_HEADER_BYTES, refuse_index
from ..index.quality import Task
from ..index.safe_write import sweep_unfinished
from ..progress import Progress, Silence
from .cache import FOLDER, Cache, digest
from .cache_keys import Keys
from .choose_features import ProjectFeatures, choose_features
from .data.dataset import (
    Dataset,
    draw_groups,
    newest_groups,
    rare_classes,
    split,
    treat_rare_classes,
)
from .data.describe_data import DataFacts, describe_columns, describe_data, say_data
from .data.read_items import load_data
from .exits.checkpoints import answers_of
from .exits.plan_exits import (
    AnswerTimes,
    ItemAnswers,
    PlanExitFitter,
    PlanExits,
    exit_costs,
    lacking_items,
)
from .exits.schedules import Evaluator, ScheduleFitter, divide_aside
from .feature_values import FeatureTable, compute_values
from .learned.learn_features import FeatureLearner, learn_features, lesson_of
from .learner_race import (
    AUTO,
    DEFAULT_STRATEGY,
    VALIDATION,
    Division,
    LearnerChoice,
    Watch,
    choose_learner,
)
from .measure_costs import Curves, Measurer, cost_curves, measuring_items
from .measured_later import await_times
from .odd_budgets import say_odd_budgets
from .project import ALPHA, CONFIDENCE, FOLDS, ExitGoal, Project, parts_of
from .record_gaps import count_gaps
from .training.class_weights import class_weights, costs_by_code
from .training.dull_columns import say_dull_columns
from .training.quality import Judge, residual_interval
from .training.refit import KeptModels, refit, train_again
from .training.search_sets import SearchedSets, search_sets
from .training.selection_bias import expected_qualities
from .training.train_sets import (
    Trainer,
    TrainingTask,
    division_of,
    takes_weights,
    weighing,
)

Rows = NDArray[np.int64]

REFITTING = 0.5  # of the seconds of a progressive search, for training on all items
SAMPLES = 6
SAMPLES_BYTES = 1 << 20  # of all, unless the first alone has more
LARGEST_SAMPLE = MAX_HEADER_BYTES // 2


def build(
    project: Project | str | os.PathLike[str],
    *,
    dataset: Dataset | None = None,
    output: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    shared: str | os.PathLike[str] | None = None,
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
    dataset
        The labelled items, if the project does not say where they are.
    output
        Where to save the index; it appears there whole or not at all, and replaces
        nothing but an index.
    cache
        Folder for finished work, made if it is not there; None for `.polydom-cache`
        in the project's folder, or the shared folder of its cluster. What is kept is
        named by items, settings, code and versions of libraries, and found again only
        where all are the same.
    executor
        Carries out what can be spread, whatever the project says: any of
        `concurrent.futures`, such as a Dask client's `get_executor()`, or
        `polydom.indexer.cluster.ray.RayExecutor()`.
    shared
        Folder that its workers see under the same path, in place of `cache`; None for
        `[cluster] shared`.
    progress
        Told of each stage.
    watch
        Called with the race of `learner = "auto"` after each of its trainings:
        `race.log[-1]` is the newest, `race.left_s` an estimate of the seconds to go.

    Raises
    ------
    BadInput
        If something else is at `output`, or nothing can be written there.
    BadProject
        If the project or its data cannot be used.
    BadFeature
        If a feature breaks its promise on some item, which is named.
    BadWorker, WorkerLost
        If a cluster's workers are not as this process, or are lost too often.
    LacksTimes
        If costs are to be measured later, and have not been yet; what is done is kept.
    """
    if output is not None:
        refuse_index(Path(output))
    if not isinstance(project, Project):
        project = Project.load(project)
    project.check_source(given=dataset is not None)
    if shared is not None:
        place = os.fspath(Path(shared).absolute())
        cluster = msgspec.structs.replace(project.cluster, shared=place)
        project = msgspec.structs.replace(project, cluster=cluster)
    workers, kept = open_cluster(project, executor, cache)
    later = project.costs.measured == "later"
    builder = Builder(
        project,
        kept,
        progress or Silence(),
        watch,
        given=dataset,
        workers=workers,
        times=await_times(project, kept, workers.count) if later else None,
    )
    if later:
        builder.work_ahead()
    index = builder.index()
    if output is not None:
        index.save(output)
        index = Index.load(output)
    return index


def open_cluster(
    project: Project,
    executor: Executor | None = None,
    cache: str | os.PathLike[str] | None = None,
) -> tuple[Workers, Cache]:
    """Find who carries calls out, and where finished work is kept, as `build` does."""
    terms = project.cluster
    here = terms.on is None and executor is None
    if terms.shared is not None and cache is not None:
        raise BadProject(
            f"finished work is to be kept in {os.fspath(cache)}, and [cluster] shared "
            f"is {terms.shared!r}; one of them is needed"
        )
    if here:
        workers = Workers.here(project.workers or os.cpu_count() or 1)
    else:
        if executor is None:
            assert terms.on is not None
            executor = connect(terms.on, terms.memory_gb)
        workers = workers_of(
            executor,
            retries=terms.retries,
            in_flight=terms.in_flight,
            call_s=terms.call_s,
            wait_s=terms.wait_s,
        )
    shared = None if terms.shared is None else project.path(terms.shared)
    data = [] if shared is None else project.data_places
    workers = checked(workers, project.feature_files, shared, data)
    folder = Path(cache or shared or project.path(FOLDER)).absolute()
    sweep_unfinished(folder)
    return workers, Cache(folder, seen=shared is not None or workers.check is None)


@dataclass(frozen=True)
class Builder:
    """One build: its settings, and its hops, each carried out when first asked for.

    Attributes
    ----------
    strategy
        By which to race learners, whatever the project names; None for as it says.
    given
        The items, where they are in memory.
    workers
        Who carries calls out; None for as many processes here as the project says.
    times
        Where measured times are kept, and schedules, which are fitted where these say
        that they may pay; None for `cache`.
    """

    project: Project
    cache: Cache
    progress: Progress
    watch: Watch | None = None
    strategy: str | None = None
    given: Dataset | None = None
    workers: Workers | None = None
    times: Cache | None = None

    def index(self) -> Index:
        """Drop what is dominated, order the rest, and put all in one package."""
        table, _ = self.table, self.fresh  # what is wrong with items is said first
        costs, searched = self.costs, self.searched
        sets = searched.sets
        model_costs, measured = self._model_costs(sets, self.trainer.model)
        curves_of_sets = cost_curves(costs, np.array(sets, np.uint64), model_costs)
        sizes = self._sizes()
        budgets = self.terms.search.budget_range
        self._say_odd(budgets, curves_of_sets, sizes)
        kept = searched.keep(curves_of_sets, sizes, budgets, self._may_lack)
        masks = [sets[row] for row in kept]
        orders, fallbacks = searched.order(masks, self.cost_of)
        models, again = self._kept_models(masks)
        whole_s = model_costs[kept]
        if any(again):
            final = dict(zip(masks, models, strict=True))
            whole_s, other = self._model_costs(masks, final.__getitem__, again)
            measured = measured.joined(other)
        qualities, accuracies = self._expected(masks)
        report = self._report() | {
            "measured": self.curves.measured.joined(measured).facts(),
            "observed": [searched.qualities[mask] for mask in masks],
            "refitted": [bool(one) for one in again],
        }
        if self._may_lack:
            report["gaps"] = msgspec.to_builtins(count_gaps(table))
        if table.dataset.numbers is not None:
            report |= self._of_numbers(masks)
        if self._judge.costs is not None:
            report["confusion_costs"] = self._judge.costs.tolist()
        if self.terms.costs.weights.get("s") and report["samples"]:
            pair = self.terms.costs.pair
            served = replace(self._measurer, extractor=self._final.features.extractor)
            report["pace"] = served.machine_times(
                [make_item(one, pair=pair) for one in report["samples"]],
                models,
                name=f"machine_times/{digest(self.trainer.task.key, masks, again)}",
            ).facts()
        exits = self._exits(masks, models, orders, fallbacks, whole_s)
        checks = exit_costs(exits.margins, fallbacks, whole_s)
        report["exits"] = exits.facts
        package = Package(
            kind=table.dataset.kind,
            labels=table.dataset.labels,
            features=self._final.features.stored,
            costs=costs,
            masks=np.array(masks, np.uint64),
            orders=orders,
            fallbacks=fallbacks,
            models=models,
            model_s=exits.model_costs,
            overhead_s=float(costs.overhead[0]),
            meta=report,
            margins=exits.margins,
            typical=self.curves.typical,
            early_exits=exits.evaluators,
            whole_s=whole_s if exits.evaluators else np.empty(0),
            mean_s=exits.mean_costs if exits.evaluators else np.empty(0),
            ends=exits.ends,
            learned=self._final.features.learned,
            measure=self._judge.measure,
            accuracies=accuracies,
            intervals=self._intervals(masks),
        )
        curves = cost_curves(costs, package.masks, package.model_s, checks)
        return Index.from_candidates(curves, qualities, sizes, package)

    def _say_odd(
        self,
        budgets: tuple[float, float] | None,
        curves: NDArray[np.float64],
        sizes: tuple[Size, Size],
    ) -> None:
        """Warn of budgets that suit no set; `curves` are those of all, ascending."""
        low, high = sizes
        if budgets is None or isinstance(low, tuple) or isinstance(high, tuple):
            return
        seconds = set(self.terms.costs.weights) == {"s"}
        say_odd_budgets(budgets, curves[1:], (low, high), in_seconds=seconds)

    def work_ahead(self) -> None:
        """Do all that takes no models' times, and before it what takes no times at all.

        So that few turns are needed where these are measured elsewhere, more is trained
        on all items than is kept in the end.
        """
        _ = self.fresh, self.trainer, self._final_fresh
        if self.terms.search.method != "poly-dom":  # that searches without costs
            _ = self.costs
        searched = self.searched
        if not self.terms.refits:
            return
        masks = searched.likely_kept()
        qualities = [searched.qualities[mask] for mask in masks]
        limit_s, everything = self._refitting_s, self._trains_all()
        train_again(masks, qualities, everything, limit_s, self.progress)

    @cached_property
    def _whole(self) -> Dataset:
        """All items that can be read."""
        if self.given is not None:
            return self.given
        with self.progress.stage("reading items", None) as on_progress:
            dataset = load_data(self.project, on_progress, self.cache.folder)
        table = isinstance(dataset.items, Records)
        return dataset if table else dataset.shared(self.cache)

    @cached_property
    def described(self) -> DataFacts:
        """What was understood of all items, which is said once."""
        if self.given is not None:
            return DataFacts(describe_columns(self.given), [])
        found = describe_data(self._whole)
        say_data(found)
        return found

    @cached_property
    def terms(self) -> Project:
        """The project as it is meant for these items."""
        project = self._unfolded
        return project.in_folds() if self._few else project

    @cached_property
    def _unfolded(self) -> Project:
        """The project as it is meant for these labels."""
        project = self.project
        if self._whole.numbers is not None:
            project = project.of_numbers()
        project.quality.measure_of(self._task)
        return project

    @cached_property
    def _few(self) -> str:
        """Say why items are few enough to cross-validate, if nothing is against it.

        So they are where no early exits could be promised, which that goes without.
        """
        whole, project = self._whole, self._unfolded
        rare, most = rare_classes(whole, FOLDS), 0
        if self._trains_rare:
            most = len(whole.labels) - 1
        enough = len(np.unique(whole.groups)) >= FOLDS and len(rare) <= most
        if not (project.divides_as_fits and enough):
            return ""
        share = 1 / (2 * project.search.parts)
        aside = draw_groups(whole.groups, share, project.seed)
        return lacking_items(ExitGoal(ALPHA, CONFIDENCE), whole.groups[aside])

    @cached_property
    def _drawn(self) -> NDArray[np.bool_]:
        """Which of all items could be set aside to calibrate exits on.

        They are drawn by whole groups and before anything else is done, so that what a
        build makes of the others depends on none of them. With times they are the
        newest, and none that is there to test on is drawn.
        """
        whole, seed = self._whole, self.terms.seed
        goal, share = self.terms.exit_goal, 0.0
        if goal is not None and goal.confidence is not None:
            share = 1 / (2 * self.terms.search.parts)
        if whole.times is not None:
            return newest_groups(whole.groups, whole.times, share)
        if whole.tested is None:
            return draw_groups(whole.groups, share, seed)
        drawn = np.zeros_like(whole.tested)
        drawn[~whole.tested] = draw_groups(whole.groups[~whole.tested], share, seed)
        return drawn

    @cached_property
    def _lacks_items(self) -> str:
        """Say why none can be set aside, where exits need some; else empty."""
        goal, whole = self.terms.exit_goal, self._whole
        if goal is None or goal.confidence is None:
            return ""
        if lacking := lacking_items(goal, whole.groups[self._drawn]):
            return lacking
        count = self.terms.search.parts
        rest = whole.only(np.flatnonzero(~self._drawn))
        fewest = self._fewest(_parts_beside(count))
        rare = rare_classes(rest, fewest)
        for label in rare.keys() - rare_classes(whole, self._fewest(count)).keys():
            return (
                f"class {label!r} would have {rare[label]} independent items beside "
                f"those set aside for exits.confidence, of at least {fewest}"
            )
        return ""

    @cached_property
    def items(self) -> tuple[Dataset, Dataset]:
        """The items, and those set aside, of which there may be none."""
        whole, drawn = self._whole, self._drawn
        if self._lacks_items:
            drawn = np.zeros_like(drawn)
        rest, fresh = (whole.only(np.flatnonzero(part)) for part in (~drawn, drawn))
        return replace(rest, skipped=whole.skipped), fresh

    @cached_property
    def lacking(self) -> str:
        """Say what there is too little of for early exits; else empty."""
        goal, fresh = self.terms.exit_goal, self.fresh
        if self._few and self._unfolded.exit_goal is not None:
            return self._few
        if goal is None or fresh is None:
            return self._lacks_items
        return lacking_items(goal, fresh.dataset.groups)  # some may be unusable

    @cached_property
    def _computed(self) -> FeatureTable:
        """The items with the features that nothing is learned for.

        What the labels tell is checked before any feature is computed, and again where
        unusable items were left out.
        """
        # wrong names cost no wait, nor does a learner that cannot do what is asked
        if not self._races:
            self._check_learner()
        project = self.terms
        if not self._races:
            make_learner(project.learner, project.seed, self._task)
        _ = self.described
        fewest = self._fewest(self._parts)
        dataset, _ = treat_rare_classes(self.items[0], project.data, fewest)
        self._judge_of(dataset), self._weights_of(dataset)
        with self.progress.stage("dividing items", None) as on_progress:
            self._race_division(dataset) if self._races else self.splits(dataset)
            on_progress(len(dataset.items))
        table = self._values(dataset, choose_features(project, dataset))
        dataset, rows = treat_rare_classes(table.dataset, project.data, fewest)
        values = table.values
        if len(rows) < len(values):  # which may be large: no copy for nothing
            values = values[rows]
        return FeatureTable(dataset, table.features, values)

    def _check_learner(self) -> None:
        """Refuse a learner without the weights, or the scores, that are asked for."""
        project = self.project
        learner = _make_either(project)
        quality = project.quality
        asked = quality.class_weights not in (None, "equal")
        if asked or project.data.weight is not None:
            weighing(learner, np.empty(0))
        if quality.measure == "log_loss" and not hasattr(learner, "predict_proba"):
            raise BadProject(
                f"[quality] measure = 'log_loss' needs probabilities, and learner "
                f"{project.learner['name']!r} gives none"
            )

    @cached_property
    def table(self) -> FeatureTable:
        """The items with their features, but for those that calibrate.

        What is learned, is learned from the items that accuracy is not measured on.
        """
        return self._learned(self.splits(self._computed.dataset))

    @cached_property
    def _final(self) -> FeatureTable:
        """The same for the models that are kept: learned from all the items."""
        learns = bool(self._computed.features.recipes) and self.terms.refits
        if not learns or self.terms.search.folds is not None:  # learned from all
            return self.table
        every = np.arange(len(self._computed.dataset.items))
        return self._learned([(every, np.empty(0, np.int64))])

    def _learned(self, divisions: Sequence[Division]) -> FeatureTable:
        """Add the features that are learned from the training rows of divisions."""
        table = self._computed
        if not table.features.recipes:
            return table
        lesson = lesson_of(table.dataset, divisions, self.terms.seed)
        learner = FeatureLearner(self._workers, self.cache, self.progress)
        return learn_features(table, lesson, learner)

    @cached_property
    def _final_fresh(self) -> FeatureTable | None:
        """The items set aside, with the features of the models that are kept."""
        if self.fresh is None or self._final is self.table:
            return self.fresh
        return self._values(self.fresh.dataset, self._final.features)

    @cached_property
    def fresh(self) -> FeatureTable | None:
        """The items set aside to calibrate exits on, if there are such."""
        fresh = self.items[1]
        if not fresh.items:
            return None
        return self._values(fresh, self.table.features)

    def _values(self, dataset: Dataset, features: ProjectFeatures) -> FeatureTable:
        return compute_values(
            dataset,
            features,
            on_bad_item=self.terms.data.on_bad_item,
            workers=self._workers,
            cache=self.cache,
            progress=self.progress,
        )

    @cached_property
    def _workers(self) -> Workers:
        count = self.terms.workers or os.cpu_count() or 1
        return self.workers or Workers.here(count)

    @property
    def _task(self) -> Task:
        return "classes" if self._whole.numbers is None else "regression"

    @property
    def _races(self) -> bool:
        return self.strategy is not None or self.project.learner["name"] == AUTO

    @property
    def _trains_rare(self) -> bool:
        return self.project.data.on_rare_class == "train"

    @property
    def _parts(self) -> int:
        """Parts that the items are divided into, of which one at a time is tested on.

        Where items were set aside to calibrate exits on, they are half of what the
        project holds out.
        """
        count = self.terms.search.parts
        return _parts_beside(count) if self.items[1].items else count

    def _fewest(self, parts: int) -> int:
        """Count the groups that a class must come in; a race is divided twice."""
        if self._trains_rare:
            return 1
        if not self.terms.data.divided:
            return parts_of(VALIDATION) if self._races else 1
        fewest, least = parts, parts_of(VALIDATION)
        while self._races and fewest - math.ceil(fewest / parts) < least:
            fewest += 1
        return fewest

    def splits(self, dataset: Dataset) -> list[Division]:
        """Split the items for measuring accuracy."""
        return split(
            dataset,
            seed=self.terms.seed,
            held_out=1 / self._parts,
            folds=self.terms.search.folds,
            train_rare=self._trains_rare,
        )

    def _race_division(self, dataset: Dataset) -> Division:
        """Split what accuracy is not measured on, for a race between learners."""
        ((train, _), *_) = self.splits(dataset)
        ((fit, test),) = split(
            dataset.only(train),
            seed=self.terms.seed,
            held_out=VALIDATION,
            folds=None,
            train_rare=self._trains_rare,
        )
        return train[fit], train[test]

    @cached_property
    def _keys(self) -> Keys:
        return Keys.of(self.terms, self.table.dataset, self.table.features.stored)

    @cached_property
    def _measurer(self) -> Measurer:
        extractor, quantile = self.table.features.extractor, self.terms.costs.quantile
        return Measurer(extractor, quantile, self.times or self.cache, self.progress)

    @cached_property
    def curves(self) -> Curves:
        """Cost curves of features, steps and overhead, measured."""
        terms = self.terms.costs
        return self._measurer.curves(
            measuring_items(self.table.dataset, terms.items),
            terms.repeats,
            self.terms.seed,
            name=self._keys.times,
        )

    @cached_property
    def costs(self) -> CostTable:
        """The same in budget units, with what is declared."""
        extractor = self.table.features.extractor
        return self.curves.weighed(extractor, self.terms.costs.weights)

    @cached_property
    def _middle(self) -> Size:
        return read_size(np.median(self.table.dataset.sizes, axis=0).tolist())

    def cost_of(self, mask: int) -> float:
        """Cost of a set's features at the items' median size."""
        return cost_at(self.costs.of(mask).tolist(), self._middle)

    @cached_property
    def choice(self) -> LearnerChoice:
        """The learner that the project names, or the winner of a race.

        The race sees none of the items that accuracy is measured on later, unless
        that is done by cross-validation, which uses all of them.
        """
        project, table = self.terms, self.table
        if not self._races:
            return LearnerChoice(project.learner, {})
        strategy = self.strategy or DEFAULT_STRATEGY
        weights = self._class_weights
        weighed = None if weights is None else weights.tolist()
        return choose_learner(
            table.values,
            table.dataset.targets,
            self._race_division(table.dataset),
            judge=self._judge,
            seed=project.seed,
            cache=self.cache,
            name=self._keys.race(strategy, self._task, self._judge.facts(), weighed),
            progress=self.progress,
            strategy=strategy,
            watch=self.watch,
            limit_s=project.training_limit_s,
            class_weights=self._class_weights,
        )

    @cached_property
    def trainer(self) -> Trainer:
        """What trains any feature set."""
        table, learner = self.table, self.choice.setting
        class_weights = self._class_weights
        if self.terms.quality.class_weights is None:  # they are not asked for
            estimator = make_learner(learner, self.terms.seed, self._task)
            class_weights = class_weights if takes_weights(estimator) else None
        weighed = None if class_weights is None else class_weights.tolist()
        key = self._keys.sets(learner, self._judge.facts(), weighed)
        dataset = table.dataset
        arrays: dict[str, NDArray[Any] | None] = {
            "values": table.values,
            "codes": dataset.codes,
            "weights": dataset.weights,
            "class_weights": class_weights,
            "numbers": dataset.numbers,
        }
        given = {name: array for name, array in arrays.items() if array is not None}
        splits = self.splits(dataset)
        if dataset.kind == "record":
            say_dull_columns(
                table.features.extractor,
                table.values,
                [train for train, _ in splits],
                everywhere=self.given is not None
                or not isinstance(dataset.items, Records),
            )
        division = division_of(splits)
        task = TrainingTask(
            items=self.cache.share(f"sets/{key}/items", given),
            division=self.cache.share(f"sets/{key}/division", division),
            judge=self._judge,
            learner=learner,
            seed=self.terms.seed,
            starts=table.features.starts,
            key=key,
        )
        return Trainer(task, self._workers, self.cache)

    @cached_property
    def searched(self) -> SearchedSets:
        """The sets that the project's search needs, trained."""
        m, terms = len(self.table.features.stored), self.terms.search
        return search_sets(
            terms,
            m,
            self.trainer,
            self.cost_of,
            self.progress,
            grows=self._judge.measure == "accuracy",
        )

    @property
    def _may_lack(self) -> list[int]:
        """Masks of the features that an item may lack: those of the same columns."""
        parts: dict[frozenset[str], int] = {}
        for position, stored in enumerate(self.table.features.stored):
            if stored.reads is not None:
                read = frozenset(stored.reads)
                parts[read] = parts.get(read, 0) | 1 << position
        return [*parts.values()]

    def _trains_all(self) -> Trainer:
        """Give what trains any set on all items, and has not spent any time yet."""
        task = self.trainer.task
        key = digest(task.key, "refit")
        undivided = self.cache.share(f"sets/{key}/division", {})
        task = replace(task, division=undivided, key=key)
        if self._final is not self.table:
            given = {**task.items, "values": self._final.values}
            task = replace(task, items=self.cache.share(f"sets/{key}/items", given))
        return Trainer(task, self._workers, self.cache)

    @property
    def _refitting_s(self) -> float:
        """Seconds that training on all items may take."""
        search = self.terms.search
        # of features that are learned an index has one form, which all its models read
        if search.method != "progressive" or self._final is not self.table:
            return math.inf
        full = (1 << len(self.table.features.stored)) - 1
        return REFITTING * search.limit_s(self.trainer.seconds(full))

    def _kept_models(self, masks: Sequence[int]) -> KeptModels:
        """Give a model for each set that is kept, trained on all items if it may be."""
        if not self.terms.refits:
            models = tuple(map(self.trainer.model, masks))
            return KeptModels(models, (False,) * len(masks))
        qualities = [self.searched.qualities[mask] for mask in masks]
        trainers = self.trainer, self._trains_all()
        return refit(masks, qualities, *trainers, self._refitting_s, self.progress)

    def _expected(
        self, masks: Sequence[int]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Correct the qualities of sets for their having been chosen.

        With their accuracies, where these are something else: else none.
        """
        sets, tested = sorted(self.searched.qualities), self.trainer.tested
        expected = partial(
            expected_qualities,
            self.trainer.parts(sets),
            np.array([self.cost_of(mask) for mask in sets]),
            np.searchsorted(sets, masks),
            self.table.dataset.groups[tested],
            self.trainer.task.weights_of(tested),
            self.terms.seed,
        )
        if self._judge.measure == "accuracy" or self._task == "regression":
            return expected(), np.empty(0)
        return expected(), expected(self.trainer.right(sets))

    def _intervals(self, masks: Sequence[int]) -> NDArray[np.float64]:
        """Bounds (C, 2) of what labels are beyond answers; none for classes."""
        if self._task != "regression":
            return np.empty((0, 2))
        share = self.terms.quality.coverage
        residuals = map(self.trainer.residuals, masks)
        return np.array([residual_interval(own, share) for own in residuals])

    def _of_numbers(self, masks: Sequence[int]) -> dict[str, Any]:
        """Tell people what numbers are answered, and how far off they are."""
        numbers = self.table.dataset.numbers
        assert numbers is not None
        weights = self.trainer.task.weights_of(self.trainer.tested)
        errors = [
            float(np.average(abs(self.trainer.residuals(mask)), weights=weights))
            for mask in masks
        ]
        facts = {"mean": float(numbers.mean()), "deviation": float(numbers.std())}
        coverage = self.terms.quality.coverage
        return {"coverage": coverage, "numbers": {**facts, "mae": errors}}

    @cached_property
    def _judge(self) -> Judge:
        """What tells how good answers are."""
        return self._judge_of(self.table.dataset)

    def _judge_of(self, dataset: Dataset) -> Judge:
        terms, labels = self.terms.quality, dataset.labels
        costs = costs_by_code(terms.costs, labels) if terms.costs else None
        return Judge(terms.measure_of(self._task), len(labels), costs)

    @cached_property
    def _class_weights(self) -> NDArray[np.float64] | None:
        """How much items of each class count more where a learner is fitted."""
        return self._weights_of(self.table.dataset)

    def _weights_of(self, dataset: Dataset) -> NDArray[np.float64] | None:
        if not dataset.labels:
            return None
        return class_weights(self.terms.quality, self._judge_of(dataset), dataset)

    def _model_costs(
        self,
        sets: Sequence[int],
        models: Callable[[int], Model],
        again: Sequence[bool] = (),
    ) -> tuple[NDArray[np.float64], Measured]:
        """Cost of evaluating the model of each set, which may be trained `again`."""
        costs = self.terms.costs
        named = {}
        for mask, refitted in zip_longest(sets, again, fillvalue=False):
            key = digest(self.trainer.task.key, costs.quantile, "answer", refitted)
            named[f"times/{key}/{mask:x}"] = partial(models, mask)
        values = self._final.values if any(again) else self.table.values
        seconds, measured = self._measurer.models(named, values)
        return seconds * costs.weights.get("s", 0.0), measured

    def _exits(
        self,
        masks: Sequence[int],
        models: Sequence[Model],
        orders: Orders,
        fallbacks: Orders,
        model_costs: NDArray[np.float64],
    ) -> PlanExits:
        """Say where each plan may answer early, if that pays and can be promised."""
        goal = self.terms.exit_goal
        if goal is None or self.lacking:
            facts = {"lacking": self.lacking} if self.lacking else {}
            return PlanExits((), (), model_costs, model_costs, (), facts)
        groups, fresh = self.table.dataset.groups, self._final_fresh
        with self.progress.stage("fitting exits", len(masks)) as on_progress:
            fitter = PlanExitFitter(
                goal,
                ItemAnswers(
                    *self.trainer.answers(masks),
                    groups[self.trainer.tested],
                    self.table.values[self.trainer.tested],
                ),
                None if fresh is None else _answers(models, fresh),
                self._schedules,
                self.terms.costs.weights.get("s", 0.0),
                self.terms.refits,
            )
            return fitter.all(
                masks,
                models,
                orders,
                fallbacks,
                model_costs,
                self.cost_of,
                partial(self._time_answers, models, masks),
                on_progress,
            )

    @cached_property
    def _schedules(self) -> ScheduleFitter | None:
        """What fits schedules; None where no items are left that models never saw."""
        goal, refits = self.terms.exit_goal, self.terms.refits
        kept = self.times or self.cache
        fresh = self._final_fresh
        if goal is None or self.terms.search.folds is not None:
            return None
        key = digest(self.trainer.task.key, refits, fresh and fresh.dataset.digest)
        values = self.table.values[self.trainer.tested]
        if fresh is None or goal.confidence is None:
            return ScheduleFitter(values, None, None, kept, key)
        calibration, groups = fresh.values, fresh.dataset.groups
        if refits:  # what was held out has been trained on since
            fewest = fewest_rows(goal.alpha, goal.confidence)
            parts = divide_aside(groups, fewest, self.terms.seed)
            if parts is None:
                return None
            values, calibration = calibration[parts[0]], calibration[parts[1]]
            groups = groups[parts[1]]
        return ScheduleFitter(values, calibration, groups, kept, key)

    def _time_answers(
        self,
        models: Sequence[Model],
        masks: Sequence[int],
        row: int,
        goal: ExitGoal,
        early: Evaluator,
    ) -> AnswerTimes:
        """Time a plan's model, whole and stopped early."""
        quantile = self.terms.costs.quantile
        refits = self.terms.refits
        key = digest(self.trainer.task.key, masks[row], goal, quantile, refits)
        values = self._final.values[self.trainer.tested]
        return AnswerTimes(
            *self._measurer.compare_answers(
                models[row].answer, early.answer, values, name=f"times/{key}"
            )
        )

    def _sizes(self) -> tuple[Size, Size]:
        """Give the smallest and the largest size to choose for."""
        if (bounds := self.terms.search.bounds) is not None:
            return bounds
        sizes = self.table.dataset.sizes
        low, high = sizes.min(axis=0).tolist(), sizes.max(axis=0).tolist()
        return read_size(low), read_size(high)

    def _report(self) -> dict[str, Any]:
        """Plain data for `polydom inspect`, and samples to warm a server up with."""
        project, dataset, trainer = self.terms, self.table.dataset, self.trainer
        weights = {unit: w for unit, w in project.costs.weights.items() if w}
        return {
            "unit": "s" if set(weights) == {"s"} else " + ".join(sorted(weights)),
            "weights": weights,
            "learner": self.choice.setting,
            "selection": self.choice.facts,
            "seed": project.seed,
            "items": len(dataset.items),
            "tested": sum(len(test) for _, test in trainer.task.splits),
            "skipped": [list(one) for one in dataset.skipped],
            "columns": msgspec.to_builtins(self.described.columns),
            "warnings": self.described.warnings,
            "testing": msgspec.to_builtins(project.search),
            "quantile": project.costs.quantile,
            "curves": self.curves.facts(self.table.features.extractor),
            "search": self.searched.facts,
            "remarks": trainer.remarks(sorted(self.searched.qualities)),
            "samples": _samples(dataset),
        }


def _make_either(project: Project) -> Any:
    """Make the learner for classes or for numbers: labels have not been read yet."""
    tasks: list[Task] = ["classes", "regression"]
    if project.wanted is not None:
        return make_learner(project.learner, project.seed, project.wanted)
    errors = []
    for task in tasks:
        try:
            return make_learner(project.learner, project.seed, task)
        except BadProject as error:
            errors.append(error)
    raise errors[project.learner["name"] in REGRESSORS.keys() - CLASSIFIERS.keys()]


def _parts_beside(count: int) -> int:
    """Parts of what is left once half of one in `count` is set aside: one is tested on.

    Both halves are equally large.
    """
    return 2 * count - 1


def _answers(models: Sequence[Model], table: FeatureTable) -> ItemAnswers:
    """Give what some models answer for items that none of them was made with."""
    pairs = [answers_of(model, table.values) for model in models]
    margins, choices = map(np.column_stack, zip(*pairs, strict=True))
    return ItemAnswers(margins, choices, table.dataset.groups, table.values)


def _samples(dataset: Dataset) -> list[Any]:
    """Items of different sizes, small ones first as far as they fit."""
    samples: list[Any] = []
    left = SAMPLES_BYTES
    for item in measuring_items(dataset, SAMPLES):
        payload = item.payload
        sample = dict(payload) if isinstance(payload, Mapping) else payload
        size = len(msgspec.msgpack.encode(sample))
        left -= size
        if size > LARGEST_SAMPLE or (left < 0 and samples):
            break
        samples.append(sample)
    return samples
