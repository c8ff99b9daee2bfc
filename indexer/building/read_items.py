"""The labelled items of a project, read from where it says they are."""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from polydom.features.errors import BadInput, BadItem, BadProject
from polydom.features.items import Item, Value, make_item
from polydom.features.readers.csv_file import refuse_decimal_commas
from polydom.features.readers.folders import ENDINGS, files_of
from polydom.features.readers.tables import open_table, read_json_lines
from polydom.features.wording import hint, listed

from ..progress import OnProgress
from .dataset import Dataset, make_dataset, refuse_regression
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
        groups.append(len(groups) if group is None else group)
    if not items:
        raise BadProject(_nothing(project, skipped))
    refuse_regression(labels)
    project.costs.check_size(items[0].kind)
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
        elif data.table is not None:
            yield from _table_rows(project.path(data.table), data)
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


def _table_rows(path: Path, data: Data) -> Iterator[Row]:
    special = {data.label, *([data.group] if data.group else [])}
    table = open_table(path, data.separator, data.encoding, special)
    for name in sorted({*special, *data.ignore}):
        if name not in table.names:
            raise BadProject(
                f"{path.name}: no column {name!r}; {hint(name, table.names)}"
                f"{LABEL_OPTION if name == data.label else ''}"
            )
    used = [n for n in table.names if n in special or n not in data.ignore]
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(table.rows(used), 1):
        if isinstance(row, BadItem):
            raise BadProject(f"{path.name}, row {number}: {row}")
        rows.append(row)
    if not table.typed:
        for name in used:
            _set_types(path.name, name, rows)
    for number, row in enumerate(rows, 1):
        record = {name: row[name] for name in used if name not in special}
        group = row[data.group] if data.group else None
        yield f"{path.name}, row {number}", record, row[data.label], group


def _set_types(where: str, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Make a column of texts one of numbers, if each that is not empty is one."""
    cells = [row[name] for row in rows]
    values: list[Value]
    try:
        values = [float(cell) if cell.strip() else None for cell in cells]
    except ValueError:
        refuse_decimal_commas(where, name, cells)
        values = [cell.strip() or None for cell in cells]
    for row, value in zip(rows, values, strict=True):
        row[name] = value


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
