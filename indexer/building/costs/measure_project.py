"""`polydom measure PROJECT.toml`: measure times for a build on another machine."""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from polydom.features.errors import BadProject, LacksWork, Unfinished

from ...cluster.workers import Workers
from ...index.file.pdx_file import refuse_index
from ...index.index import Index
from ...progress import Progress, Silence
from ..build import make_index, saved
from ..cache import Array, Cache, Read
from ..data.dataset import Dataset
from ..prepare import prepare_data
from ..project import Project
from ..resources import Resources
from .measure_costs import measure_costs
from .measured_later import TIMES, BuildNote, await_work


def measure_project(
    project: Project | str | os.PathLike[str],
    *,
    dataset: Dataset | None = None,
    output: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    anew: bool = False,
    progress: Progress | None = None,
) -> Index:
    """Measure the times that a build needs; make the index if no other work is left.

    Nothing is trained. Features are computed only to time them.

    Parameters
    ----------
    project, dataset, output, progress
        The same as in `build`.
    cache
        Folder of the build's finished work; by default the folder that a build uses.
    anew
        If True, times from earlier calls are measured again.

    Raises
    ------
    BadInput
        If `output` is a file other than an index, or cannot be written.
    BadProject
        If the project does not say `[costs] measured = "later"`, or if the build used
        other versions of libraries than this process.
    LacksWork
        If `polydom build` has to do more work first. The measured times are kept.
    """
    if output is not None:
        refuse_index(Path(output))
    if not isinstance(project, Project):
        project = Project.load(project)
    if project.costs.measured != "later":
        raise BadProject(
            "[costs] measured is 'here': `polydom build` takes the times itself, where "
            "it runs; 'later' leaves them to `polydom measure`"
        )
    project.data.check_source(given=dataset is not None)
    work = await_work(project, None if cache is None else Path(cache))
    note = BuildNote.find(project, work)
    own = Resources(
        NoWorkers(None, note.workers, lacks=work.lacks),
        work,
        (TimesAnew if anew else Cache)(work.folder / TIMES),
        progress or Silence(),
    )
    data = prepare_data(project, own, dataset)
    try:
        index = make_index(data, own)
    except LacksWork as lacks:
        # the costs of features can be measured whatever work is missing
        if not measure_costs(data, own).curves.measured.load.busy:
            raise
        busy = "this machine was busy meanwhile: on a quiet one, --anew measures again"
        raise LacksWork(f"{lacks}; {busy}") from None
    return index if output is None else saved(index, output)


@dataclass(frozen=True)
class NoWorkers(Workers):
    """A stand-in for workers in a process without any; calling it raises `lacks`."""

    lacks: Unfinished = field(kw_only=True)  # Error to raise for any call

    def run(self, *arguments: Any, **terms: Any) -> Iterator[Any]:
        """Raise the error `lacks`: this process has no workers."""
        raise self.lacks


class TimesAnew(Cache):
    """A cache in which entries that other processes wrote count as absent."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._taken: set[str] = set()

    def recall(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Return the entry as `Cache.recall` does; None if another process wrote it."""
        return super().recall(name, read) if name in self._taken else None

    def store(
        self, name: str, meta: dict[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        """Write an entry; an older entry of this name is replaced."""
        super().store(name, meta, arrays)
        self._taken.add(name)
