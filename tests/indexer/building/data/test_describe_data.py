"""What was understood of the data is said, and what may be wrong with it."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.indexer.building.data.check_data import check_data
from polydom.indexer.building.data.describe_data import describe_data, say_data
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project
from polydom.indexer.index.column_facts import ColumnFacts, column_lines
from polydom.indexer.progress import Silence

ROWS = 120
RNG = np.random.default_rng(3)
LABELS = [("a", "b")[int(k)] for k in RNG.integers(0, 2, ROWS)]
GOOD = [f"{value:.6f}" for value in RNG.normal(size=ROWS)]


def project(folder: Path, columns: dict[str, list[str]], **data: Any) -> Project:
    table = {"good": GOOD, **columns, "label": LABELS} | (
        {"label": columns["label"]} if "label" in columns else {}
    )
    rows = [table.keys(), *zip(*table.values(), strict=True)]
    text = "\n".join(";".join(row) for row in rows)
    (folder / "rows.csv").write_text(text + "\n")
    return Project.from_mapping({"data": {"table": "rows.csv", **data}}, folder=folder)


def warnings(folder: Path, columns: dict[str, list[str]], **data: Any) -> list[str]:
    return describe_data(load_data(project(folder, columns, **data))).warnings


def some(*cells: str) -> list[str]:
    """As many cells as there are rows, drawn of these."""
    return [cells[int(k)] for k in RNG.integers(0, len(cells), ROWS)]


def test_clean_data_have_no_warnings(tmp_path: Path) -> None:
    assert warnings(tmp_path, {"more": some("x", "y"), "n": some("1", "2", "")}) == []


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ["inf", *some("1", "2")[1:]],
            "infinite numbers in 1 cells, whose rows are left",
        ),
        ([""] * ROWS, "column 'x' is empty in all rows; [data] ignore = [\"x\"]"),
        (["7"] * ROWS, "column 'x' is the same in all rows: '7'; [data] ignore"),
        (some("u", ""), "is the same, or empty, in all rows: 'u'"),
        ([str(k + 10) for k in range(ROWS)], "column 'x' numbers the rows"),
        (
            [*some("1", "2", "3")[:-2], "many", "few"],
            'though 118 of its 120 cells are numbers: [data] missing = ["',
        ),
        (
            [*[f"2024-01-{k % 28 + 1:02}" for k in range(ROWS - 1)], "soon"],
            '119 of its 120 cells are dates: [data] missing = ["soon"] says',
        ),
        (some("yes", "Yes", "no"), "words that differ in case alone, such as"),
        ([f"Ann{k}" for k in RNG.permutation(ROWS)], "120 different words in 120 rows"),
        (["1" if one == "a" else "2" for one in LABELS], "tells the labels apart by"),
        (
            ["x" if one == "a" else "" for one in LABELS],
            "tells the labels apart by its",
        ),
        (some("1/2/2024", "3/4/2024"), "date_order = 'DMY' reads"),
        (
            some("1,234", "5,678"),
            "and may mean 1,234; [data] decimal = '.' reads it so",
        ),
    ],
)
def test_what_may_be_wrong_with_a_column_is_said(
    tmp_path: Path, cells: list[str], message: str
) -> None:
    found = warnings(tmp_path, {"x": cells})
    assert any(message in warning for warning in found), found


def test_many_columns_that_tell_nothing_are_one_warning(tmp_path: Path) -> None:
    found = warnings(tmp_path, {f"c{k}": ["7"] * ROWS for k in range(11)})
    assert found == [
        '11 columns are empty or the same in all rows, such as "c0", "c1", "c2"; '
        "[data] ignore leaves them out"
    ]


def test_a_column_that_tells_numbers_is_said(tmp_path: Path) -> None:
    steps = RNG.integers(0, 8, ROWS)
    numbers = [
        f"{step + float(noise) / 100:.4f}"
        for step, noise in zip(steps, GOOD, strict=True)
    ]
    data = {"label": "y", "decimal": "."}
    columns = {"step": [str(10 * step) for step in steps], "y": numbers}
    (found,) = warnings(tmp_path, columns, ignore=["label"], **data)
    assert "column 'step' tells the labels apart by itself" in found


def test_copies_and_few_items_are_said(tmp_path: Path) -> None:
    half = ROWS // 2
    powers = {
        f"power {k}": [f"{float(value) ** k:.6f}" for value in GOOD[:half]] * 2
        for k in (2, 3)
    }
    columns = {"good": GOOD[:half] * 2, "label": LABELS[:half] * 2, **powers}
    (found,) = warnings(tmp_path, columns)
    assert found.startswith("60 of 120 rows are the same as others in all columns")
    assert warnings(tmp_path, columns | {"who": GOOD[:half] * 2}, group="who") == []
    rare = [*LABELS[:-3], "rare", "rare", "odd"]
    (found,) = warnings(tmp_path, {"label": rare})
    assert found.startswith("few items are of classes 'odd' (1), 'rare' (2): how well")


@pytest.mark.parametrize("labels", [("1", "1.0", "0"), ("yes", "Yes", "no")])
def test_classes_that_may_be_one_are_said(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    first, second = sorted(labels[:2])
    found = warnings(tmp_path, {"label": some(*labels)})
    assert found[0].startswith(f"{first!r}, {second!r} are classes of their own")


def test_texts_that_are_nearly_the_same_are_said(tmp_path: Path) -> None:
    lines = [
        f'{{"text":"Order {k} of {"cake" if k % 40 else "tea"}!","label":"{label}"}}'
        for k, label in enumerate(LABELS)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    content = {"data": {"texts": "a.jsonl"}}
    dataset = load_data(Project.from_mapping(content, folder=tmp_path))
    (found,) = describe_data(dataset).warnings
    assert found.startswith("118 of 120 texts are the same as others but for case")


def test_what_was_understood_is_a_line_a_column(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    age = ["NA", "", *["41"] * 5, *some("18", "30")[7:]]
    when = ["31/01/2024", *some("01/02/2024", "02/02/2024")[1:]]
    made = project(tmp_path, {"age": age, "when": when, "price": some("1,5", "2,25")})
    checked = check_data(made, Silence())
    assert checked.columns[1:] == [
        ColumnFacts("age", "number", ROWS, 2, 3, checked.columns[1].example, ["NA"]),
        ColumnFacts(
            "when", "date", ROWS, 0, 3, checked.columns[2].example, date_order="DMY"
        ),
        ColumnFacts(
            "price", "number", ROWS, 0, 2, checked.columns[3].example, decimal=","
        ),
    ]
    lines = column_lines(checked.columns)
    assert [line.split("  ")[0].strip() for line in lines] == [
        "column",
        "good",
        "age",
        "when",
        "price",
    ]
    assert "1.7% (NA)" in lines[2]
    assert "date, DMY" in lines[3]
    assert "number, as 1,5" in lines[4]
    with caplog.at_level(logging.INFO, "polydom.data"):
        say_data(describe_data(load_data(made)))
    assert [line for line in lines if line in caplog.text] == lines
    assert checked.lines()[0].startswith("120 records in 2 classes: ")
    assert checked.lines()[-1] == "nothing looks wrong"
    assert checked.facts()["columns"][1]["empty_words"] == ["NA"]


def test_checking_says_what_is_left_out_and_keeps_nothing(tmp_path: Path) -> None:
    made = project(tmp_path, {"x": some("1", "2")})
    with (tmp_path / "rows.csv").open("a") as file:
        file.write("7\n" * 7)
    before = {path.name for path in tmp_path.iterdir()}
    lines = check_data(made, Silence()).lines()
    assert lines[0].endswith("; 7 left out")
    assert lines[1] == "  left out rows.csv, row 122: 1 cells under 3 names: '7'"
    assert lines[6] == "  ... and 2 more"
    assert {path.name for path in tmp_path.iterdir()} == before
