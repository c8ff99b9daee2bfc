"""Convert the X of an estimator to items: rows of a table, texts or images."""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Item, Kind, make_item
from polydom.features.tables.column_kinds import ColumnTerms, read_column
from polydom.features.tables.records import Column, ColumnKind, Records
from polydom.features.wording import hint

NEEDED = (
    "a table is needed (a DataFrame of pandas or Polars, an Arrow table, an array of "
    "two dimensions), or a list of texts, images or records"
)
LARGEST = np.finfo(np.float64).max
EMPTY = ("NAType", "NaTType")  # types of pandas, which need not be installed
LISTS = ("to_pylist", "to_list", "tolist")  # methods of Arrow, Polars, pandas

Kinds = Mapping[str, ColumnKind | None]


def items_of(
    X: Any, kind: Kind | None = None, fitted: Kinds | None = None
) -> Sequence[Item]:
    """Convert X to N items: a table, an array (N, d), or N texts, images or mappings.

    N separate items must all be of one kind, in a list or in a column of pandas, Polars
    or Arrow. Images are bytes, or paths of files; a string is a path if `kind` is
    "image", otherwise a text. `fitted` maps the names of the columns that `fit` got, in
    the order of X's columns, to their kinds. These names replace the names in X. `fit`
    itself passes None; then columns without names are called x0, x1 ...
    """
    if is_table(X):
        names, cells = _table_columns(X)
        return _records(names, cells, fitted)
    if getattr(X, "ndim", 1) == 2:
        if not X.size:
            raise BadInput(f"an array of shape {X.shape} came; {NEEDED}")
        names = [f"x{place}" for place in range(X.shape[1])]
        return _records(names, list(X.T), fitted)
    if hasattr(X, "collect"):
        raise BadInput(f"{type(X).__name__} came, which holds no rows: X.collect()")
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        raise BadInput(f"{type(X).__name__} came; {NEEDED}")
    items = []
    for number, one in enumerate(_listed(X)):
        try:
            items.append(_item(one, kind))
        except BadItem as error:
            raise BadItem(f"item {number}: {error}") from error
    if not items:
        raise BadInput(f"X is empty; {NEEDED}")
    kinds = sorted({item.kind for item in items})
    if len(kinds) > 1:
        raise BadInput(f"X mixes {' and '.join(kinds)} items; one kind only")
    return tuple(items)


def is_table(X: Any) -> bool:
    """Return True if X has named columns: a DataFrame or an Arrow table."""
    readable = ("iloc", "__arrow_c_stream__", "to_arrow")
    if not any(hasattr(X, name) for name in readable):
        return False
    return hasattr(X, "columns") or hasattr(X, "schema")


def is_array(X: Any) -> bool:
    """Return True if X is an array or a list of rows, which scikit-learn can check."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], list | tuple | np.ndarray)
    if isinstance(X, np.ndarray):
        return X.ndim != 1 or X.dtype.kind not in "OUS"
    if getattr(X, "ndim", 1) == 1 and any(hasattr(X, name) for name in LISTS):
        return False  # a column of a frame
    return issparse(X) or hasattr(X, "__array__")


def in_arrow(X: Any) -> Any:
    """Convert a table to Arrow; return a DataFrame of pandas unchanged.

    Raises BadInput if Arrow cannot read the table.
    """
    import pyarrow as pa

    if hasattr(X, "iloc"):
        return X
    try:
        return pa.table(X if hasattr(X, "__arrow_c_stream__") else X.to_arrow())
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise BadInput(
            f"{type(X).__name__} came, of which Arrow says: {said}"
        ) from error


def refuse_unknown(items: Sequence[Item], names: Sequence[str]) -> None:
    """Raise BadInput if a record has a column that is not in `names`."""
    known = frozenset(names)
    for number, item in enumerate(items):
        assert isinstance(item.payload, Mapping)
        if not known.issuperset(item.payload):
            name = next(name for name in item.payload if name not in known)
            raise BadInput(
                f"item {number} has a column {name!r} that was not fitted; "
                f"{hint(name, names)}"
            )


def _listed(X: Iterable[Any]) -> Iterable[Any]:
    """Return the values of a column as Python objects."""
    listing = next((name for name in LISTS if hasattr(X, name)), None)
    return X if listing is None else getattr(X, listing)()


def _item(one: Any, kind: Kind | None) -> Item:
    if isinstance(one, np.generic):
        one = one.item()
    if hasattr(one, "as_py"):  # a list may hold cells of Arrow
        one = one.as_py()
    if isinstance(one, bytearray | memoryview):
        one = bytes(one)
    if isinstance(one, Mapping):
        one = {name: None if is_missing(cell) else cell for name, cell in one.items()}
    if isinstance(one, Path) or (kind == "image" and isinstance(one, str)):
        try:
            one = Path(one).read_bytes()
        except OSError as error:
            raise BadItem(f"{one}: {error.strerror}") from error
    return make_item(one, kind)


def _table_columns(X: Any) -> tuple[list[str], list[Any]]:
    if hasattr(X, "iloc"):
        names = [str(name) for name in X.columns]
        cells = [X.iloc[:, place] for place in range(len(names))]
    else:
        X = in_arrow(X)
        names, cells = X.column_names, X.columns
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"X has {names.count(name)} columns called {name!r}")
    if not (names and len(X)):
        raise BadInput(f"X has {len(X)} rows of {len(names)} columns; {NEEDED}")
    return names, cells


def _records(
    names: Sequence[str], cells: Sequence[Any], fitted: Kinds | None
) -> Records:
    kinds: Kinds = dict.fromkeys(names) if fitted is None else fitted
    columns = {}
    for (name, kind), own in zip(kinds.items(), cells, strict=True):
        column = columns[name] = _column(name, own, is_fitted=fitted is not None)
        known = column.kind == "number" and not column.missing().all()
        if kind == "date" and known:
            raise BadInput(f"column {name!r} holds numbers; dates were fitted")
    return Records(columns, np.arange(len(cells[0])))


def _column(name: str, cells: Any, *, is_fitted: bool) -> Column:
    """Read a column. If `is_fitted`, strings are not parsed as numbers or dates."""
    import pyarrow as pa

    if not isinstance(cells, pa.Array | pa.ChunkedArray):
        cells = _arrow_of(name, cells)
    strings = "string" in str(cells.type)
    terms = ColumnTerms(typed=True, kind="word" if is_fitted and strings else None)
    try:
        return read_column(name, cells, terms)
    except pa.ArrowException as error:
        raise BadInput(
            f"column {name!r} holds {cells.type}, of which Arrow says: {error}"
        ) from error


def _arrow_of(name: str, cells: Any) -> Any:
    """Convert a column to Arrow. Its cells must be all numbers or all strings."""
    import pyarrow as pa

    if hasattr(cells, "sparse"):
        cells = cells.sparse.to_dense()
    try:
        return pa.array(cells, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        said = str(error).splitlines()[0]
    known = {row: one for row, one in enumerate(cells.tolist()) if not is_missing(one)}
    odd = next((row for row, one in known.items() if not isinstance(one, str)), None)
    if odd is None:
        raise BadInput(f"column {name!r} holds strings, of which Arrow says: {said}")
    if any(isinstance(one, str) for one in known.values()):
        raise BadInput(
            f"column {name!r} holds strings and, in row {odd}, "
            f"{type(known[odd]).__name__}; one or the other is needed: "
            ".astype(str) makes strings of all"
        )
    return pa.array(_numbers(name, known, len(cells)))


def _numbers(name: str, known: Mapping[int, Any], count: int) -> NDArray[np.float64]:
    """Return an array (count,) of `known` numbers by row; other rows are NaN."""
    numbers = np.full(count, np.nan)
    for row, one in known.items():
        try:
            numbers[row] = float(one)
        except (TypeError, ValueError):
            raise BadInput(
                f"column {name!r} holds, in row {row}, {type(one).__name__}; numbers "
                "or strings are needed"
            ) from None
        except OverflowError:
            raise BadInput(
                f"column {name!r} holds, in row {row}, a whole number over "
                f"{LARGEST:.1e}"
            ) from None
    return numbers


def is_missing(value: Any) -> bool:
    """Return True for an empty cell: None, NaN, or pandas' NA and NaT."""
    if isinstance(value, float | Decimal | np.floating):
        return bool(value != value)
    return value is None or type(value).__name__ in EMPTY
