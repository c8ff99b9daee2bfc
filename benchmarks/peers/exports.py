"""What polydom, pandas and AutoGluon make of each column of tables as people have them.

Fourteen tables are drawn, each with a label that the columns in question tell but for
5 % of the rows: who misreads a column answers less right. Each reader
takes the file as it comes, by its defaults, and so the held-out rows, which lie in a
second file of the same form. Behind pandas and AutoGluon are histogram trees of
scikit-learn, to which words are categories; polydom builds an index of the same trees
with a large budget. Answers are compared with the labels as they were drawn. Of a
reader that refuses a file its error is shown.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.errors import PolydomError
from polydom.indexer import Project, build
from polydom.indexer.index.column_facts import ColumnFacts
from polydom.server import score_items
from polydom.server.evaluation.labelled_items import read_labelled

from .. import report
from .drawn_exports import EXPORTS, draw, write

ROWS, QUICK = 1000, 60
NOT = "left out"
PROJECT: dict[str, Any] = {
    "data": {"table": "train.csv"},
    "learner": "hist_boosting",
    "exits": "off",
    "workers": 1,
}


def main(arguments: list[str] | None = None) -> None:
    """Draw the exports, and have each contender read them."""
    parser = report.options(__name__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--autogluon",
        metavar="PYTHON",
        default=sys.executable,
        help="interpreter that has autogluon.features; by default this one",
    )
    given = parser.parse_args(arguments)
    names = ["booleans"] if given.quick else [*EXPORTS]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _draw(place, names, given.seed, QUICK if given.quick else ROWS)
        found = {"polydom": _polydom(place, 0.2 if given.quick else 3.0)}
        for name, python in (
            ("pandas", sys.executable),
            ("autogluon", given.autogluon),
        ):
            if (answer := _other(name, python, place)) is not None:
                found[name] = answer
    rows = [row for name in names for row in _rows(name, found)]
    means = {
        name: float(np.mean([own[one].get("accuracy", 0.0) for one in names]))
        for name, own in found.items()
    }
    report.tell({"columns": rows, "mean, 0 of files refused": means}, given)


def _draw(place: Path, names: list[str], seed: int, count: int) -> None:
    rng = np.random.default_rng(seed)
    for name in names:
        folder = place / name
        folder.mkdir()
        for file in ("train.csv", "test.csv"):
            columns = draw(name, rng, count, fresh=file == "test.csv")
            (folder / file).write_bytes(write(name, columns))
        (folder / "labels.json").write_text(json.dumps(columns["label"]))


def _polydom(place: Path, search_s: float) -> dict[str, dict[str, Any]]:
    """Build an index of each table, and score the rows of the other file with it."""
    found: dict[str, dict[str, Any]] = {}
    for folder in sorted(path for path in place.iterdir() if path.is_dir()):
        try:
            content = {**PROJECT, "search": {"budget_s": search_s}}
            index = build(Project.from_mapping(content, folder=folder))
            assert index.package is not None
            judged = read_labelled(folder / "test.csv", index, index.package)
            scored = score_items(
                index, [one.payload for one in judged.items], total_budget_s=600
            )
            labels = json.loads((folder / "labels.json").read_text())
            right = [one.label == own for one, own in zip(scored, labels, strict=True)]
            known = [ColumnFacts(**own) for own in index.package.meta["columns"]]
        except PolydomError as error:
            found[folder.name] = {"error": str(error)[:60], "columns": {}}
            continue
        found[folder.name] = {
            "accuracy": float(np.mean(right)),
            "columns": {own.name: _said(own) for own in known},
        }
    return found


def _said(column: ColumnFacts) -> str:
    """Say what a column was understood as, as `polydom check` does."""
    said = str(column.kind)
    if column.kind == "word":
        said = f"{column.different} words"
    if column.decimal is not None:
        said += f", as 1{column.decimal}5"
    if column.date_order is not None:
        said += f", {column.date_order}"
    if column.empty:
        said += f", {column.empty / column.rows:.0%} empty"
    return said


def _other(name: str, python: str, place: Path) -> dict[str, Any] | None:
    """Let another reader read all tables; None where it is not installed."""
    script = Path(__file__).with_name("frame_readings.py")
    done = subprocess.run(
        [python, str(script), name, str(place)], capture_output=True, text=True
    )
    if "ModuleNotFoundError" in done.stdout + done.stderr:
        print(f"skipped: {python} has no {name}", file=sys.stderr)
        return None
    done.check_returncode()
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _rows(name: str, found: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each column of an export, and one for the answers."""
    columns = dict.fromkeys(c for own in found.values() for c in own[name]["columns"])
    rows: list[dict[str, Any]] = []
    for column in columns:
        made = {
            reader: own[name]["columns"].get(
                column, "" if "error" in own[name] else NOT
            )
            for reader, own in found.items()
        }
        rows.append({"export": name, "column": column, **made})
    right = {
        reader: own[name].get("error") or f"{own[name]['accuracy']:.3f}"
        for reader, own in found.items()
    }
    return [*rows, {"export": name, "column": "right", **right}]
