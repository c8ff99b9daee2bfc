"""The checkpoint file of a run in parts: the plan and the result of each part."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from polydom.features.errors import BadInput
from polydom.indexer.index.file.safe_write import naming

from ..batch.batch_plan import BatchPlan
from .output_file import WriteLock, refuse_rest
from .part_scoring import UNFINISHED, PartScored

# Most readers of folders ignore names that begin with an underscore.
NAME, LOCK = "_batch.jsonl", "_lock"


class _Line(msgspec.Struct, omit_defaults=True):
    """One line of the checkpoint file: a part with its plan, or with its result."""

    part: int
    plan: BatchPlan | None = None
    scored: PartScored | None = None


class Checkpoint:
    """The checkpoint file of a folder. One process at a time may have it open.

    The first line describes the run by `facts`. A part's plan is written before the
    part is scored, so that a second try gives the same answers. Its result is written
    afterwards. A last line that was cut off is ignored.

    The folder is created if missing. Raises BadInput if the folder has parts and
    `resume` is False, if the parts belong to a run with other facts, or if another
    process writes to the folder.
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
        self._lock = WriteLock(folder / LOCK, folder)
        try:
            self._open(folder, facts, resume)
        except BaseException:
            self._lock.release()
            raise

    def _open(self, folder: Path, facts: Mapping[str, Any], resume: bool) -> None:
        head = json.dumps(dict(facts), sort_keys=True).encode() + b"\n"
        lines = self._whole_lines()
        if lines:
            refuse_rest(folder, "parts", same=lines[0] == head, resume=resume)
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
        self._lock.release()

    def begin(self, part: int, plan: BatchPlan) -> None:
        """Record on disk that a worker begins to score a part, and with which plan."""
        self._add(_Line(part, plan))

    def end(self, scored: PartScored) -> None:
        """Record on disk that a part is finished, with its result."""
        self._add(_Line(scored.number, scored=scored))

    def remove_unfinished(self) -> None:
        """Delete files that killed processes left behind while they scored a part."""
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

    def _whole_lines(self) -> list[bytes]:
        if not self._path.exists():
            return []
        lines = self._path.read_bytes().splitlines(keepends=True)
        return [line for line in lines if line.endswith(b"\n")]

    def _write(self, line: bytes) -> None:
        self._file.write(line)
        self._file.flush()
        os.fsync(self._file.fileno())
