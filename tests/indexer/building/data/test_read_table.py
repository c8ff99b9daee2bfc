"""Tables as people have them: each column is what it is, and each row is numbered."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from polydom.features.errors import BadProject
from polydom.features.tables.records import Records
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project


def load(folder: Path, content: Any, **data: Any) -> Dataset:
    name = data.pop("name", "rows.csv")
    if isinstance(content, str):
        content = content.encode()
    (folder / name).write_bytes(content)
    more = data.pop("project", {})
    project = {"data": {"table": name, **data}, **more}
    return load_data(Project.from_mapping(project, folder=folder))


def values(dataset: Dataset, name: str) -> list[Any]:
    assert isinstance(dataset.items, Records)
    return dataset.items.columns[name].values(dataset.items.rows)


@pytest.mark.parametrize(
    "labels",
    [
        ("007", "042", "7", "42"),
        ("1E5", "100000", "1e5"),
        ("2024_01", "202401"),
        ("1.0", "1", "01"),
        ("12345678901234567", "12345678901234568", "12345678901234569"),
        ("true", "True", "TRUE"),
        ("NA", "None", "no"),
    ],
)
@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_classes_are_named_as_they_are_written(
    tmp_path: Path, name: str, labels: tuple[str, ...]
) -> None:
    rows = [*labels, *labels]
    if name == "rows.csv":
        content: Any = "x,label\n" + "".join(f"1,{label}\n" for label in rows)
    elif name == "rows.jsonl":
        content = "".join(f'{{"x":1,"label":"{label}"}}\n' for label in rows)
    else:
        sink = pa.BufferOutputStream()
        parquet.write_table(pa.table({"x": [1] * len(rows), "label": rows}), sink)
        content = sink.getvalue().to_pybytes()
    dataset = load(tmp_path, content, name=name)
    assert dataset.labels == tuple(sorted(labels))
    assert [dataset.labels[code] for code in dataset.codes] == rows


def test_groups_are_told_apart_as_they_are_written(tmp_path: Path) -> None:
    groups = ["1234567890123456781", "1234567890123456782", "01", "1", "01", "", ""]
    rows = "".join(f"{k},{g},{'ab'[k % 2]}\n" for k, g in enumerate(groups))
    dataset = load(tmp_path, "x,who,label\n" + rows, group="who")
    assert dataset.groups.tolist() == [0, 1, 2, 3, 2, 4, 5]


def test_numbers_are_predicted_as_such_where_they_are_many(tmp_path: Path) -> None:
    rows = "".join(f"{k},{k / 7:.3f}\n" for k in range(40))
    dataset = load(tmp_path, "x,label\n" + rows)
    assert dataset.numbers is not None
    assert dataset.numbers[7] == 1.0
    money = "".join(f'{k},"{k * 1000:,}.50"\n' for k in range(40))
    dataset = load(tmp_path, "x,label\n" + money)
    assert dataset.numbers is not None
    assert dataset.numbers[7] == 7000.5


RAGGED = "x,label\n1,a\n2\n3,b\n4,b,5\n,\n6,a\n"


def test_rows_that_cannot_be_read_are_skipped_and_numbered(tmp_path: Path) -> None:
    dataset = load(tmp_path, RAGGED)
    assert values(dataset, "x") == [1, 3, 6]
    assert [*dataset.names] == [f"rows.csv, row {n}" for n in (2, 4, 7)]
    assert [name for name, _ in dataset.skipped] == [
        f"rows.csv, row {n}" for n in (3, 5, 6)
    ]
    assert [why for _, why in dataset.skipped] == [
        "1 cells under 2 names: '2'",
        "3 cells under 2 names: '4,b,5'",
        "no cell holds anything",
    ]
    with pytest.raises(BadProject, match=r"rows\.csv, row 3: 1 cells under 2 names"):
        load(tmp_path, RAGGED, on_bad_item="stop")


def test_a_file_that_stops_being_a_table_is_named_where(tmp_path: Path) -> None:
    with pytest.raises(BadProject, match=r"rows\.csv, row 5: no label"):
        load(tmp_path, RAGGED.replace("2\n3,b\n4,b,5", "2,a\n3,b\n4,"))


def test_both_tables_decide_what_dates_mean(tmp_path: Path) -> None:
    (tmp_path / "more.csv").write_text("when,label\n01/02/2024,a\n02/03/2024,b\n")
    content = "when,label\n31/01/2024,a\n28/02/2024,b\n"
    dataset = load(tmp_path, content, test="more.csv")
    assert values(dataset, "when")[2:] == ["2024-02-01", "2024-03-02"]
    alone = load(tmp_path, "when,label\n01/02/2024,a\n02/03/2024,b\n")
    assert values(alone, "when") == ["2024-01-02", "2024-02-03"]
    said = load(tmp_path, "when,label\n01/02/2024,a\n02/03/2024,b\n", date_order="DMY")
    assert values(said, "when") == ["2024-02-01", "2024-03-02"]


def test_what_a_project_says_of_columns_is_done(tmp_path: Path) -> None:
    content = "a,b,c,label\n1,x,007,u\n-1,unknown,008,v\n3,y,-1,u\n"
    groups = [
        {"name": "a", "columns": ["a"], "missing": ["-1"]},
        {"name": "c", "columns": ["c"], "kind": "word"},
    ]
    dataset = load(
        tmp_path,
        content,
        missing=["unknown"],
        project={"features": {"columns": groups, "others": True}},
    )
    assert values(dataset, "a") == [1, None, 3]
    assert values(dataset, "b") == ["x", None, "y"]
    assert values(dataset, "c") == ["007", "008", "-1"]
    with pytest.raises(BadProject, match="'b' is to be of kind = 'number', and cell 1"):
        load(
            tmp_path,
            content,
            project={
                "features": {
                    "columns": [{"name": "b", "columns": ["b"], "kind": "number"}]
                }
            },
        )


def test_a_table_may_be_in_json_lines(tmp_path: Path) -> None:
    content = (
        '{"age":31,"town":"Rome","label":"yes"}\n{"age":null,"label":"no"}\n'
        '{"record":{"age":2.5},"label":"yes"}\n{"age":\n'
    )
    dataset = load(tmp_path, content, name="rows.jsonl")
    assert values(dataset, "age") == [31, None, 2.5]
    assert values(dataset, "town") == ["Rome", None, None]
    ((name, _),) = dataset.skipped
    assert name == "rows.jsonl, row 4"


def test_memory_holds_a_table_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 10**6, (20_000, 10))
    text = "\n".join(",".join(map(str, row)) for row in rows.tolist())
    names = ",".join(f"c{k}" for k in range(9))
    dataset = load(tmp_path, f"{names},label\n{text}\n", project={"task": "regression"})
    assert isinstance(dataset.items, Records)
    held = sum(column.cells.nbytes for column in dataset.items.columns.values())
    assert held == 9 * 8 * 20_000


def test_names_that_come_again_are_no_row(tmp_path: Path) -> None:
    one = "\ufeffx,label\n" + "1,a\n2,b\n" * 3
    dataset = load(tmp_path, 2 * one)
    assert values(dataset, "x") == [1, 2] * 6
    why = "it holds the columns' names again"
    assert dataset.skipped == (("rows.csv, row 8", why),)
    assert dataset.labels == ("a", "b")


def test_labels_are_numbers_as_the_file_writes_them(tmp_path: Path) -> None:
    rows = "".join(f"{k},5;{k}.500\n" for k in range(1, 40))
    number = {"project": {"task": "regression"}}
    found = load(tmp_path, "x;label\n" + rows, **number).numbers
    assert found is not None
    assert found.tolist() == [1000 * k + 500 for k in range(1, 40)]
    rows = "".join(f"{k};{k},5\n" for k in range(1, 40))
    found = load(tmp_path, "x;label\n" + rows, decimal=",", **number).numbers
    assert found is not None
    assert found[0] == 1.5
    with pytest.raises(BadProject, match=r"rows\.csv, row 2: no label; each item"):
        load(tmp_path, "x;label\n1;NA\n" + rows, **number)
