"""What a planner reads of an index once: promises, the least cost, and rules."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from polydom.features.costs.curve import CostTable
from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size
from polydom.indexer.index.built_facts import exits_of
from polydom.indexer.index.index import Index
from polydom.indexer.index.next_feature import AnytimeRule
from polydom.indexer.index.package import Package

# Number of sizes whose most accurate row is cached. Records have one size, and images
# from one camera have few.
REMEMBERED = 1024
COSTED = 32  # sizes for which the costs of all candidates are cached


class Ranked(NamedTuple):
    """A candidate: its quality, its mask of features, and its row."""

    quality: float
    mask: int
    row: int


def promised_shares(index: Index) -> dict[str | None, float]:
    """Return the share of each class's answers that early exits may change.

    It is empty for an index without exits. For an index of an older release it has the
    share of all answers together, under None.
    """
    package = index.package
    exits = exits_of(package.meta) if package else None
    if package is None or exits is None:
        return {}
    if not exits.alphas:
        return {None: exits.alpha}
    return dict(zip(package.labels, exits.alphas, strict=True))


def barred_class(index: Index) -> int | None:
    """Return the class, of two, that no plan answers early; None if there is none."""
    exits = exits_of(index.package.meta) if index.package else None
    if exits is None or exits.sides == "both":
        return None
    return 1 if exits.sides == "negative" else 0


def least_cost(index: Index, prior: int) -> float:
    """Return the least cost of a candidate but the `prior`, for an item of any size.

    It is 0 if a cost may fall as a size grows, and -infinity if the prior is the best.
    """
    if index.qualities[prior] >= index.qualities.max():
        return -math.inf
    if (index.coefficients < 0).any():
        return 0.0
    return float(np.delete(index.coefficients[:, 0], prior).min())


def waiting_costs(package: Package) -> CostTable | None:
    """Return the part of costs in which features wait; None if no feature waits."""
    waits, costs = package.waits, package.costs
    if not waits.any():
        return None
    features, steps = np.split(waits[:, np.newaxis], [len(costs.feature_coefficients)])
    return replace(
        costs,
        feature_coefficients=features * costs.feature_coefficients,
        step_coefficients=steps * costs.step_coefficients,
        overhead=np.zeros_like(costs.overhead),
    )


def make_anytime(index: Index, unit: str) -> AnytimeRule | None:
    """Return the rule that chooses a plan's next feature; None if plans are fixed."""
    package = index.package
    assert package is not None
    # only if costs are measured times can time be left for further features
    if unit != "s" or not len(package.typical):
        return None
    quantile = float(package.meta.get("quantile", 0.99))
    return AnytimeRule.of(package, index.qualities, quantile)


def remember_tops(index: Index) -> Callable[[Size], tuple[int, float]]:
    """Return a cached function from a size to the best candidate's (row, cost)."""

    @lru_cache(REMEMBERED)
    def top(size: Size) -> tuple[int, float]:
        row = index.lookup.best(size, math.inf)
        return row, index.cost_s(row, size)

    return top


def remember_costs(index: Index) -> Callable[[Size], list[float]]:
    """Return a cached function from a size to the costs (C,) of all candidates.

    They are those of `cost_at`, to the last bit.
    """
    first, *others = (column.copy() for column in index.coefficients.T)

    @lru_cache(COSTED)
    def costs(size: Size) -> list[float]:
        # sums are added up in the first column
        columns: list[Any] = [first.copy(), *others]
        of_all: Any = cost_at(columns, size)
        found: list[float] = of_all.tolist()
        return found

    return costs


def rank(index: Index, *, parts: bool) -> list[Ranked]:
    """Return all candidates, the best first; without parts of models unless `parts`."""
    package = index.package
    assert package is not None
    candidates = zip(index.qualities.tolist(), package.masks.tolist(), strict=True)
    ranked = [
        Ranked(quality, mask, row)
        for row, (quality, mask) in enumerate(candidates)
        if parts or not package.base_models[row]
    ]
    return sorted(ranked, key=lambda one: -one.quality)
