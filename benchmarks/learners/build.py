"""Where the time and the memory of a build go, as tables grow.

python -m benchmarks build                    all of it, about 7 minutes
python -m benchmarks build --parts builds --rows 434000 --columns 41
python -m benchmarks build --parts large --large 5000000x20.parquet

"builds": whole builds of drawn tables, each in a new process of one worker: seconds and
peak memory of each stage, and beside them the seconds of training the learner once on
all columns. The columns are dealt to 5 features. "large": what a build does with a
large table before it trains: reading, dividing, values of all features. Megabytes are
above those of the process before it began. Linux only.
"""

import importlib
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.threads import one_thread
from polydom.indexer.building.build import Builder
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.project import Project
from polydom.indexer.progress import OnProgress
from polydom.indexer.progress_bars import StageTimes
from polydom.models.selection.learners import make_learner

from .. import report
from ..data.drawn_tables import write_csv, write_parquet
from ..new_process import forget_peak, in_new_process, memory_kb

FEATURES = 5
LEARNER, QUICK_LEARNER = {"name": "hist_boosting"}, {"name": "tree"}
PARTS = ("builds", "large")
QUICK_SEARCH_S = 0.1
MB = 1024


class Watched:
    """A Progress that notes each stage's seconds and peak memory, in MB."""

    def __init__(self) -> None:
        self.times = StageTimes()
        self.peaks: dict[str, float] = {}
        self._base = forget_peak()
        self._open: list[str] = []

    def note(self) -> None:
        """Let the stages that run, or what is in none, have had the present peak."""
        peak = (memory_kb("VmHWM") - self._base) / MB
        for name in self._open or ["other"]:
            self.peaks[name] = max(self.peaks.get(name, 0.0), peak)
        forget_peak()

    @contextmanager
    def stage(self, name: str, total: int | None) -> Iterator[OnProgress]:
        """Watch a stage."""
        self.note()
        self._open.append(name)
        with self.times.stage(name):
            yield lambda done, left=None: None
        self.note()
        self._open.pop()

    def facts(self) -> dict[str, float]:
        """Seconds and MB by stage."""
        self.note()
        seconds = self.times.facts()
        facts = {f"{name} s": took for name, took in seconds.items()}
        facts |= {f"{name} MB": peak for name, peak in self.peaks.items()}
        return facts | {"in all s": sum(seconds.values())}


def make_project(table: Path, columns: int, quick: bool) -> Project:
    """Make a project of a drawn table, whose columns are dealt to some features."""
    names = [f"c{k}" for k in range(columns)]
    groups = [{"name": f"f{k}", "columns": names[k::FEATURES]} for k in range(FEATURES)]
    content = {
        "data": {"table": table.name},
        "features": {"columns": groups},
        "learner": QUICK_LEARNER if quick else LEARNER,
        "search": {"budget_s": QUICK_SEARCH_S} if quick else {},
        "workers": 1,
    }
    return Project.from_mapping(content, folder=table.parent)


def measure_build(table: Path, columns: int, quick: bool) -> dict[str, float]:
    """Build once, from nothing kept."""
    _import()
    watched = Watched()
    builder = _builder(table, columns, watched, quick)
    index = builder.index()
    facts = watched.facts()
    feature_table = builder.table
    (train, _), *_ = builder.splits(feature_table.dataset)
    learner = make_learner(QUICK_LEARNER if quick else LEARNER, 0)
    began = time.perf_counter()
    values = feature_table.values[train].astype(np.float64)
    with one_thread():  # as the build trains
        learner.fit(values, feature_table.dataset.codes[train])
    once_s = time.perf_counter() - began
    sets = len(builder.searched.qualities)
    facts |= {
        "sets trained": sets,
        "candidates": len(index.qualities),
        "once s": once_s,
    }
    return facts | {"build / once": facts["in all s"] / once_s}


def measure_large(table: Path, columns: int, quick: bool) -> dict[str, float]:
    """Do what a build does before it trains."""
    _import()
    watched = Watched()
    builder = _builder(table, columns, watched, quick)
    values, fresh = builder.table.values, builder.fresh
    facts = watched.facts()
    aside = 0 if fresh is None else fresh.values.nbytes
    return facts | {"values MB": (values.nbytes + aside) / MB**2}


def _import() -> None:
    """Have in memory, before it is measured, what any table or learner needs."""
    make_learner(LEARNER, 0)
    with suppress(ImportError):
        importlib.import_module("pyarrow.dataset")


def _builder(table: Path, columns: int, watched: Watched, quick: bool) -> Builder:
    project = make_project(table, columns, quick)
    return Builder(project, Cache(table.parent / "cache"), watched)


def measured(
    rows: int,
    columns: int,
    ending: str,
    measure: Callable[[Path, int, bool], Any],
    quick: bool,
) -> dict[str, Any]:
    """Draw a table into a folder, and measure in a new process; in short in this."""
    folder = Path(tempfile.mkdtemp(prefix="benchmark"))
    try:
        table = folder / f"rows.{ending}"
        write = write_parquet if ending == "parquet" else write_csv
        write(table, rows, columns)
        own = partial(measure, table, columns, quick)
        facts = own() if quick else in_new_process(own)
        return {
            "rows": rows,
            "columns": columns,
            "kind": ending,
            "file MB": table.stat().st_size / MB**2,
            **facts,
        }
    finally:
        shutil.rmtree(folder)


def stages_of(rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Part what was measured: seconds, megabytes, and the rest."""
    keys = ["rows", "columns", "kind"]
    parts: dict[str, list[dict[str, Any]]] = {"seconds": [], "MB at most": []}
    for row in rows:
        own = {key: row[key] for key in keys}
        for part, unit in (("seconds", " s"), ("MB at most", " MB")):
            parts[part].append(
                own
                | {
                    name.removesuffix(unit): value
                    for name, value in row.items()
                    if name.endswith(unit)
                }
            )
    parts["against training once"] = [
        {key: row[key] for key in [*keys, "sets trained", "candidates", "build / once"]}
        for row in rows
        if "build / once" in row
    ]
    return {name: part for name, part in parts.items() if part}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--rows", type=int, nargs="+", default=[3000, 30_000])
    parser.add_argument("--columns", type=int, nargs="+", default=[10, 20])
    default = ["434000x41.csv", "5000000x20.parquet"]
    parser.add_argument("--large", nargs="+", default=default)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    given = parser.parse_args(arguments)
    if given.quick:
        given.rows, given.columns, given.large = [300], [5], ["2000x5.csv"]
    facts: dict[str, Any] = {}
    if "builds" in given.parts:
        found = [
            measured(rows, columns, "csv", measure_build, given.quick)
            for rows in given.rows
            for columns in given.columns
        ]
        facts |= {f"builds: {name}": part for name, part in stages_of(found).items()}
    if "large" in given.parts:
        found = []
        for shape in given.large:
            size, _, ending = shape.partition(".")
            rows, columns = map(int, size.split("x"))
            found.append(measured(rows, columns, ending, measure_large, given.quick))
        facts |= {f"large: {name}": part for name, part in stages_of(found).items()}
    report.tell(facts, given)
