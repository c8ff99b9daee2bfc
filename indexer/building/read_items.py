"""The labelled items of a project, read from where it says they are."""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.cells import Cells, Rows
from polydom.features.errors import BadInput, BadItem, BadProject
from polydom.features.items import Item, make_item
from polydom.features.readers.folders import ENDINGS, files_of
from polydom.features.readers.tables import open_table, read_json_lines
from polydom.features.records import Records, all_rows
from polydom.features.wording import hint, listed

from ..progress import OnProgress
from .dataset import (
    Dataset,
    RowNames,
    make_dataset,
    number_in_turn,
    refuse_regression,
)
from .project import Data, Project

LABEL_OPTION = " [data] label names the column of classes"
ENCODING_OPTION = '; [data] encoding says what it is, such as "latin-1"'

# what a reader yields: a name for messages, what it holds, its label and group
Row = tuple[str, Any, Any, Any]


def load_data(project: Project, on_progress: OnProgress | None = None) -> Dataset:
    """Read the items that `project.data` names, in an order that never varies.

    `on_progress` is told how many have been read.

    Raises
    ------
    BadProject
        If there is nothing, one class only, a label is missing, or an item is unusable
        and the project says to stop.
    """
    if project.data.table is not None:
        dataset = _load_table(project, project.data.table, on_progress)
    else:
        dataset = _load_items(project, on_progress)
    first = dataset.labels[dataset.codes[0]]
    refuse_regression(dataset.labels, len(dataset.codes), first)
    project.costs.check_size(dataset.kind)
    return dataset


def _load_table(project: Project, name: str, on_progress: OnProgress | None) -> Dataset:
    """Read a table in columns."""
    data, path = project.data, project.path(name)
    special = {data.label, *([data.group] if data.group else [])}
    try:
        table = open_table(path, data.separator, data.encoding, special)
        _check_names(path.name, data, special, table.names)
        used = [n for n in table.names if n in special or n not in data.ignore]
        columns = table.cells(used, special, on_progress)
    except BadInput as error:
        raise BadProject(str(error)) from error
    label, group = columns[data.label], columns.get(data.group or "")
    labels, codes = classes_of(label, path.name)
    if not labels:
        raise BadProject(_nothing(project, ()))
    rows = all_rows(len(codes))
    features = {name: one for name, one in columns.items() if name not in special}
    return Dataset(
        Records(features, rows),
        RowNames(path.name, rows),
        labels,
        codes,
        rows if group is None else groups_of(group, rows),
    ).relabelled(labels)


def _check_names(
    where: str, data: Data, special: Iterable[str], names: Sequence[str]
) -> None:
    """Refuse columns that the project names and the table has not."""
    for name in sorted({*special, *data.ignore}):
        if name not in names:
            raise BadProject(
                f"{where}: no column {name!r}; {hint(name, names)}"
                f"{LABEL_OPTION if name == data.label else ''}"
            )


def classes_of(cells: Cells, where: str) -> tuple[tuple[str, ...], Rows]:
    """Find the classes that a column holds, sorted, and each row's position in them."""
    count = len(cells)
    missing = np.flatnonzero(cells.missing(all_rows(count)))
    if len(missing):
        raise BadProject(
            f"{where}, row {missing[0] + 1}: no label; each item needs one"
        )
    _, first, own = np.unique(cells.array, return_index=True, return_inverse=True)
    texts = [_label(cells.value(row)) for row in first.tolist()]
    labels = sorted(set(texts))
    places = {label: place for place, label in enumerate(labels)}
    return tuple(labels), np.array([places[t] for t in texts], np.int64)[own]


def groups_of(cells: Cells, rows: Rows) -> Rows:
    """Give a number to each group of a column; a row without one is its own group."""
    _, own = np.unique(cells.array, return_inverse=True)
    return number_in_turn(np.where(cells.missing(rows), len(rows) + rows, own))


def _load_items(project: Project, on_progress: OnProgress | None) -> Dataset:
    """Read items one after the other."""
    items: list[Item] = []
    names: list[str] = []
    labels: list[str] = []
    groups: list[Any] = []
    skipped: list[tuple[str, str]] = []
    for name, content, label, group in _rows(project):
        if label is None or label == "" or label != label:  # NaN is no label either
            raise BadProject(f"{name}: no label; each item needs one")
        try:
            items.append(make_item(content, pair=project.costs.pair))
        except BadItem as error:
            if project.data.on_bad_item == "stop":
                raise BadProject(f"{name}: {error}") from error
            skipped.append((name, str(error)))
            continue
        if on_progress is not None:
            on_progress(len(items))
        names.append(name)
        labels.append(_label(label))
        groups.append((len(groups),) if group is None else group)
    if not items:
        raise BadProject(_nothing(project, skipped))
    return make_dataset(items, names, labels, groups, skipped)


def _label(label: Any) -> str:
    # a table may read the classes 1, 2, 3 as floats
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)


def _nothing(project: Project, skipped: Sequence[tuple[str, str]]) -> str:
    """Say that there are no items, and what is needed."""
    data = project.data
    if skipped:
        name, why = skipped[0]
        return f"all {len(skipped)} items are unusable; the first, {name}: {why}"
    if data.images is not None:
        return (
            f"{project.path(data.images)} holds no images "
            f"({', '.join(ENDINGS['image'])}), each in a folder named after its class"
        )
    if data.items is not None:
        return f"{data.items} yields no items"
    path = project.path(data.table or data.texts or "")
    what = "names of columns, and no rows" if data.table else "no lines"
    return f"{path} holds {what}; labelled items are needed"


def _rows(project: Project) -> Iterator[Row]:
    data = project.data
    if data.items is not None:  # what the user's own function raises is its own
        yield from _called_rows(project.folder, data.items)
        return
    try:
        if data.images is not None:
            yield from _image_rows(project.path(data.images))
        elif data.texts is not None:
            yield from _text_rows(project.path(data.texts), data)
    except BadInput as error:
        raise BadProject(str(error)) from error


def _image_rows(folder: Path) -> Iterator[Row]:
    if not folder.is_dir():
        what = "this is a file" if folder.exists() else "no such folder"
        raise BadProject(f"{folder}: {what}; a folder of images is needed")
    for path in files_of(folder, "image"):
        name = path.relative_to(folder)
        if len(name.parts) < 2:
            raise BadProject(
                f"{path}: no label; put the images of each class in a folder of "
                "their own, named after the class"
            )
        yield str(name), path.read_bytes(), name.parts[0], None


def _text_rows(path: Path, data: Data) -> Iterator[Row]:
    for number, _, row in read_json_lines(path, data.encoding):
        where = f"{path.name}, line {number}"
        if isinstance(row, BadItem):
            undecoded = isinstance(row.__cause__, UnicodeError)
            raise BadProject(f"{where}: {row}{ENCODING_OPTION if undecoded else ''}")
        if not isinstance(row.get(data.text), str):
            raise BadProject(
                f"{where}: no text under the key {data.text!r}; there are "
                f"{listed([*row])}, and [data] text names the one to read"
            )
        group = row.get(data.group) if data.group else None
        yield where, row[data.text], row.get(data.label), group


def _called_rows(folder: str, target: str) -> Iterator[Row]:
    pairs: Iterable[tuple[Any, ...]] = import_function(folder, target)()
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) not in (2, 3):
            raise BadProject(
                f"{target} must yield (item, label) or (item, label, group); "
                f"item {number} is {type(pair).__name__}"
            )
        item, label, *group = pair
        yield f"{target}, item {number}", item, label, group[0] if group else None


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
