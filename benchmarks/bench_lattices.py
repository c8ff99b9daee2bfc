"""Lattices: what one row costs, and how many of them QWYC leaves out.

python -m benchmarks.bench_lattices DATA             both tables
python -m benchmarks.bench_lattices DATA --json      one JSON object, for the record

Speed: random lattices over 30 columns, one row per call, pinned to one core, the least
of `ROUNDS` means; the early exit follows limits that stop after a quarter on average.

Exits: the shape of QWYC's experiments 3 to 6. Ensembles of 5 and of 500 lattices,
jointly and independently trained, on a problem with few positives and on a balanced
one; only negative exits (filter and score), and both. Schedules are fitted on the
training rows, `polydom` as in `bench_qwyc` also on a copy with columns swapped; for
each method the cheapest of its `ALPHAS` that changes at most `LIMIT` of the *test* rows
is shown, for every method alike.
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

from polydom.indexer.augment import swap_columns
from polydom.indexer.fan import fit_fan
from polydom.indexer.fitting import Method, Sides, fit_schedule
from polydom.models._score_kernels import LOGISTIC, POSITIVE
from polydom.models.classifier import Classifier
from polydom.models.compile import compile_ensemble
from polydom.models.ensemble import as_ensemble
from polydom.models.head import Head
from polydom.models.lattice_ensemble import LatticeEnsembleClassifier
from polydom.models.lattices import make_lattices
from polydom.models.prepare import plain

from .bench_qwyc import Split, load_higgs, split
from .machine import describe

LATTICES, COLUMNS, KEYPOINTS = 500, 30, 20
ROUNDS, CALLS = 9, 300
LIMIT = 0.005
ALPHAS = (0.0, 0.001, 0.003)
SIZES = ((5, 8), (500, 4))  # lattices, and inputs of each


class Limits:
    """A schedule in natural order whose limits are one value apart on both sides."""

    def __init__(self, size: int, reach: float) -> None:
        self.order = np.arange(size)
        self.upper = np.full(size, reach)
        self.lower = -self.upper


def speed(inputs: int) -> dict[str, float]:
    """Microseconds of one row through 500 lattices over so many inputs."""
    draw = np.random.default_rng(0)
    lattices = make_lattices(
        plain(np.arange(COLUMNS)),
        np.sort(draw.normal(size=(COLUMNS, KEYPOINTS)), axis=1),
        np.stack([draw.permutation(COLUMNS)[:inputs] for _ in range(LATTICES)]),
        np.sort(draw.random((LATTICES, inputs, KEYPOINTS + 1)), axis=2),
        draw.normal(size=(LATTICES, 1, 2**inputs)),
        np.zeros(1),
    )
    head = Head(np.arange(2), LOGISTIC, POSITIVE, 1)
    model = Classifier(lattices.packed(), head)
    ensemble = as_ensemble(model)
    rows = list(draw.normal(size=(CALLS, COLUMNS)).astype(np.float32))
    sums = np.abs(ensemble.base_scores(np.stack(rows)).cumsum(axis=1))
    # The reach at which a quarter of the lattices is used on average.
    reach = min(
        np.quantile(sums, np.linspace(0.05, 0.95, 60)),
        key=lambda r: abs(_used(sums, r) - LATTICES / 4),
    )
    early = ensemble.early_exit(Limits(LATTICES, float(reach)))
    return {
        "inputs": inputs,
        "full_us": _each_us(model.choose, rows),
        "early_us": _each_us(early.choose, rows),
        "early_lattices": float(early.choices(np.stack(rows))[1].mean()),
    }


def _used(sums: NDArray[np.float64], reach: float) -> float:
    over = sums > reach
    used = np.where(over.any(axis=1), over.argmax(axis=1) + 1, sums.shape[1])
    return float(used.mean())


def _each_us(call: Callable[[Any], Any], rows: list[Any]) -> float:
    best = np.inf
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for row in rows:
            call(row)
        best = min(best, (time.perf_counter() - start) / len(rows))
    return 1e6 * best


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
                ensemble = compile_ensemble(learner.fit(X, y))
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


def show(speeds: list[dict[str, float]], found: list[dict[str, Any]]) -> None:
    """Print both tables."""
    print(f"{LATTICES} lattices, one row, us: inputs, all, early exit (lattices used)")
    for timed in speeds:
        print(
            f"{timed['inputs']:3d} {timed['full_us']:8.1f} {timed['early_us']:8.1f} "
            f"({timed['early_lattices']:.0f})"
        )
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


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of the data sets")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    args = parser.parse_args()
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    speeds = [speed(inputs) for inputs in (4, 8)]
    os.sched_setaffinity(0, cores)
    found = exits(args.data)
    if args.json:
        print(json.dumps({"machine": describe(), "speed": speeds, "exits": found}))
        return
    print(describe())
    show(speeds, found)


if __name__ == "__main__":
    main()
