"""The labelled items that an index is judged on, and what of them was left out."""

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

TOLD = 64  # rows or files after which it is told how many
T = TypeVar("T")


class LabelledItem(NamedTuple):
    """One item, and the class or number it is labelled with.

    Attributes
    ----------
    name
        Of its row, from 0, or of its file in the folder.
    payload
        What the index is asked with: bytes, a string or a mapping.
    label
        Name of its class, which the index need not know; or its number, written out.
    size
        As of its `Item`.
    whole
        Of a record all columns but the label; else the payload.
    """

    name: str
    payload: Any
    label: str
    size: Size
    whole: Any


class LabelledItems(NamedTuple):
    """What an index is judged on.

    Attributes
    ----------
    items
        Those that can be used; at least one.
    unreadable
        Names of those that are no items, and why.
    unlabelled
        How many have no label.
    foreign
        Labels that the index does not know, and how many items have them.
    remarks
        What else there is to say of the file.
    """

    items: list[LabelledItem]
    unreadable: list[tuple[str, str]]
    unlabelled: int
    foreign: dict[str, int]
    remarks: list[str]


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
    """Read labelled items: a folder with one for each class, JSON Lines or a table.

    Parameters
    ----------
    index, package
        Say what items are, and which classes there are.
    label
        The column or key that holds labels; folders need none.
    separator, encoding
        As for `read_rows`.
    limit, seed
        Draw so many of the rows or files, with this seed; by default all are read.
    whole
        Whether to keep a record's columns that the index does not read.
    progress
        Told how many rows or files are read.

    Raises
    ------
    BadInput
        If there is no such file, or nothing in it that can be used.
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
    judged = _sort(rows, index, package)
    _refuse_nothing(path, judged, package)
    return judged._replace(remarks=remarks)


def class_name(label: Any) -> str:
    """Name the class that a label means; 1, 1.0 and numpy's 1 are one."""
    if isinstance(label, np.generic):
        label = label.item()
    if isinstance(label, float) and label.is_integer():
        label = int(label)
    return str(label)


def drawn(values: Iterable[T], limit: int | None, seed: int) -> list[T]:
    """Draw so many values, each as likely as the others, in their own order.

    Of values that are read one by one no more than these are held: Vitter's algorithm
    R (1985).
    """
    if limit is None:
        return list(values)
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, T]] = []
    for number, value in enumerate(values):
        place = number if number < limit else int(rng.integers(number + 1))
        if number < limit:
            kept.append((number, value))
        elif place < limit:
            kept[place] = (number, value)
    return [value for _, value in sorted(kept, key=lambda pair: pair[0])]


def _counted(values: Iterable[T], on_progress: OnProgress) -> Iterator[T]:
    """Tell now and then how many values have come."""
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
    """Part what can be used from what cannot."""
    columns, known = KnownColumns(package.features), frozenset(package.labels)
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
        if package.numeric:
            label = _number(given)
            if label is None:
                unreadable.append((name, f"the label {str(given)[:40]!r} is no number"))
                continue
        else:
            label = _known_name(given, known)
        if known and label not in known:
            foreign[label] += 1
        everything = payload if whole is None else whole
        items.append(LabelledItem(name, payload, label, item.size, everything))
    return LabelledItems(items, unreadable, unlabelled, dict(foreign), [])


def _is_none(label: Any) -> bool:
    blank = isinstance(label, str) and not trim(label)
    return label is None or blank or label != label  # NaN is no label either


def _known_name(label: Any, known: frozenset[str]) -> str:
    """Name a class as the index does, where a file has its number in another form."""
    name = class_name(label)
    if name not in known and isinstance(label, str):
        name = trim(name)
        if name not in known:
            with suppress(ValueError):
                number = class_name(float(name))
                return number if number in known else name
    return name


def _number(label: Any) -> str | None:
    """Write out a label that is a finite number; None for any other."""
    with suppress(TypeError, ValueError, OverflowError):
        number = float(label)
        return repr(number) if isfinite(number) else None
    return None


def _refuse_unlabelled(
    path: Path, label: str, rows: Iterable[Row], names: Iterable[str]
) -> None:
    """Refuse JSON Lines without the key of labels, saying which there are."""
    read = [row for row in rows if not isinstance(row.item, PolydomError)]
    if read and label not in names and all(row.label is None for row in read):
        raise BadInput(
            f"{path.name}: none of its {len(read):,} rows has a {label!r}; the first "
            f"has {listed([*names])}"
        )


def _refuse_nothing(path: Path, judged: LabelledItems, package: Package) -> None:
    """Refuse items of which none says how good an index is."""
    if not judged.items:
        raise BadInput(f"{path}: {_why_nothing(path, judged)}")
    if judged.foreign and sum(judged.foreign.values()) == len(judged.items):
        raise BadInput(
            f"{path}: the index knows none of its labels {listed([*judged.foreign])}; "
            f"it knows {listed(package.labels)}"
        )


def _why_nothing(path: Path, judged: LabelledItems) -> str:
    if judged.unlabelled and is_folder(path):
        return (
            "none of its files has a label; put those of each class in a folder of "
            "their own, named after the class"
        )
    if judged.unlabelled:
        return "none of its rows has a label"
    if judged.unreadable:
        name, why = judged.unreadable[0]
        return f"none of its items can be read; the first, {name}: {why}"
    return "there are no rows; labelled items are needed"
