"""Slow twins of what answers after a feature failed."""

from collections.abc import Callable

from polydom.features.costs.polynomials import cost_at
from polydom.features.sizes import Size
from polydom.indexer.index.package import Package


def rest_cost(
    package: Package, row: int, size: Size, computed: int, run: int, *, exact: bool
) -> float:
    """The cost of a candidate, feature by feature and step by step."""
    order = package.orders[row]
    left = [feature for feature in order if not computed >> feature & 1]
    if not left:
        return 0.0
    steps = {step for feature in left for step in package.costs.needs[feature]}
    cost = float((package.checked_s if exact else package.model_s)[row])
    for feature in left:
        cost += cost_at(package.costs.feature_coefficients[feature].tolist(), size)
    for step in steps:
        if not run >> step & 1:
            cost += cost_at(package.costs.step_coefficients[step].tolist(), size)
    return cost


def best_quality(
    package: Package,
    qualities: list[float],
    cost: Callable[[int], float],
    left: float,
    withheld: int,
    least: float,
) -> float:
    """The best quality of the candidates that fit, -1 where none does."""
    fitting = [
        quality
        for row, quality in enumerate(qualities)
        if package.orders[row]
        and not any(withheld >> feature & 1 for feature in package.orders[row])
        and quality >= least
        and cost(row) <= left
    ]
    return max(fitting, default=-1.0)
