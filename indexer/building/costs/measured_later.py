"""Builds whose times another machine measures; both machines use one shared folder."""

from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from polydom.features.errors import BadProject, LacksTimes, LacksWork
from polydom.features.libraries import differences, versions

from ..cache import FOLDER, AwaitedCache, Cache, ReadOnlyCache, digest
from ..project import Project

# Folder of the measured times; times of the building machine are in another folder.
TIMES = "measured"
PLACES = frozenset(("folder", "workers", "cluster"))  # keys that differ by machine
SHOWN = 5  # differences of libraries that a message lists


class BuildNote(NamedTuple):
    """Facts that a build leaves in its cache so that `polydom measure` can continue."""

    versions: dict[str, str]  # Versions of the build's libraries, by name
    # Number of calls that the build carries out at a time. The time that a search has
    # spent depends on this number, and so do the sets that it trains.
    workers: int

    @classmethod
    def find(cls, project: Project, cache: ReadOnlyCache) -> Self:
        """Read the note that a project's build left in its cache.

        Raises BadProject if the build used other versions of libraries than this
        process, and LacksWork if there is no note.
        """
        note = cache.recall(_name(project), lambda meta, _: cls(**meta))
        if note is None:
            raise cache.lacks
        if differ := differences(versions(project.feature_files), note.versions):
            more = f" and {len(differ) - SHOWN} more" if differ[SHOWN:] else ""
            raise BadProject(
                f"the build in {cache.folder} had other libraries than there are here: "
                f"{', '.join(differ[:SHOWN])}{more}; the same ones are needed to find "
                "what it computed"
            )
        return note


def await_times(project: Project, cache: Cache, workers: int) -> AwaitedCache:
    """Leave a note for `polydom measure`; return the cache of the times it measures.

    Reading a time that was not measured yet raises LacksTimes.
    """
    note = BuildNote(versions(project.feature_files), workers)
    cache.store(_name(project), note._asdict(), {})
    option = "--cache" if project.cluster.shared is None else "--shared"
    lacks = LacksTimes(
        "[costs] measured is 'later', and times are missing: on a machine like the one "
        f"that serves, run `polydom measure PROJECT.toml {option} {cache.folder} -o "
        "my.pdx`, and if that does not write the index, this again; what is done is "
        "kept"
    )
    return AwaitedCache(cache.folder / TIMES, lacks)


def await_work(project: Project, folder: Path | None) -> ReadOnlyCache:
    """Return a read-only view of the cache of a build that runs on another machine.

    `folder` is the cache's folder; if None, it is the folder that the project names.
    """
    shared = project.cluster.shared
    kept = (folder or project.path(shared or FOLDER)).absolute()
    lacks = LacksWork(
        f"work is missing in {kept} that only `polydom build` of the same project and "
        "items does: run that with the same folder, and then this again; what is "
        "measured is kept"
    )
    return ReadOnlyCache(kept, lacks)


def _name(project: Project) -> str:
    terms = msgspec.to_builtins(project)
    return f"builds/{digest({key: terms[key] for key in terms.keys() - PLACES})}"
