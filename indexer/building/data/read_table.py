"""The labelled rows of a project's table, read into columns."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadProject
from polydom.features.readers.tables import Table, open_table
from polydom.features.tables.cells import Cells, Numbers, Rows, Words, all_rows, joined
from polydom.features.tables.records import Records
from polydom.features.wording import hint

from ...index.quality import Task
from ...progress import OnProgress
from ..project import Data, Project
from .dataset import Dataset, RowNames, number_in_turn, numbers_of

OPTIONS = {"label": "[data] label names the column of classes"}


def load_table(project: Project, on_progress: OnProgress | None = None) -> Dataset:
    """Read the table that `project.data` names, and that to test on.

    Raises
    ------
    BadProject
        If a file cannot be read, has no rows, lacks a column or has two of a name; a
        row lacks its label or time, or is too short; or the two files differ.
    """
    data = project.data
    paths = [project.path(name) for name in data.sources]
    try:
        tables = [
            open_table(path, data.separator, data.encoding, _special(data))
            for path in paths
        ]
        for table in tables:
            _check_names(table, tables[0], data)
        read = [_read(table, tables[0], data, on_progress) for table in tables]
    except BadInput as error:
        raise BadProject(str(error)) from error
    counts = [len(columns[data.label]) for columns in read]
    for path, count in zip(paths, counts, strict=True):
        if not count:
            raise BadProject(
                f"{path} holds names of columns, and no rows; labelled items are needed"
            )
    columns = _joined(read, paths)
    rows = all_rows(sum(counts))
    names = tuple(path.name for path in paths)
    where = RowNames(tuple(zip(names, counts, strict=True)), rows)
    labels, codes, numbers = labels_of(columns[data.label], where, project.wanted)
    return Dataset(
        Records({n: c for n, c in columns.items() if n not in _special(data)}, rows),
        where,
        labels,
        codes,
        rows if data.group is None else groups_of(columns[data.group]),
        tested=rows >= counts[0] if data.test is not None else None,
        times=None if data.time is None else times_of(columns[data.time], data, where),
        weights=None if data.weight is None else _weights(columns, data, where),
        numbers=numbers,
    )


def _special(data: Data) -> dict[str, str]:
    """Columns that are no features, each with the option that names it."""
    named = {
        "label": data.label,
        "group": data.group,
        "time": data.time,
        "weight": data.weight,
    }
    return {name: option for option, name in named.items() if name is not None}


def _check_names(table: Table, first: Table, data: Data) -> None:
    """Refuse columns that are asked for and the table has not."""
    own = table is first
    options = _special(data) | ({name: "ignore" for name in data.ignore} if own else {})
    needed = {**dict.fromkeys(_used(first, data)), **options}
    for name in sorted(needed):
        if name in table.names:
            continue
        option = OPTIONS.get(options.get(name, ""), "") if own else ""
        which = "" if own else f", which {first.path.name} has"
        near = hint(name, table.names)
        between = " " if near.endswith("?") else "; "
        advice = between.join(filter(None, (near, option)))
        raise BadProject(f"{table.path.name}: no column {name!r}{which}; {advice}")


def _used(table: Table, data: Data) -> list[str]:
    special = _special(data)
    return [n for n in table.names if n in special or n not in data.ignore]


def _read(
    table: Table, first: Table, data: Data, on_progress: OnProgress | None
) -> dict[str, Cells]:
    undated = {*_special(data)} - {data.time}
    return table.cells(_used(first, data), undated, on_progress)


def _joined(
    read: Sequence[Mapping[str, Cells]], paths: Sequence[Path]
) -> dict[str, Cells]:
    """Put the rows of the tables one after the other."""
    columns = dict(read[0])
    for path, more in zip(paths[1:], read[1:], strict=True):
        for name, cells in more.items():
            try:
                columns[name] = joined(columns[name], cells)
            except TypeError:
                first, other = (
                    type(one).__name__.lower() for one in (columns[name], cells)
                )
                raise BadProject(
                    f"column {name!r} holds {first} in {paths[0].name} and {other} in "
                    f"{path.name}; the same in both is needed"
                ) from None
    return columns


def labels_of(
    cells: Cells, names: RowNames, task: Task | None
) -> tuple[tuple[str, ...], Rows, NDArray[np.float64] | None]:
    """Give what a column holds: class names, codes, and numbers where it holds such."""
    _refuse_missing(cells, names, "no label; each item needs one")
    number = isinstance(cells, Numbers) and cells.values.dtype != np.bool_
    if task == "regression" and not number:
        what = type(cells).__name__.lower()
        raise BadProject(
            f"[data] label: the column holds {what}; for task = 'regression' numbers "
            "are needed"
        )
    if task != "classes" and isinstance(cells, Numbers) and number:
        values = cells.values.astype(np.float64)
        infinite = np.flatnonzero(~np.isfinite(values))
        if len(infinite):
            row = int(infinite[0])
            raise BadProject(f"{names[row]}: the label is {values[row]:g}, not finite")
        numbers = numbers_of(values, task)
        if numbers is not None:
            return (), np.zeros(len(numbers), np.int64), numbers
    return *classes_of(cells), None


def classes_of(cells: Cells) -> tuple[tuple[str, ...], Rows]:
    """Find the classes that a column holds, sorted, and each row's position in them."""
    _, first, own = np.unique(cells.array, return_index=True, return_inverse=True)
    texts = [label_of(cells.value(row)) for row in first.tolist()]
    labels = sorted(set(texts))
    places = {label: place for place, label in enumerate(labels)}
    return tuple(labels), np.array([places[t] for t in texts], np.int64)[own]


def label_of(value: Any) -> str:
    """Name a class as a table, a request or a function gives it."""
    # a table may read the classes 1, 2, 3 as floats
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def groups_of(cells: Cells) -> Rows:
    """Give a number to each group of a column; a row without one is its own group."""
    rows = all_rows(len(cells))
    _, own = np.unique(cells.array, return_inverse=True)
    return number_in_turn(np.where(cells.missing(rows), len(rows) + rows, own))


def times_of(cells: Cells, data: Data, names: RowNames) -> NDArray[Any]:
    """Numbers that grow as time goes by, (N,)."""
    if isinstance(cells, Words):
        raise BadProject(
            f"[data] time: column {data.time!r} holds words such as {cells.words[0]!r};"
            " numbers or dates in ISO 8601 are needed"
        )
    _refuse_missing(
        cells, names, f"no time in column {data.time!r}; each item needs one"
    )
    if isinstance(cells, Numbers):
        return cells.values.astype(np.float64)
    return cells.micros


def _weights(
    columns: Mapping[str, Cells], data: Data, names: RowNames
) -> NDArray[np.float64]:
    cells = columns[data.weight or ""]
    if not isinstance(cells, Numbers):
        what = type(cells).__name__.lower()
        raise BadProject(
            f"[data] weight: column {data.weight!r} holds {what}; numbers are needed"
        )
    return weights_of(cells.values, names, str(data.weight))


def weights_of(
    values: NDArray[Any], names: Sequence[str], where: str
) -> NDArray[np.float64]:
    """Make weights whose mean is 1; BadProject if one is not a number above 0."""
    weights = values.astype(np.float64)
    wrong = np.flatnonzero(~((weights > 0) & (weights < np.inf)))
    if len(wrong):
        row = int(wrong[0])
        raise BadProject(
            f"{names[row]}: the weight in {where!r} is {weights[row]:g}; a number "
            "above 0 is needed"
        )
    shares: NDArray[np.float64] = weights / weights.mean()
    return shares


def _refuse_missing(cells: Cells, names: RowNames, what: str) -> None:
    missing = np.flatnonzero(cells.missing(all_rows(len(cells))))
    if len(missing):
        raise BadProject(f"{names[int(missing[0])]}: {what}")
