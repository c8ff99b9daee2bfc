"""The rows or items that are asked for when a build times fetches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polydom.features.errors import BadProject
from polydom.features.fetches.timing import ITEM
from polydom.features.items import Item
from polydom.features.tables.records import Records, column_names
from polydom.features.wording import hint

from ...index.fetches.stored_fetches import KeyKind
from ..project import Project
from ..project_tables.fetches import check_kind, key_columns
from .dataset import Dataset

TIMED = 200  # most rows whose keys are asked for

DRAWN_BYTES = 64 << 20  # of drawn texts or images, about

KeyRow = dict[str, Any]


def take_keys(project: Project, dataset: Dataset) -> tuple[Dataset, list[KeyRow]]:
    """Draw rows whose keys are asked for; return the data without unneeded key columns.

    Of texts and images, the items themselves are drawn, as rows with the item alone.

    The columns of keys that are in no group of `[[features.columns]]` are no features,
    so they are left out of a table. The rows are drawn with the project's seed, up to
    `TIMED` of those without an empty key. No items are drawn if arrival times are
    given.

    Raises BadProject if a fetch is for other kinds of items, if rows lack a column of a
    fetch, or if every row has an empty key and arrival times are not given.
    """
    fetches = project.fetches
    if not fetches:
        return dataset, []
    for name, fetch in fetches.items():
        check_kind(name, fetch, records=dataset.kind == "record")
    timed = all(fetch.times is None for fetch in fetches.values())
    if dataset.kind != "record":
        return dataset, _draw_items(dataset.items, project.seed) if timed else []
    known = column_names(dataset.items)
    for name, fetch in fetches.items():
        for key, columns in (("key", fetch.key), ("columns", fetch.columns)):
            for column in columns:
                if column not in known:
                    raise BadProject(
                        f"[fetches.{name}] {key} has {column!r}, which no row has; "
                        f"{hint(column, known, 0.4)}"
                    )
    keys = key_columns(fetches)
    rows = _draw(dataset.items, keys, project.seed)
    if timed and not rows:
        raise BadProject(f"[fetches] every row lacks a key, of {', '.join(keys)}")
    if isinstance(dataset.items, Records):
        grouped = {n for group in project.features.columns for n in group.columns}
        left = {
            name: column
            for name, column in dataset.items.columns.items()
            if name in grouped or name not in keys
        }
        dataset = replace(dataset, items=Records(left, dataset.items.rows))
    return dataset, rows


def key_kind(rows: Sequence[KeyRow], name: str) -> KeyKind:
    """Return what a column of a key holds in some rows, of which there is at least one.

    Text beside numbers is text, as a client can write any number as a text.
    """
    types = {type(row[name]) for row in rows}
    if types == {bool}:
        return "boolean"
    if str in types:
        return "text"
    return "number" if float in types else "whole number"


def _draw(items: Sequence[Item], keys: Sequence[str], seed: int) -> list[KeyRow]:
    """Draw up to `TIMED` rows with all keys; whole numbers in them are integers."""
    places = np.arange(len(items))
    if isinstance(items, Records):
        items = Records({name: items.columns[name] for name in keys}, items.rows)
        missing = [items.columns[name].missing()[items.rows] for name in keys]
        places = np.flatnonzero(~np.any(missing, axis=0))
    places = np.random.default_rng(seed).permutation(places)
    rows = list[KeyRow]()
    for row in _complete(items, keys, places.tolist()):
        rows.append(row)
        if len(rows) == TIMED:
            break
    for name in keys:
        # numbers of a column with an empty cell are floats
        cells = [row[name] for row in rows]
        if all(isinstance(cell, float) and cell.is_integer() for cell in cells):
            for row, cell in zip(rows, cells, strict=True):
                row[name] = int(cell)
    return rows


def _draw_items(items: Sequence[Item], seed: int) -> list[KeyRow]:
    """Draw up to `TIMED` items, fewer if they are large."""
    rows, left = list[KeyRow](), DRAWN_BYTES
    for place in np.random.default_rng(seed).permutation(len(items))[:TIMED].tolist():
        payload: Any = items[place].payload
        rows.append({ITEM: payload})
        left -= len(payload)
        if left < 0:
            break
    return rows


def _complete(
    items: Sequence[Item], keys: Sequence[str], places: Sequence[int]
) -> Iterator[KeyRow]:
    for place in places:
        record: Mapping[str, Any] | Any = items[place].payload
        row = {name: record.get(name) for name in keys}
        if not any(value is None or value != value for value in row.values()):
            yield row
