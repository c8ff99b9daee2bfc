"""Read labelled items for an evaluation, and count the items that cannot be used."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from polydom.features.errors import BadInput, BadItem, PolydomError
from polydom.features.items import make_item
from polydom.features.readers.folders import readable
from polydom.features.sizes import Size
from polydom.features.tables.records import trim
from polydom.features.wording import listed
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.progress import OnProgress, Progress, Silence

from ..offline_scoring.item_rows import (
    Row,
    files_in,
    is_folder,
    read_file,
    read_rows,
)
from ..runtime.known_columns import KnownColumns

TOLD = 64  # number of rows or files between two reports of progress
T = TypeVar("T")


class LabelledItem(NamedTuple):
    """One item with its label: a class or a number."""

    name: str  # Number of the row, from 0, or path of the file in its folder
    # The item in the form that the index takes: bytes, a string or a mapping
    payload: Any
    # Name of the class, which the index may not know; or a number as text
    label: str
    size: Size  # Size as in `Item`
    whole: Any  # All columns of a record except the label; for other items, the payload


class LabelledItems(NamedTuple):
    """The usable items of a file or folder, and the numbers of unusable items."""

    items: list[LabelledItem]  # Items that can be used; at least one
    # Names of the items that cannot be read, each with the reason
    unreadable: list[tuple[str, str]]
    unlabelled: int  # Number of items without a label
    # Number of items by label, for labels that the index does not know
    foreign: dict[str, int]
    remarks: list[str]  # Remarks on the file as a whole


def read_labelled(
    path: Path,
    index: Index,
    package: Package,
    *,
    label: str = "label",
    separator: str | None = None,
    encoding: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    whole: bool = False,
    progress: Progress | None = None,
) -> LabelledItems:
    """Read labelled items from a table, JSON Lines, or a folder.

    A folder has one subfolder for each class. If `path` is a file, `label` is the
    column or key with the labels. If `limit` is given, at most that many rows or files
    are drawn at random, using `seed`. If `whole`, records also keep columns that the
    index does not read. Raises BadInput if no item can be used.
    """
    remarks: list[str] = []
    stage = (progress or Silence()).stage
    if is_folder(path):
        found = files_in(path, package.kind, encoding)
        files = drawn(found.files, limit, seed)
        with stage("reading items", len(files)) as on_progress:
            read = _files(path, files, package, encoding)
            rows = [*_counted(read, on_progress)]
        remarks = found.remarks()
    else:
        source = read_rows(path, package, separator, encoding, label, whole=whole)
        with stage("reading items", source.total) as on_progress:
            rows = drawn(_counted(source.rows, on_progress), limit, seed)
        remarks = source.remarks()
        _refuse_unlabelled(path, label, rows, source.names())
    return usable(path, rows, index, package)._replace(remarks=remarks)


def usable(
    path: Path, rows: Iterable[Row], index: Index, package: Package
) -> LabelledItems:
    """Return the rows that are items with labels, and the numbers of the others.

    Raises BadInput, naming `path`, if no item can be used.
    """
    sorted_items = _sort(rows, index, package)
    _refuse_nothing(path, sorted_items, package)
    return sorted_items


def class_name(label: Any) -> str:
    """Return the class name of a label; it is "1" for 1, for 1.0 and for NumPy's 1."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)


def drawn(values: Iterable[T], limit: int | None, seed: int) -> list[T]:
    """Draw at most `limit` values with equal probability, and keep their order.

    All values are returned if `limit` is None. Otherwise at most `limit` values are in
    memory at a time (Vitter's algorithm R, 1985).
    """
    if limit is None:
        return list(values)
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, T]] = []
    for number, value in enumerate(values):
        place = number if number < limit else int(rng.integers(number + 1))
        if place < limit:
            kept[place : place + 1] = [(number, value)]
    return [value for _, value in sorted(kept, key=lambda pair: pair[0])]


def _counted(values: Iterable[T], on_progress: OnProgress) -> Iterator[T]:
    """Yield the values, and report their number after every `TOLD` values."""
    count = 0
    for count, value in enumerate(values, 1):
        if count % TOLD == 0:
            on_progress(count)
        yield value
    on_progress(count)


def _files(
    folder: Path, files: Iterable[Path], package: Package, encoding: str | None
) -> Iterator[Row]:
    for path in files:
        name = path.relative_to(folder)
        label = readable(name.parts[0]) if len(name.parts) > 1 else None
        yield Row(readable(name), read_file(path, package.kind, encoding), label)


def _sort(rows: Iterable[Row], index: Index, package: Package) -> LabelledItems:
    columns, known = KnownColumns.of(package), frozenset(package.labels)
    items: list[LabelledItem] = []
    unreadable: list[tuple[str, str]] = []
    foreign: Counter[str] = Counter()
    unlabelled = 0
    for name, payload, given, whole in rows:
        if not isinstance(payload, PolydomError) and _is_none(given):
            unlabelled += 1
            continue
        try:
            if isinstance(payload, PolydomError):
                raise payload
            item = make_item(payload, package.kind, pair=index.pairs)
            if isinstance(payload, Mapping):
                columns.check(payload)
        except BadItem as error:
            unreadable.append((name, str(error)))
            continue
        label = read_label(given, package.numeric, known)
        if label is None:
            unreadable.append((name, f"the label {str(given)[:40]!r} is no number"))
            continue
        if known and label not in known:
            foreign[label] += 1
        everything = payload if whole is None else whole
        items.append(LabelledItem(name, payload, label, item.size, everything))
    return LabelledItems(items, unreadable, unlabelled, dict(foreign), [])


def read_label(label: Any, numeric: bool, known: frozenset[str]) -> str | None:
    """Return a label as text, in the form that the index knows.

    `known` are the classes of the index. Returns None if the index answers with numbers
    and the label is none.
    """
    return _number(label) if numeric else _known_name(label, known)


def _is_none(label: Any) -> bool:
    blank = isinstance(label, str) and not trim(label)
    return label is None or blank or label != label  # NaN counts as no label


def _known_name(label: Any, known: frozenset[str]) -> str:
    """Return the class name of a label in the form that the index knows.

    For example, the text "1.0" becomes "1" if the index knows "1" but not "1.0".
    """
    name = class_name(label)
    if name not in known and isinstance(label, str):
        name = trim(name)
        if name not in known:
            with suppress(ValueError):
                number = class_name(float(name))
                return number if number in known else name
    return name


def _number(label: Any) -> str | None:
    """Return a label as text if it is a finite number, else None."""
    with suppress(TypeError, ValueError, OverflowError):
        number = float(label)
        return repr(number) if isfinite(number) else None
    return None


def _refuse_unlabelled(
    path: Path, label: str, rows: Iterable[Row], names: Iterable[str]
) -> None:
    """Raise BadInput if no row has the key `label`; the message lists `names`."""
    read = [row for row in rows if not isinstance(row.item, PolydomError)]
    if read and label not in names and all(row.label is None for row in read):
        raise BadInput(
            f"{path.name}: none of its {len(read):,} rows has a {label!r}; the first "
            f"has {listed([*names])}"
        )


def _refuse_nothing(path: Path, found: LabelledItems, package: Package) -> None:
    """Raise BadInput if no item can be used, or all labels are unknown to the index."""
    if not found.items:
        raise BadInput(f"{path}: {_why_nothing(path, found)}")
    if found.foreign and sum(found.foreign.values()) == len(found.items):
        raise BadInput(
            f"{path}: the index knows none of its labels {listed([*found.foreign])}; "
            f"it knows {listed(package.labels)}"
        )


def _why_nothing(path: Path, found: LabelledItems) -> str:
    if found.unlabelled and is_folder(path):
        return (
            "none of its files has a label; put those of each class in a folder of "
            "their own, named after the class"
        )
    if found.unlabelled:
        return "none of its rows has a label"
    if found.unreadable:
        name, why = found.unreadable[0]
        return f"none of its items can be read; the first, {name}: {why}"
    return "there are no rows; labelled items are needed"
