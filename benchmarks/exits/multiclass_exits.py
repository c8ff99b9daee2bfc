"""How many rounds exits by the best class's margin take, against LightGBM's own.

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

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import Ensemble
from polydom.models.early_exit.fitting_rows import swap_columns

from ..data.bundled import load_digit_rows
from ..data.tables import Codes, Rows, read_covtype, small_mnist
from ..models.boosting import SAME, boost
from ..peers.contender import ROUNDS as TIMED
from ..peers.contender import Contender, check, choose_row, take_turns, us
from ..peers.tree_peers import single_row_fast
from ..report import pin, unpin
from .curves import (
    OURS,
    Point,
    Points,
    by_method,
    cheapest,
    margin_schedules,
    within_limits,
)

ROUNDS, LEAVES, RATE = 100, 31, 0.1
LIMITS = (0.01, 0.005, 0.002)
COPIES = 3
EVERY = (1, 2, 5, 10)  # rounds between two looks of LightGBM's rule
MARGINS = np.geomspace(0.3, 10.0, 60)
CHECKED = 500
KEPT, THEIRS = "polydom, boosting order", "LightGBM early stop"


@dataclass(frozen=True, slots=True, eq=False)
class Parts:
    """Rows to train on, to fit exits on, and to report on."""

    train: tuple[Rows, Codes]
    fit: Rows
    test: tuple[Rows, Codes]


def load_covtype(folder: Path) -> Parts:
    """Covertype, 7 classes, shuffled: 10,000, 4,000 and 6,000 rows."""
    table, codes = read_covtype(folder)
    order = np.random.default_rng(1).permutation(len(codes))
    rows, codes = table[order].astype(np.float32), codes[order]
    train, test = slice(10_000), slice(14_000, None)
    return Parts(
        (rows[train], codes[train]), rows[10_000:14_000], (rows[test], codes[test])
    )


def load_mnist(folder: Path) -> Parts:
    """Digits: 10,000 and 5,000 training rows, 10,000 test rows."""
    rows, codes = small_mnist(folder, "train", 15_000)
    test = small_mnist(folder, "t10k", 10_000)
    return Parts((rows[:10_000], codes[:10_000]), rows[10_000:], test)


def load_digits() -> Parts:
    """scikit-learn's digits: 900, 400 and 497."""
    rows, codes = load_digit_rows()
    test = slice(1_300, None)
    return Parts((rows[:900], codes[:900]), rows[900:1_300], (rows[test], codes[test]))


SETS: dict[str, Callable[[Path], Parts]] = {
    "covtype20k": load_covtype,
    "mnist": load_mnist,
}


def train(X: Rows, y: Codes, rounds: int) -> tuple[Any, Ensemble]:
    """Boost so many rounds of a tree for each class."""
    options = {"objective": "multiclass", "num_class": int(y.max()) + 1, "max_bin": 63}
    options |= {"num_leaves": LEAVES, "learning_rate": RATE, "num_threads": 1}
    return boost(X, y, rounds, **options, **SAME)


class Judge:
    """Weighs choices for the test rows against the whole ensemble's."""

    def __init__(self, ensemble: Ensemble, test: tuple[Rows, Codes]) -> None:
        self.scores = ensemble.base_scores(test[0])
        self.sums = self.scores.cumsum(axis=1) + ensemble.bias
        self.whole = self.sums[:, -1].argmax(axis=1)
        self.labels = test[1]

    def point(
        self, method: str, choices: Codes, used: NDArray[Any], **how: Any
    ) -> Point:
        """One point of a method's curve."""
        return {
            "method": method,
            "mean": float(np.mean(used)),
            "changed": float(np.mean(choices != self.whole)),
            "accuracy": float(np.mean(choices == self.labels)),
            **how,
        }

    def early_stops(self) -> Points:
        """LightGBM's rule: the best class's margin, looked at every so many rounds."""
        best = np.sort(self.sums, axis=2)
        margins = best[:, :, -1] - best[:, :, -2]
        points = []
        for every in EVERY:
            for margin in MARGINS:
                at = first_over(margins, every, float(margin))
                choices = self.sums[np.arange(len(at)), at].argmax(axis=1)
                how = {"every": every, "margin": float(margin)}
                points.append(self.point(THEIRS, choices, at + 1, **how))
        return points

    def prefixes(self) -> Points:
        """The first rounds alone: what training fewer would have given."""
        rounds = self.sums.shape[1]
        return [
            self.point("fewer rounds", self.sums[:, k - 1].argmax(axis=1), np.array(k))
            for k in (5, *range(10, rounds, 10))
            if k < rounds
        ]


def first_over(margins: NDArray[np.float64], every: int, margin: float) -> Codes:
    """(N,) positions of the rounds after which LightGBM's rule ends."""
    looks = np.arange(every - 1, margins.shape[1], every)
    over = margins[:, looks] > margin
    stops = np.full(len(margins), margins.shape[1] - 1)
    stops[over.any(axis=1)] = looks[over.argmax(axis=1)][over.any(axis=1)]
    return stops


def our_points(ensemble: Ensemble, fit: Rows, judge: Judge) -> Points:
    """Each schedule that a calibration could choose, in two orders of the rounds."""
    scores = ensemble.base_scores(swap_columns(fit, copies=COPIES))
    orders = {OURS: None, KEPT: np.arange(ensemble.size)}
    return [
        judge.point(method, *schedule.evaluate(judge.scores), schedule=schedule)
        for method, order in orders.items()
        for schedule in margin_schedules(scores, ensemble.bias, order)
    ]


class Race:
    """One set's model in both libraries, and what there is to compare.

    Attributes
    ----------
    points
        Every point of every method's curve.
    judge
        Of the test rows.
    """

    def __init__(self, parts: Parts, rounds: int) -> None:
        self.booster, self.ensemble = train(*parts.train, rounds)
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
        rows, found = list(self.X), by_method(self.points)
        raw = self.booster.predict(self.X[:CHECKED], raw_score=True, num_threads=1)
        made = [
            single_row_fast("LightGBM", self.booster, self.X, "", raw),
            Contender(OURS, choose_row(self.ensemble.classifier, rows)),
        ]
        for limit in LIMITS:
            theirs = cheapest(found[THEIRS], limit)
            made += [self._theirs(f"{THEIRS}, {limit:.1%}", theirs)] if theirs else []
            for method in OURS, KEPT:
                point = cheapest(found[method], limit)
                if point is not None:
                    exits = self.ensemble.early_exit(point["schedule"])
                    choices, _ = exits.choices(self.X)
                    assert np.mean(choices != self.judge.whole) == point["changed"]
                    name = f"{method}, {limit:.1%}"
                    made.append(Contender(name, choose_row(exits, rows)))
        return made

    def _theirs(self, name: str, point: Point) -> Contender:
        stop = {
            "pred_early_stop": True,
            "pred_early_stop_freq": point["every"],
            "pred_early_stop_margin": point["margin"],
        }
        raw = self.booster.predict(self.X, raw_score=True, num_threads=1, **stop)
        assert np.mean(raw.argmax(axis=1) != self.judge.whole) == point["changed"]
        options = " ".join(f"{key}={value}" for key, value in stop.items())
        return single_row_fast(name, self.booster, self.X, options, raw[:CHECKED])


def run(parts: Parts, rounds: int = ROUNDS, timed: int = TIMED) -> dict[str, Any]:
    """Everything there is to say of one set; `timed` rounds of calls, or none."""
    pin()
    race = Race(parts, rounds)
    made = race.contenders()
    if timed:
        take_turns(made, race.X, time.thread_time, timed)
    unpin()
    return {
        "rounds": rounds,
        "accuracy": float(np.mean(race.judge.whole == race.judge.labels)),
        "points": [
            {key: value for key, value in point.items() if key != "schedule"}
            for point in race.points
        ],
        "one_us": {one.name: us(one.one_s) for one in made} if timed else {},
    }


def tables(name: str, result: dict[str, Any]) -> dict[str, Any]:
    """One set's tables."""
    title = f"{name}, {result['rounds']} rounds, accuracy {result['accuracy']:.4f}"
    told: dict[str, Any] = {
        f"{title}: mean rounds within a test change": within_limits(
            result["points"], LIMITS
        )
    }
    if result["one_us"]:
        told[f"{name}: microseconds of one row"] = result["one_us"]
    return told
