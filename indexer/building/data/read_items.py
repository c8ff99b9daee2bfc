"""The labelled items of a project, read from where it says they are."""

import importlib
import logging
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.features.errors import BadInput, BadItem, BadProject
from polydom.features.items import Kind, make_item
from polydom.features.readers.folders import ENDINGS, files_of, readable
from polydom.features.readers.tables import (
    count_json_lines,
    open_table,
    read_json_lines,
)
from polydom.features.tables.dates import micros_of
from polydom.features.wording import hint, listed

from ...progress import OnProgress
from ..cache import FOLDER, digest
from ..project import Data, Project
from .dataset import (
    Dataset,
    make_dataset,
    of_numbers,
    refuse_mixed,
    refuse_shared_groups,
)
from .read_table import label_of, load_table, weights_of
from .stored_items import (
    Place,
    Reference,
    StoredItemsWriter,
    decode_text,
)

log = logging.getLogger("polydom")

ENCODING_OPTION = '; [data] encoding says what it is, such as "latin-1"'


class Row(NamedTuple):
    """What is read of an item: where it lies, its content and what labels it."""

    reference: Reference
    content: Any
    label: Any
    group: Any = None
    time: Any = None
    weight: Any = None

    @property
    def name(self) -> str:
        """What the item is called in messages."""
        return self.reference.name


class Source(NamedTuple):
    """Rows to be read, and how many there are at most where that is known."""

    rows: Iterable[Row]
    most: int | None = None


def load_data(
    project: Project,
    on_progress: OnProgress | None = None,
    folder: Path | None = None,
) -> Dataset:
    """Read the items that `project.data` names, in an order that never varies.

    Afterwards files are read again, where they lie, whenever an item is asked for.

    Parameters
    ----------
    project
    on_progress
        Told how many have been read, and where that is known how many more there can
        be.
    folder
        For items that lie in no file, or in another encoding than UTF-8; None for that
        of finished work.

    Raises
    ------
    BadProject
        If there is nothing, one class only, a label is missing, or an item is unusable
        and the project says to stop.
    """
    _refuse_absent(project)
    if project.data.table is not None:
        dataset = load_table(project, on_progress)
    else:
        folder = (folder or project.path(FOLDER)).absolute()
        with StoredItemsWriter() as items:
            dataset = _load_items(project, on_progress, _Read(items, folder))
    if dataset.numbers is None:
        dataset = dataset.relabelled(dataset.labels)  # of which there must be two
    refuse_shared_groups(dataset)
    project.costs.check_size(dataset.kind)
    return dataset


def _refuse_absent(project: Project) -> None:
    """Refuse a file of the data that there is not, saying which key names it."""
    data = project.data
    if data.items is not None:  # named by modules and functions
        return
    for key in ("table", "texts", "labels", "test"):
        name: str | None = getattr(data, key)
        if name is not None and not (path := project.path(name)).exists():
            raise BadProject(
                f"{path}: No such file or directory; [data] {key} = {name!r} names it, "
                "seen from the project file's folder"
            )


@dataclass
class _Read:
    """Items on their way into a data set."""

    items: StoredItemsWriter
    folder: Path
    labels: list[str] = field(default_factory=list)
    groups: list[Any] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    weights: list[float] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)


def _load_items(
    project: Project, on_progress: OnProgress | None, read: _Read
) -> Dataset:
    """Read items one after the other."""
    data, counts = project.data, list[int]()
    for name in data.sources:
        before = len(read.items)
        source = _source(project, name, read.folder)
        for seen, row in enumerate(source.rows, 1):
            _take(project, row, read)
            if on_progress is not None:
                left = None if source.most is None else max(source.most - seen, 0)
                on_progress(len(read.items), left)
        if len(read.items) == before:
            raise BadProject(_nothing(project, name, read.skipped))
        counts.append(len(read.items) - before)
    refuse_mixed(read.items.kinds)
    items = read.items.items()
    tested = np.arange(len(items)) >= counts[0]
    dataset = make_dataset(
        items,
        items.names,
        read.labels,
        read.groups,
        read.skipped,
        tested=tested if data.test is not None else None,
        times=np.array(read.times) if data.time is not None else None,
        weights=None
        if data.weight is None
        else weights_of(np.array(read.weights), items.names, data.weight),
    )
    return of_numbers(dataset, project.wanted)


def _take(project: Project, row: Row, read: _Read) -> None:
    """Make the item of a row."""
    data, label = project.data, row.label
    if label is None or label == "" or label != label:  # NaN is no label either
        raise BadProject(f"{row.name}: no label; each item needs one")
    try:
        item = make_item(row.content, pair=project.costs.pair)
    except BadItem as error:
        if data.on_bad_item == "stop":
            raise BadProject(f"{row.name}: {error}") from error
        read.skipped.append((row.name, str(error)))
        return
    if data.time is not None:
        read.times.append(_time(row, data.time))
    if data.weight is not None:
        read.weights.append(_weight(row.weight))
    read.items.add(item, row.reference)
    read.labels.append(sys.intern(label_of(label)))
    read.groups.append(row.group)


def _time(row: Row, key: str) -> float:
    """Read when an item came: a number, or a date."""
    try:
        if isinstance(row.time, str):
            try:
                return float(row.time)
            except ValueError:
                return float(micros_of(row.time))
        if isinstance(row.time, int | float) and row.time == row.time:
            return float(row.time)
    except ValueError:
        pass
    raise BadProject(
        f"{row.name}: {key!r} is {row.time!r}; a time is needed: a number, or a date "
        "in ISO 8601"
    )


def _weight(value: Any) -> float:
    """Read how much an item counts; NaN for what is no number."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _nothing(project: Project, name: str, skipped: Sequence[tuple[str, str]]) -> str:
    """Say that there are no items, and what is needed."""
    data, path = project.data, project.path(name)
    if skipped:
        first, why = skipped[0]
        return f"all {len(skipped)} items are unusable; the first, {first}: {why}"
    if data.items is not None:
        return f"{name} yields no items"
    if data.labels is not None:
        return f"{path} holds names of columns, and no rows; labelled items are needed"
    if path.is_dir():
        kind: Kind = "text" if data.images is None else "image"
        return (
            f"{path} holds no {kind}s ({', '.join(ENDINGS[kind])}), each in a folder "
            "named after its class"
        )
    return f"{path} holds no lines; labelled items are needed"


def _source(project: Project, name: str, folder: Path) -> Source:
    data = project.data
    pieces = folder / "items" / f"{digest(name)}.msgpack"
    if data.items is not None:  # what the user's own function raises is its own
        return Source(_called_rows(project.folder, name, pieces))
    path = project.path(name)
    try:
        if data.labels is not None:
            return _listed_source(project, path)
        if data.images is not None or path.is_dir():
            files = _files(path, "text" if data.images is None else "image")
            place = _folder_place(path, data)
            rows = (_file_row(place, path, file, data) for file in files)
            return Source(rows, len(files))
        count = count_json_lines(path, data.encoding)
        return Source(_text_rows(path, data, pieces), count)
    except BadInput as error:
        raise BadProject(str(error)) from error


def _files(folder: Path, kind: Kind) -> list[Path]:
    if not folder.is_dir():
        what = "this is a file" if folder.exists() else "no such folder"
        raise BadProject(f"{folder}: {what}; a folder of {kind}s is needed")
    return files_of(folder, kind)


def _folder_place(folder: Path, data: Data) -> Place:
    encoding = None if data.images is not None else data.encoding or "utf-8-sig"
    return Place("file", os.fsencode(folder.absolute()), text=encoding)


def _file_row(place: Place, folder: Path, path: Path, data: Data) -> Row:
    """Read a file that lies in the folder of its class."""
    name = path.relative_to(folder)
    if len(name.parts) < 2:
        kind = "images" if data.images is not None else "texts"
        raise BadProject(
            f"{path}: no label; put the {kind} of each class in a folder of their own, "
            "named after the class, or name a file of labels with [data] labels"
        )
    reference, label = Reference(place, own_name=str(name)), readable(name.parts[0])
    return _with_content(Row(reference, path, label))


def _with_content(row: Row) -> Row:
    """Read the file whose path a row has."""
    path, place = row.content, row.reference.place
    content = path.read_bytes()
    reference = row.reference._replace(length=len(content))
    if place.text is not None:
        try:
            content = decode_text(content, place.text)
        except UnicodeError as error:
            raise BadProject(f"{path}: {error}{ENCODING_OPTION}") from error
    return row._replace(reference=reference, content=content)


def _listed_source(project: Project, path: Path) -> Source:
    """Read the files that a table of labels names."""
    data = project.data
    kind: Kind = "text" if data.images is None else "image"
    folder = project.path(data.images or data.texts or "")
    files = {str(file.relative_to(folder)): file for file in _files(folder, kind)}
    table = open_table(path, data.separator, data.encoding, [data.label])
    keys = data.label, data.group, data.time, data.weight
    wanted = [name for name in keys if name is not None]
    for name in wanted:
        if name not in table.names:
            raise BadProject(
                f"{path.name}: no column {name!r}; {hint(name, table.names)}"
            )
    others = [name for name in table.names if name not in wanted]
    if not others:
        raise BadProject(
            f"{path.name}: there is no column but {listed(wanted)}; one with the names "
            f"of the {kind} files is needed"
        )
    place = _folder_place(folder, data)
    rows = [
        _listed_row(f"{path.name}, row {number}", cells, others[0], files, data, place)
        for number, cells in enumerate(table.rows([others[0], *wanted]), 1)
    ]
    times = Counter(row.name for row in rows)
    if len(times) < len(rows):
        ((twice, count),) = times.most_common(1)
        raise BadProject(f"{path.name} names {twice} {count} times; once is needed")
    if data.test is None and len(rows) < len(files):
        log.warning(
            "%d of %d %ss in %s are not in %s, and left out",
            len(files) - len(rows),
            len(files),
            kind,
            folder.name,
            path.name,
        )
    return Source(map(_with_content, rows), len(rows))


def _listed_row(
    where: str,
    cells: Any,
    column: str,
    files: dict[str, Path],
    data: Data,
    place: Place,
) -> Row:
    """Find the file that a row of labels names."""
    if isinstance(cells, BadItem):
        raise BadProject(f"{where}: {cells}")
    name = str(Path(str(cells[column]).strip()))
    if name not in files:
        raise BadProject(
            f"{where}: there is no file {name!r} in {data.images or data.texts}; "
            f"{hint(name, [*files])}"
        )
    keys = data.label, data.group, data.time, data.weight
    label, group, time, weight = (None if k is None else cells[k] for k in keys)
    label = label.strip() if isinstance(label, str) else label
    reference = Reference(place, own_name=name)
    return Row(reference, files[name], label, group or None, time, weight)


def _text_rows(path: Path, data: Data, pieces: Path) -> Iterator[Row]:
    shown = f"{readable(path.name)}, line "
    place = Place("line", os.fsencode(path.absolute()), shown, data.text)
    if data.encoding is not None:  # bytes of lines are not told by what decodes them
        place = Place("piece", os.fsencode(pieces), shown)
    for number, document, row, offset in read_json_lines(path, data.encoding):
        where = f"{path.name}, line {number}"
        if isinstance(row, BadItem):
            undecoded = isinstance(row.__cause__, UnicodeError)
            raise BadProject(f"{where}: {row}{ENCODING_OPTION if undecoded else ''}")
        if not isinstance(row.get(data.text), str):
            raise BadProject(
                f"{where}: no text under the key {data.text!r}; there are "
                f"{listed([*row])}, and [data] text names the one to read"
            )
        keys = data.label, data.group, data.time, data.weight
        told = (row.get(key) if key else None for key in keys)
        reference = Reference(place, number, offset or 0, len(document))
        yield Row(reference, row[data.text], *told)


def _called_rows(folder: str, target: str, pieces: Path) -> Iterator[Row]:
    pairs: Iterable[tuple[Any, ...]] = import_function(folder, target)()
    place = Place("piece", os.fsencode(pieces), f"{target}, item ")
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) not in (2, 3):
            raise BadProject(
                f"{target} must yield (item, label) or (item, label, group); "
                f"item {number} is {type(pair).__name__}"
            )
        item, label, *group = pair
        group = [*group, None]
        yield Row(Reference(place, number), item, label, group[0])


def import_function(folder: str, target: str) -> Callable[[], Any]:
    """Import `module:function`, where the module may lie in `folder`."""
    module_name, _, name = target.partition(":")
    if not (module_name and name):
        raise BadProject(f"data.items is {target!r}; 'module:function' is needed")
    try:
        with _importable(folder):
            function = getattr(importlib.import_module(module_name), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise BadProject(
            f"data.items is {target!r}: {error}; the module may lie in {folder}"
        ) from error
    if not callable(function):
        raise BadProject(f"data.items is {target!r}: that is no function")
    called: Callable[[], Any] = function
    return called


@contextmanager
def _importable(folder: str) -> Iterator[None]:
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
