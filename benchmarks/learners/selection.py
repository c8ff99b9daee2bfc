"""Whether what `learner = "auto"` chooses is as good as the best of all learners.

python -m benchmarks selection                        ten sets of classes, ten others
python -m benchmarks selection --sets adult covtype --rows 4000

Each set is divided into rows to learn from and kept rows. The race of a build chooses a
learner by the former. Then every learner of the portfolio is trained on all of them, as
a build trains the learner that it has chosen, and judged by the kept rows: by accuracy,
or by R2 of numbers. `behind` is the best of all by the kept rows, less the chosen one,
in points, with the standard error of that difference. The best of forty is the luckiest
of several equals, so that even a perfect choice is a little behind.
"""

import math
import statistics
import tempfile
import time
import warnings
from argparse import Namespace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.threads import one_thread
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.split import divide_groups
from polydom.indexer.building.divide_items import fold_count
from polydom.indexer.building.learner_race import race_learners
from polydom.indexer.building.training.quality import Metric
from polydom.indexer.progress import Silence
from polydom.models.selection.arms import fill_empty
from polydom.models.selection.learners import Task
from polydom.models.selection.portfolio import Setting, installed, make_portfolio

from .. import report
from .learning_sets import CLASSES, SETS, Divided, load

ROWS = 5000
ALLOWED = 0.5  # points behind the best of all
QUICK_SETS = ["chessboard", "friedman 1"]
QUICK = ("prior", "mean", "ridge", "tree", "tree, depth 5")

Facts = dict[str, Any]
Floats = NDArray[np.float64]


class Judged(NamedTuple):
    """A learner that was trained on all rows to learn from, judged by the kept ones."""

    parts: Floats  # Contributions of the kept rows to the quality, of mean quality
    seconds: float  # CPU seconds to train

    @property
    def quality(self) -> float:
        """Accuracy, or R2."""
        return float(self.parts.mean())


def compare(name: str, given: Namespace) -> Facts:
    """Choose a learner for one set, and judge all learners by its kept rows."""
    rows = 300 if given.quick else given.rows
    task: Task = "classes" if name in CLASSES else "regression"
    data = load(name, given.seed, rows)
    settings = installed(task)
    if given.quick:
        settings = {one: settings[one] for one in QUICK if one in settings}
    race = run_race(data, task, settings, given.seed)
    judged = judge(data, task, settings, given.seed)
    best = max(judged, key=lambda one: judged[one].quality)
    gaps = judged[best].parts - judged[race["learner"]].parts
    return {
        "set": name,
        "rows": len(data.y),
        "kept": len(data.kept_y),
        "race, CPU s": race["seconds"],
        "all once, CPU s": sum(one.seconds for one in judged.values()),
        "chosen": race["learner"],
        "its quality": judged[race["learner"]].quality,
        "best": best,
        "best quality": judged[best].quality,
        "behind": 100 * float(gaps.mean()),
        "error": 100 * float(gaps.std()) / math.sqrt(len(gaps)),
    }


def run_race(
    data: Divided, task: Task, settings: dict[str, Setting], seed: int
) -> Facts:
    """Race as a build does; plain data of the race."""
    codes = data.y if task == "classes" else np.zeros(len(data.y), np.int64)
    groups = np.arange(len(data.y))
    parts = divide_groups(codes, groups, 5, seed)
    pairs = [
        (np.flatnonzero(parts != part), np.flatnonzero(parts == part))
        for part in range(fold_count(len(data.y), 5))
    ]
    metric = Metric("accuracy", int(codes.max()) + 1)
    if task == "regression":
        metric = Metric("r2", 0)
    with tempfile.TemporaryDirectory() as folder:
        choice = race_learners(
            data.X,
            data.y,
            pairs,
            metric=metric,
            seed=seed,
            cache=Cache(Path(folder)),
            name="races/one",
            progress=Silence(),
            settings=settings,
        )
    return choice.facts


def judge(
    data: Divided, task: Task, settings: dict[str, Setting], seed: int
) -> dict[str, Judged]:
    """Train every learner on all rows to learn from, and judge it by the kept rows."""
    found = {}
    for name, learner in make_portfolio(settings, seed, task).items():
        X = fill_empty(learner, data.X.astype(np.float64))
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begun = time.process_time()
            learner.fit(X, data.y)
            took_s = time.process_time() - begun
            answers = np.ravel(learner.predict(data.kept.astype(np.float64)))
        parts = (answers == data.kept_y).astype(np.float64)
        if task == "regression":
            errors = (answers - data.kept_y) ** 2
            parts = 1 - errors / np.var(data.kept_y)
        found[name] = Judged(parts, took_s)
    return found


def choose_learners(given: Namespace) -> Facts:
    """Choose learners for all sets; one row for each, and how often auto lost."""
    names = QUICK_SETS if given.quick else given.sets or list(SETS)
    folders = {SETS[name].folder for name in names} - {""}
    report.need(given, *sorted(folders))
    lines = [compare(name, given) for name in names]
    behind = [line["behind"] for line in lines]
    return {
        "learners": lines,
        "all": {
            "behind, mean": statistics.mean(behind),
            "behind, most": max(behind),
            f"sets behind by more than {ALLOWED}": sum(
                bool(b > ALLOWED) for b in behind
            ),
        },
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--sets", nargs="+", choices=SETS, metavar="SET")
    parser.add_argument("--rows", type=int, default=ROWS, help="rows to learn from")
    parser.add_argument("--seed", type=int, default=0, help="of the division")
    given = parser.parse_args(arguments)
    report.tell(choose_learners(given), given)
