"""What a folder of parts belongs to, and by which price each of them began."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec
from filelock import FileLock, Timeout

from polydom.features.errors import BadInput
from polydom.indexer.index.pdx_file import naming

from ..batch.batch_plan import BatchPlan
from .part_scoring import UNFINISHED

# Readers of folders leave out names that begin like these.
NAME, LOCK = "_batch.jsonl", "_lock"


class _Begun(msgspec.Struct):
    """A line: a part, and what it is scored by."""

    part: int
    plan: BatchPlan


class Journal:
    """The journal of a folder; for one process at a time.

    The first line says what the parts belong to, each other by which plan one of them
    was begun, before it was: so that whoever tries it again gives the same answers. A
    line that was cut off by whatever ended the process is none.

    Parameters
    ----------
    folder
        Made if it is not there.
    facts
        What parts of another run must have in common with those of this one.
    resume
        Go on after the parts that are there.

    Attributes
    ----------
    plans
        By part.

    Raises
    ------
    BadInput
        If there are parts and they are not to be gone on with, or they belong to
        something else, or another process writes there now.
    CannotWrite
        If the folder cannot be made or written to.
    """

    def __init__(self, folder: Path, facts: Mapping[str, Any], *, resume: bool) -> None:
        self.plans: dict[int, BatchPlan] = {}
        self._path = folder / NAME
        with naming(folder):
            folder.mkdir(exist_ok=True)
            self._lock = FileLock(folder / LOCK)
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise BadInput(f"{folder}: another run is writing there") from error
        try:
            self._begin(folder, facts, resume)
        except BaseException:
            self._lock.release()
            raise

    def _begin(self, folder: Path, facts: Mapping[str, Any], resume: bool) -> None:
        head = json.dumps(dict(facts), sort_keys=True).encode() + b"\n"
        lines = self._lines()
        if lines and not resume:
            raise BadInput(
                f"{folder} holds parts of an interrupted run: go on with --resume, or "
                "remove it"
            )
        if lines and lines[0] != head:
            raise BadInput(
                f"{folder} holds parts of another index, of other items or of other "
                "options; remove it to begin anew"
            )
        if not lines and any(folder.glob("part-*")):
            raise BadInput(f"{folder} holds parts of something else; name a new folder")
        for line in lines[1:]:
            begun = msgspec.json.decode(line, type=_Begun)
            self.plans[begun.part] = begun.plan
        with naming(self._path):
            self._file = self._path.open("ab")
            self._file.truncate(sum(map(len, lines)))
            if not lines:
                self._write(head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._lock.release()

    def begin(self, part: int, plan: BatchPlan) -> None:
        """Write down, for good, by what a part is scored.

        Raises
        ------
        CannotWrite
            If the disk is full, or for another such reason.
        """
        self.plans[part] = plan
        with naming(self._path):
            self._write(msgspec.json.encode(_Begun(part, plan)) + b"\n")

    def sweep(self) -> None:
        """Remove what processes left that were killed amid a part."""
        for left in self._path.parent.glob(f"{UNFINISHED}*"):
            left.unlink(missing_ok=True)

    def _lines(self) -> list[bytes]:
        """Read the lines that are whole."""
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().splitlines(keepends=True)
        return [line for line in lines if line.endswith(b"\n")]

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
