"""The rival of every early exit: an ensemble that was trained smaller."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from polydom.models.early_exit.ensemble import Ensemble

Rows = NDArray[np.float32]
Labels = NDArray[np.int64]
Train = Callable[[Rows, Labels, int, float], Ensemble]

SIZES = (10, 20, 40, 80, 160, 320)
RATES = (0.05, 0.1, 0.2, 0.3)  # with 10 trees the usual 0.05 has hardly begun
HELD_OUT = 0.2  # share of the training rows on which the rate is chosen


def first_trees(scores: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Sums of the first trees, (N,).

    Without bagging the first k trees of an ensemble are the ensemble of k trees that
    is trained with the same learning rate.
    """
    sums: NDArray[np.float64] = scores[:, :size].sum(axis=1)
    return sums


def choose_rates(X: Rows, y: Labels, train: Train) -> dict[int, float]:
    """Learning rate of each size, by log loss on held-out training rows."""
    order = np.random.default_rng(0).permutation(len(X))
    cut = int((1 - HELD_OUT) * len(X))
    fit, held = order[:cut], order[cut:]
    losses: dict[tuple[int, float], float] = {}
    for rate in RATES:
        ensemble = train(X[fit], y[fit], max(SIZES), rate)
        scores = ensemble.base_scores(X[held])
        for size in SIZES:
            margin = first_trees(scores, size) - ensemble.threshold
            signed = np.where(y[held] == 1, margin, -margin)
            losses[size, rate] = float(np.logaddexp(0, -signed).mean())
    return {size: min(RATES, key=lambda rate: losses[size, rate]) for size in SIZES}


def smaller(
    X: Rows, y: Labels, Xt: Rows, train: Train, usual: float
) -> Iterator[tuple[str, int, float, NDArray[np.bool_]]]:
    """(method, size, rate, decisions on `Xt`) at the usual rate and at the best."""
    chosen = choose_rates(X, y, train)
    for rate in sorted({usual, *chosen.values()}):
        ensemble = train(X, y, max(SIZES), rate)
        scores = ensemble.base_scores(Xt)
        for size in SIZES:
            decisions = first_trees(scores, size) >= ensemble.threshold
            if rate == usual:
                yield "fewer trees", size, rate, decisions
            if rate == chosen[size]:
                yield "fewer trees, best rate", size, rate, decisions
