"""Rows of answers into a file that appears whole or not at all."""

import csv
import itertools
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from zlib import crc32

import msgspec

from polydom.features.errors import BadInput
from polydom.features.outputs import head_of, refuse_output
from polydom.features.readers.table_file import PARQUET, import_parquet
from polydom.indexer.index.safe_write import cannot_write, naming

from .scored import Scored, arrow_batch, arrow_schema, columns_of
from .sole_writer import SoleWriter
from .sources import is_folder

log = logging.getLogger("polydom")

OUTPUTS = (PARQUET, ".jsonl", ".csv")
# How a file of answers begins that is no table.
_BEGINNING = re.compile(
    rb'item,(?:label|value),|\{"item":"(?:[^"\\]|\\.)*","(?:label|value)":'
)
ROWS = 1024  # of a Parquet file that are in memory at a time

Cells = dict[str, Any]
Columns = tuple[str, ...]


def refuse_answers(output: Path, read: Iterable[Path]) -> None:
    """Refuse a file for answers to be, before anything is computed for it.

    Parameters
    ----------
    read
        What answers are made of.

    Raises
    ------
    BadInput
        If its ending is not `.parquet`, `.jsonl` or `.csv`, it is among the files of a
        table that is read, or errors as of `refuse_output`; other answers may be
        replaced.
    """
    if output.suffix.lower() not in OUTPUTS:
        raise BadInput(f"{output}: one of {', '.join(OUTPUTS)} is needed")
    files = list(read)
    refuse_output(output, "answers", _are_answers, read=files, example="answers.csv")
    for one in files:
        refuse_among(output, one)


def refuse_among(output: Path, items: Path) -> None:
    """Refuse what would be among the files of a table, or in their place: BadInput."""
    place, own = output.resolve(), items.resolve()
    is_table = items.is_dir() and not is_folder(items)
    if place == own or (is_table and place.is_relative_to(own)):
        raise BadInput(f"{output}: the items are read from {items}; name another place")


def _are_answers(path: Path) -> bool:
    if path.suffix.lower() != PARQUET:
        return _BEGINNING.match(head_of(path)) is not None
    try:
        names = import_parquet(path).read_schema(path).names
    except (OSError, ValueError):  # Arrow's are ValueErrors
        return False
    return names[:1] == ["item"] and {"cost", "error"} <= {*names}


class PartialOutput:
    """Rows that are finished, beside an output that is not there yet.

    The first line says what they belong to; each other holds one row, and a checksum of
    it. A line that was cut off by whatever ended the process is no row. From one that
    is damaged on none counts: they are scored again.

    Parameters
    ----------
    output
        The file to be: `.parquet`, `.jsonl` or `.csv`.
    facts
        What rows of another run must have in common with those of this one.
    resume
        Go on after the rows that are there.
    numeric
        Whether answers are numbers: then other columns are written.

    Attributes
    ----------
    done
        Rows that were there already.

    Raises
    ------
    BadInput
        If another process writes there now, there are rows and they are not to be gone
        on with, or they belong to something else.
    CannotWrite
        If nothing can be written there.
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
        head = json.dumps(dict(facts), sort_keys=True).encode() + b"\n"
        self._writer = SoleWriter(self.path.with_name(f"{self.path.name}.lock"), output)
        try:
            with naming(self.path):
                self.path.touch()
                self._file = self.path.open("r+b")
            self._go_on(head, resume)
        except BaseException:
            self._end()
            raise
        self._rows = self.done

    def _go_on(self, head: bytes, resume: bool) -> None:
        """Find the end of the rows that are there, and begin where there are none."""
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
        if lines and not resume:
            raise BadInput(
                f"{self.path} holds the rows of an interrupted run: go on with "
                "--resume, or remove it"
            )
        if lines and found != head:
            raise BadInput(
                f"{self.path} holds the rows of another index, of other items or of "
                "other options; remove it to begin anew"
            )
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

    def _end(self) -> None:
        """Let others write, where this does not any more."""
        if hasattr(self, "_file"):
            self._file.close()
        self._writer.end()

    def __enter__(self) -> "PartialOutput":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            self._file.close()
        except OSError as error:
            if kind is None:  # else it is what is under way that matters
                raise cannot_write(self.path, error) from error
        finally:
            if not self._rows:  # there is nothing to go on with
                self.path.unlink(missing_ok=True)
            self._writer.end()

    def add(self, row: Scored) -> None:
        """Keep a row.

        Raises
        ------
        CannotWrite
            If the disk is full, or for another such reason.
        """
        try:
            self._file.write(_sealed(_encode(self._cells(row))))
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._rows += 1

    def flush(self) -> None:
        """Let rows outlive the process; errors as `add`."""
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
        """Make the output of the rows, all at once, and drop them; errors as `add`."""
        with naming(self.path):
            self._file.close()
        whole = self._output.with_name(self._output.name + ".whole")
        with naming(self._output):
            try:
                with self.path.open("rb") as file:
                    next(file)
                    self._write(file, whole)
                with whole.open("r+b") as file:  # Windows syncs no file opened to read
                    os.fsync(file.fileno())
                whole.replace(self._output)
            finally:
                whole.unlink(missing_ok=True)
        self.path.unlink()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Scored).decode


def _is_head(line: bytes, head: bytes) -> bool:
    """Whether a file's first line is that of a run, or of this one the beginning."""
    if head.startswith(line):
        return True
    try:
        facts = msgspec.json.decode(line)
    except msgspec.DecodeError:
        return False
    return isinstance(facts, dict) and facts.keys() >= {"index", "items"}


def _sealed(row: bytes) -> bytes:
    """Make a line of a row: no tab is in JSON as it is written here."""
    return b"%b\t%08x\n" % (row, crc32(row))


def _row_of(line: bytes) -> bytes:
    """Take the row out of a line; those of an earlier version have no checksum."""
    return line.rstrip(b"\n").partition(b"\t")[0]


def _is_row(line: bytes) -> bool:
    """Whether a line is as it was written."""
    row = _row_of(line)
    if len(row) + 1 < len(line):
        return line == _sealed(row)
    try:
        _decode(row)
    except msgspec.DecodeError:
        return False
    return True


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
