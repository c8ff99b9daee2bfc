"""What a build has finished, kept in files so that the next run continues there."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile, Unfinished

from ..index.pdx_file import read_file, write_file
from .shared_arrays import SharedArrays

Array = NDArray[Any]
# Where work is kept if nobody says otherwise: in the folder of the project file, so
# that every command finds it, from wherever it is called.
FOLDER = ".polydom-cache"


def digest(*parts: Any) -> str:
    """Short name for plain data: equal parts give equal names, in every process."""
    content = msgspec.msgpack.encode(parts, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:24]


class Cache:
    """A folder of small `.pdx` files; safe to share between processes.

    An entry is whole or absent: files are replaced in one step, and one that cannot be
    read counts as absent and is made again.

    Attributes
    ----------
    seen
        Whether all processes that a build has calls carried out by see the folder.
    """

    def __init__(self, folder: Path, *, seen: bool = True) -> None:
        self.folder = folder
        self.seen = seen

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return what was stored under `name`, None if nothing usable."""
        try:
            meta, arrays, _ = read_file(self._path(name))
        except BadIndexFile:
            return None
        return meta, arrays

    def store(
        self, name: str, meta: dict[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        """Keep `meta` and `arrays` under `name`, replacing what was there."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, meta, arrays)

    def share(self, name: str, arrays: Mapping[str, Array]) -> SharedArrays:
        """Put arrays where calls in other processes read them; see `SharedArrays`."""
        return SharedArrays.place(self.folder / name if self.seen else None, arrays)

    def names(self, group: str) -> list[str]:
        """Name what is kept in a group, `GROUP/...`, in order."""
        found = (self.folder / group).glob("*.pdx")
        return sorted(f"{group}/{path.stem}" for path in found)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.pdx"


class ReadOnlyCache(Cache):
    """Entries that a process on another machine makes, and this one only reads.

    Attributes
    ----------
    lacks
        Raised where one would be kept.
    """

    def __init__(self, folder: Path, lacks: Unfinished) -> None:
        super().__init__(folder)
        self.lacks = lacks

    def store(
        self, name: str, meta: dict[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        """Refuse to keep anything."""
        raise self.lacks

    def share(self, name: str, arrays: Mapping[str, Array]) -> SharedArrays:
        """Keep arrays in this process, which has nothing to be called elsewhere."""
        return SharedArrays(None, arrays)


class AwaitedCache(ReadOnlyCache):
    """The same where an entry that is missing is not to be made here first."""

    def load(self, name: str) -> tuple[dict[str, Any], dict[str, Array]] | None:
        """Return what was stored under `name`; raise `lacks` if nothing was."""
        found = super().load(name)
        if found is None:
            raise self.lacks
        return found
