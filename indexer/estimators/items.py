"""What an estimator is given, as items: tables in columns, texts, images."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Item, Kind, make_item
from polydom.features.tables.column_kinds import ColumnTerms, read_column
from polydom.features.tables.records import Column, Records
from polydom.features.wording import hint

LARGEST = np.finfo(np.float64).max
NEEDED = (
    "a table is needed (a DataFrame of pandas or Polars, an Arrow table, an array of "
    "two dimensions), or a list of texts, images or records"
)
TYPED = ColumnTerms(typed=True)


def items_of(
    X: Any, kind: Kind | None = None, names: Sequence[str] | None = None
) -> Sequence[Item]:
    """Make items of what an estimator is given.

    Parameters
    ----------
    X
        A table: a DataFrame of pandas or Polars, an Arrow table, or an array (N, d).
        Or N of the same: texts, images as bytes or paths, or mappings; in a list, or a
        column of pandas, Polars or Arrow.
    kind
        "image" where strings are paths of images; by default they are texts.
    names
        What a table's columns are called, by position, whatever it calls them; None
        for its own names, or x0, x1 ... where it has none.

    Raises
    ------
    BadInput
        If it is nothing of that, or a column holds what no feature can be made of.
    BadItem
        If one of the items cannot be used; its position is named.
    """
    if is_table(X):
        return _of_table(X, names)
    if getattr(X, "ndim", 1) == 2:
        return _of_array(X, names)
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
    """Say whether columns have names: a DataFrame or an Arrow table."""
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        return True
    return hasattr(X, "__arrow_c_stream__") and not is_column(X)


def is_column(X: Any) -> bool:
    """Say whether X is one column: a Series of pandas or Polars, an Arrow array."""
    if hasattr(X, "iloc"):
        return not hasattr(X, "columns")
    whole = hasattr(X, "columns") or hasattr(X, "schema")
    return hasattr(X, "__arrow_c_stream__") and not whole


def _listed(X: Iterable[Any]) -> Iterable[Any]:
    """List the values of an Arrow array; others give Python's own."""
    return X.to_pylist() if hasattr(X, "to_pylist") else X


def is_array(X: Any) -> bool:
    """Say whether scikit-learn is to check X: an array, a matrix, lists of cells."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], list | tuple | np.ndarray)
    if isinstance(X, np.ndarray):
        return X.ndim != 1 or X.dtype.kind not in "OUS"
    return issparse(X) or hasattr(X, "__array__")


def refuse_unknown(items: Sequence[Item], names: Sequence[str]) -> None:
    """Refuse records with columns that were not there when the index was fitted.

    Raises
    ------
    BadInput
        Naming the first.
    """
    known = frozenset(names)
    for number, item in enumerate(items):
        assert isinstance(item.payload, Mapping)
        if not known.issuperset(item.payload):
            name = next(name for name in item.payload if name not in known)
            raise BadInput(
                f"item {number} has a column {name!r} that was not fitted; "
                f"{hint(name, names)}"
            )


def _item(one: Any, kind: Kind | None) -> Item:
    if isinstance(one, np.generic):
        one = one.item()
    if isinstance(one, Path) or (kind == "image" and isinstance(one, str)):
        try:
            one = Path(one).read_bytes()
        except OSError as error:
            raise BadItem(f"{one}: {error.strerror}") from error
    return make_item(one, kind)


def _of_table(X: Any, names: Sequence[str] | None) -> Records:
    """Take the columns of a DataFrame or Arrow table, by way of Arrow."""
    import pyarrow as pa

    try:
        if hasattr(X, "iloc"):
            table = pa.Table.from_pandas(X, preserve_index=False)
        else:
            table = pa.table(X)
    except (pa.ArrowException, TypeError, ValueError) as error:
        said = str(error).splitlines()[0]
        raise BadInput(
            f"{type(X).__name__} came, of which Arrow says: {said}"
        ) from error
    names = names or [str(name) for name in table.column_names]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"X has {names.count(name)} columns called {name!r}")
    if not (names and len(table)):
        raise BadInput(f"X has {len(table)} rows of {len(names)} columns; {NEEDED}")
    columns = {
        name: read_column(name, cells, TYPED)
        for name, cells in zip(names, table.columns, strict=True)
    }
    return Records(columns, np.arange(len(table)))


def _of_array(X: NDArray[Any], names: Sequence[str] | None) -> Records:
    """Take the columns of an array (N, d): of numbers, or of whatever objects."""
    if X.ndim != 2 or not X.size:
        raise BadInput(f"an array of shape {X.shape} came; {NEEDED}")
    if X.dtype.kind not in "biufOU":
        raise BadInput(f"an array of {X.dtype} came; numbers or strings are needed")
    own = names or [f"x{place}" for place in range(X.shape[1])]
    columns = {
        name: _column(name, X[:, place], f"column {place}")
        for place, name in enumerate(own)
    }
    return Records(columns, np.arange(len(X)))


def _column(name: str, cells: NDArray[Any], where: str) -> Column:
    import pyarrow as pa

    if cells.dtype.kind in "biuf":
        if cells.dtype.itemsize > np.dtype(np.float64).itemsize:  # long double
            cells = cells.astype(np.float64)
        return read_column(name, pa.array(np.ascontiguousarray(cells)), TYPED)
    values = cells.tolist()
    if any(isinstance(value, str) for value in values):
        return read_column(name, pa.array(_words(values, where), pa.string()), TYPED)
    try:
        numbers = [np.nan if value is None else float(value) for value in values]
    except (TypeError, ValueError):
        odd = next(v for v in values if not isinstance(v, int | float | None))
        raise BadInput(
            f"{where} holds {type(odd).__name__}; numbers or strings are needed"
        ) from None
    except OverflowError:
        raise BadInput(f"{where} holds a whole number over {LARGEST:.1e}") from None
    return Column(pa.array(numbers, pa.float64()), "number")


def _words(values: Sequence[Any], where: str) -> list[str | None]:
    words: list[str | None] = []
    for row, value in enumerate(values):
        missing = value is None or value != value
        if not (missing or isinstance(value, str)):
            raise BadInput(
                f"{where} holds strings and, in row {row}, {type(value).__name__}; one "
                "or the other is needed"
            )
        words.append(None if missing else value)
    return words
