"""Reading items without labels, on which early exits are fitted and calibrated."""

import logging
import os
from collections.abc import Iterator
from dataclasses import replace

import msgspec
import numpy as np

from polydom.features.errors import BadInput, BadProject
from polydom.features.readers.table_file import open_table
from polydom.features.tables.column_kinds import joined, read_column
from polydom.features.tables.records import Records
from polydom.features.wording import hint

from ...progress import Progress
from ..cache import Cache, digest
from ..project import Project
from .dataset import Dataset, NumberedFile, RowNames, Rows, number_groups
from .folders import loose_source
from .read_items import import_function, text_source, usable_item
from .read_table import groups_of, kept_rows, terms_of
from .stored_items import Place, Reference, Row, Source, StoredItems, StoredItemsWriter

log = logging.getLogger("polydom")

Names = list[tuple[str, str]]


def read_unlabelled(
    project: Project, labelled: Dataset, cache: Cache, progress: Progress
) -> Dataset | None:
    """Read the items that `[data] unlabelled` names; None if it names none.

    Their classes are not known. The result has the labels of `labelled`, and codes that
    are spread over its items as frequently as in `labelled`; they serve only to judge
    whether items are enough. Items that are also labelled items are left out, if items
    are files or texts. Raises BadProject if the items are of another kind than the
    labelled ones, or lack columns that those have.
    """
    name = project.data.unlabelled
    if name is None:
        return None
    with progress.stage("reading items without labels", None) as on_progress:
        try:
            if isinstance(labelled.items, Records):
                read = _read_rows(project, name, labelled, labelled.items)
            else:
                read = _read_stored(project, name, labelled, cache)
        except (BadInput, BadProject) as error:
            raise BadProject(f"[data] unlabelled = {name!r}: {error}") from error
        on_progress(len(read.items))
    return read


def _read_rows(
    project: Project, name: str, labelled: Dataset, records: Records
) -> Dataset:
    """Read the rows of a table, with the kinds that the labelled table's columns have.

    They are appended to its columns, so that words have the same codes in both.
    """
    data = project.data
    group = data.group
    table = open_table(
        project.path(name), data.separator, data.encoding, {group} if group else ()
    )
    for column in records.columns:
        if column not in table.names:
            raise BadInput(
                f"no column {column!r}, which the labelled rows have; "
                f"{hint(column, table.names)}"
            )
    used = [*records.columns]
    if group in table.names and group is not None:
        used.append(group)
    raw = kept_rows(table, table.read(used), data)
    columns = {}
    for column, own in records.columns.items():
        terms = replace(
            terms_of(project, column, table),
            kind=own.kind,
            date_order=own.date_order or data.date_order,
            decimal=own.decimal or data.decimal,
        )
        columns[column] = joined(own, read_column(column, raw.columns[column], terms))
    first = len(next(iter(records.columns.values())))
    rows = np.arange(first, len(next(iter(columns.values()))))
    groups = np.arange(len(rows))
    if used[-1] == group:
        terms = terms_of(project, group, table)
        groups = groups_of(read_column(group, raw.columns[group], terms))
    left_out = tuple(row.number for row in raw.bad)
    file = NumberedFile(table.path.name, len(rows), table.first, left_out)
    return Dataset(
        Records(columns, rows),
        RowNames.of([file]),
        labelled.labels,
        _spread(labelled, len(rows)),
        groups,
    )


def _read_stored(
    project: Project, name: str, labelled: Dataset, cache: Cache
) -> Dataset:
    """Read the files of a folder, the lines of a file, or what a function yields."""
    kind, groups, skipped = labelled.kind, list[object](), Names()
    with StoredItemsWriter() as writer:
        source = _source(project, name, labelled, cache)
        for row in source.rows:
            item = usable_item(project, row, skipped)
            if item is None:
                continue
            if item.kind != kind:
                raise BadInput(
                    f"{row.name} is a {item.kind}, and the labelled items are {kind}s"
                )
            writer.add(item, row.reference)
            groups.append(row.group)
        if not groups:
            why = f": {': '.join(skipped[0])}" if skipped else ""
            raise BadInput(f"no {kind} can be used{why}")
        items = writer.items()
    codes = _spread(labelled, len(items))
    read = Dataset(
        items, items.names, labelled.labels, codes, number_groups(groups), (*skipped,)
    )
    return _without_labelled(read, labelled).shared(cache)


def _source(project: Project, name: str, labelled: Dataset, cache: Cache) -> Source:
    data, path = project.data, project.path(name)
    pieces = (cache.folder / "items" / f"{digest(name)}.msgpack").absolute()
    if data.items is not None:
        return Source(_called_items(project.folder, name, os.fsencode(pieces)))
    if labelled.kind == "image":
        return loose_source(path, msgspec.structs.replace(data, images=name))
    if path.is_dir():
        return loose_source(path, data)
    return text_source(path, data, pieces)


def _called_items(folder: str, target: str, pieces: bytes) -> Iterator[Row]:
    place = Place("piece", pieces, f"{target}, item ")
    for number, item in enumerate(import_function(folder, target)()):
        yield Row(Reference(place, number), item, None)


def _without_labelled(read: Dataset, labelled: Dataset) -> Dataset:
    """Leave out items with the content of a labelled item; the log tells how many."""
    items, others = read.items, labelled.items
    if not (isinstance(items, StoredItems) and isinstance(others, StoredItems)):
        return read
    known = {row.tobytes() for row in others.digests}
    copies = [row.tobytes() in known for row in items.digests]
    if not any(copies):
        return read
    log.warning(
        "%d of the %d items without labels are also labelled items, and left out",
        sum(copies),
        len(items),
    )
    if all(copies):
        raise BadInput(f"all {len(items)} items are also labelled items")
    return read.only(np.flatnonzero(~np.array(copies)))


def _spread(labelled: Dataset, count: int) -> Rows:
    """Return codes (`count`,) with about the frequencies of the labelled items'."""
    known = np.sort(labelled.codes)
    return known[np.arange(count) * len(known) // max(count, 1)]
