"""How long `fit_schedule` takes, and how much memory, against rows and base models.

python -m benchmarks.exits.bench_fit              a line per number of rows and base models
python -m benchmarks.exits.bench_fit --data DATA  Adult's 32,561 rows and 500 trees too
python -m benchmarks.exits.bench_fit --json       one JSON object, for the record

The scores are drawn: each base model adds a share of what a row's whole sum is, and
noise, both smaller the later it comes, as boosting does. Processor seconds are of all
threads, by the process's own clock, so that other programs disturb them little; wall
seconds are as they come. Memory is the largest that was allocated beyond the scores,
in a second fit.
"""

import argparse
import json
import time
import tracemalloc
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from polydom.models.qwyc.fit import fit_schedule

from .bench_qwyc import SETS, train

SHAPES = ((8_192, 500), (16_384, 500), (32_561, 125), (32_561, 250), (32_561, 500))
ALPHA = 0.005
MEGABYTE = 1e6


def draw(rows: int, models: int) -> NDArray[np.float64]:
    """Scores (rows, models) of an ensemble that was never trained."""
    draws = np.random.default_rng(0)
    weights = 1 / (10 + np.arange(models))
    signal = draws.normal(size=(rows, 1)) * weights
    noise: NDArray[np.float64] = draws.normal(size=(rows, models)) * weights
    noise += signal
    return noise


def adult(folder: Path) -> tuple[NDArray[np.float64], float]:
    """Scores and threshold of bench_qwyc's ensemble on Adult's training rows."""
    X, y, _, _ = SETS["adult"](folder)
    ensemble = train(X, y)
    return ensemble.base_scores(X), ensemble.threshold


def measure(scores: NDArray[np.float64], threshold: float = 0.0) -> dict[str, float]:
    """Seconds and megabytes of one fit."""
    busy, wall = time.process_time(), time.perf_counter()
    schedule = fit_schedule(scores, threshold, ALPHA)
    busy, wall = time.process_time() - busy, time.perf_counter() - wall
    tracemalloc.start()
    fit_schedule(scores, threshold, ALPHA)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return {
        "rows": scores.shape[0],
        "models": scores.shape[1],
        "cpu_s": busy,
        "wall_s": wall,
        "scores_mb": scores.nbytes / MEGABYTE,
        "beyond_mb": most / MEGABYTE,
        "mean_models": float(schedule.evaluate(scores)[1].mean()),
    }


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    args = parser.parse_args()
    results = []
    if not args.json:
        print("   rows  models   CPU s  wall s  scores, MB  beyond, MB  mean models")
    tasks = [(draw(*shape), 0.0) for shape in SHAPES]
    if args.data is not None:
        tasks.append(adult(args.data))
    for scores, threshold in tasks:
        found = measure(scores, threshold)
        results.append(found)
        if not args.json:
            print(
                f"{found['rows']:7} {found['models']:7} {found['cpu_s']:7.2f} "
                f"{found['wall_s']:7.2f} {found['scores_mb']:11.0f} "
                f"{found['beyond_mb']:11.0f} {found['mean_models']:12.1f}"
            )
    if args.json:
        print(json.dumps(results))


if __name__ == "__main__":
    main()
