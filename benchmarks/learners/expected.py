"""Whether fresh items show the quality that an index expects, or less.

python -m benchmarks expected --sets adult higgs covtype20k --measures accuracy
python -m benchmarks expected --sets digits drawn --rows 400 --seeds 12

Indexes are built of few rows, drawn anew for each seed, of columns dealt to at most 8
features, by trees; all other rows of the set, at most 20,000, are fresh. Told is how
much too good plans look, in points, with the standard error over the seeds. "tested" is
what the rows tested showed, held out or in turn as a build divides by itself, less what
fresh ones show; "expected" is what the index says, less that. "best" is the plan of the
largest budget, "all" the mean of the skyline. What all features together are off by is
taken from these: nobody chose them, so their mean error is none, and what the rows
tested are like by chance weighs less. Models are those that were measured, or with
folds trained on all rows. "served" is what the index expects of its best plan, less
what the model shows that is served, which was trained on all rows.
"""

import gzip
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_friedman1

from polydom.features.tables.records import Column, Records
from polydom.features.threads import one_thread
from polydom.indexer.building.build import make_index
from polydom.indexer.building.data.dataset import Dataset, NumberedFile, RowNames
from polydom.indexer.building.prepare import Prepared, prepare_data
from polydom.indexer.building.project import Project
from polydom.indexer.building.project_tables.search import FOLDS
from polydom.indexer.building.resources import Resources, open_resources
from polydom.indexer.building.training.quality import Metric
from polydom.indexer.building.training.refit import make_full_trainer
from polydom.indexer.building.training.search.search_sets import make_trainer
from polydom.indexer.building.training.train_sets import Trainer
from polydom.indexer.index.index import Index
from polydom.indexer.index.quality import OF_NUMBERS
from polydom.models.scoring.model import Model

from .. import report
from ..data.tables import load_adult, load_covtype, load_higgs

FEATURES = 8
FEW = 4780  # rows below which a build cross-validates
FRESH = 20_000
SEARCH_S = 3.0
MEASURES = {"classes": ("accuracy", "balanced_accuracy", "auc"), "numbers": ("r2",)}

Table = tuple[NDArray[Any], NDArray[Any]]  # rows and labels


def _whole(load: Callable[[Path], Any]) -> Callable[[Path], Table]:
    """Put the two parts of a set together."""

    def read(folder: Path) -> Table:
        X, y, Xt, yt = load(folder)
        return np.vstack([X, Xt]), np.concatenate([y, yt])

    return read


def _songs(folder: Path) -> Table:
    with gzip.open(folder / "millionsong" / "millionsong.txt.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return table[:, 1:], table[:, 0]


def _digits(folder: Path) -> Table:
    X, y = load_digits(return_X_y=True)
    return X, y


def _drawn(folder: Path) -> Table:
    X, y = make_friedman1(12_000, 10, noise=2.0, random_state=0)
    return X, y


SETS: dict[str, Callable[[Path], Table]] = {
    "adult": _whole(load_adult),
    "higgs": _whole(load_higgs),
    "covtype20k": _whole(load_covtype),
    "digits": _digits,
    "millionsong": _songs,
    "drawn": _drawn,
}
OF_FILES = {"adult", "higgs", "covtype20k", "millionsong"}  # under their folders' names
NUMERIC = {"millionsong", "drawn"}


def main(arguments: list[str] | None = None) -> None:
    """Build, metric on fresh rows, and tell."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[*SETS])
    parser.add_argument("--measures", nargs="+", default=None)
    parser.add_argument("--rows", nargs="+", type=int, default=[400, 2000, 6000])
    parser.add_argument("--seeds", type=int, default=10)
    given = parser.parse_args(arguments)
    search_s = SEARCH_S
    if given.quick:
        given.sets, given.rows, given.seeds, search_s = (
            ["digits", "drawn"],
            [80],
            2,
            0.1,
        )
        given.measures = ["accuracy", "r2"]
    report.need(given, *(OF_FILES & {*given.sets}))
    rows = []
    with one_thread():
        for name in given.sets:
            table = SETS[name](given.data_folder)
            for measure in _measures(name, given.measures):
                for count in given.rows:
                    if count > len(table[1]) / 2:
                        continue
                    found = [
                        _judge(name, table, measure, count, seed, search_s)
                        for seed in range(given.seeds)
                    ]
                    rows.append(_row(name, measure, count, found))
    report.tell({"too good by, in points": rows}, given)


ERRORS = (
    "best: tested",
    "best: expected",
    "all: tested",
    "all: expected",
    "served",
)


def _measures(name: str, asked: list[str] | None) -> list[str]:
    kind = "numbers" if name in NUMERIC else "classes"
    return [one for one in MEASURES[kind] if asked is None or one in asked]


def _judge(
    name: str, table: Table, measure: str, count: int, seed: int, search_s: float
) -> dict[str, float]:
    """Build an index of some rows, and metric it on others: errors, in points."""
    X, y = table
    order = np.random.default_rng(seed).permutation(len(y))
    own, fresh = order[:count], order[count : count + FRESH]
    numeric = measure in OF_NUMBERS
    labels = np.unique(y[own])
    known = fresh if numeric else fresh[np.isin(y[fresh], labels)]
    with tempfile.TemporaryDirectory() as folder:

        def built(refit: bool) -> tuple[Prepared, Resources, Index]:
            project = _project(X.shape[1], measure, seed, refit, count, search_s)
            dataset = dataset_of(X[own], y[own], labels, numeric)
            resources = open_resources(project, cache=folder)
            data = prepare_data(project, resources, dataset)
            return data, resources, make_index(data, resources)

        data, resources, index = built(False)
        trainer = make_trainer(data, data.project.learner, resources)
        full = (1 << min(X.shape[1], FEATURES)) - 1
        (full_quality,) = trainer.qualities([full])
        whole = _whole_model(data, trainer, resources, full)
        *_, refitted = built(True)
    package, metric = index.package, data.metric
    assert package is not None
    assert refitted.package is not None
    values = X[known][:, np.concatenate(_dealt(X.shape[1]))].astype(np.float32)
    targets = y[known] if numeric else np.searchsorted(labels, y[known])
    plans = index.skyline(1.0)
    shown = np.array(
        [_quality(metric, package.models[r], values, targets) for r in plans]
    )
    chance = full_quality - _quality(metric, whole, values, targets)
    tested = np.array(package.meta["observed"])[plans] - shown - chance
    expected = index.qualities[plans] - shown - chance
    best = int(refitted.best(1.0, np.inf).row)
    served = _quality(metric, refitted.package.models[best], values, targets)
    return {
        "best: tested": 100 * tested[-1],
        "best: expected": 100 * expected[-1],
        "all: tested": 100 * tested.mean(),
        "all: expected": 100 * expected.mean(),
        "served": 100 * (refitted.qualities[best] - served),
        "sets": package.meta["search"]["expanded"],
    }


def _whole_model(
    data: Prepared, trainer: Trainer, resources: Resources, full: int
) -> Model:
    """Give the model of all features, trained on as many rows as those of plans."""
    if data.project.search.folds is None:
        return trainer.model(full)
    everything = make_full_trainer(data, trainer, resources)
    _ = [*everything.qualities([full])]
    return everything.model(full)


def _quality(
    metric: Metric, model: Model, values: NDArray[np.float32], targets: NDArray[Any]
) -> float:
    answers = metric.answers(model, values)
    return metric.evaluate(answers, targets, np.ones(len(targets))).quality


def _dealt(columns: int) -> list[range]:
    """Positions of the columns of each feature."""
    return [range(f, columns, FEATURES) for f in range(min(columns, FEATURES))]


def _project(
    columns: int, measure: str, seed: int, refit: bool, count: int, search_s: float
) -> Project:
    """Divide as a build does by itself, which would not with `refit` false."""
    search = {"budget_s": search_s, "refit": refit}
    if count < FEW:
        search["folds"] = FOLDS
    groups = [
        {"name": f"f{f}", "columns": [f"x{c}" for c in own]}
        for f, own in enumerate(_dealt(columns))
    ]
    content = {
        "features": {"columns": groups},
        "learner": {"name": "tree"},
        "quality": {"measure": measure},
        "search": search,
        "exits": "off",
        "seed": seed,
        "workers": 1,
    }
    return Project.from_mapping(content)


def dataset_of(
    X: NDArray[Any], y: NDArray[Any], labels: NDArray[Any], numeric: bool
) -> Dataset:
    every = np.arange(len(y))
    cells = [pa.array(X[:, c].astype(np.float32)) for c in range(X.shape[1])]
    columns = {f"x{c}": Column(own, "number") for c, own in enumerate(cells)}
    return Dataset(
        Records(columns, every),
        RowNames.of([NumberedFile("X", len(y))]),
        () if numeric else tuple(map(str, labels)),
        np.zeros(len(y), np.int64) if numeric else np.searchsorted(labels, y),
        every,
        numbers=y.astype(np.float64) if numeric else None,
    )


def _row(
    name: str, measure: str, count: int, found: list[dict[str, float]]
) -> dict[str, Any]:
    row: dict[str, Any] = {"set": name, "measure": measure, "rows": count}
    row["sets tried"] = round(float(np.mean([one["sets"] for one in found])))
    for key in ERRORS:
        errors = np.array([one[key] for one in found])
        row[key] = float(errors.mean())
        row[f"{key} ±"] = float(errors.std(ddof=1) / np.sqrt(len(errors)))
    return row
