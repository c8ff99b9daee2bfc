"""What a build has finished, kept in files so that the next run continues there."""

import hashlib
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile, PolydomError, Unfinished

from ..index.pdx_file import read_file, write_file
from .shared_arrays import SharedArrays

Array = NDArray[Any]
Entry = tuple[dict[str, Any], dict[str, Array]]
Read = TypeVar("Read")

log = logging.getLogger("polydom")

# What comes of reading an entry that is not as its reader needs it.
_MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    PolydomError,
    TypeError,
    ValueError,
)
# Where work is kept if nobody says otherwise: in the folder of the project file, so
# that every command finds it, from wherever it is called.
FOLDER = ".polydom-cache"


def digest(*parts: Any) -> str:
    """Short name for plain data: equal parts give equal names, in every process."""
    content = msgspec.msgpack.encode(parts, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:24]


class Cache:
    """A folder of small `.pdx` files; safe to share between processes.

    An entry is whole or absent: files are replaced in one step. One that cannot be
    read, was kept under another name, or does not hold what its reader needs, counts as
    absent and is made again; the log tells of the first.

    Attributes
    ----------
    seen
        Whether all processes that a build has calls carried out by see the folder.
    """

    def __init__(self, folder: Path, *, seen: bool = True) -> None:
        self.folder = folder
        self.seen = seen
        self._told = False

    def load(self, name: str) -> Entry | None:
        """Return what was stored under `name`, None if nothing usable."""
        return self.recall(name, lambda meta, arrays: (meta, arrays))

    def recall(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Return what `read` makes of what was stored, None if nothing usable.

        Parameters
        ----------
        read
            Takes plain data and arrays, and raises a `PolydomError` or one of Python's
            own errors where these are not what it needs.
        """
        path = self._path(name)
        try:
            meta, arrays, _ = read_file(path)
            if meta.get("name") != name:
                raise BadIndexFile(f"it was kept as {meta.get('name')!r}")
            return read(meta["kept"], arrays)
        except _MISFITS as error:
            if path.exists() and not self._told:
                self._told = True
                log.warning(
                    "%s holds entries that are not what they should be, and are made "
                    "again; the first is %s: %s",
                    self.folder,
                    name,
                    repr(error) if isinstance(error, LookupError) else error,
                )
            return None

    def store(
        self, name: str, meta: dict[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        """Keep `meta` and `arrays` under `name`, replacing what was there."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, {"name": name, "kept": meta}, arrays)

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

    def recall(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Return what was stored, as `Cache.recall`; raise `lacks` if nothing was."""
        found = super().recall(name, read)
        if found is None:
            raise self.lacks
        return found
