"""Columns of CSV files are what all of their cells are, however late one differs."""

from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.features.readers import csv_cells
from polydom.features.readers.csv_cells import read_csv_cells
from polydom.features.readers.csv_file import open_csv
from polydom.features.tables.cells import Cells, Dates, Numbers, Words
from tests.support.oracles.tables import read_columns_slowly

cells = st.sampled_from(["", " ", "1", "2.5", "1e3", "nan", "3,5", "-1,25", "x", " y "])
rows = st.lists(st.tuples(cells, cells), min_size=1, max_size=9)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_cells, "CHUNK_CELLS", 4)
    monkeypatch.setattr(csv_cells, "LEAST_ROWS", 2)


@given(rows, st.sampled_from(";|,"))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_columns_are_read_as_slowly(
    tmp_path: Path, rows: list[tuple[str, str]], separator: str
) -> None:
    text = "".join(
        separator.join(f'"{cell}"' for cell in row) + "\n"
        for row in (("a", "b"), *rows)
    )
    (tmp_path / "a.csv").write_text(text)
    told: list[tuple[int, int]] = []
    found = None
    with suppress(BadInput):
        found = read_csv_cells(
            open_csv(tmp_path / "a.csv", separator),
            ["b", "a"],
            on_rows=lambda done, left: told.append((done, left)),
        )
    if found is None:  # commas and points are mixed, or commas are between cells
        assert "," in text
        return
    slowly = read_columns_slowly(text, separator)
    for name, column in slowly.items():
        assert [found[name].value(row) for row in range(len(rows))] == column
    assert told[-1] == (len(rows), 0)
    assert [done + left for done, left in told] == [len(rows)] * len(told)


def read(folder: Path, text: str, undated: str = "") -> Cells:
    (folder / "a.csv").write_text("a|b\n" + "".join(f"{c}|\n" for c in text.split()))
    return read_csv_cells(open_csv(folder / "a.csv", "|"), ["a"], undated)["a"]


def test_dates_are_found_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = read(tmp_path, "2024-05-01 2024-05-02T12:00 2024-05-03T12:00:00Z")
    assert isinstance(found, Dates)
    assert found.value(2) == "2024-05-03T12:00:00"
    assert caplog.messages == ["a.csv: a is read as dates"]
    caplog.clear()
    assert isinstance(read(tmp_path, "2024-05-01 2024-05-02 2024-05-03 soon"), Words)
    assert isinstance(read(tmp_path, "2024-05-01 2024-05-02", "a"), Words)
    assert isinstance(read(tmp_path, "20240501 20240502"), Numbers)
    assert not caplog.messages


def test_decimal_commas_are_read_and_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = read(tmp_path, "1 2 3,5 4")
    assert [found.value(row) for row in range(4)] == [1, 2, 3.5, 4]
    assert caplog.messages == ["a.csv: a is read as numbers with a decimal comma"]
    with pytest.raises(BadInput, match="'a' holds numbers with a decimal comma, such"):
        read(tmp_path, "1,5 2.5 3")


def test_row_of_another_width_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n1,2\n1,2\n1\n")
    with pytest.raises(BadInput, match=r"a\.csv, row 4: 1 cells under 2 names"):
        read_csv_cells(open_csv(tmp_path / "a.csv"), ["a"])
