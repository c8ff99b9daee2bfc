"""Lattices: what one row costs, how many of them QWYC leaves out, what they promise.

python -m benchmarks.models.bench_lattices DATA                      all tables
python -m benchmarks.models.bench_lattices DATA --parts rows         one of them
python -m benchmarks.models.bench_lattices DATA --tensorflow PYTHON  TensorFlow beside ours
python -m benchmarks.models.bench_lattices DATA --json               one JSON object

Rows: random lattices over 30 columns, pinned to one core; of every contender's means in
`ROUNDS` short rounds, taken in turn, the least. The early exit follows limits that stop
after a quarter on average. TensorFlow Lattice takes part where an interpreter that has
it is named: a process on the same core is given the same numbers, has to answer alike,
and times its round when it is told to.

Exits: the shape of QWYC's experiments 3 to 6. Ensembles of 5 and of 500 lattices,
jointly and independently trained, on a problem with few positives and on a balanced
one; only negative exits (filter and score), and both. Schedules are fitted on the
training rows, `polydom` as in `bench_qwyc` also on a copy with columns swapped; for
each method the cheapest of its `ALPHAS` that changes at most `LIMIT` of the *test* rows
is shown, for every method alike.

Promises: accuracy on Adult beside trees, and how many pairs of rows fall that differ in
one column which should only rise, with constraints and without.
"""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import compile
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.qwyc.augment import swap_columns
from polydom.models.qwyc.fit import Method, Sides, fit_schedule

from .. import report
from ..data.tables import Split, load_higgs, load_rare
from ..exits.fan import fit_fan
from .lattice_promises import promises
from .lattice_rows import LATTICES, MODELS, time_model

PARTS = {
    "rows": f"one row through {LATTICES} lattices",
    "exits": "mean lattices at equal changed decisions",
    "promises": "Adult, and pairs that fall where they should not",
}
LIMIT = 0.005
ALPHAS = (0.0, 0.001, 0.003)
SIZES = ((5, 8), (500, 4))  # lattices, and inputs of each


SETS: dict[str, Callable[[Path], Split]] = {
    "covtype20k, class 3": load_rare,
    "higgs": load_higgs,
}


def exits(folder: Path) -> list[dict[str, Any]]:
    """Mean lattices of each method, for each ensemble."""
    found = []
    for name, load in SETS.items():
        X, y, Xt, yt = load(folder)
        for size, inputs in SIZES:
            for training in ("joint", "independent"):
                start = time.perf_counter()
                learner = LatticeEnsembleClassifier(
                    size, inputs, training=training, epochs=5, random_state=0
                )
                ensemble = compile(learner.fit(X, y))
                fit_s = time.perf_counter() - start
                scores, more, fresh = (
                    ensemble.base_scores(part)
                    for part in (X, swap_columns(X, copies=1), Xt)
                )
                found.append(
                    {
                        "set": name,
                        "lattices": size,
                        "inputs": inputs,
                        "training": training,
                        "positive": float(y.mean()),
                        "fit_s": fit_s,
                        "accuracy": float(np.mean(ensemble.predict(Xt) == yt)),
                        **methods(scores, more, fresh, ensemble.threshold),
                    }
                )
    return found


def methods(
    scores: NDArray[np.float64],
    more: NDArray[np.float64],
    fresh: NDArray[np.float64],
    threshold: float,
) -> dict[str, float | None]:
    """Fewest mean lattices of each method within `LIMIT`."""
    full = fresh.sum(axis=1) >= threshold
    sides: tuple[Sides, ...] = ("negative", "both")
    names: dict[Method, NDArray[np.float64]] = {"qwyc": scores, "polydom": more}
    ways: dict[str, Callable[[float], Any]] = {
        f"{name}, {side}": partial(
            fit_schedule, rows, threshold, method=name, sides=side
        )
        for side in sides
        for name, rows in names.items()
    }
    ways["fan, both"] = partial(fit_fan, scores, threshold)
    least: dict[str, float | None] = {}
    for name, way in ways.items():
        points = [way(alpha).evaluate(fresh) for alpha in ALPHAS]
        within = [u.mean() for d, u in points if np.mean(d != full) <= LIMIT]
        least[name] = float(min(within)) if within else None
    return least


def time_rows(tensorflow: str | None) -> list[dict[str, Any]]:
    """One row of each model, on one core; a child process is on the same."""
    report.pin()
    timed = [row for model in MODELS for row in time_model(*model, tensorflow)]
    report.unpin()
    return timed


def main() -> None:
    """Run the benchmark."""
    parser = report.options(__doc__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--tensorflow", help="interpreter that has TensorFlow Lattice")
    args = parser.parse_args()
    report.need(args.data)
    parts: dict[str, Callable[[], Any]] = {
        "rows": partial(time_rows, args.tensorflow),
        "exits": partial(exits, args.data),
        "promises": partial(promises, args.data),
    }
    report.tell({PARTS[name]: parts[name]() for name in args.parts}, args.json)


if __name__ == "__main__":
    main()
