"""Columns of Parquet files of every type that a feature can be made of."""

from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadInput
from polydom.features.readers.tables import open_table
from polydom.features.tables.cells import Dates, Numbers, Words

pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

TIMES = [datetime(2024, 5, 1, 7), None]  # nanoseconds begin in 1677
COLUMNS: dict[str, tuple[Any, list[Any], type]] = {
    "whole": (pa.int64(), [1, 2**40, -3], Numbers),
    "gaps": (pa.int32(), [1, None, 3], Numbers),
    "real": (pa.float64(), [0.1, None, 2.5], Numbers),
    "half": (pa.float16(), [np.float16(0.5), np.float16(1.5), None], Numbers),
    "money": (pa.decimal128(9, 2), [Decimal("1.25"), None, Decimal("3.00")], Numbers),
    "truth": (pa.bool_(), [True, False, True], Numbers),
    "perhaps": (pa.bool_(), [True, None, False], Numbers),
    "nothing": (pa.null(), [None, None, None], Numbers),
    "word": (pa.string(), ["b", None, "a"], Words),
    "large": (pa.large_string(), ["b", "b", None], Words),
    "coded": (pa.dictionary(pa.int8(), pa.string()), ["x", None, "y"], Words),
    "day": (pa.date32(), [date(2024, 5, 1), None, date(1969, 1, 1)], Dates),
    "long": (pa.date64(), [date(2024, 5, 1), None, date(1969, 1, 1)], Dates),
    "time": (pa.timestamp("ns"), [*TIMES, datetime(1700, 2, 3, 4)], Dates),
    "zone": (pa.timestamp("s", "UTC"), [*TIMES, None], Dates),
}


def as_value(cell: Any) -> Any:
    """What a record holds of it."""
    if isinstance(cell, Decimal):
        return float(cell)
    return cell.isoformat() if isinstance(cell, date) else cell


@pytest.mark.parametrize("name", COLUMNS)
def test_cells_are_those_of_the_file(tmp_path: Path, name: str) -> None:
    kind, cells, form = COLUMNS[name]
    table = pa.table({name: pa.array(cells, kind)})
    parquet.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    told: list[tuple[int, int]] = []
    opened = open_table(tmp_path / "a.parquet")
    found = opened.cells([name], on_rows=lambda *rows: told.append(rows))[name]
    assert isinstance(found, form)
    assert [found.value(row) for row in range(3)] == [as_value(c) for c in cells]
    assert told[-1] == (3, 0)


@pytest.mark.parametrize("kind", ["list<element: int64>", "binary", "duration"])
def test_column_of_anything_else_is_named(tmp_path: Path, kind: str) -> None:
    cells = {"list<element: int64>": [[1]], "binary": [b"x"]}.get(kind)
    array = pa.array(cells or [5], None if cells else pa.duration("s"))
    parquet.write_table(pa.table({"x": array}), tmp_path / "a.parquet")
    with pytest.raises(BadInput, match=rf"a\.parquet: column 'x' holds {kind}.*ignore"):
        open_table(tmp_path / "a.parquet").cells(["x"])


def test_times_that_no_calendar_has_are_missing(tmp_path: Path) -> None:
    far = pa.array([2**62, 0], pa.timestamp("us"))
    parquet.write_table(pa.table({"x": far}), tmp_path / "a.parquet")
    found = open_table(tmp_path / "a.parquet").cells(["x"])["x"]
    assert [found.value(row) for row in range(2)] == [None, "1970-01-01"]
