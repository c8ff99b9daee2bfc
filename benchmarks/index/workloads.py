"""What is searched, indexed and looked up: a workload, and ICSP's synthetic one.

Synthetic features cost k0 + k1 n + k2 n^2 for sizes n of 1 to 500; a set is as accurate
as its k best features together, k = 1 or all.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.set_search.greedy import GreedySearch, search_greedy
from polydom.indexer.set_search.poly_dom import search
from polydom.indexer.skyline.prune import prune

SIZES = (1.0, 500.0)
HELPFUL = 0.5  # share of the features that are accurate alone
ALPHAS = (1.0, 1.05, 1.1, 1.2)
COMBINERS = {"k=1": 1, "k=all": 99}
GREEDY = {
    "Greedy": (0.0, math.inf),
    "Greedy-Acc": (0.0, 0.0),
    "Greedy-Cost": (math.inf, math.inf),
}

Floats = NDArray[np.float64]
Masks = NDArray[np.uint64]


class Workload(Protocol):
    """Features whose sets have accuracies and costs."""

    @property
    def features(self) -> int:
        """How many there are."""

    @property
    def between(self) -> tuple[float, float]:
        """The least and the largest size of an item."""

    @property
    def middle(self) -> float:
        """The size to optimise for where only one can be."""

    def accuracy(self, mask: int) -> float:
        """Of a set."""

    def curves(self, masks: Masks) -> Floats:
        """Cost polynomials (C, d + 1) of sets, constant first."""


class Candidates(NamedTuple):
    """What a search left to be indexed."""

    coefficients: Floats
    accuracies: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Synthetic:
    """One draw of ICSP's synthetic workload."""

    single: list[float]  # Accuracies of the features alone
    costs: Floats  # (m, 3) float64:
    best: int  # How many of a set's features, the most accurate ones, count
    between: tuple[float, float] = SIZES
    middle: float = sum(SIZES) / 2

    @classmethod
    def draw(cls, m: int, combiner: str, seed: int) -> "Synthetic":
        """Draw costs that cross often; a helpful feature is right in 0.7 to 1."""
        random = np.random.default_rng([seed, m])
        helpful = random.random(m) < HELPFUL
        single = np.where(helpful, random.uniform(0.7, 1, m), random.uniform(0, 0.5, m))
        costs = random.random((m, 3)) * [100, 1, 0.001]
        return cls(single.tolist(), costs, COMBINERS[combiner])

    @property
    def features(self) -> int:
        """How many there are."""
        return len(self.single)

    def accuracy(self, mask: int) -> float:
        """1 - the product of what its `best` most accurate features leave."""
        chosen = sorted(a for f, a in enumerate(self.single) if mask >> f & 1)
        return 1 - math.prod(1 - a for a in chosen[-self.best :])

    def curves(self, masks: Masks) -> Floats:
        """Cost polynomials of sets: the sums of their features'."""
        bits = np.arange(len(self.single), dtype=np.uint64)
        return ((masks[:, None] >> bits & np.uint64(1)) @ self.costs).astype(float)


def cost_at_middle(workload: Workload, mask: int) -> float:
    """Cost of a set at the size that Greedy optimises for."""
    (curve,) = workload.curves(np.array([mask], np.uint64))
    return float(np.polynomial.polynomial.polyval(workload.middle, curve))


def poly_dom(workload: Workload, alpha: float, tolerance: float = 0.0) -> Masks:
    """Sets that Poly-Dom trains."""
    found = search(
        workload.features,
        workload.accuracy,
        alpha=alpha,
        alpha_of="accuracy",
        tolerance=tolerance,
    )
    return found.expanded.masks


def greedy(workload: Workload, lambdas: tuple[float, float]) -> GreedySearch:
    """Greedy's sequences, for the middle size."""
    return search_greedy(
        workload.features,
        workload.accuracy,
        lambda mask: cost_at_middle(workload, mask),
        lambdas=lambdas,
    )


def candidates(workload: Workload, masks: Masks, *, pruned: bool = True) -> Candidates:
    """Take sets as candidates; pruned, only those that no other one dominates."""
    curves = workload.curves(masks)
    gains = np.array([workload.accuracy(int(mask)) for mask in masks])
    if pruned:
        kept = prune(curves, gains, workload.between)
        curves, gains = curves[kept], gains[kept]
    return Candidates(np.ascontiguousarray(curves), gains)


def draw_candidates(count: int, spread: float) -> Candidates:
    """Cubic costs proportional to accuracy, give or take a share."""
    random = np.random.default_rng(0)
    accuracies = random.random(count)
    noise = random.uniform(1 - spread, 1 + spread, (count, 4))
    return Candidates(accuracies[:, None] * noise * [100, 1, 2e-3, 4e-6], accuracies)
