"""Rows of answers into a file that appears whole or not at all."""

import csv
import itertools
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from polydom.features.errors import BadInput
from polydom.features.readers.tables import import_parquet
from polydom.indexer.index.pdx_file import cannot_write, naming

from .arrow_rows import arrow_batch, arrow_schema
from .scored import Scored, columns_of

OUTPUTS = (".parquet", ".jsonl", ".csv")
ROWS = 1024  # of a Parquet file that are in memory at a time

Cells = dict[str, Any]
Columns = tuple[str, ...]


class PartialOutput:
    """Rows that are finished, beside an output that is not there yet.

    The first line says what they belong to; each other holds one row. A line that was
    cut off by whatever ended the process is no row.

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
        If the output has another ending, there are rows and they are not to be gone
        on with, or they belong to something else.
    """

    def __init__(
        self,
        output: Path,
        facts: Mapping[str, Any],
        *,
        resume: bool,
        numeric: bool = False,
    ) -> None:
        if output.suffix.lower() not in OUTPUTS:
            raise BadInput(f"{output}: one of {', '.join(OUTPUTS)} is needed")
        if not output.parent.is_dir():
            raise BadInput(f"{output}: there is no folder {output.parent}")
        if output.suffix.lower() == ".parquet":
            import_parquet(output)
        self.path = output.with_name(output.name + ".partial")
        self.done = 0
        self._output = output
        self._columns = columns_of(numeric)
        head = json.dumps(dict(facts), sort_keys=True).encode() + b"\n"
        if not self.path.exists():
            self.path.touch()
        self._file = self.path.open("r+b")
        try:
            self._go_on(head, resume)
        except BadInput:
            self._file.close()
            raise
        self._rows = self.done

    def _go_on(self, head: bytes, resume: bool) -> None:
        """Find the end of the rows that are there, and begin where there are none."""
        found = self._file.readline()
        end = len(found)
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            self.done += 1
            end += len(line)
        if not self.done:
            end = 0
        elif not resume:
            raise BadInput(
                f"{self.path} holds the rows of an interrupted run: go on with "
                "--resume, or remove it"
            )
        elif found != head:
            raise BadInput(
                f"{self.path} holds the rows of another index, of other items or of "
                "other options; remove it to begin anew"
            )
        self._file.seek(end)
        self._file.truncate()
        if not self.done:
            self._file.write(head)

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

    def add(self, row: Scored) -> None:
        """Keep a row.

        Raises
        ------
        CannotWrite
            If the disk is full, or for another such reason.
        """
        try:
            self._file.write(_encode(self._cells(row)) + b"\n")
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
                file.writelines(lines)
            return
        rows = map(_decode, lines)
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
