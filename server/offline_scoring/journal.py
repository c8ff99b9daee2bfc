"""What a folder of parts belongs to, and by which price each of them began."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from polydom.features.errors import BadInput
from polydom.indexer.index.safe_write import naming

from ..batch.batch_plan import BatchPlan
from .part_scoring import UNFINISHED, PartScored
from .sole_writer import SoleWriter

# Readers of folders leave out names that begin like these.
NAME, LOCK = "_batch.jsonl", "_lock"


class _Line(msgspec.Struct, omit_defaults=True):
    """A line: a part, and what it is scored by, or what became of it."""

    part: int
    plan: BatchPlan | None = None
    scored: PartScored | None = None


class Journal:
    """The journal of a folder; for one process at a time.

    The first line says what the parts belong to. Each other says by which plan one of
    them is scored, before it is: so that whoever tries it again gives the same answers;
    or what became of it. A line that was cut off by whatever ended the process is none.

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
    plans, scored
        By part: what it was begun with, and what became of it.

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
        self.scored: dict[int, PartScored] = {}
        self._path = folder / NAME
        if folder.exists() and not folder.is_dir():
            raise BadInput(
                f"{folder}: this is a file; name a folder, or a .parquet, .jsonl or "
                ".csv file"
            )
        with naming(folder):
            folder.mkdir(exist_ok=True)
        self._writer = SoleWriter(folder / LOCK, folder)
        try:
            self._begin(folder, facts, resume)
        except BaseException:
            self._writer.end()
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
        try:
            for line in lines[1:]:
                self._note(msgspec.json.decode(line, type=_Line))
        except msgspec.DecodeError as error:
            raise BadInput(f"{self._path} is damaged: {error}") from error
        with naming(self._path):
            self._file = self._path.open("ab")
            self._file.truncate(sum(map(len, lines)))
            if not lines:
                self._write(head)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._writer.end()

    def begin(self, part: int, plan: BatchPlan) -> None:
        """Write down, for good, by what a part is scored.

        Raises
        ------
        CannotWrite
            If the disk is full, or for another such reason.
        """
        self._add(_Line(part, plan))

    def end(self, scored: PartScored) -> None:
        """Write down, for good, what became of a part; errors as `begin`."""
        self._add(_Line(scored.number, scored=scored))

    def sweep(self) -> None:
        """Remove what processes left that were killed amid a part."""
        for left in self._path.parent.glob(f"{UNFINISHED}*"):
            left.unlink(missing_ok=True)

    def _note(self, line: _Line) -> None:
        if line.plan is not None:
            self.plans[line.part] = line.plan
        if line.scored is not None:
            self.scored[line.part] = line.scored

    def _add(self, line: _Line) -> None:
        self._note(line)
        with naming(self._path):
            self._write(msgspec.json.encode(line) + b"\n")

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
