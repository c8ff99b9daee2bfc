"""Reading the labelled items of a project from folders, files or a function."""

import importlib
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.errors import BadInput, BadItem, BadProject
from polydom.features.items import Item, make_item
from polydom.features.readers.folders import readable
from polydom.features.readers.json_lines import count_json_lines, read_json_lines
from polydom.features.tables.dates import micros_of
from polydom.features.tables.records import Records
from polydom.features.wording import listed

from ...progress import OnProgress, Progress
from ..cache import FOLDER, Cache, digest
from ..project import Project
from ..project_tables.data import Data
from .copies import keep_copies_together
from .dataset import (
    Dataset,
    make_dataset,
    of_numbers,
    refuse_mixed,
    refuse_shared_groups,
)
from .folders import (
    folder_source,
    listed_source,
    nothing_in,
    refuse_lost_classes,
)
from .read_table import label_of, load_table, weights_of
from .stored_items import (
    ENCODING_OPTION,
    Place,
    Reference,
    Row,
    Source,
    StoredItemsWriter,
)


def read_items(project: Project, cache: Cache, progress: Progress) -> Dataset:
    """Read a project's items into a data set that worker processes can also read."""
    with progress.stage("reading items", None) as on_progress:
        dataset = load_data(project, on_progress, cache.folder)
    return dataset if isinstance(dataset.items, Records) else dataset.shared(cache)


def load_data(
    project: Project,
    on_progress: OnProgress | None = None,
    folder: Path | None = None,
) -> Dataset:
    """Read the items that `project.data` names, always in the same order.

    A table is held in memory. Other items stay in their files, and are read each time
    they are accessed. Two kinds of items are first written to a file in `folder`: items
    that a function yields, and lines of a JSON Lines file with an `encoding`.
    """
    _refuse_absent(project)
    if project.data.table is not None:
        dataset = load_table(project, on_progress)
    else:
        folder = (folder or project.path(FOLDER)).absolute()
        with StoredItemsWriter() as items:
            dataset = _load_items(project, on_progress, _Read(items, folder))
    if dataset.numbers is None:
        dataset = dataset.relabelled(dataset.labels)  # refuses a single class
    if project.data.labels is None:
        refuse_lost_classes(dataset)
    dataset = keep_copies_together(dataset)
    refuse_shared_groups(dataset)
    project.costs.check_size(dataset.kind)
    return dataset


def _refuse_absent(project: Project) -> None:
    data = project.data
    if data.items is not None:  # named by modules and functions
        return
    for key in ("table", "texts", "labels", "test", "unlabelled"):
        name: str | None = getattr(data, key)
        if name is not None and not (path := project.path(name)).exists():
            raise BadProject(
                f"{path}: No such file or directory; [data] {key} = {name!r} names it, "
                "seen from the project file's folder"
            )


@dataclass
class _Read:
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
        read.skipped += source.left_out
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
    """Add the row's item to `read`; if it is unusable, add its name and the reason."""
    data, label = project.data, row.label
    if not isinstance(row.content, BadItem):
        _check_label(row)
    item = usable_item(project, row, read.skipped)
    if item is None:
        return
    if data.time is not None:
        read.times.append(_time(row, data.time))
    if data.weight is not None:
        read.weights.append(_weight(row.weight))
    read.items.add(item, row.reference)
    read.labels.append(sys.intern(label_of(label)))
    read.groups.append(row.group)


def usable_item(
    project: Project, row: Row, skipped: list[tuple[str, str]]
) -> Item | None:
    """Make a row's item; if it is unusable, return None and add its name to `skipped`.

    The reason is added, too. Raises BadProject instead if `[data] on_bad_item` is
    "stop".
    """
    try:
        if isinstance(row.content, BadItem):
            raise row.content
        return make_item(row.content, pair=project.costs.pair)
    except BadItem as error:
        if project.data.on_bad_item == "stop":
            raise BadProject(f"{row.name}: {error}") from error
        skipped.append((row.name, str(error)))
        return None


def _check_label(row: Row) -> None:
    """Raise BadProject if an item has no label, several labels, or several groups."""
    label = row.label
    if label is None or label == "" or label != label:  # NaN is no label either
        raise BadProject(f"{row.name}: no label; each item needs one")
    for what, value in (("label", label), ("group", row.group)):
        if isinstance(value, list | dict | set | tuple):
            kind = type(value).__name__
            raise BadProject(
                f"{row.name}: the {what} is a {kind} of {len(value)}; one {what} of an "
                "item is needed, not several"
            )


def _time(row: Row, key: str) -> float:
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
    """Return an item's weight as a float, or NaN if the weight is not a number."""
    if isinstance(value, bool):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _nothing(project: Project, name: str, skipped: Sequence[tuple[str, str]]) -> str:
    """Return the error message for a source that has no usable items."""
    data, path = project.data, project.path(name)
    if skipped:
        first, why = skipped[0]
        return f"all {len(skipped)} items are unusable; the first, {first}: {why}"
    if data.items is not None:
        return f"{name} yields no items"
    if data.labels is not None:
        return f"{path} holds names of columns, and no rows; labelled items are needed"
    if path.is_dir():
        return nothing_in(path, data)
    return f"{path} holds no lines; labelled items are needed"


def _source(project: Project, name: str, folder: Path) -> Source:
    data = project.data
    pieces = folder / "items" / f"{digest(name)}.msgpack"
    if data.items is not None:  # errors of the user's function remain as they are
        return Source(_called_rows(project.folder, name, pieces))
    path = project.path(name)
    try:
        if data.labels is not None:
            return listed_source(project, path)
        if data.images is not None or path.is_dir():
            return folder_source(path, data)
        return text_source(path, data, pieces)
    except BadInput as error:
        raise BadProject(str(error)) from error


def text_source(path: Path, data: Data, pieces: Path) -> Source:
    """Return the texts of a JSON Lines file, with what their keys say.

    If the file has another encoding than UTF-8, texts are written to `pieces`.
    """
    count = count_json_lines(path, data.encoding)
    return Source(_text_rows(path, data, pieces), count)


def _text_rows(path: Path, data: Data, pieces: Path) -> Iterator[Row]:
    shown = f"{readable(path.name)}, line "
    place = Place("line", os.fsencode(path.absolute()), shown, data.text)
    if data.encoding is not None:  # offsets in the file are unknown
        place = Place("piece", os.fsencode(pieces), shown)
    for number, document, row, offset in read_json_lines(path, data.encoding):
        where = f"{path.name}, line {number}"
        reference = Reference(place, number, offset or 0, len(document))
        if isinstance(row, BadItem):
            # probably all lines have this encoding
            if isinstance(row.__cause__, UnicodeError):
                raise BadProject(f"{where}: {row}{ENCODING_OPTION}")
            yield Row(reference, row, None)
            continue
        keys = data.label, data.group, data.time, data.weight
        told = (row.get(key) if key else None for key in keys)
        yield Row(reference, _text_in(row, data.text), *told)


def _text_in(row: Mapping[str, Any], key: str) -> str | BadItem:
    """Return the text under `key` in a line's object, or a BadItem if there is none."""
    text = row.get(key)
    if isinstance(text, str):
        return text
    if key in row:
        what = "nothing" if text is None else f"a {type(text).__name__}"
        return BadItem(f"the key {key!r} holds {what}; a text is needed")
    return BadItem(
        f"no text under the key {key!r}; there are {listed([*row])}, and [data] text "
        "names the one to read"
    )


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
    """Import the function `module:function`; the module may be a file in `folder`."""
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
