"""A build whose costs another machine measures: what each leaves for the other."""

from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from polydom.features.errors import BadProject, LacksTimes, LacksWork
from polydom.features.libraries import differences, versions

from ..cache import FOLDER, AwaitedCache, Cache, ReadOnlyCache, digest
from ..project import Project

# Apart from what builds keep, so that no times of a machine that builds are found.
TIMES = "measured"
PLACES = frozenset(("folder", "workers", "cluster"))  # of a project: where it is built
SHOWN = 5  # differences between machines that a message lists


class BuildNote(NamedTuple):
    """What who measures must know of the build, to find what it has finished.

    Attributes
    ----------
    versions
        Of the libraries that it computes with.
    workers
        Calls that it has carried out at a time: how much time a search has spent
        depends on it, and so do the sets that it comes to.
    """

    versions: dict[str, str]
    workers: int

    @classmethod
    def find(cls, project: Project, cache: ReadOnlyCache) -> Self:
        """Read the note of a project's build.

        Raises
        ------
        LacksWork
            If none has begun there.
        BadProject
            If it had other versions of libraries, and so nothing of it would be found.
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
    """Leave a note for who measures; give the cache that has the times, once taken."""
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
    """Give the cache that has all that a build is to finish before times are taken."""
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
