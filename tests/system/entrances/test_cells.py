"""Cells mean to a score, an evaluation and a request what they meant to the build."""

import csv
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from polydom.server import score_items
from tests.support.processes.commands import run
from tests.support.processes.servers import ask, serving

pytestmark = pytest.mark.jit

# Of each column: what a file has, what a program has of it, and what another file has.
CELLS: dict[str, list[tuple[str, Any, str]]] = {
    "amount": [
        ("1.234,5", 1234.5, "1234,5"),
        ("2.000", 2000, "2.000"),
        ("7", 7, "7,0"),
    ],
    "flag": [("True", True, "TRUE"), ("False", False, "0")],
    "agreed": [("Yes", True, "yes"), ("No", False, "False")],
    "code": [("007", "007", "007"), ("7", 7, "7.0"), ("12", 12, " 12")],
    "day": [
        ("31/01/2024", "2024-01-31", "2024-01-31"),
        ("02/03/2024", "02/03/2024", "2 Mar 2024"),
    ],
    "at": [("14:30", "14:30:00", "2:30 pm"), ("08:05", "8:05", "08:05:00")],
    "colour": [("red ", "red  ", "red\u200b"), ("blue", "blue", "\u00a0blue")],
    "level": [("-1", -1, "-1"), ("5", 5, "5,0"), ("9", 9, "9")],
    "debt": [("-1", -1, "-1,0"), ("5", 5, "5"), ("9", 9, "9,0")],
}
PROJECT = """\
seed = 1
workers = 1
exits = "off"

[data]
table = "rows.csv"

[features]
others = true

[[features.columns]]
name = "code"
columns = ["code"]
kind = "word"

[[features.columns]]
name = "level"
columns = ["level"]
missing = ["-1"]

[learner]
name = "tree"
max_depth = 8

[search]
budget_s = 0.3

[costs]
items = 10
repeats = 2
"""


def write(path: Path, rows: Sequence[dict[str, Any]], separator: str = ";") -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]], delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)


def test_cells_mean_the_same_wherever_they_come_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    drawn = random.Random(4)
    places = [
        {n: drawn.randrange(len(c)) for n, c in CELLS.items()} for _ in range(400)
    ]
    files, programs, others = (
        [{n: CELLS[n][k][form] for n, k in row.items()} for row in places]
        for form in range(3)
    )
    labels = ["ab"[sum(k == 0 for k in row.values()) > 3] for row in places]
    labelled = [{**row, "label": own} for row, own in zip(files, labels, strict=True)]
    write(tmp_path / "rows.csv", labelled)
    (tmp_path / "PROJECT.toml").write_text(PROJECT)
    index = tmp_path / "a.pdx"
    assert run(capsys, "build", tmp_path / "PROJECT.toml", "-o", index)[0] == 0

    write(tmp_path / "same.csv", files)
    write(tmp_path / "few.csv", [row for row in files if row["amount"] == "2.000"][:9])
    write(tmp_path / "others.csv", others)
    lines = [json.dumps(row) for row in programs]
    (tmp_path / "lines.jsonl").write_text("\n".join(lines))
    typed = {
        name: [str(row[name]) if name == "code" else row[name] for row in programs]
        for name in CELLS
    }
    parquet.write_table(pa.table(typed), tmp_path / "typed.parquet")

    found: dict[str, list[Any]] = {}
    for name in ("same.csv", "few.csv", "others.csv", "lines.jsonl", "typed.parquet"):
        output = tmp_path / "out.jsonl"
        output.unlink(missing_ok=True)
        told = run(capsys, "score", index, tmp_path / name, "-o", output, "-b", "60s")
        assert told[0] == 0, told
        rows = map(json.loads, output.read_text().splitlines())
        found[name] = [
            (row["label"], row["scores"], row.get("unknown")) for row in rows
        ]
    assert not any(unknown for _, _, unknown in found["same.csv"])
    for name in ("others.csv", "lines.jsonl", "typed.parquet"):
        assert found[name] == found["same.csv"], name
    few = [k for k, row in enumerate(files) if row["amount"] == "2.000"][:9]
    assert found["few.csv"] == [found["same.csv"][k] for k in few]

    write(tmp_path / "labelled.csv", labelled)
    arguments = (index, tmp_path / "labelled.csv", "--budgets", "1000", "--json")
    told = run(capsys, "evaluate", *arguments)
    assert told[0] == 0, told
    right = sum(
        own == row[0] for own, row in zip(labels, found["same.csv"], strict=True)
    )
    assert json.loads(told[1])["budgets"][0]["accuracy"] == right / len(labels)
    with serving(index) as (_, port):
        for k, record in enumerate(programs[:40]):
            body = json.dumps({"record": record, "budget_ms": 5000}).encode()
            status, answer = ask(port, "POST", "/v1/predict", body)
            assert status == 200, answer
            assert answer["label"] == found["same.csv"][k][0]
            assert not answer.get("unknown")
    scored = score_items(index, programs[:40], total_budget_s=60)
    assert [row.label for row in scored] == [row[0] for row in found["same.csv"][:40]]
