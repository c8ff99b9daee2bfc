"""ICSP's synthetic workload: features that cost and help at random, and their sets.

Features cost k0 + k1 n + k2 n^2 for sizes n of 1 to 500; a set is as accurate as its k
best features together, k = 1 or all.
"""

import math
import statistics
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.set_search.greedy import search_greedy
from polydom.indexer.set_search.poly_dom import search
from polydom.indexer.skyline.prune import prune

SIZES = (1.0, 500.0)
HELPFUL = 0.5  # share of the features that are accurate alone
ALPHAS = (1.0, 1.05, 1.1, 1.2)
COMBINERS = {"k=1": 1, "k=all": 99}
TRIALS = 5
GREEDY = {
    "Greedy": (0.0, math.inf),
    "Greedy-Acc": (0.0, 0.0),
    "Greedy-Cost": (math.inf, math.inf),
}


class Workload(NamedTuple):
    """One draw of ICSP's synthetic workload."""

    single: list[float]
    costs: NDArray[np.float64]
    best: int

    def accuracy(self, mask: int) -> float:
        """1 - the product of what its `best` most accurate features leave."""
        chosen = sorted(a for f, a in enumerate(self.single) if mask >> f & 1)
        return 1 - math.prod(1 - a for a in chosen[-self.best :])

    def curves(self, masks: NDArray[np.uint64]) -> NDArray[np.float64]:
        """Cost polynomials of sets: the sums of their features'."""
        bits = np.arange(len(self.single), dtype=np.uint64)
        return ((masks[:, None] >> bits & np.uint64(1)) @ self.costs).astype(float)

    def cost_at_median(self, mask: int) -> float:
        """Cost at the size Greedy optimises for."""
        curve = self.curves(np.array([mask], np.uint64))[0]
        return float(np.polynomial.polynomial.polyval(sum(SIZES) / 2, curve))


def draw(m: int, combiner: str, seed: int) -> Workload:
    """Draw costs that cross often; a helpful feature is right in 0.7 to 1 of cases."""
    random = np.random.default_rng([seed, m])
    helpful = random.random(m) < HELPFUL
    single = np.where(helpful, random.uniform(0.7, 1, m), random.uniform(0, 0.5, m))
    costs = random.random((m, 3)) * [100, 1, 0.001]
    return Workload(single.tolist(), costs, COMBINERS[combiner])


def mean_over_trials(count: Callable[..., int], m: int, combiner: str) -> float:
    return statistics.mean(count(draw(m, combiner, t)) for t in range(TRIALS))


def greedy(workload: Workload, lambdas: tuple[float, float]) -> Any:
    return search_greedy(
        len(workload.single),
        workload.accuracy,
        workload.cost_at_median,
        lambdas=lambdas,
    )


class Candidates(NamedTuple):
    """What the lattice search left to be indexed."""

    coefficients: NDArray[np.float64]
    accuracies: NDArray[np.float64]


def expand(workload: Workload, alpha: float) -> Candidates:
    expanded = search(len(workload.single), workload.accuracy, alpha=alpha).expanded
    curves, gains = workload.curves(expanded.masks), expanded.accuracies
    kept = prune(curves, gains, SIZES)
    return Candidates(np.ascontiguousarray(curves[kept]), gains[kept])


def draw_candidates(count: int, spread: float) -> Candidates:
    """Cubic costs proportional to accuracy, give or take a share."""
    random = np.random.default_rng(0)
    accuracies = random.random(count)
    noise = random.uniform(1 - spread, 1 + spread, (count, 4))
    return Candidates(accuracies[:, None] * noise * [100, 1, 2e-3, 4e-6], accuracies)
