"""Arrays that calls in other processes read: mapped from files, or carried along."""

import shutil
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadProject

from ..index.safe_write import replace_when_done

Array = NDArray[Any]

MOST_CARRIED = 16 << 20  # bytes that go along with each call
MAPPED = 64  # files that a process has mapped at a time


class SharedArrays(Mapping[str, Array]):
    """Named arrays; sent to another process it is as small as a path.

    Where processes see no folder together, it is sent with all that it holds.

    Attributes
    ----------
    folder
        Where each array is a file `NAME.npy`; None where they are carried along.
    """

    def __init__(self, folder: Path | None, arrays: Mapping[str, Array]) -> None:
        self.folder = folder
        self._names = tuple(arrays)
        self._carried = None if folder is not None else dict(arrays)

    @classmethod
    def place(cls, folder: Path | None, arrays: Mapping[str, Array]) -> Self:
        """Put arrays where calls find them; what was there stays for who mapped it.

        Raises
        ------
        BadProject
            If they are to be carried along and are more than 16 MB.
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
            _map.cache_clear()  # in this process, what was mapped under these names
        return cls(folder, arrays)

    def remove(self) -> None:
        """Delete the files, where there are any; who has mapped one keeps it."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __getitem__(self, name: str) -> Array:
        """Give an array, which must not be written to."""
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
