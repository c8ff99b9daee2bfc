"""How long a build reads a large CSV file, and in what memory, beside other readers.

The table is drawn: 20 columns of whole numbers, 12 of fractions, 6 of words, one of
dates, one of booleans, and a label. A build reads it, finds out what each column holds,
and gives classes numbers; the others read it by their defaults. All take turns in one
process for the times, and have one each for the memory, of which the highest use above
that before is told.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv as arrow_csv

from .. import report
from ..new_process import forget_peak, in_new_process, memory_kb

ROWS, QUICK = 434_000, 2000
ROUNDS = 5


def main(arguments: list[str] | None = None) -> None:
    """Draw the table, and read it in turns."""
    parser = report.options(__name__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args(arguments)
    if given.quick:
        given.rows, given.rounds = QUICK, 1
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        _draw(path, given.rows)
        _draw(path.with_name("few.csv"), 100)
        size = path.stat().st_size
        times: dict[str, list[float]] = {name: [] for name in READERS}
        for name in READERS:  # what is imported is no part of it
            _seconds(name, path)
        for _ in range(given.rounds):
            for name, own in times.items():
                own.append(_seconds(name, path))
        memory = {
            name: in_new_process(partial(_memory, name, path)) for name in READERS
        }
    rows = [
        {
            "reader": name,
            "median, s": statistics.median(own),
            "least, s": min(own),
            "of pyarrow's": min(own) / min(times["pyarrow.csv.read_csv"]),
            "memory, MB": memory[name]["mb"],
            "of the file": memory[name]["mb"] * 1e6 / size,
        }
        for name, own in times.items()
    ]
    report.tell({"rows": given.rows, "file, MB": size / 1e6, "readers": rows}, given)


def _draw(path: Path, count: int) -> None:
    rng = np.random.default_rng(0)
    words = np.array([f"word {k}" for k in range(200)])
    columns: dict[str, Any] = {}
    for k in range(20):
        columns[f"whole {k}"] = rng.integers(0, 10 ** (1 + k % 6), count)
    for k in range(12):
        columns[f"real {k}"] = rng.normal(size=count).round(5)
    for k in range(6):
        columns[f"word {k}"] = words[rng.integers(0, 10 + 38 * k, count)]
    days = rng.integers(0, 3000, count).astype("M8[D]") + 15_000
    columns["day"] = days.astype("M8[D]")
    columns["truth"] = rng.random(count) < 0.5
    columns["label"] = np.array(["a", "b", "c"])[rng.integers(0, 3, count)]
    arrow_csv.write_csv(pa.table(columns), path)


def _build(path: Path) -> object:
    from polydom.indexer import Project
    from polydom.indexer.building.data.read_items import load_data

    project = Project.from_mapping({"data": {"table": path.name}}, folder=path.parent)
    return load_data(project)


def _pandas(path: Path) -> object:
    import pandas as pd

    return pd.read_csv(path)


READERS: dict[str, Callable[[Path], object]] = {
    "polydom": _build,
    "pyarrow.csv.read_csv": arrow_csv.read_csv,
    "pandas.read_csv": _pandas,
}


def _seconds(name: str, path: Path) -> float:
    start = time.perf_counter()
    READERS[name](path)
    return time.perf_counter() - start


def _memory(name: str, path: Path) -> dict[str, float]:
    READERS[name](path.with_name("few.csv"))  # what is imported is no part of it
    before = forget_peak()
    kept = READERS[name](path)
    peak = memory_kb("VmHWM") - before
    del kept
    return {"mb": peak * 1024 / 1e6}
