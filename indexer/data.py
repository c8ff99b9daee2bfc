"""Labelled items: read from where a project says they are, and split for testing."""

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput, BadItem, BadProject
from ..features.items import Item, Kind, Value, image_item, record_item, text_item
from ..features.wording import hint, in_words, listed
from .csv_file import open_csv, refuse_decimal_commas
from .dealing import deal, groups_of_classes
from .progress import Tell
from .project import Data, Project

IMAGE_ENDINGS = (".jpg", ".jpeg", ".png")
LABEL_OPTION = " [data] label names the column of classes"
MOST_NUMBERS = 20  # different numbers that are classes without a doubt

# what a reader yields: a name for messages, what it holds, its label and group
Row = tuple[str, Any, Any, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Dataset:
    """Labelled items in memory.

    Attributes
    ----------
    items
        N items of one kind.
    names
        Where each item came from, for messages.
    labels
        The K class names, sorted.
    codes : (N,) int64
        Position of each item's class in `labels`.
    groups : (N,) int64
        Items with the same number are never split between training and testing.
    skipped
        Items left out: (name, why).
    """

    items: tuple[Item, ...]
    names: tuple[str, ...]
    labels: tuple[str, ...]
    codes: NDArray[np.int64]
    groups: NDArray[np.int64]
    skipped: tuple[tuple[str, str], ...] = ()

    @property
    def kind(self) -> Kind:
        """What all items are."""
        return self.items[0].kind

    @property
    def sizes(self) -> NDArray[np.float64]:
        """Size of each item, (N,), or (N, 2) where sizes are of two numbers."""
        return np.array([item.size for item in self.items])

    def digest(self) -> str:
        """Identify items, labels and groups, whatever folder they were read from."""
        digest = hashlib.sha256(msgspec.msgpack.encode([self.kind, self.labels]))
        for item in self.items:
            digest.update(msgspec.msgpack.encode(item.payload))
        digest.update(self.codes.tobytes() + self.groups.tobytes())
        return digest.hexdigest()

    def only(self, rows: NDArray[np.int64]) -> "Dataset":
        """Keep these items, in this order; classes and groups keep their numbers."""
        return Dataset(
            tuple(self.items[row] for row in rows),
            tuple(self.names[row] for row in rows),
            self.labels,
            self.codes[rows],
            self.groups[rows],
        )

    def without(self, bad: Mapping[int, str]) -> "Dataset":
        """Leave out items by position, each with the reason why."""
        if not bad:
            return self
        kept = [i for i in range(len(self.items)) if i not in bad]
        return make_dataset(
            [self.items[i] for i in kept],
            [self.names[i] for i in kept],
            [self.labels[c] for c in self.codes[kept]],
            self.groups[kept].tolist(),
            (*self.skipped, *((self.names[i], bad[i]) for i in sorted(bad))),
        )


def load_data(project: Project, tell: Tell | None = None) -> Dataset:
    """Read the items that `project.data` names, in an order that never varies.

    `tell` is told how many have been read.

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
        if tell is not None:
            tell(len(items))
        names.append(name)
        labels.append(_label(label))
        groups.append(len(groups) if group is None else group)
    if not items:
        raise BadProject(_nothing(project, skipped))
    refuse_regression(labels)
    project.costs.check(items[0].kind)
    return make_dataset(items, names, labels, groups, skipped)


def _nothing(project: Project, skipped: Sequence[tuple[str, str]]) -> str:
    """Say that there are no items, and what is needed."""
    data = project.data
    if skipped:
        name, why = skipped[0]
        return f"all {len(skipped)} items are unusable; the first, {name}: {why}"
    if data.images is not None:
        return (
            f"{project.path(data.images)} holds no images "
            f"({', '.join(IMAGE_ENDINGS)}), each in a folder named after its class"
        )
    if data.items is not None:
        return f"{data.items} yields no items"
    path = project.path(data.table or data.texts or "")
    what = "names of columns, and no rows" if data.table else "no lines"
    return f"{path} holds {what}; labelled items are needed"


def refuse_regression(labels: Sequence[str]) -> None:
    """Refuse labels that are quantities, where each would be a class of its own.

    So are fractions of more than 20 values, and whole numbers of more than 20 that
    come fewer than 5 times each.
    """
    values = set(labels)
    if len(values) <= MOST_NUMBERS:
        return
    try:
        numbers = [float(label) for label in values]
    except ValueError:
        return
    if all(number.is_integer() for number in numbers) and len(labels) >= 5 * len(
        values
    ):
        return
    raise BadProject(
        f"the labels are numbers of {len(values):,} different values, such as "
        f"{labels[0]}: that looks like regression, and an index answers with one of a "
        "few classes. Make classes of the numbers, such as low, middle and high, or "
        "name the column of classes with [data] label"
    )


def make_dataset(
    items: Sequence[Item],
    names: Sequence[str],
    labels: Sequence[str],
    groups: Sequence[Any],
    skipped: Sequence[tuple[str, str]] = (),
) -> Dataset:
    """Put items together, numbering labels and groups; one kind, two classes."""
    kinds = sorted({item.kind for item in items})
    if len(kinds) > 1:
        raise BadProject(f"the data mixes {' and '.join(kinds)} items; one kind only")
    known = sorted(set(labels))
    codes = {label: code for code, label in enumerate(known)}
    if len(known) < 2:
        raise BadProject(
            f"all {len(items)} items have the label {known[0]!r}; "
            "a classifier needs two classes"
        )
    numbers: dict[Any, int] = {}
    return Dataset(
        tuple(items),
        tuple(names),
        tuple(known),
        np.array([codes[label] for label in labels], np.int64),
        np.array([numbers.setdefault(g, len(numbers)) for g in groups], np.int64),
        tuple(skipped),
    )


def split(
    dataset: Dataset, *, seed: int, held_out: float, folds: int | None
) -> list[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Split into (training rows, testing rows), once or once for each fold.

    Classes keep their shares as far as groups allow (`deal`). A held-out share s is
    one part of round(1 / s).

    Raises
    ------
    BadProject
        If a class has too few groups to be in every part, or its groups are so mixed
        with others that one training would see none of it.
    """
    count = folds or parts_of(held_out)
    refuse_rare(dataset, count)
    part = deal(dataset.codes, dataset.groups, count, seed)
    pairs = [
        (np.flatnonzero(part != fold), np.flatnonzero(part == fold))
        for fold in range(folds or 1)
    ]
    for train, _ in pairs:
        seen = np.bincount(dataset.codes[train], minlength=len(dataset.labels))
        if not seen.all():
            raise BadProject(
                f"all items of class {dataset.labels[int(seen.argmin())]!r} would be "
                "tested on and none trained on: its groups also hold other classes; "
                "another seed, or more groups of it, are needed"
            )
    return pairs


def rare_classes(dataset: Dataset, fewest: int) -> dict[str, int]:
    """Classes that come in fewer groups than that: in how many each."""
    have = groups_of_classes(dataset.codes, dataset.groups, len(dataset.labels))
    named = zip(dataset.labels, have.tolist(), strict=True)
    return {label: count for label, count in named if count < fewest}


def refuse_rare(dataset: Dataset, fewest: int) -> None:
    """Name the classes that come in fewer groups, and what can be done, in an error.

    Raises
    ------
    BadProject
        If there is such a class.
    """
    rare = rare_classes(dataset, fewest)
    if not rare:
        return
    label, have = next(iter(rare.items()))
    more = (
        f", and {len(rare) - 1} more classes are as rare"
        if rare.keys() > {label}
        else ""
    )
    raise BadProject(
        f"class {label!r} has {have} independent items{more}; dividing them for "
        f"training and testing needs at least {fewest} of each class: add items, or "
        "leave such classes out with [data] on_rare_class = 'skip', or make them one "
        "with 'merge'"
    )


def parts_of(held_out: float) -> int:
    """Parts of equal size that items are divided into to hold out a share of them."""
    return max(2, round(1 / held_out))


def _rows(project: Project) -> Iterator[Row]:
    data = project.data
    if data.images is not None:
        return _image_rows(project.path(data.images))
    if data.table is not None:
        return _table_rows(project.path(data.table), data)
    if data.texts is not None:
        return _text_rows(project.path(data.texts), data)
    assert data.items is not None
    return _called_rows(project, data.items)


def make_item(content: Any, *, pair: bool = False) -> Item:
    """Take bytes as an image, str as a text, a mapping as a record.

    The size is of two numbers if `pair` says so and it is no record.
    """
    match content:
        case Item() if content.pair == pair:
            return content
        case Item():
            return make_item(content.payload, pair=pair)
        case bytes():
            return image_item(content, pair=pair)
        case str():
            return text_item(content, pair=pair)
        case Mapping():
            return record_item(content)
    raise BadItem(
        f"an item is bytes, str or a mapping; this is {type(content).__name__}"
    )


def _label(label: Any) -> str:
    # a table may read the classes 1, 2, 3 as floats
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)


def _image_rows(folder: Path) -> Iterator[Row]:
    if not folder.is_dir():
        what = "this is a file" if folder.exists() else "no such folder"
        raise BadProject(f"{folder}: {what}; a folder of images is needed")
    for path in sorted(folder.rglob("*")):
        if path.suffix.lower() in IMAGE_ENDINGS and path.is_file():
            name = path.relative_to(folder)
            if len(name.parts) < 2:
                raise BadProject(
                    f"{path}: no label; put the images of each class in a folder of "
                    "their own, named after the class"
                )
            yield str(name), path.read_bytes(), name.parts[0], None


def _text_rows(path: Path, data: Data) -> Iterator[Row]:
    with _open(path, data.encoding) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            where = f"{path.name}, line {number}"
            try:
                row = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError as error:
                raise BadProject(
                    f"{where}: {in_words(error)}; each line is to be one JSON object"
                ) from error
            if not isinstance(row.get(data.text), str):
                raise BadProject(
                    f"{where}: no text under the key {data.text!r}; there are "
                    f"{listed([*row])}, and [data] text names the one to read"
                )
            group = row.get(data.group) if data.group else None
            yield where, row[data.text], row.get(data.label), group


def _table_rows(path: Path, data: Data) -> Iterator[Row]:
    columns = (
        _parquet_columns(path)
        if path.suffix == ".parquet"
        else _csv_columns(path, data)
    )
    special = {data.label, *([data.group] if data.group else [])}
    for name in sorted({*special, *data.ignore}):
        if name not in columns:
            raise BadProject(
                f"{path.name}: no column {name!r}; {hint(name, [*columns])}"
                f"{LABEL_OPTION if name == data.label else ''}"
            )
    left_out = special | set(data.ignore)
    used = [name for name in columns if name not in left_out]
    for i in range(len(columns[data.label])):
        record = {name: columns[name][i] for name in used}
        group = columns[data.group][i] if data.group else None
        yield f"{path.name}, row {i + 1}", record, columns[data.label][i], group


def _csv_columns(path: Path, data: Data) -> dict[str, list[Value]]:
    wanted = [data.label, *([data.group] if data.group else [])]
    try:
        file = open_csv(path, data.separator, data.encoding, wanted)
        names, rows = file.names, list(file.rows())
    except BadInput as error:
        raise BadProject(str(error)) from error
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise BadProject(
            f"{path.name}: {names.count(name)} columns are called {name!r}; each needs "
            "a name of its own"
        )
    for number, row in enumerate(rows, 1):
        if len(row) != len(names):
            raise BadProject(
                f"{path.name}, row {number}: {len(row)} cells under {len(names)} names"
            )
    return {
        name: _typed(path.name, name, [row[i] for row in rows])
        for i, name in enumerate(names)
    }


def _typed(where: str, name: str, cells: list[str]) -> list[Value]:
    """Read a column as numbers when every cell that is not empty is one."""
    try:
        return [float(cell) if cell.strip() else None for cell in cells]
    except ValueError:
        try:
            refuse_decimal_commas(where, name, cells)
        except BadInput as error:
            raise BadProject(str(error)) from error
        return [cell.strip() or None for cell in cells]


def _parquet_columns(path: Path) -> dict[str, list[Value]]:
    try:
        from pyarrow import ArrowException, parquet
    except ImportError as error:
        raise BadProject(
            f"{path.name}: reading Parquet needs pyarrow: pip install polydom[parquet]"
        ) from error
    try:
        columns: dict[str, list[Value]] = parquet.read_table(path).to_pydict()
    except FileNotFoundError as error:  # pyarrow's own says but the path
        raise BadProject(f"{path}: No such file or directory") from error
    except (OSError, ArrowException) as error:
        raise BadProject(f"{path}: this is no Parquet file: {error}") from error
    return columns


def _called_rows(project: Project, target: str) -> Iterator[Row]:
    function = import_function(project.folder, target)
    pairs: Iterable[tuple[Any, ...]] = function()
    for number, pair in enumerate(pairs):
        if not isinstance(pair, tuple) or len(pair) not in (2, 3):
            raise BadProject(
                f"{target} must yield (item, label) or (item, label, group); "
                f"item {number} is {type(pair).__name__}"
            )
        yield (
            f"{target}, item {number}",
            pair[0],
            pair[1],
            pair[2] if pair[2:] else None,
        )


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


@contextmanager
def _open(path: Path, encoding: str | None) -> Iterator[Any]:
    try:
        with path.open(encoding=encoding or "utf-8-sig") as file:
            yield file
    except OSError as error:
        raise BadProject(f"{path}: {error.strerror}") from error
    except UnicodeError as error:
        raise BadProject(
            f"{path}: not {encoding or 'UTF-8'}: {error}; [data] encoding says what it "
            'is, such as "latin-1"'
        ) from error
