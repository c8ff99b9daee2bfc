"""An index file that many processes use. Each process opens the file only once."""

import os
import socket
from collections.abc import Sequence
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Self

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..batch.batch_plan import Assigner
from ..engine.loading import load_index
from ..runtime.warm_up import open_translator

_opening = Lock()  # held while opening, because threads of one worker share the index


class WorkerIndex:
    """An index that is ready to answer in this process.

    `index` has the costs of the machine that measured it, `translator` the costs of
    this machine. `is_fresh` is True until the process scores its first part. The first
    part also spends time on imports and compilation, so estimates ignore it.
    """

    def __init__(self, index: Index, features: Sequence[Path]) -> None:
        self.index = index
        self.translator = open_translator(index, features)
        self.is_fresh = True
        self.assigner = lru_cache(maxsize=2)(partial(Assigner, index))


class IndexFile(NamedTuple):
    """The path and checksum of an index file; small enough to send to every worker."""

    path: str  # Absolute path, the same on all machines
    version: str  # Checksum of the file
    features: tuple[Path, ...]  # Python files with the user's own features

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], features: Sequence[Path] = ()
    ) -> tuple[Self, Package]:
        """Return the `IndexFile` of the file at a path, and the index's package."""
        index, package = load_index(path)
        own = tuple(Path(file).absolute() for file in features)
        return cls(os.path.abspath(path), index.version, own), package

    def open(self) -> WorkerIndex:
        """Return the index, ready to answer in this process.

        A process opens an unchanged file only once. Raises BadIndexFile if this machine
        has a different file at the path.
        """
        try:
            found = os.stat(self.path)
        except OSError as error:
            raise BadIndexFile(
                f"{self.path}: {error.strerror} on {socket.gethostname()}"
            ) from error
        with _opening:
            return _open(self, (found.st_ino, found.st_size, found.st_mtime_ns))


@lru_cache(maxsize=4)
def _open(file: IndexFile, _stamp: tuple[int, ...]) -> WorkerIndex:
    index, _ = load_index(file.path)
    if index.version != file.version:
        raise BadIndexFile(
            f"{file.path} on {socket.gethostname()} is index {index.version[:12]}, and "
            f"{file.version[:12]} is to answer: put that there, or begin anew with this"
        )
    return WorkerIndex(index, file.features)
