"""The whole build: all stages, from reading a project's items to the finished index."""

import os
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import msgspec

from ..index.file.pdx_file import refuse_index
from ..index.index import Index
from ..progress import Progress
from .candidates import keep_candidates
from .costs.arrival_times import measure_arrivals
from .costs.measure_costs import measure_costs
from .costs.measured_later import await_times
from .data.dataset import Dataset
from .exits.plan_exits import fit_plan_exits
from .exits.rungs import measure_ladders
from .fetched import Fetched
from .learner_race import Watch, choose_learner
from .package_index import package_index
from .prepare import Prepared, prepare_data
from .project import Project
from .resources import Resources, open_resources
from .training.decisions.fit_decisions import fit_decisions
from .training.refit import refit, train_ahead
from .training.search.fetched_sets import train_without_fetches
from .training.search.hidden_sets import train_past_slow_models
from .training.search.search_sets import make_trainer, no_costs, search_sets
from .tune_learner import tune_learner


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

    Finished work is kept in `cache`, so that an interrupted build continues where it
    stopped. The same project with the same measured times gives the same bytes.

    Parameters
    ----------
    project
        A `Project`, or the path of its PROJECT.toml.
    dataset
        The labelled items, if the project does not say where they are.
    output
        File to save the index to, written completely or not at all. An existing file is
        replaced only if it is an index.
    cache
        Folder of finished work, created if it does not exist. The default is the shared
        folder of the project's cluster, or else `.polydom-cache` in the project's
        folder. Work is used again only for the same items, settings, code and versions
        of libraries; values of features for each item that is the same, whatever the
        others are.
    executor
        Executor that replaces the project's workers. It may be any executor of
        `concurrent.futures`, such as a Dask client's `get_executor()`, or
        `polydom.indexer.cluster.ray.RayExecutor()`.
    shared
        Folder of finished work that all workers see under the same path; give it
        instead of `cache`. The default is `[cluster] shared`.
    progress
        Object that receives the progress of each stage.
    watch
        Function of a race, called after each training of the race that `learner =
        "auto"` runs, and of tuning. `race.log[-1]` is the newest training.

    Raises
    ------
    BadInput
        If `output` is a file other than an index, or cannot be written.
    BadProject
        If the project or its data cannot be used.
    BadFeature
        If a feature without `fails="without"` fails on an item, or any feature fails on
        all items. NaN is no failure but a missing value.
    BadWorker, WorkerLost
        If a worker of a cluster differs from this process, or workers die too often.
    LacksTimes
        If another machine has to measure times first; finished work is kept.
    """
    if output is not None:
        refuse_index(Path(output))
    if not isinstance(project, Project):
        project = Project.load(project)
    project.data.check_source(given=dataset is not None)
    if shared is not None:
        place = os.fspath(Path(shared).absolute())
        cluster = msgspec.structs.replace(project.cluster, shared=place)
        project = msgspec.structs.replace(project, cluster=cluster)
    resources = open_resources(
        project, executor=executor, cache=cache, progress=progress
    )
    later = project.costs.measured == "later"
    if later:
        resources = replace(
            resources,
            times=await_times(project, resources.cache, resources.workers.count),
        )
    index = make_index(
        prepare_data(project, resources, dataset), resources, watch, ahead=later
    )
    return index if output is None else saved(index, output)


def make_index(
    data: Prepared,
    resources: Resources,
    watch: Watch | None = None,
    *,
    ahead: bool = False,
) -> Index:
    """Make an index from prepared items: all stages from the choice of a learner on.

    If `ahead` is true, models are trained on all items before any model is timed. This
    lets a build do all its training before another machine measures times.
    """
    project = data.project
    measured = project, data.key_rows, resources.times, resources.progress
    arrivals = None if ahead else measure_arrivals(*measured)
    choice = choose_learner(data, resources, watch)
    choice = tune_learner(choice, data, resources, watch)
    trainer = make_trainer(data, choice.setting, resources)
    # Poly-Dom needs no costs: perhaps another machine has yet to measure them
    first = project.search.method != "poly-dom"
    costs = measure_costs(data, resources) if first else None
    searched = search_sets(
        project.search,
        len(data.table.features.stored),
        trainer,
        resources.progress,
        no_costs if costs is None else costs.of_set,
        grows=data.metric.name == "accuracy",
    )
    if ahead:
        train_ahead(searched, data, trainer, resources)
    if costs is None:
        costs = measure_costs(data, resources)
    searched = train_past_slow_models(
        searched, data, trainer, costs, resources.progress
    )
    fetched = Fetched.of(
        project.fetches,
        measure_arrivals(*measured) if arrivals is None else arrivals,
        data.table.features.stored,
        data.key_rows,
    )
    searched = train_without_fetches(
        searched, data, trainer, costs, fetched, resources.progress
    )
    candidates = keep_candidates(searched, data, trainer, costs, fetched)
    trainer = fit_decisions(candidates, data, trainer, resources)
    kept = refit(candidates, searched, data, trainer, costs, resources)
    exits = fit_plan_exits(candidates, kept, data, trainer, costs, resources)
    exits, rungs = measure_ladders(
        candidates, kept, exits, data, trainer, costs, resources
    )
    return package_index(
        data,
        choice,
        trainer,
        costs,
        fetched,
        searched,
        candidates,
        kept,
        exits,
        rungs,
    )


def saved(index: Index, output: str | os.PathLike[str]) -> Index:
    """Save an index to a file; return the index as loaded from this file."""
    index.save(output)
    return Index.load(output)
