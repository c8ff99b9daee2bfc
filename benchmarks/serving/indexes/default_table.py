"""The index that `polydom init` and `polydom build` make of a table by default."""

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

INDEX, ROWS = "default.pdx", "default.json"
COLOURS = ("red", "green", "blue", "black", "white")


def draw(count: int, seed: int) -> list[dict[str, Any]]:
    """Draw rows of two numbers, a word and a label that depends on all of them."""
    numbers = np.random.default_rng(seed)
    ages, colours = numbers.uniform(18, 90, count), numbers.integers(0, 5, count)
    incomes = numbers.normal(40_000, 15_000, count)
    sums = ages / 90 + incomes / 60_000 + colours / 5
    labels = sums + numbers.normal(0, 0.3, count) > 1.6
    return [
        {
            "age": round(float(age), 1),
            "income": round(float(income), 2),
            "colour": COLOURS[colour],
            "label": "yes" if label else "no",
        }
        for age, income, colour, label in zip(
            ages, incomes, colours, labels, strict=True
        )
    ]


def write(folder: Path, asked: int = 1_000, quick: bool = False) -> None:
    """Write the index, and records to ask for."""
    rows = draw(500 if quick else 5_000, 0)
    with (folder / "rows.csv").open("w", newline="") as table:
        writer = csv.DictWriter(table, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    for command in ("init --kind table", f"build PROJECT.toml -o {INDEX}"):
        polydom = [sys.executable, "-m", "polydom", *command.split()]
        subprocess.run(polydom, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    records = [{k: v for k, v in row.items() if k != "label"} for row in draw(asked, 1)]
    (folder / ROWS).write_text(json.dumps(records))
