"""How many rounds exits by a class's lead take, against LightGBM's own early stop.

python -m benchmarks.exits.bench_lead DATA               tables and times, a set at a time
python -m benchmarks.exits.bench_lead DATA --sets mnist  only one
python -m benchmarks.exits.bench_lead DATA --untimed     counts alone, which load cannot move
python -m benchmarks.exits.bench_lead DATA --json        one JSON object, for the record

DATA holds the folders covtype20k (7 classes) and mnist (10, at 14 x 14 pixels). The
model is LightGBM, 100 rounds of a tree of 31 leaves for each class.

Protocol. Train: some rows. Fit: others, without labels, and three copies of them with a
column or so swapped between rows. What a calibration could choose
(`Stopping.ladder`) is our curve, in the order of rounds found and in boosting's own.
LightGBM's rule is its margin between the two leading classes, looked at every 1, 2, 5
or 10 rounds. Report: the test rows, by the whole curve of each method; for each limit
the cheapest point whose *test* change is within it, for every method alike. Times are
processor time of single calls from Python, pinned to a core, contenders in turn;
LightGBM is called by its single-row C function. Before, both must give the same whole
sums, and the choices that the counts say.
"""

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import Ensemble, compile
from polydom.models.qwyc.augment import swap_columns
from polydom.models.qwyc.costs import ModelCosts
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.ordering import order_by_margin_impurity
from polydom.models.qwyc.running_sums import MarginSums
from polydom.models.qwyc.schedule import MarginSchedule
from polydom.models.scoring.whole_sums import whole_sums

from ..machine import describe
from ..models.bench_trees import choose_row, measure, us
from ..peers.contender import Contender, check
from ..peers.tree_peers import single_row_fast

ROUNDS, LEAVES, RATE = 100, 31, 0.1
LIMITS = (0.01, 0.005, 0.002)
COPIES = 3
EVERY = (1, 2, 5, 10)  # rounds between two looks of LightGBM's rule
MARGINS = np.geomspace(0.3, 10.0, 60)
PREFIXES = (5, 10, 20, 30, 40, 50, 60, 70, 80, 90)
CHECKED = 500
OURS, KEPT, THEIRS = "polydom", "polydom, boosting order", "LightGBM early stop"

Rows = NDArray[np.float32]
Codes = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Rows to train on, to fit exits on, and to report on."""

    train: tuple[Rows, Codes]
    fit: Rows
    test: tuple[Rows, Codes]


def load_covtype(folder: Path) -> Parts:
    """Covertype, shuffled: 10,000, 4,000 and 6,000 rows."""
    with gzip.open(folder / "covtype20k" / "covtype.20k.data.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    table = table[np.random.default_rng(1).permutation(len(table))]
    rows, codes = table[:, :-1].astype(np.float32), table[:, -1].astype(np.int64) - 1
    train, test = slice(10_000), slice(14_000, None)
    return Parts(
        (rows[train], codes[train]), rows[10_000:14_000], (rows[test], codes[test])
    )


def load_mnist(folder: Path) -> Parts:
    """Digits at 14 x 14 pixels: 10,000 and 5,000 training rows, 10,000 test rows."""

    def read(stem: str, rows: int) -> tuple[Rows, Codes]:
        with gzip.open(folder / "mnist" / f"{stem}-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(), np.uint8, offset=16)
        with gzip.open(folder / "mnist" / f"{stem}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        small = pixels.reshape(-1, 14, 2, 14, 2)[:rows].mean((2, 4))
        return small.reshape(rows, -1).astype(np.float32), labels[:rows].astype(
            np.int64
        )

    rows, codes = read("train", 15_000)
    return Parts((rows[:10_000], codes[:10_000]), rows[10_000:], read("t10k", 10_000))


SETS: dict[str, Callable[[Path], Parts]] = {
    "covtype20k": load_covtype,
    "mnist": load_mnist,
}


def train(X: Rows, y: Codes) -> tuple[Any, Ensemble]:
    """Train, and compile what LightGBM writes; the booster is read back from it too."""
    import lightgbm

    booster = lightgbm.train(
        {
            "objective": "multiclass",
            "num_class": int(y.max()) + 1,
            "num_leaves": LEAVES,
            "learning_rate": RATE,
            "max_bin": 63,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,
            "verbosity": -1,
        },
        lightgbm.Dataset(X, y),
        ROUNDS,
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.txt")
        booster.save_model(path)
        return lightgbm.Booster(model_file=path), compile(path)


class Judge:
    """Weighs choices for the test rows against the whole ensemble's."""

    def __init__(self, ensemble: Ensemble, test: tuple[Rows, Codes]) -> None:
        self.scores = ensemble.base_scores(test[0])
        self.sums = self.scores.cumsum(axis=1) + ensemble.bias
        self.whole = self.sums[:, -1].argmax(axis=1)
        self.labels = test[1]

    def point(
        self, method: str, choices: Codes, used: NDArray[Any], **how: Any
    ) -> dict[str, Any]:
        """One point of a method's curve."""
        return {
            "method": method,
            "rounds": float(np.mean(used)),
            "changed": float(np.mean(choices != self.whole)),
            "accuracy": float(np.mean(choices == self.labels)),
            **how,
        }

    def early_stops(self) -> list[dict[str, Any]]:
        """LightGBM's rule: the lead above a margin, looked at every so many rounds."""
        best = np.sort(self.sums, axis=2)
        leads = best[:, :, -1] - best[:, :, -2]
        points = []
        for every in EVERY:
            for margin in MARGINS:
                at = first_over(leads, every, float(margin))
                choices = self.sums[np.arange(len(at)), at].argmax(axis=1)
                how = {"every": every, "margin": float(margin)}
                points.append(self.point(THEIRS, choices, at + 1, **how))
        return points

    def prefixes(self) -> list[dict[str, Any]]:
        """The first rounds alone: what training fewer would have given."""
        return [
            self.point("fewer rounds", self.sums[:, k - 1].argmax(axis=1), np.array(k))
            for k in PREFIXES
        ]


def first_over(leads: NDArray[np.float64], every: int, margin: float) -> Codes:
    """(N,) positions of the rounds after which LightGBM's rule ends."""
    looks = np.arange(every - 1, leads.shape[1], every)
    over = leads[:, looks] > margin
    stops = np.full(len(leads), leads.shape[1] - 1)
    stops[over.any(axis=1)] = looks[over.argmax(axis=1)][over.any(axis=1)]
    return stops


def our_points(ensemble: Ensemble, fit: Rows, judge: Judge) -> list[dict[str, Any]]:
    """Each schedule that a calibration could choose, in two orders of the rounds."""
    scores, bias = ensemble.base_scores(swap_columns(fit, copies=COPIES)), ensemble.bias
    chosen = whole_sums(scores, bias).argmax(axis=1)
    costs = ModelCosts.check(ensemble.size, None)
    orders = {
        OURS: order_by_margin_impurity(scores, chosen, bias=bias, costs=costs),
        KEPT: np.arange(ensemble.size),
    }
    points = []
    for method, order in orders.items():
        sums = MarginSums(scores, order, chosen, bias=bias)
        stopping = Stopping(sums, costs=costs.along(order), both=False)
        for lower, _ in stopping.ladder():
            schedule = MarginSchedule(order, -lower, bias)
            choices, used = schedule.evaluate(judge.scores)
            points.append(judge.point(method, choices, used, schedule=schedule))
    return points


def cheapest(
    points: list[dict[str, Any]], method: str, limit: float
) -> dict[str, Any] | None:
    """Return a method's point of fewest rounds that changes at most `limit`."""
    inside = (p for p in points if p["method"] == method and p["changed"] <= limit)
    return min(inside, key=lambda p: float(p["rounds"]), default=None)


class Race:
    """One set's model in both libraries, and what there is to compare.

    Attributes
    ----------
    points
        Every point of every method's curve.
    judge
        Of the test rows.
    """

    def __init__(self, parts: Parts) -> None:
        self.booster, self.ensemble = train(*parts.train)
        self.X = parts.test[0]
        raw = self.booster.predict(self.X, raw_score=True, num_threads=1)
        check(self.ensemble.decision_function(self.X), raw, 0)
        self.judge = Judge(self.ensemble, parts.test)
        self.points = [
            *our_points(self.ensemble, parts.fit, self.judge),
            *self.judge.early_stops(),
            *self.judge.prefixes(),
        ]

    def contenders(self) -> list[Contender]:
        """Both libraries' whole sums, and their cheapest exits within each limit."""
        rows = list(self.X)
        raw = self.booster.predict(self.X[:CHECKED], raw_score=True, num_threads=1)
        made = [
            single_row_fast("LightGBM", self.booster, self.X, "", raw),
            Contender(OURS, choose_row(self.ensemble.classifier, rows)),
        ]
        for limit in LIMITS:
            theirs = cheapest(self.points, THEIRS, limit)
            made += [self._theirs(f"{THEIRS}, {limit:.1%}", theirs)] if theirs else []
            for method in OURS, KEPT:
                point = cheapest(self.points, method, limit)
                if point is not None:
                    exits = self.ensemble.early_exit(point["schedule"])
                    choices, _ = exits.choices(self.X)
                    assert np.mean(choices != self.judge.whole) == point["changed"]
                    name = f"{method}, {limit:.1%}"
                    made.append(Contender(name, choose_row(exits, rows)))
        return made

    def _theirs(self, name: str, point: dict[str, Any]) -> Contender:
        stop = {
            "pred_early_stop": True,
            "pred_early_stop_freq": point["every"],
            "pred_early_stop_margin": point["margin"],
        }
        raw = self.booster.predict(self.X, raw_score=True, num_threads=1, **stop)
        assert np.mean(raw.argmax(axis=1) != self.judge.whole) == point["changed"]
        options = " ".join(f"{key}={value}" for key, value in stop.items())
        return single_row_fast(name, self.booster, self.X, options, raw[:CHECKED])


def run(name: str, folder: Path, timed: bool) -> dict[str, Any]:
    """Everything there is to say of one set."""
    parts = SETS[name](folder)
    race = Race(parts)
    made = race.contenders()
    if timed:
        measure(made, race.X, time.thread_time)
    return {
        "set": name,
        "trees_a_round": len(race.ensemble.classes),
        "accuracy": float(np.mean(race.judge.whole == race.judge.labels)),
        "points": [
            {key: value for key, value in point.items() if key != "schedule"}
            for point in race.points
        ],
        "one_us": {one.name: us(one.one_s) for one in made},
    }


def show(result: dict[str, Any]) -> None:
    """Print one set's tables."""
    print(
        f"\n{result['set']}: accuracy of all {ROUNDS} rounds of "
        f"{result['trees_a_round']} trees {result['accuracy']:.4f}"
    )
    heads = "".join(f"{limit:>32.1%}" for limit in LIMITS)
    print(f"{'test change at most':24}{heads}")
    for method in dict.fromkeys(point["method"] for point in result["points"]):
        cells = ""
        for limit in LIMITS:
            point = cheapest(result["points"], method, limit)
            text = "-"
            if point is not None:
                text = f"{point['rounds']:.2f} rounds, accuracy {point['accuracy']:.4f}"
            cells += f"{text:>32}"
        print(f"{method:24}{cells}")
    for name, time_us in result["one_us"].items():
        if time_us is not None:
            print(f"{name:40}{time_us:8.2f} us a row")


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--untimed", action="store_true", help="count rounds alone")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    results = []
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for name in args.sets:
        results.append(run(name, args.data, not args.untimed))
        if not args.json:
            show(results[-1])
    if args.json:
        print(json.dumps({"machine": describe(), "sets": results}))
    else:
        print(describe())


if __name__ == "__main__":
    main()
