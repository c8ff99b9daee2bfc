"""An output file that appears only when complete; an interrupted run can be resumed."""

import csv
import itertools
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec
from filelock import FileLock, Timeout

from polydom.features.errors import BadInput
from polydom.features.outputs import head_of, refuse_output
from polydom.features.readers.table_file import PARQUET, import_parquet
from polydom.indexer.index.file.safe_write import cannot_write, naming

from .item_rows import is_folder
from .output_row import Scored, arrow_batch, arrow_schema, columns_of

log = logging.getLogger("polydom")

OUTPUTS = (PARQUET, ".jsonl", ".csv")
# Beginning of a CSV or JSON Lines file of answers.
_BEGINNING = re.compile(
    rb'item,(?:label|value),|\{"item":"(?:[^"\\]|\\.)*","(?:label|value)":'
)
ROWS = 1024  # number of Parquet rows held in memory at a time

Cells = dict[str, Any]
Columns = tuple[str, ...]


class WriteLock:
    """A lock that lets one process at a time write the file or folder `output`.

    The lock file at `path` is removed when the lock is released. If the process ends,
    the operating system releases the lock. Raises BadInput if another process has the
    lock.
    """

    def __init__(self, path: Path, output: Path) -> None:
        self._path = path
        self._lock = FileLock(path)
        with naming(output):
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise BadInput(f"{output}: another run is writing there") from error

    def release(self) -> None:
        """Remove the lock file, then unlock it.

        Another process may have opened the file before the removal. It then locks the
        removed file, notices that, and opens a new file. Windows cannot remove an open
        file; there, `FileLock` removes it.
        """
        with suppress(OSError):
            self._path.unlink()
        self._lock.release()


def refuse_answers(output: Path, read: Iterable[Path]) -> None:
    """Raise BadInput if answers must not be written to the file `output`.

    `output` must end in `.parquet`, `.jsonl` or `.csv`. It must not be a path in
    `read`. If a path in `read` is a folder that is one table, `output` must not be
    inside it. An existing file may be replaced only if it is empty or has earlier
    answers.
    """
    if output.suffix.lower() not in OUTPUTS:
        raise BadInput(f"{output}: one of {', '.join(OUTPUTS)} is needed")
    files = list(read)
    refuse_output(output, "answers", _are_answers, read=files, example="answers.csv")
    for one in files:
        refuse_among(output, one)


def refuse_among(output: Path, items: Path) -> None:
    """Raise BadInput if `output` is `items`, or is inside the table folder `items`."""
    place, own = output.resolve(), items.resolve()
    is_table = items.is_dir() and not is_folder(items)
    if place == own or (is_table and place.is_relative_to(own)):
        raise BadInput(f"{output}: the items are read from {items}; name another place")


def refuse_rest(place: Path, what: str, *, same: bool, resume: bool) -> None:
    """Raise BadInput unless `resume`, and the rest of a run is of the `same` run.

    `what` names this rest, which is at `place`.
    """
    if not resume:
        raise BadInput(
            f"{place} holds {what} of an interrupted run: go on with --resume, or "
            "remove it"
        )
    if not same:
        raise BadInput(
            f"{place} holds {what} of another index, of other items, of other options "
            "or of another polydom; remove it to begin anew"
        )


def _are_answers(path: Path) -> bool:
    if path.suffix.lower() != PARQUET:
        return _BEGINNING.match(head_of(path)) is not None
    try:
        names = import_parquet(path).read_schema(path).names
    except (OSError, ValueError):  # errors of Arrow are ValueErrors
        return False
    return names[:1] == ["item"] and {"cost", "error"} <= {*names}


class PartialOutput:
    """The `.partial` file, which has the finished rows until an output is complete.

    The first line describes the run by `facts`, and has the names of the columns. Every
    other line has one row and its checksum. A last line that was cut off is ignored.
    From the first damaged line on, all rows are scored again. `done` is the number of
    intact rows that an earlier run left.

    Raises BadInput if the file has rows and `resume` is False, if the rows belong to a
    run with other facts or columns, or if another process writes the file.
    """

    def __init__(
        self,
        output: Path,
        facts: Mapping[str, Any],
        *,
        resume: bool,
        numeric: bool = False,
    ) -> None:
        if output.suffix.lower() == PARQUET:
            import_parquet(output)
        self.path = output.with_name(output.name + ".partial")
        self.done = 0
        self._output = output
        self._columns = columns_of(numeric)
        told = {**facts, "columns": self._columns}
        head = json.dumps(told, sort_keys=True).encode() + b"\n"
        self._lock = WriteLock(self.path.with_name(f"{self.path.name}.lock"), output)
        try:
            with naming(self.path):
                self.path.touch()
                self._file = self.path.open("r+b")
            self._seek_end(head, resume)
        except BaseException:
            if hasattr(self, "_file"):
                self._file.close()
            self._lock.release()
            raise
        self._rows = self.done

    def _seek_end(self, head: bytes, resume: bool) -> None:
        """Count the intact rows and seek to their end, or write `head` if none."""
        found = self._file.readline()
        if found and not _is_head(found, head):
            raise BadInput(
                f"{self.path} holds something else than the rows of an interrupted "
                "run; remove it, or name another output"
            )
        end, lines = len(found), 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            if lines == self.done and _is_row(line):
                self.done += 1
                end += len(line)
            lines += 1
        if lines:
            refuse_rest(self.path, "the rows", same=found == head, resume=resume)
        if lines > self.done:
            log.warning(
                "%s is damaged from row %d on: %d rows are scored again",
                self.path,
                self.done,
                lines - self.done,
            )
        self._file.seek(end if self.done else 0)
        self._file.truncate()
        if not self.done:
            self._file.write(head)

    def __enter__(self) -> "PartialOutput":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            # otherwise the exception that is already raised matters more
            if kind is None:
                raise cannot_write(self.path, error) from error
        finally:
            if not self._rows:  # no row, so there is nothing to resume
                self.path.unlink(missing_ok=True)
            self._lock.release()

    def add(self, row: Scored) -> None:
        """Write a row; BadInput if the file cannot be written."""
        try:
            self._file.write(_with_checksum(_encode(self._cells(row))))
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._rows += 1

    def flush(self) -> None:
        """Hand all rows to the operating system, so that they survive this process.

        Raises the errors of `add`.
        """
        with naming(self.path):
            self._file.flush()

    def _cells(self, row: Scored) -> Cells:
        return {column: getattr(row, column) for column in self._columns}

    def _write(self, lines: Iterable[bytes], path: Path) -> None:
        ending = self._output.suffix.lower()
        if ending == ".jsonl":
            with path.open("wb") as file:
                file.writelines(_row_of(line) + b"\n" for line in lines)
            return
        rows = (_decode(_row_of(line)) for line in lines)
        if ending == ".csv":
            _write_csv(map(self._cells, rows), path, self._columns)
        else:
            _write_parquet(rows, path, self._columns)

    def finish(self) -> None:
        """Write the complete output under its name; remove the `.partial` file.

        Raises the errors of `add`.
        """
        with naming(self.path):
            self._file.close()
        whole = self._output.with_name(self._output.name + ".whole")
        with naming(self._output):
            try:
                with self.path.open("rb") as file:
                    next(file)
                    self._write(file, whole)
                # Windows cannot sync a file that is opened for reading
                with whole.open("r+b") as file:
                    os.fsync(file.fileno())
                whole.replace(self._output)
            finally:
                whole.unlink(missing_ok=True)
        self.path.unlink()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Scored).decode


def _is_head(line: bytes, head: bytes) -> bool:
    """Return True if a line is the first line of a run, complete or cut off.

    A line that was cut off is recognised only if `head` begins with it.
    """
    if head.startswith(line):
        return True
    try:
        facts = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return isinstance(facts, dict) and facts.keys() >= {"index", "items"}


def _with_checksum(row: bytes) -> bytes:
    """Return a line with the row's JSON, a tab, and the row's checksum."""
    return b"%b\t%08x\n" % (row, crc32(row))


def _row_of(line: bytes) -> bytes:
    return line.rstrip(b"\n").partition(b"\t")[0]


def _is_row(line: bytes) -> bool:
    return line == _with_checksum(_row_of(line))


def _write_csv(rows: Iterable[Cells], path: Path, columns: Columns) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in rows:
            for name, value in row.items():
                if isinstance(value, dict | tuple):
                    row[name] = json.dumps(value)
            writer.writerow(row.values())


def _write_parquet(rows: Iterable[Scored], path: Path, columns: Columns) -> None:
    left = iter(rows)
    schema = arrow_schema(columns)
    with import_parquet(path).ParquetWriter(path, schema) as writer:
        while batch := list(itertools.islice(left, ROWS)):
            writer.write_batch(arrow_batch(batch, columns))
