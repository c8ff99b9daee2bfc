"""The workers, the cache folder and the progress bars of a build."""

import os
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from polydom.features.errors import BadProject

from ..cluster.connect import checked, connect, workers_of
from ..cluster.workers import Workers
from ..index.file.safe_write import sweep_unfinished
from ..progress import Progress, Silence
from .cache import FOLDER, Cache, sweep_unused
from .project import Project


@dataclass(frozen=True, slots=True)
class Resources:
    """The workers, the cache and the progress bars, for all stages of a build."""

    workers: Workers  # Processes that calls are spread over
    cache: Cache  # Folder of finished work
    # Folder of measured times, and of schedules, whose fits depend on times. The same
    # as `cache` unless another machine measures.
    times: Cache
    progress: Progress  # Receives the stages


def open_resources(
    project: Project,
    *,
    executor: Executor | None = None,
    cache: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Resources:
    """Connect to a project's workers, and open the cache of finished work.

    `executor` replaces the workers that the project names, and `cache` the folder of
    the cache. Raises BadProject if both `cache` and `[cluster] shared` name a folder.
    """
    cluster = project.cluster
    if cluster.shared is not None and cache is not None:
        raise BadProject(
            f"finished work is to be kept in {os.fspath(cache)}, and [cluster] shared "
            f"is {cluster.shared!r}; one of them is needed"
        )
    if cluster.on is not None and executor is None:
        workers = workers_of(connect(cluster.on))
    elif executor is not None:
        workers = workers_of(executor)
    else:
        workers = Workers.here(project.workers or os.cpu_count() or 1)
    shared = None if cluster.shared is None else project.path(cluster.shared)
    data = [] if shared is None else project.data_places
    workers = checked(workers, project.feature_files, shared, data)
    folder = Path(cache or shared or project.path(FOLDER)).absolute()
    sweep_unfinished(folder)
    sweep_unused(folder)
    kept = Cache(folder, seen=shared is not None or workers.check is None)
    return Resources(workers, kept, kept, progress or Silence())
