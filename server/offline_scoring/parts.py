"""Divide items into parts: groups of files, rows of Parquet row groups, or lines."""

import itertools
import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from polydom.features.errors import BadInput
from polydom.features.readers.folders import readable
from polydom.features.readers.json_lines import (
    JSON_LINES,
    Span,
    count_json_lines,
    divide_json_lines,
    read_json_lines,
)
from polydom.features.readers.table_file import (
    import_parquet,
    is_parquet,
    parquet_files,
)
from polydom.indexer.index.package import Package

from ..runtime.known_columns import KnownColumns
from .item_rows import (
    ItemColumns,
    files_in,
    is_folder,
    read_file,
    require,
    rows_of,
)
from .output_row import ScorableItem

log = logging.getLogger("polydom")

# Wanted number of parts: enough to correct the price between parts, but not too many
# files.
LEAST_PARTS = 200
# Minimum and maximum number of items of a part.
LEAST, MOST = 32, 65_536
# If a part begins within this many bytes of its row group, sampling it is cheap.
NEAR_BYTES = 4 << 20
MOST_FILES = 1024  # maximum number of files of a part, which carries their names
ROWS = 256  # number of rows held in memory at a time


class Rows(NamedTuple):
    """Some items of a part, read together."""

    # Name of each item: the row's number from 0, or the file's path in the folder
    names: list[str]
    items: list[ScorableItem]  # The items; errors for items that cannot be read
    kept: list[Any]  # Arrow arrays of the columns to keep


class Part(msgspec.Struct, frozen=True, tag=True):
    """Some of a batch's items, which one process scores into one file."""

    number: int  # Number of the part from 0
    first: int  # Number of items in all earlier parts
    count: int  # Number of items in the part

    @property
    def name(self) -> str:
        """The name of the output file for the part's answers."""
        return f"part-{self.number:05d}.parquet"

    @property
    def is_near(self) -> bool:
        """True if the part's first items can be read quickly, for a sample."""
        return True

    def read(self, package: Package, keep: Sequence[str], rows: int) -> Iterator[Rows]:
        """Yield the items in order, in blocks of at most `rows` items.

        Each block also has the columns `keep`. An item that cannot be read is yielded
        as an error. Raises BadInput if the part's file cannot be read.
        """
        raise NotImplementedError


class FilesPart(Part, frozen=True, tag="files"):
    """A part of a folder: some of its files.

    `files` are their paths relative to the folder, in order.
    """

    folder: str
    files: tuple[str, ...]

    def read(self, package: Package, keep: Sequence[str], rows: int) -> Iterator[Rows]:
        """Yield the items in order, in blocks of `rows`, as `Part.read` does."""
        folder = Path(self.folder)
        for start in range(0, len(self.files), rows):
            names = list(self.files[start : start + rows])
            items = [read_file(folder / name, package.kind) for name in names]
            yield Rows([*map(readable, names)], items, [])


class ParquetPart(Part, frozen=True, tag="parquet"):
    """A part of a Parquet row group: `count` rows after the first `skip` rows.

    The skipped rows have about `skip_bytes` bytes.
    """

    path: str
    group: int
    skip: int
    skip_bytes: int

    @property
    def is_near(self) -> bool:
        """True if the part is near the beginning of its row group."""
        return self.skip_bytes <= NEAR_BYTES

    def read(self, package: Package, keep: Sequence[str], rows: int) -> Iterator[Rows]:
        """Yield the items in order, in blocks of `rows`, as `Part.read` does."""
        known = KnownColumns(package.features).names
        columns = ItemColumns(package.kind, None, known, tuple(keep))
        path = Path(self.path)
        with _opened(path) as file:
            read = columns.among(file.schema_arrow.names)
            wanted = list(dict.fromkeys([*read, *keep]))
            batches = file.iter_batches(
                rows, row_groups=[self.group], columns=wanted, use_threads=False
            )
            for done, batch in _cut(batches, self.skip, self.count):
                start = self.first + done
                names = [str(start + k) for k in range(batch.num_rows)]
                kept = [batch.column(name) for name in keep]
                yield Rows(names, list(columns.items(batch)), kept)


class LinesPart(Part, frozen=True, tag="lines"):
    """A part of consecutive lines of a JSON Lines file."""

    path: str
    offset: int
    length: int

    def read(self, package: Package, keep: Sequence[str], rows: int) -> Iterator[Rows]:
        """Yield the items in blocks of `rows`, as `Part.read` does.

        Values of the columns to keep become text: strings stay unchanged, other values
        become JSON.
        """
        import pyarrow as pa

        span = Span(self.offset, self.length, self.count)
        lines = read_json_lines(Path(self.path), span=span)
        start = self.first
        while some := list(itertools.islice(lines, rows)):
            items = [row.item for row in rows_of(some, package)]
            kept = [
                pa.array([_text_of(line.row, name) for line in some], pa.string())
                for name in keep
            ]
            yield Rows([str(start + k) for k in range(len(some))], items, kept)
            start += len(some)


def divide(path: Path, package: Package, most: int | None = None) -> list[Part]:
    """Divide a folder, a `.parquet` file or a `.jsonl` file into parts.

    The same items give the same parts, of at most `most` items each. By default there
    are about 200 parts, unless these would have fewer than 32 or more than 65,536 items
    each. A part has at most `MOST_FILES` files, and no rows of two row groups.
    """
    if is_folder(path):
        found = files_in(path, package.kind)
        for remark in found.remarks():
            log.warning("%s: %s", path.name, remark)
        files = [str(file.relative_to(path)) for file in found.files]
        size = min(most or _size_for(len(files)), MOST_FILES)
        return [
            FilesPart(k, first, len(own), str(path.absolute()), own)
            for k, first in enumerate(range(0, len(files), size))
            if (own := tuple(files[first : first + size]))
        ]
    if not path.exists():
        raise BadInput(f"{path}: there is no such file or folder")
    if is_parquet(path):
        return list(_parquet_parts(path, most))
    if path.suffix.lower() in JSON_LINES:
        return list(_lines_parts(path, most))
    raise BadInput(
        f"{path}: a folder, a .parquet or a .jsonl file is needed; others cannot be "
        "divided into parts: score them into one file"
    )


def check_columns(path: Path, keep: Sequence[str]) -> None:
    """Raise BadInput if a column in `keep` is missing from the file."""
    if keep and is_folder(path):
        raise BadInput("--keep needs the columns of a table; files have none")
    if keep and is_parquet(path):
        with _opened(_parquet_files(path)[0]) as file:
            for name in keep:
                require(file.schema_arrow.names, name)


def _size_for(count: int) -> int:
    return min(max(count // LEAST_PARTS, LEAST), MOST)


def _parquet_parts(path: Path, most: int | None) -> Iterator[Part]:
    groups: list[tuple[str, int, int, float]] = []
    for found in _parquet_files(path):
        with _opened(found) as file:
            facts = file.metadata
            for number in range(facts.num_row_groups):
                group = facts.row_group(number)
                each = group.total_byte_size / max(group.num_rows, 1)
                groups.append((str(found.absolute()), number, group.num_rows, each))
    size = most or _size_for(sum(rows for _, _, rows, _ in groups))
    number = first = 0
    for name, group, rows, each in groups:
        for skip in range(0, rows, size):
            count = min(size, rows - skip)
            yield ParquetPart(
                number, first, count, name, group, skip, round(skip * each)
            )
            number, first = number + 1, first + count


def _lines_parts(path: Path, most: int | None) -> Iterator[Part]:
    if most is None:
        most = _size_for(count_json_lines(path))
    first = 0
    for number, span in enumerate(divide_json_lines(path, most)):
        place = str(path.absolute()), span.offset, span.length
        yield LinesPart(number, first, span.rows, *place)
        first += span.rows


def _parquet_files(path: Path) -> list[Path]:
    """Return the Parquet files of a table, sorted; raise BadInput if there are none."""
    files = sorted(parquet_files(path))
    if not files:
        raise BadInput(f"{path} holds no Parquet file")
    return files


def _opened(path: Path) -> Any:
    parquet = import_parquet(path)
    from pyarrow import ArrowException

    try:
        return parquet.ParquetFile(path)
    except (OSError, ArrowException) as error:
        raise BadInput(f"{path}: this is no Parquet file: {error}") from error


def _cut(batches: Iterator[Any], skip: int, count: int) -> Iterator[tuple[int, Any]]:
    """Skip `skip` rows, then yield `count` rows batch by batch, as (n, rows).

    n is the number of rows yielded before.
    """
    done = 0
    for batch in batches:
        own = batch.slice(min(skip, batch.num_rows), count - done)
        skip = max(skip - batch.num_rows, 0)
        if own.num_rows:
            yield done, own
        done += own.num_rows
        if done == count:
            return


def _text_of(row: Any, name: str) -> str | None:
    cell = row.get(name) if isinstance(row, dict) else None
    if cell is None or isinstance(cell, str):
        return cell
    return msgspec.json.encode(cell).decode()
