"""Reading the labelled rows of a project's table into typed columns."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadProject
from polydom.features.readers.csv_file import BadRow
from polydom.features.readers.table_file import (
    NAMES_AGAIN,
    RawColumns,
    Table,
    open_table,
)
from polydom.features.tables.column_kinds import (
    ColumnTerms,
    joined,
    read_column,
    rows_of_names,
    without_rows,
)
from polydom.features.tables.records import MISSING, Column, Records, Rows
from polydom.features.wording import hint

from ...index.quality import Task
from ...progress import OnProgress
from ..project import Project
from ..project_tables.data import Data
from ..project_tables.fetches import key_columns
from .dataset import Dataset, NumberedFile, RowNames, number_in_turn, numbers_of

log = logging.getLogger("polydom.data")

OPTIONS = {"label": "[data] label names the column of classes"}
NUMBERS = ColumnTerms(kind="number")
THREADS = 2  # more threads read no faster, and take more memory


def load_table(project: Project, on_progress: OnProgress | None = None) -> Dataset:
    """Read the table that `project.data` names, and its test table, if any.

    Columns of fetches' keys are among the columns even if they are groups or ignored.
    Raises BadProject if a column or a label is missing, if the two files differ in the
    kind of a column, or if `on_bad_item` is "stop" and a row cannot be read.
    """
    data, keys = project.data, key_columns(project.fetches)
    paths = [project.path(name) for name in data.sources]
    try:
        tables = [
            open_table(path, data.separator, data.encoding, _special(data))
            for path in paths
        ]
        for table in tables:
            _check_names(table, tables[0], data, keys)
        used = _used(tables[0], data, keys)
        raw = [table.read(used, on_progress) for table in tables]
        pairs = zip(tables, raw, strict=True)
        raw = [kept_rows(table, own, data) for table, own in pairs]
        names, skipped = _names(tables, raw), _skipped(tables, raw)
        columns = _columns(project, tables, raw)
    except BadInput as error:
        raise BadProject(str(error)) from error
    rows = np.arange(len(names))
    wanted = project.wanted
    terms = replace(terms_of(project, data.label, tables[0]), kind="number")
    labels, codes, numbers = labels_of(columns[data.label], names, wanted, terms)
    kept = {name: columns[name] for name in used if name not in _special(data)}
    return Dataset(
        Records(kept | _key_groups(columns, data, keys), rows),
        names,
        labels,
        codes,
        rows if data.group is None else groups_of(columns[data.group]),
        tuple(skipped),
        tested=rows >= names.files[0].rows if data.test is not None else None,
        times=None if data.time is None else times_of(columns[data.time], data, names),
        weights=None if data.weight is None else _weights(columns, data, names),
        numbers=numbers,
    )


def _special(data: Data) -> dict[str, str]:
    """Map columns that are no features, such as the label, to the keys naming them."""
    named = {
        "label": data.label,
        "group": data.group,
        "time": data.time,
        "weight": data.weight,
    }
    return {name: option for option, name in named.items() if name is not None}


def _key_groups(
    columns: Mapping[str, Column], data: Data, keys: Sequence[str]
) -> dict[str, Column]:
    """Return the columns of keys that [data] also gives another meaning.

    The group is read as words; a key of such words is read again, since it may be one
    of numbers.
    """
    found = {name: columns[name] for name in keys if name in _special(data)}
    if data.group in found:
        words = found[data.group].cells.cast(pa.string())
        found[data.group] = read_column(data.group, words, ColumnTerms())
    return found


def _check_names(
    table: Table, first: Table, data: Data, keys: Sequence[str] = ()
) -> None:
    """Raise BadProject if a table lacks a column that the project needs."""
    own = table is first
    options = _special(data) | ({name: "ignore" for name in data.ignore} if own else {})
    needed = {**dict.fromkeys(_used(first, data, keys)), **options}
    for name in sorted(needed):
        if name in table.names:
            continue
        option = OPTIONS.get(options.get(name, ""), "") if own else ""
        which = "" if own else f", which {first.path.name} has"
        near = hint(name, table.names)
        between = " " if near.endswith("?") else "; "
        advice = between.join(filter(None, (near, option)))
        raise BadProject(f"{table.path.name}: no column {name!r}{which}; {advice}")


def _used(table: Table, data: Data, keys: Sequence[str] = ()) -> list[str]:
    wanted = {*_special(data), *keys}
    return [n for n in table.names if n in wanted or n not in data.ignore]


def kept_rows(table: Table, raw: RawColumns, data: Data) -> RawColumns:
    """Return the table's columns, without rows that are unreadable or empty.

    Raises BadProject for an unreadable row if `on_bad_item` is "stop".
    """
    if raw.bad and data.on_bad_item == "stop":
        number, why = raw.bad[0]
        raise BadProject(f"{table.path.name}, row {number}: {why}")
    kept, empty = without_rows(raw.columns)
    again = [] if table.typed else rows_of_names(raw.columns)
    kept = np.setdiff1d(kept, again) if len(again) else kept
    numbers = row_numbers(table.first, len(kept) + len(empty) + len(again), raw.bad)
    bad = [
        *raw.bad,
        *(BadRow(int(numbers[k]), "no cell holds anything") for k in empty),
        *(BadRow(int(numbers[k]), NAMES_AGAIN) for k in again),
    ]
    if not len(kept):
        raise BadProject(
            f"{table.path} holds names of columns, and no rows; labelled items are "
            "needed"
        )
    columns = raw.columns
    if len(empty) or len(again):
        columns = {name: column.take(kept) for name, column in columns.items()}
    return RawColumns(columns, sorted(bad))


def row_numbers(first: int, count: int, bad: Sequence[BadRow]) -> Rows:
    """Return the numbers, in the file, of the `count` rows that are not `bad`.

    `first` is the number of the file's first row after the column names.
    """
    every = np.arange(first, first + count + len(bad))
    return np.setdiff1d(every, [row.number for row in bad], assume_unique=True)


def _names(tables: Sequence[Table], raw: Sequence[RawColumns]) -> RowNames:
    files = []
    for table, own in zip(tables, raw, strict=True):
        count = len(next(iter(own.columns.values())))
        left_out = tuple(row.number for row in own.bad)
        files.append(NumberedFile(table.path.name, count, table.first, left_out))
    return RowNames.of(files)


def _skipped(
    tables: Sequence[Table], raw: Sequence[RawColumns]
) -> list[tuple[str, str]]:
    return [
        (f"{table.path.name}, row {number}", why)
        for table, own in zip(tables, raw, strict=True)
        for number, why in own.bad
    ]


def _columns(
    project: Project, tables: Sequence[Table], raw: Sequence[RawColumns]
) -> dict[str, Column]:
    """Return typed columns by name; each has the rows of all tables, in order.

    Raises BadProject if a column has different kinds in the tables. Columns are removed
    from `raw` as they are read, which frees memory.
    """
    names = [*raw[0].columns]
    counts = [len(next(iter(own.columns.values()))) for own in raw]
    alike = not any(table.typed for table in tables)

    def read(name: str) -> Column:
        terms = [terms_of(project, name, table) for table in tables]
        cells = [own.columns.pop(name) for own in raw]
        pa.default_memory_pool().release_unused()
        if alike and len(cells) > 1:
            cells = [pa.chunked_array([c for one in cells for c in one.chunks])]
        columns = [read_column(name, *pair) for pair in zip(cells, terms, strict=False)]
        whole = columns[0]
        if alike and len(tables) > 1 and whole.kind in ("word", "text"):
            first = read_column(name, cells[0][: counts[0]], terms[0])
            if first.kind != whole.kind:
                _refuse_kinds(name, first, whole, tables)
        for more in columns[1:]:
            try:
                whole = joined(whole, more)
            except TypeError:
                _refuse_kinds(name, whole, more, tables)
        return whole

    with ThreadPoolExecutor(THREADS) as pool:
        return dict(zip(names, pool.map(read, names), strict=True))


def _refuse_kinds(
    name: str, one: Column, more: Column, tables: Sequence[Table]
) -> NoReturn:
    raise BadProject(
        f"column {name!r} holds {one.kind}s in {tables[0].path.name} and {more.kind}s "
        f"in {tables[1].path.name}; the same in both is needed"
    ) from None


def terms_of(project: Project, name: str, table: Table) -> ColumnTerms:
    """Return the settings for reading a column, from the project and from its file."""
    data = project.data
    terms = ColumnTerms(
        missing=tuple(data.missing),
        date_order=data.date_order,
        decimal=data.decimal,
        commas=table.commas,
        points_group=table.points_group,
        typed=table.typed,
    )
    option = _special(data).get(name)
    if option in ("label", "group"):  # labels and groups are kept as written
        return replace(terms, kind="word")
    for group in project.features.columns:
        if name in group.columns:
            terms = replace(
                terms,
                kind=group.kind,
                missing=(*terms.missing, *group.missing),
                date_order=group.date_order or terms.date_order,
            )
    return terms


def labels_of(
    column: Column,
    names: RowNames,
    task: Task | None,
    terms: ColumnTerms = NUMBERS,
) -> tuple[tuple[str, ...], Rows, NDArray[np.float64] | None]:
    """Return class names, each row's class code (N,), and numeric labels (N,).

    For classes, the numeric labels are None. For regression, there are no class names
    and all codes are 0. Class names are kept as written: `007` and `7` are two classes.
    """
    _refuse_missing(column, names, "no label; each item needs one")
    numbers = None
    if task != "classes":
        numbers = _label_numbers(column, names, task, terms)
    if numbers is not None and (found := numbers_of(numbers, task)) is not None:
        return (), np.zeros(len(found), np.int64), found
    return *classes_of(column), None


def _label_numbers(
    column: Column, names: RowNames, task: Task | None, terms: ColumnTerms
) -> NDArray[np.float64] | None:
    """Return labels as finite numbers; None if the labels are classes."""
    number = column
    if column.kind in ("word", "text"):
        with suppress(BadInput):
            number = read_column("label", column.cells.cast(pa.string()), terms)
    if number.kind != "number" or number.cells.type == pa.bool_():
        if task == "regression":
            raise BadProject(
                f"[data] label: the column holds {column.kind}s; for task = "
                "'regression' numbers are needed"
            )
        return None
    _refuse_missing(number, names, "no label; each item needs one")
    if task == "regression" and number.unclear:
        log.warning("[data] label: %s", number.unclear)
    values = number.numbers().astype(np.float64)
    infinite = np.flatnonzero(~np.isfinite(values))
    if len(infinite):
        row = int(infinite[0])
        raise BadProject(f"{names[row]}: the label is {values[row]:g}, not finite")
    return values


def classes_of(column: Column) -> tuple[tuple[str, ...], Rows]:
    """Return the sorted class names, and each row's class as a position among them."""
    codes, words = column.told_apart()
    texts = [label_of(word) for word in words]
    used = np.unique(codes).tolist()
    labels = sorted({texts[code] for code in used})
    places = {label: place for place, label in enumerate(labels)}
    numbers = np.array([places.get(text, 0) for text in texts], np.int64)
    return tuple(labels), numbers[codes]


def label_of(value: Any) -> str:
    """Return the name of a class as a string; both 1 and 1.0 are named "1"."""
    # a table may hold the classes 1, 2, 3 as floats
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def groups_of(column: Column) -> Rows:
    """Return the group number of each row; a row without a group is its own group."""
    codes, _ = column.told_apart()
    rows = np.arange(len(column))
    return number_in_turn(np.where(codes == MISSING, len(rows) + rows, codes))


def times_of(column: Column, data: Data, names: RowNames) -> NDArray[Any]:
    """Return each row's time as a number (N,); later times are larger."""
    if column.kind in ("word", "text"):
        raise BadProject(
            f"[data] time: column {data.time!r} holds {column.kind}s such as "
            f"{column.words().words[0]!r}; numbers or dates are needed"
        )
    _refuse_missing(
        column, names, f"no time in column {data.time!r}; each item needs one"
    )
    if column.kind == "number":
        return column.numbers().astype(np.float64)
    return column.micros()


def _weights(
    columns: Mapping[str, Column], data: Data, names: RowNames
) -> NDArray[np.float64]:
    column = columns[data.weight or ""]
    if column.kind != "number":
        raise BadProject(
            f"[data] weight: column {data.weight!r} holds {column.kind}s; numbers are "
            "needed"
        )
    return weights_of(column.numbers(), names, str(data.weight))


def weights_of(
    values: NDArray[Any], names: Sequence[str], where: str
) -> NDArray[np.float64]:
    """Return weights (N,) scaled to mean 1.

    Raises BadProject if a weight is not a number above 0. The message contains the name
    of the row and `where`, the column or key of the weights.
    """
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


def _refuse_missing(column: Column, names: RowNames, what: str) -> None:
    missing = np.flatnonzero(column.missing())
    if len(missing):
        raise BadProject(f"{names[int(missing[0])]}: {what}")
