"""An index that many processes answer with: each opens it once, and only that one."""

import os
import socket
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple, Self

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package

from ..batch.batch_plan import Assigner, BatchPlan
from ..engine.loading import load_index
from ..runtime.warm_up import open_translator

_opening = Lock()  # threads of one worker open an index together


class OpenedIndex:
    """An index, ready to answer in this process.

    Attributes
    ----------
    index
        As it was built: with costs of the machine that it was measured on.
    translator
        Answers with it, at what that costs here.
    is_fresh
        Whether it has scored no part yet; what is imported and compiled meanwhile makes
        the first one slow.
    """

    def __init__(self, index: Index, features: Sequence[Path]) -> None:
        self.index = index
        self.translator = open_translator(index, features)
        self.is_fresh = True
        self.assigner = lru_cache(maxsize=2)(self._make_assigner)

    def _make_assigner(self, plan: BatchPlan) -> Assigner:
        return Assigner(self.index, plan)


class IndexFile(NamedTuple):
    """Where an index is, and which: all that is sent to a process that is to open it.

    Attributes
    ----------
    path
        Absolute, the same everywhere.
    version
        Checksum of the file.
    features
        Python files with features of one's own.
    """

    path: str
    version: str
    features: tuple[Path, ...]

    @classmethod
    def of(
        cls, path: str | os.PathLike[str], features: Sequence[Path] = ()
    ) -> tuple[Self, Package]:
        """Name the index that is at a path now, and give what it needs to answer.

        Raises
        ------
        BadIndexFile
            If it cannot answer.
        """
        index, package = load_index(path)
        own = tuple(Path(file).absolute() for file in features)
        return cls(os.path.abspath(path), index.version, own), package

    def open(self) -> OpenedIndex:
        """Return the index, opened once in each process as long as it stays the same.

        Raises
        ------
        BadIndexFile, BadFeature
            If another file is at its path by now, or on this machine, or it cannot
            answer.
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
def _open(file: IndexFile, _stamp: tuple[int, ...]) -> OpenedIndex:
    index, _ = load_index(file.path)
    if index.version != file.version:
        raise BadIndexFile(
            f"{file.path} on {socket.gethostname()} is index {index.version[:12]}, and "
            f"{file.version[:12]} is to answer: put that there, or begin anew with this"
        )
    return OpenedIndex(index, file.features)
