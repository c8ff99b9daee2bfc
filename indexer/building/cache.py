"""The folder of finished work: an interrupted build continues from its files."""

import hashlib
import logging
import shutil
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import (
    BadIndexFile,
    BadProject,
    PolydomError,
    Unfinished,
)

from ..index.pdx_file import read_file, write_file
from ..index.safe_write import replace_when_done

Array = NDArray[Any]
Entry = tuple[dict[str, Any], dict[str, Array]]
Read = TypeVar("Read")

log = logging.getLogger("polydom")

# Errors of a reader whose entry has another form than the reader expects.
_MISFITS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    PolydomError,
    TypeError,
    ValueError,
)
# The default folder is beside the project file, so that every command finds the same
# folder, wherever the command is called from.
FOLDER = ".polydom-cache"
MOST_CARRIED = 16 << 20  # bytes that may be sent along with each call
MAPPED = 64  # most files that a process maps at a time


def digest(*parts: Any) -> str:
    """Return a short name for plain data: equal parts give equal names everywhere."""
    content = msgspec.msgpack.encode(parts, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:24]


class Cache:
    """A folder of small `.pdx` files; safe to share between processes.

    An entry is whole or absent. It counts as absent, and is made again, if it cannot be
    read, has another name inside, or does not hold what its reader needs. `seen` says
    whether all processes that carry out calls of a build see the folder.
    """

    def __init__(self, folder: Path, *, seen: bool = True) -> None:
        self.folder = folder
        self.seen = seen
        self._told = False

    def load(self, name: str) -> Entry | None:
        """Return the entry `name`; None if there is no usable one."""
        return self.recall(name, lambda meta, arrays: (meta, arrays))

    def recall(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Read the entry `name` by `read`; None if there is no usable one.

        `read` raises an error of `_MISFITS` if the entry has another form than it
        needs.
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
        """Write the entry `name`, replacing an older one."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, {"name": name, "kept": meta}, arrays)

    def share(self, name: str, arrays: Mapping[str, Array]) -> "SharedArrays":
        """Make arrays readable for calls in other processes."""
        return SharedArrays.place(self.folder / name if self.seen else None, arrays)

    def names(self, group: str) -> list[str]:
        """List the entries of a group, `GROUP/...`, in order."""
        found = (self.folder / group).glob("*.pdx")
        return sorted(f"{group}/{path.stem}" for path in found)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.pdx"


class ReadOnlyCache(Cache):
    """A cache of another machine's process; writing an entry raises `lacks`."""

    def __init__(self, folder: Path, lacks: Unfinished) -> None:
        super().__init__(folder)
        self.lacks = lacks

    def store(
        self, name: str, meta: dict[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        """Refuse to write an entry."""
        raise self.lacks

    def share(self, name: str, arrays: Mapping[str, Array]) -> "SharedArrays":
        """Keep the arrays in this process: it calls no other process."""
        return SharedArrays(None, arrays)


class AwaitedCache(ReadOnlyCache):
    """A read-only cache that raises an error at once if an entry is missing."""

    def recall(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Read an entry as `Cache.recall` does; raise `lacks` if there is none."""
        found = super().recall(name, read)
        if found is None:
            raise self.lacks
        return found


class SharedArrays(Mapping[str, Array]):
    """Named arrays; sent to another process they are as small as a path.

    `folder` has a file `NAME.npy` for each array. Where the processes see no common
    folder it is None, and the arrays themselves are sent.
    """

    def __init__(self, folder: Path | None, arrays: Mapping[str, Array]) -> None:
        self.folder = folder
        self._names = tuple(arrays)
        self._carried = None if folder is not None else dict(arrays)

    @classmethod
    def place(cls, folder: Path | None, arrays: Mapping[str, Array]) -> Self:
        """Write arrays to a folder; if there is no folder, each call carries them.

        Raises BadProject if arrays to be carried have more than 16 MB.
        """
        count = sum(array.nbytes for array in arrays.values())
        if folder is None and count > MOST_CARRIED:
            raise BadProject(
                f"{count / 1e6:,.0f} MB would go with every call to a worker, of at "
                f"most {MOST_CARRIED / 1e6:.0f}: name a folder that all workers see, "
                "with --shared or [cluster] shared"
            )
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            for name, array in arrays.items():
                with replace_when_done(folder / f"{name}.npy") as file:
                    np.save(file, array, allow_pickle=False)
            _map.cache_clear()  # this process may have mapped files of these names
        return cls(folder, arrays)

    def remove(self) -> None:
        """Delete the files, if any; processes that have mapped them can still read."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __getitem__(self, name: str) -> Array:
        """Return an array; it must not be written to."""
        if name not in self._names:
            raise KeyError(name)
        if self._carried is not None:
            return self._carried[name]
        assert self.folder is not None
        return _map(self.folder / f"{name}.npy")

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


@lru_cache(maxsize=MAPPED)
def _map(path: Path) -> Array:
    mapped: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    return mapped
