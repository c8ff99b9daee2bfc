"""Taking the times of a build that ran elsewhere, and finishing it if that is all."""

import os
from pathlib import Path

from polydom.features.errors import BadProject

from ..index.index import Index
from ..progress import Progress, Silence
from .build import Builder
from .data.dataset import Dataset
from .divided_cache import open_measuring_cache
from .project import Project


def measure_project(
    project: Project | str | os.PathLike[str],
    *,
    dataset: Dataset | None = None,
    output: str | os.PathLike[str] | None = None,
    cache: str | os.PathLike[str] | None = None,
    anew: bool = False,
    progress: Progress | None = None,
) -> Index:
    """Take the times that a build lacks, and make its index if then all is there.

    Nothing is trained, and no item's features are computed but to time them. Parameters
    are those of `build`, and `cache` is the folder that it kept its work in.

    Parameters
    ----------
    anew
        Take all times again, in place of those that are kept.

    Raises
    ------
    BadProject
        If it does not say `[costs] measured = "later"`: then a build measures itself.
    LacksWork
        If a build is to go on first. Times that could be taken are kept.
    """
    if not isinstance(project, Project):
        project = Project.load(project)
    if project.costs.measured != "later":
        raise BadProject(
            "[costs] measured is 'here': `polydom build` takes the times itself, where "
            "it runs; 'later' leaves them to `polydom measure`"
        )
    project.check_source(given=dataset is not None)
    folder = None if cache is None else Path(cache)
    kept = open_measuring_cache(project, folder, anew=anew)
    index = Builder(project, kept, progress or Silence(), given=dataset).index()
    if output is not None:
        index.save(output)
        index = Index.load(output)
    return index
