"""The folder of finished work, from which an interrupted build continues."""

import hashlib
import logging
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
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

from ..index.file.pdx_file import read_file, write_file
from ..index.file.safe_write import replace_when_done

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
# A cache that is larger than MOST_BYTES loses what no build has used for the longest
# time. What was used in the last DAYS_IN_USE days stays: a build may be using it now.
MOST_BYTES = 10 * 10**9
DAYS_IN_USE = 2
DAY_S = 24 * 3600.0
# Groups whose entries may be removed. Vectors of fetches are none, since they may have
# cost money, nor are files and times that come from elsewhere.
REMOVABLE = (
    *("arrivals", "features", "items", "learned", "machine_times", "margins"),
    *("races", "reduced", "schedules", "sets", "times", "tunings", "values"),
)
ENTRY = re.compile(r"[0-9a-f]{24,}(\.pdx|\.msgpack)?")  # names in such a group
FILES = (".pdx", ".msgpack", ".npy")


def digest(*parts: Any) -> str:
    """Return a short hash of plain data, the same on all machines."""
    content = msgspec.msgpack.encode(parts, order="deterministic")
    return hashlib.sha256(content).hexdigest()[:24]


def sweep_unused(folder: Path) -> None:
    """Remove the files of a cache that were unused for longest, down to `MOST_BYTES`.

    Files that were used in the last `DAYS_IN_USE` days remain, and so does whatever
    else is in `folder`; empty folders also do, since a build may be about to write
    there.
    """
    found = []
    for group in REMOVABLE:
        for path in (folder / group).rglob("*"):
            own = path.relative_to(folder).parts[1]
            if path.suffix in FILES and ENTRY.fullmatch(own):
                with suppress(OSError):  # another build has removed it
                    facts = path.lstat()
                    found.append((facts.st_mtime, facts.st_size, path))
    left = sum(size for _, size, _ in found)
    oldest = time.time() - DAYS_IN_USE * DAY_S
    for used, size, path in sorted(found):
        if left <= MOST_BYTES or used >= oldest:
            return
        left -= size
        with suppress(OSError):  # it is gone, or not ours
            path.unlink()


class Cache:
    """A folder with one small `.pdx` file per entry; safe to share between processes.

    An entry counts as absent if its file cannot be read, contains another name, or
    lacks data that the build needs. The build then makes the entry again. `seen` is
    True if all worker processes can see the folder.
    """

    def __init__(self, folder: Path, *, seen: bool = True) -> None:
        self.folder = folder
        self.seen = seen
        self._told = False

    def load(self, name: str) -> Entry | None:
        """Return the entry `name`, or None if it is absent."""
        return self.recall(name, lambda meta, arrays: (meta, arrays))

    def recall(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Return `read(meta, arrays)` for the entry `name`, or None if it is absent.

        An entry also counts as absent if `read` raises one of the errors in `_MISFITS`.
        If it is there, it counts as used.
        """
        found = self.peek(name, read)
        if found is not None:
            self.touch(name)
        return found

    def peek(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Return what `recall` does; the entry does not count as used."""
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
        """Write the entry `name`; an older entry of this name is replaced.

        The entry may be absent after a power failure, since this method does not wait
        for the disk.
        """
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, {"name": name, "kept": meta}, arrays, durable=False)

    def touch(self, name: str) -> None:
        """Note that the entry `name` is used now, if that was not noted today."""
        path = self._path(name)
        with suppress(OSError):  # it is gone, or the folder may not be written to
            if time.time() - path.stat().st_mtime > DAY_S:
                os.utime(path)

    def remove(self, name: str) -> None:
        """Remove the entry `name`, if it is there."""
        with suppress(OSError):
            self._path(name).unlink(missing_ok=True)

    def share(self, name: str, arrays: Mapping[str, Array]) -> "SharedArrays":
        """Write arrays to files of the cache, so that worker processes can read them.

        If workers do not see the cache, no file is written: each call to a worker then
        carries the arrays.
        """
        return SharedArrays.place(self.folder / name if self.seen else None, arrays)

    def names(self, group: str) -> list[str]:
        """Return the sorted names of all entries in `group`, each as `GROUP/...`."""
        found = (self.folder / group).glob("*.pdx")
        return sorted(f"{group}/{path.stem}" for path in found)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.pdx"


class ReadOnlyCache(Cache):
    """A cache that another process fills, and that this process only reads.

    `lacks` is the error that tells the user to run the other process first; writing an
    entry raises it.
    """

    def __init__(self, folder: Path, lacks: Unfinished) -> None:
        super().__init__(folder)
        self.lacks = lacks

    def store(
        self, name: str, meta: dict[str, Any], arrays: Mapping[str, Array]
    ) -> None:
        """Raise the error `lacks`: only the other process writes entries."""
        raise self.lacks

    def remove(self, name: str) -> None:
        """Do nothing: only the other process removes entries."""

    def share(self, name: str, arrays: Mapping[str, Array]) -> "SharedArrays":
        """Keep the arrays in memory, since this process has no workers."""
        return SharedArrays(None, arrays)


class AwaitedCache(ReadOnlyCache):
    """A read-only cache in which reading an absent entry raises the error `lacks`."""

    def recall(
        self, name: str, read: Callable[[dict[str, Any], dict[str, Array]], Read]
    ) -> Read | None:
        """Return the entry as `Cache.recall` does; raise `lacks` if it is absent."""
        found = super().recall(name, read)
        if found is None:
            raise self.lacks
        return found


class SharedArrays(Mapping[str, Array]):
    """Named arrays for worker processes, usually stored in files of a shared folder.

    `folder` has a file `NAME.npy` for each array, and a call to a worker carries only
    the folder's path. If workers see no common folder, `folder` is None, and each call
    carries the arrays.
    """

    def __init__(self, folder: Path | None, arrays: Mapping[str, Array]) -> None:
        self.folder = folder
        self._names = tuple(arrays)
        self._carried = None if folder is not None else dict(arrays)

    @classmethod
    def place(cls, folder: Path | None, arrays: Mapping[str, Array]) -> Self:
        """Write arrays to files in `folder`; if `folder` is None, keep them in memory.

        Arrays in memory are sent with each call to a worker. Raises BadProject if such
        arrays take more than 16 MB in total.
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
                path = folder / f"{name}.npy"
                with replace_when_done(path, durable=False) as file:
                    np.save(file, array, allow_pickle=False)
            _map.cache_clear()  # this process may have mapped files of these names
        return cls(folder, arrays)

    def remove(self) -> None:
        """Delete the files, if any; processes that have mapped them keep their data."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __getitem__(self, name: str) -> Array:
        """Return the array `name`, which must not be changed."""
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
