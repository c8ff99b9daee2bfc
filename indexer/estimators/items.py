"""What an estimator is given, as items: tables in columns, texts, images."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from polydom.features.errors import BadInput, BadItem
from polydom.features.items import Item, Kind, make_item
from polydom.features.readers.parquet_cells import read_parquet_cells
from polydom.features.tables.cells import MISSING, Cells, Numbers, Words, narrow
from polydom.features.tables.records import Records

LARGEST = np.finfo(np.float64).max
NEEDED = (
    "a table is needed (a DataFrame of pandas or Polars, an Arrow table, an array of "
    "two dimensions), or a list of texts, images or records"
)


def items_of(X: Any, kind: Kind | None = None) -> Sequence[Item]:
    """Make items of what an estimator is given.

    Parameters
    ----------
    X
        A table: a DataFrame of pandas or Polars, an Arrow table, or an array (N, d),
        whose columns are called x0, x1 ... Or N of the same: texts, images as bytes or
        paths, or mappings.
    kind
        "image" where strings are paths of images; by default they are texts.

    Raises
    ------
    BadInput
        If it is nothing of that, or a column holds what no feature can be made of.
    BadItem
        If one of the items cannot be used; its position is named.
    """
    if is_table(X):
        return _of_table(X)
    if getattr(X, "ndim", 1) == 2:
        return _of_array(X)
    if isinstance(X, str | bytes | Mapping) or not isinstance(X, Iterable):
        raise BadInput(f"{type(X).__name__} came; {NEEDED}")
    items = []
    for number, one in enumerate(X):
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
    return hasattr(X, "__arrow_c_stream__") or (
        hasattr(X, "columns") and hasattr(X, "iloc")
    )


def is_array(X: Any) -> bool:
    """Say whether scikit-learn is to check X: an array, a matrix, lists of cells."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], list | tuple | np.ndarray)
    if isinstance(X, np.ndarray):
        return X.ndim != 1 or X.dtype.kind not in "OUS"
    return issparse(X) or hasattr(X, "__array__")


def _item(one: Any, kind: Kind | None) -> Item:
    if isinstance(one, np.generic):
        one = one.item()
    if isinstance(one, Path) or (kind == "image" and isinstance(one, str)):
        try:
            one = Path(one).read_bytes()
        except OSError as error:
            raise BadItem(f"{one}: {error.strerror}") from error
    return make_item(one, kind)


def _of_table(X: Any) -> Records:
    """Take the columns of a DataFrame or Arrow table, by way of Arrow."""
    try:
        import pyarrow as pa
    except ImportError as error:
        raise BadInput(
            f"{type(X).__name__} came; tables with named columns need pyarrow: "
            "pip install 'polydom[parquet]'"
        ) from error
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
    names = [str(name) for name in table.column_names]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"X has {names.count(name)} columns called {name!r}")
    if not (names and len(table)):
        raise BadInput(f"X has {len(table)} rows of {len(names)} columns; {NEEDED}")
    types = dict(zip(names, table.schema.types, strict=True))
    cells = read_parquet_cells("X", types, table.to_batches(), len(table))
    return Records(cells, np.arange(len(table)))


def _of_array(X: NDArray[Any]) -> Records:
    """Take the columns of an array (N, d): of numbers, or of whatever objects."""
    if X.ndim != 2 or not X.size:
        raise BadInput(f"an array of shape {X.shape} came; {NEEDED}")
    if X.dtype.kind not in "biufOU":
        raise BadInput(f"an array of {X.dtype} came; numbers or strings are needed")
    columns = {
        f"x{place}": _cells(X[:, place], f"column {place}")
        for place in range(X.shape[1])
    }
    return Records(columns, np.arange(len(X)))


def _cells(column: NDArray[Any], where: str) -> Cells:
    if column.dtype.kind in "biuf":
        return Numbers(narrow(column))
    values = column.tolist()
    if any(isinstance(value, str) for value in values):
        return _words(values, where)
    try:
        numbers = [np.nan if value is None else float(value) for value in values]
    except (TypeError, ValueError):
        odd = next(v for v in values if not isinstance(v, int | float | None))
        raise BadInput(
            f"{where} holds {type(odd).__name__}; numbers or strings are needed"
        ) from None
    except OverflowError:
        raise BadInput(f"{where} holds a whole number over {LARGEST:.1e}") from None
    return Numbers(narrow(np.array(numbers, np.float64)))


def _words(values: Sequence[Any], where: str) -> Words:
    known: dict[str, int] = {}
    codes = np.empty(len(values), np.int64)
    for row, value in enumerate(values):
        missing = value is None or value != value
        if not (missing or isinstance(value, str)):
            raise BadInput(
                f"{where} holds strings and, in row {row}, {type(value).__name__}; one "
                "or the other is needed"
            )
        codes[row] = MISSING if missing else known.setdefault(value, len(known))
    return Words(codes, tuple(known))
