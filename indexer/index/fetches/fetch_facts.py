"""What is told of the fetches of an index: when they come, and what that is worth."""

import math
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import costs_at

from ..index import Index
from .arrivals import Arrivals
from .stored_fetches import StoredFetch, needs_of, withheld_by

ROWS = 8  # most budgets
QUANTILES = (0.5, 0.9, 0.99)
STEPS = (1.0, 2.0, 5.0)  # round numbers within a power of ten


class ToldFetch(msgspec.Struct, frozen=True):
    """A call that brings columns of a record, and the times at which it arrives."""

    name: str
    key: list[str]  # Columns of the request that make the key
    columns: list[str]  # Columns that it brings
    features: list[str]  # Names of the features that need it
    price: dict[str, float]  # Price of one key, by unit; empty if it is free
    # Milliseconds within which 50, 90 and 99 % of all calls have come; None if fewer
    # ever come
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    never: float  # Share of the calls that never came


class ToldWait(msgspec.Struct, frozen=True):
    """What can be expected of a budget."""

    budget_ms: float
    came: list[float]  # Share of requests for which each fetch has come by then
    quality: float  # Expected quality of the answer


class ToldFetches(msgspec.Struct, frozen=True):
    """The fetches of an index, and what can be expected of a few budgets."""

    fetches: list[ToldFetch]
    draws: int  # Number of joint draws of arrival times
    budgets: list[ToldWait]  # By ascending budget


def fetches_of(index: Index) -> ToldFetches | None:
    """Return what is told of an index's fetches; None if it has none."""
    package = index.package
    if package is None or not package.fetches:
        return None
    arrivals = Arrivals(index)
    names = [feature.name for feature in package.features]
    told = [
        _told(
            fetch,
            [
                name
                for name, own in zip(names, arrivals.needs, strict=True)
                if own >> u & 1
            ],
            package.arrivals[:, u],
        )
        for u, fetch in enumerate(package.fetches)
    ]
    budgets = [
        expected_of(index, arrivals, budget_s)
        for budget_s in round_budgets(package.arrivals, answering_s(index))
    ]
    return ToldFetches(told, len(package.arrivals), budgets)


def expected_of(index: Index, arrivals: Arrivals, budget_s: float) -> ToldWait:
    """Return what can be expected of a budget, if all fetches are sent at once.

    A server waits until what is left is just enough to answer by the dearest row. The
    item is as large as the largest of the build.
    """
    after_s = answering_s(index)
    return ToldWait(
        budget_s * 1e3,
        arrivals.share(budget_s - after_s).tolist(),
        arrivals.expected(index.sizes[1], budget_s, after_s=after_s),
    )


def answering_s(index: Index) -> float:
    """Return seconds that are enough for any answer after the waiting.

    Columns of a record are read after it. Other features that need no fetch are
    computed while the item waits.
    """
    package, size = index.package, index.sizes[1]
    assert package is not None
    if all(one.columns is not None for one in package.features):
        return float(costs_at(index.coefficients, size).max())
    waiting = withheld_by(needs_of(package.features, package.fetches), 0)
    curves = package.costs.of_many(package.masks & np.uint64(waiting))
    return float((costs_at(curves, size) + package.model_s).max())


def round_budgets(draws: NDArray[np.float64], after_s: float) -> list[float]:
    """Return up to `ROWS` round budgets in seconds, from nothing come to nearly all.

    `draws` are arrival times, and `after_s` is what an answer costs after them.
    """
    came = draws[np.isfinite(draws)]
    if not len(came):
        return [float(f"{after_s:.0e}")]
    low, high = float(came.min()) + after_s, float(np.quantile(came, 0.99)) + after_s
    rungs = [*_rungs(max(low, 1e-9), max(high, 1e-9))]
    kept = np.linspace(0, len(rungs) - 1, min(ROWS, len(rungs))).round().astype(int)
    return [rungs[place] for place in kept.tolist()]


def _rungs(low: float, high: float) -> Iterator[float]:
    """Yield round numbers, ascending, from one at most `low` to one above `high`."""
    power = math.floor(math.log10(low)) - 1
    rungs = [
        float(f"{step}e{exponent}")
        for exponent in range(power, math.ceil(math.log10(high)) + 1)
        for step in STEPS
    ]
    first = max(k for k, rung in enumerate(rungs) if rung <= low)
    for rung in rungs[first:]:
        yield rung
        if rung > high:
            return


def _told(
    fetch: StoredFetch, features: Sequence[str], times: NDArray[np.float64]
) -> ToldFetch:
    # the smallest time within which so many have come; infinite if they never do
    quantiles = np.quantile(times, QUANTILES, method="inverted_cdf") * 1e3
    p50, p90, p99 = (q if math.isfinite(q) else None for q in quantiles.tolist())
    never = float(np.isinf(times).mean())
    return ToldFetch(
        fetch.name,
        fetch.key,
        fetch.columns,
        [*features],
        fetch.price,
        p50,
        p90,
        p99,
        never,
    )
