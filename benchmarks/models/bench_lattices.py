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

import argparse
import gzip
import json
import os
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

from ..exits.bench_qwyc import Split, load_higgs, split
from ..exits.fan import fit_fan
from ..machine import describe
from .lattice_promises import promises
from .lattice_rows import LATTICES, MODELS, OURS, time_model

PARTS = ["rows", "exits", "promises"]
LIMIT = 0.005
ALPHAS = (0.0, 0.001, 0.003)
SIZES = ((5, 8), (500, 4))  # lattices, and inputs of each


def load_rare(folder: Path) -> Split:
    """Covertype's class 3, 11 % of the rows, against the rest, shuffled, 70/30."""
    with gzip.open(folder / "covtype20k" / "covtype.20k.data.gz", "rt") as file:
        table = np.loadtxt(file, delimiter=",")
    return split(table[:, :-1], table[:, -1] == 3)


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
                        "mean": methods(scores, more, fresh, ensemble.threshold),
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


def show_rows(timed: list[dict[str, Any]]) -> None:
    """Print what one row takes, and how many times that of ours from Python."""
    print(f"\n{LATTICES} lattices, one row: inputs, interpolation, us, times ours")
    own = {
        (row["inputs"], row["interpolation"]): row["us"]
        for row in timed
        if row["name"] == OURS
    }
    for row in timed:
        kind = row["inputs"], row["interpolation"]
        used = f"({row['lattices']:.0f} used)" if row["lattices"] < LATTICES else ""
        print(
            f"{kind[0]:3d} {kind[1]:12} {row['name']:36}{row['us']:9.2f}"
            f"{row['us'] / own[kind]:8.2f}  {used}"
        )


def show_exits(found: list[dict[str, Any]]) -> None:
    """Print mean lattices of each method."""
    print(f"\nmean lattices at <= {LIMIT:.1%} changed test decisions")
    print(f"{'set':20} T   training    accuracy  " + "  ".join(found[0]["mean"]))
    for row in found:
        means = (
            f"{'-' if mean is None else f'{mean:.1f}':>{len(name)}}"
            for name, mean in row["mean"].items()
        )
        print(
            f"{row['set']:20}{row['lattices']:4d} {row['training']:12} "
            f"{row['accuracy']:.4f}   {'  '.join(means)}   (fit {row['fit_s']:.0f} s)"
        )


def show_promises(found: list[dict[str, Any]]) -> None:
    """Print accuracy, and what falls where it should not."""
    print("\nAdult: learner, accuracy, AUC, pairs that fall, by at most, fit s")
    for row in found:
        print(
            f"{row['learner']:32}{row['accuracy']:8.4f}{row['auc']:8.4f}"
            f"{row['falling']:9.2%}{row['worst']:8.3f}{row['fit_s']:7.1f}"
        )


def time_rows(tensorflow: str | None) -> list[dict[str, Any]]:
    """One row of each model, on one core; a child process is on the same."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    timed = [row for model in MODELS for row in time_model(*model, tensorflow)]
    os.sched_setaffinity(0, cores)
    return timed


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument(
        "--parts", nargs="+", choices=PARTS, default=PARTS, help="only some"
    )
    parser.add_argument("--tensorflow", help="interpreter that has TensorFlow Lattice")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    parts: dict[str, tuple[Callable[[], Any], Callable[[Any], None]]] = {
        "rows": (partial(time_rows, args.tensorflow), show_rows),
        "exits": (partial(exits, args.data), show_exits),
        "promises": (partial(promises, args.data), show_promises),
    }
    found = {}
    if not args.json:
        print(describe())
    for name in args.parts:
        measure, show = parts[name]
        found[name] = measure()
        if not args.json:
            show(found[name])
    if args.json:
        print(json.dumps({"machine": describe(), **found}))


if __name__ == "__main__":
    main()
