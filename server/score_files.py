"""Items out of files, and rows into one that appears whole or not at all."""

import base64
import csv
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..features.errors import BadInput, BadItem
from ..features.items import Kind
from ..features.nearest import listed
from ..features.wording import in_words
from ..indexer.csv_file import CsvFile, open_csv
from ..indexer.file import cannot_write, naming
from ..indexer.package import Package
from .columns import KnownColumns
from .json_keys import twice_in_json, twice_in_record
from .record_reader import decode_record
from .score import AnyItem, Scored

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp")
ENDINGS: Mapping[Kind, Sequence[str]] = {
    "image": IMAGE_ENDINGS,
    "text": (".txt",),
    "record": (".json",),
}
JSON_LINES = (".jsonl", ".ndjson")
OUTPUTS = (".parquet", ".jsonl", ".csv")
IMAGE_COLUMNS = ("image", "image_base64")
ROWS = 1024  # of a table that are in memory at a time
SHOWN = 20

Named = tuple[str, AnyItem]


class Source(NamedTuple):
    """Items with their names, and how many there are where that is known.

    `remarks` says what of the rows was not read so far, and what they lack.
    """

    items: Iterator[Named]
    number: int | None
    remarks: Callable[[], list[str]] = list


def read_items(
    path: Path,
    package: Package,
    separator: str | None = None,
    encoding: str | None = None,
) -> Source:
    """Read a folder, a `.jsonl`, a `.csv` or a `.parquet` file, as it is needed.

    Rows are named by their number from 0, files by their path in the folder. Of tables
    only the columns that the index knows are read, and of rows that have none of them
    all, so that they are refused; `separator` and `encoding` are those of a CSV file,
    found where None.

    Raises
    ------
    BadInput
        If it is none of those, is not there, or holds nothing of the index's kind.
    """
    kind = package.kind
    if path.is_dir():
        files = sorted(
            file for file in path.rglob("*") if file.suffix.lower() in ENDINGS[kind]
        )
        if not files:
            endings = ", ".join(ENDINGS[kind])
            raise BadInput(f"{path} holds no {kind} ({endings})")
        return Source((_file(path, file, kind) for file in files), len(files))
    if not path.is_file():
        raise BadInput(f"{path}: there is no such file or folder")
    ending = path.suffix.lower()
    if ending in JSON_LINES:
        reader = _Reader(package)
        return Source(_lines(path, reader), _count_lines(path), reader.remarks)
    if ending in (".csv", ".tsv"):
        reader = _Reader(package)
        file = open_csv(path, separator, encoding, reader.wanted)
        wanted = reader.columns(path, file.names)
        return Source(_csv(file, reader, wanted), None, reader.remarks)
    if ending == ".parquet":
        return _parquet(path, _Reader(package))
    raise BadInput(f"{path}: a folder, .jsonl, .csv, .tsv or .parquet is needed")


def _file(folder: Path, path: Path, kind: Kind) -> Named:
    name = str(path.relative_to(folder))
    try:
        data = path.read_bytes()
        if kind == "image":
            return name, data
        return name, data.decode() if kind == "text" else decode_record(data)
    except OSError as error:
        return name, BadItem(error.strerror or str(error))
    except BadItem as error:
        return name, error
    except (ValueError, RecursionError) as error:  # msgspec's are ValueErrors
        return name, BadItem(f"this is no {kind}: {in_words(error)}")


class _Reader:
    """Makes items of rows that are mappings."""

    def __init__(self, package: Package) -> None:
        self.kind = package.kind
        columns = KnownColumns(package.features)
        self._known = dict.fromkeys(columns.names)
        self._words = columns.words
        self._lacking = dict(self._known)
        self._left_out: dict[str, None] = {}

    @property
    def wanted(self) -> frozenset[str]:
        """Names of the columns that can be used."""
        if self.kind == "record":
            return frozenset(self._known)
        return frozenset(["text"] if self.kind == "text" else IMAGE_COLUMNS)

    def columns(self, path: Path, names: Sequence[str]) -> list[str]:
        """Say which columns of a table to read.

        Raises
        ------
        BadInput
            If there is none.
        """
        if self.kind == "record":
            wanted = [n for n in names if not self._known or n in self._known]
        else:
            wanted = [name for name in names if name in self.wanted][:1]
        if not wanted:
            raise BadInput(
                f"{path}: the index reads none of its columns {listed(names)}"
                f"; it knows {listed(sorted(self.wanted))}"
            )
        self._note(names)
        return wanted

    def remarks(self) -> list[str]:
        """Say which columns were not read, and which there never were, if any."""
        remarks = []
        if self._left_out:
            shown = ", ".join(list(self._left_out)[:SHOWN])
            remarks.append(f"columns that the index does not know, not read: {shown}")
        if self._lacking:
            shown = ", ".join(list(self._lacking)[:SHOWN])
            remarks.append(f"columns that the index knows, in no row: {shown}")
        return remarks

    def _note(self, names: Iterable[str]) -> None:
        for name in names if self._known else ():
            self._lacking.pop(name, None)
            if name not in self._known and len(self._left_out) < SHOWN:
                self._left_out[name[:80]] = None

    def item(self, row: Mapping[str, Any]) -> AnyItem:
        """Make the item of a row."""
        if self.kind == "record":
            own = row.get("record")
            if isinstance(own, Mapping):
                self._note(name for name in own if name in self._known)
                return own
            self._note(row)
            known = {name: row[name] for name in row if name in self._known}
            return known or dict(row)
        if self.kind == "text":
            return _needed(row, "text")
        data = row.get("image") or row.get("image_base64")
        if isinstance(data, Mapping):  # as Hugging Face's data sets have them
            data = data.get("bytes")
        if isinstance(data, str):
            with suppress(ValueError):
                data = base64.b64decode(data, validate=True)
        return data if isinstance(data, bytes) else BadItem("the row holds no image")

    def cell(self, name: str, cell: str) -> str | float | None:
        """Read a cell of a CSV file: a number, but where words are known."""
        if name in self._words or self.kind != "record":
            return cell if self.kind != "record" else cell.strip() or None
        try:
            return float(cell) if cell.strip() else None
        except ValueError:
            return cell


def _needed(row: Mapping[str, Any], name: str) -> AnyItem:
    value = row.get(name)
    return value if isinstance(value, str) else BadItem(f"the row holds no {name!r}")


def _count_lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for line in file if line.strip())


def _lines(path: Path, reader: _Reader) -> Iterator[Named]:
    with path.open("rb") as file:
        for number, line in enumerate(line for line in file if line.strip()):
            try:
                row = msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
                yield (
                    str(number),
                    BadItem(f"{in_words(error)}; one JSON object is needed"),
                )
                continue
            many = line.count(b":") > len(row)
            name = twice_in_json(line).any if many else None
            twice = None if name is None else twice_in_record(name)
            yield str(number), reader.item(row) if twice is None else twice


def _csv(file: CsvFile, reader: _Reader, wanted: Sequence[str]) -> Iterator[Named]:
    for number, row in enumerate(file.rows()):
        if len(row) != len(file.names):
            why = f"{len(row)} cells under {len(file.names)} names"
            yield str(number), BadItem(why)
            continue
        cells = {
            name: reader.cell(name, cell)
            for name, cell in zip(file.names, row, strict=True)
            if name in wanted
        }
        yield str(number), reader.item(cells)


def _parquet(path: Path, reader: _Reader) -> Source:
    parquet = import_parquet(path)
    from pyarrow import ArrowException

    try:
        file = parquet.ParquetFile(path)
    except (OSError, ArrowException) as error:
        raise BadInput(f"{path}: {error}") from error
    columns = reader.columns(path, file.schema_arrow.names)

    def rows() -> Iterator[Named]:
        number = 0
        for batch in file.iter_batches(ROWS, columns=columns):
            for row in batch.to_pylist():
                yield str(number), reader.item(row)
                number += 1

    return Source(rows(), file.metadata.num_rows, reader.remarks)


def import_parquet(path: Path) -> Any:
    """Import pyarrow's part for Parquet.

    Raises
    ------
    BadInput
        If pyarrow is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise BadInput(
            f"{path.name}: Parquet needs pyarrow: pip install 'polydom[parquet]'"
        ) from error
    return parquet


class Partial:
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

    def __init__(self, output: Path, facts: Mapping[str, Any], *, resume: bool) -> None:
        if output.suffix.lower() not in OUTPUTS:
            raise BadInput(f"{output}: one of {', '.join(OUTPUTS)} is needed")
        if not output.parent.is_dir():
            raise BadInput(f"{output}: there is no folder {output.parent}")
        if output.suffix.lower() == ".parquet":
            import_parquet(output)
        self.path = output.with_name(output.name + ".partial")
        self.done = 0
        self._output = output
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

    def __enter__(self) -> "Partial":
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
            self._file.write(_encode(row) + b"\n")
        except OSError as error:
            raise cannot_write(self.path, error) from error
        self._rows += 1

    def flush(self) -> None:
        """Let rows outlive the process; errors as `add`."""
        with naming(self.path):
            self._file.flush()

    def finish(self) -> None:
        """Make the output of the rows, all at once, and drop them; errors as `add`."""
        with naming(self.path):
            self._file.close()
        whole = self._output.with_name(self._output.name + ".whole")
        writer = {
            ".parquet": _write_parquet,
            ".csv": _write_csv,
            ".jsonl": _write_lines,
        }
        with naming(self._output):
            try:
                with self.path.open("rb") as file:
                    next(file)
                    writer[self._output.suffix.lower()](file, whole)
                with whole.open("r+b") as file:  # Windows syncs no file opened to read
                    os.fsync(file.fileno())
                whole.replace(self._output)
            finally:
                whole.unlink(missing_ok=True)
        self.path.unlink()


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Scored).decode


def _write_lines(lines: Iterable[bytes], path: Path) -> None:
    with path.open("wb") as file:
        file.writelines(lines)


def _write_csv(lines: Iterable[bytes], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Scored.__struct_fields__)
        for line in lines:
            row = msgspec.structs.asdict(_decode(line))
            for name in ("scores", "features", "unknown"):
                row[name] = None if row[name] is None else json.dumps(row[name])
            writer.writerow(row.values())


def _write_parquet(lines: Iterable[bytes], path: Path) -> None:
    import pyarrow as pa

    schema = pa.schema(
        {
            "item": pa.string(),
            "label": pa.string(),
            "scores": pa.map_(pa.string(), pa.float64()),
            "features": pa.list_(pa.string()),
            "expected_accuracy": pa.float64(),
            "cost": pa.float64(),
            "error": pa.string(),
            "unknown": pa.list_(pa.string()),
            "missing": pa.int64(),
        }
    )
    rows: list[dict[str, Any]] = []
    with import_parquet(path).ParquetWriter(path, schema) as writer:
        for line in lines:
            row = msgspec.structs.asdict(_decode(line))
            row["scores"] = None if row["scores"] is None else [*row["scores"].items()]
            rows.append(row)
            if len(rows) == ROWS:
                writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))
                rows.clear()
        writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))
