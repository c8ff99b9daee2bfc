"""How long `fit_schedule` takes, and how much memory, against rows and base models.

The scores are drawn: each base model adds a share of what a row's whole sum is, and
noise, both smaller the later it comes, as boosting does. Processor seconds are of all
threads, by the process's own clock, so that other programs disturb them little; wall
seconds are as they come. Memory is the largest that was allocated beyond the scores,
in a second fit.
"""

import time
import tracemalloc

import numpy as np
from numpy.typing import NDArray

from polydom.models.qwyc.fit_schedule import fit_schedule

from ..data.tables import Split
from .two_class_exits import train

QUICK_SHAPES = ((500, 20),)
SHAPES = ((8_192, 500), (16_384, 500), (32_561, 125), (32_561, 250), (32_561, 500))
ALPHA = 0.005
MEGABYTE = 1e6


def drawn_scores(rows: int, models: int) -> NDArray[np.float64]:
    """Scores (rows, models) of an ensemble that was never trained."""
    draws = np.random.default_rng(0)
    weights = 1 / (10 + np.arange(models))
    signal = draws.normal(size=(rows, 1)) * weights
    noise: NDArray[np.float64] = draws.normal(size=(rows, models)) * weights
    noise += signal
    return noise


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


def fits(rows: Split, quick: bool) -> list[dict[str, float]]:
    """Fits of drawn scores, and of the whole ensemble's on these training rows."""
    X, y, _, _ = rows
    shapes = QUICK_SHAPES if quick else SHAPES
    ensemble = train(X, y, shapes[-1][1])
    drawn = [measure(drawn_scores(*shape)) for shape in shapes]
    return [*drawn, measure(ensemble.base_scores(X), ensemble.threshold)]
