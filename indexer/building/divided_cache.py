"""The folder of a build whose times are taken on another kind of machine."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from polydom.features.errors import BadProject, LacksTimes, LacksWork
from polydom.features.libraries import differences, versions

from .cache import FOLDER, Array, Cache, digest
from .project import Project

TIMES = ("times", "machine_times")  # groups of entries
EITHER = ("schedules",)  # fitted to models, where times say that they may pay
PLACES = frozenset(("folder", "workers"))  # of a project: where it is built, and how
NAMED = 5  # differences between machines that a message lists
MEASURED = "measured"  # where such times lie: never those of a machine that builds


class DividedCache(Cache):
    """Lets a process make its own side of a build's entries, and wait for the others.

    Parameters
    ----------
    measures
        Whether it takes times; else it makes all that takes none.
    anew
        Whether times that others took count as missing.

    Attributes
    ----------
    taken
        Names of the times that were kept so far.
    """

    def __init__(self, folder: Path, *, measures: bool, anew: bool = False) -> None:
        super().__init__(folder)
        self.measures, self.anew = measures, anew
        self.taken: set[str] = set()

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return what was stored under `name`; None if this process is to make it.

        Raises
        ------
        LacksTimes, LacksWork
            If it is missing, and a process of the other side is to make it.
        """
        old = self.anew and _is_time(name) and name not in self.taken
        found = None if old else super().load(name)
        if found is None:
            self._refuse(name)
        return found

    def store(
        self, name: str, meta: dict[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        """Keep what is this process's to make."""
        self._refuse(name)
        super().store(name, meta, arrays)
        if _is_time(name):
            self.taken.add(name)

    def _refuse(self, name: str) -> None:
        """Refuse to make an entry that is the other side's to make."""
        if _is_time(name) == self.measures or _group(name) in EITHER:
            return
        kept = f"PROJECT.toml --cache {self.folder} -o my.pdx`"
        if not self.measures:
            raise LacksTimes(
                "[costs] measured is 'later', and times are missing: on a machine like "
                f"the one that serves, run `polydom measure {kept}, and then this "
                "again, unless that has written the index; what is done is kept"
            )
        taken = f"{len(self.taken)} measurements were taken and kept; "
        raise LacksWork(
            f"{taken if self.taken else ''}{_group(name)} are missing in {self.folder},"
            " which only a build of the same project and items makes: run `polydom "
            f"build {kept}, and then this again"
        )

    def _path(self, name: str) -> Path:
        return super()._path(f"{MEASURED}/{name}" if _is_time(name) else name)


def _group(name: str) -> str:
    return name.partition("/")[0]


def _is_time(name: str) -> bool:
    return _group(name) in TIMES


def open_cache(project: Project, folder: Path | None = None) -> Cache:
    """Open the folder that a project's build keeps its work in."""
    folder = folder or project.path(FOLDER)
    if project.costs.measured == "here":
        return Cache(folder)
    kept = DividedCache(folder, measures=False)
    kept.store(_note(project), {"versions": versions(project.feature_files)}, {})
    return kept


def open_measuring_cache(
    project: Project, folder: Path | None = None, *, anew: bool = False
) -> DividedCache:
    """Open that folder where times are to be taken.

    Raises
    ------
    LacksWork
        If no build of the project has begun there.
    BadProject
        If it had other versions of libraries, and so nothing of it would be found.
    """
    kept = DividedCache(folder or project.path(FOLDER), measures=True, anew=anew)
    stored = kept.load(_note(project))
    assert stored is not None
    here = versions(project.feature_files)
    if differ := differences(here, stored[0]["versions"]):
        more = f" and {len(differ) - NAMED} more" if len(differ) > NAMED else ""
        raise BadProject(
            f"the build in {kept.folder} had other libraries than there are here: "
            f"{', '.join(differ[:NAMED])}{more}; the same ones are needed to find what "
            "it computed"
        )
    return kept


def _note(project: Project) -> str:
    """Name where a build leaves word of the libraries that it computes with."""
    terms = msgspec.to_builtins(project)
    return f"builds/{digest({key: terms[key] for key in terms.keys() - PLACES})}"
