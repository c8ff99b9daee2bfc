"""Planners of the small text index, whose features take as long as a test wants."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from polydom.features.extract import Extractor
from polydom.features.feature import Feature
from polydom.features.items import text_item
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import exit_costs
from polydom.server.engine.budget import Budget
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from tests.support.clock import Clock
from tests.support.indexes.served import FEATURES_FILE, WIDTHS, make_index

INDEX = make_index()
TEXT_100 = text_item("x" * 100)  # its sets cost 0.2, 1.2, 5.2 and 9.2 ms
# What the three features take on a slow_planner.
IDLE = (0.0, 0.0, 0.0)
AS_PROMISED = (1e-3, 4e-3, 4e-3)
FAST = (0.5e-3, 0.5e-3, 0.5e-3)
HALF = np.full(4, 0.5)  # typical times of three features and a step


def extractor_of(index: Index) -> Extractor:
    assert index.package is not None
    return index.package.extractor([FEATURES_FILE])


def with_margins(margins: float) -> Index:
    """The index whose whole plan answers after each feature beyond this margin."""
    package = INDEX.package
    assert package is not None
    never = tuple((math.inf,) * (len(order) + 1) for order in package.orders)
    last = (math.inf, margins, margins, math.inf)
    return replace(INDEX, package=replace(package, margins=(*never[:-1], last)))


def typical_index(shares: Any = HALF) -> Index:
    index = make_index()
    assert index.package is not None
    return replace(index, package=replace(index.package, typical=np.array(shares)))


def slow_planner(
    clock: Clock, seconds: Sequence[float], index: Index = INDEX
) -> Planner:
    """A planner whose features move the clock by so much, whatever they promise."""

    def slowed(feature: Feature, pause_s: float) -> Feature:
        def function(*inputs: Any) -> Any:
            clock.now_s += pause_s
            return feature.function(*inputs)

        return replace(feature, function=function)

    own = extractor_of(index)
    features = [slowed(f, s) for f, s in zip(own.features, seconds, strict=True)]
    return Planner(index, Extractor(features, WIDTHS), now=clock)


def typical_planner(seconds: Sequence[float], index: Index | None = None) -> Planner:
    """A planner that knows typical times, and goes on while there is time left."""
    return slow_planner(Clock(), seconds, index or typical_index())


def ask(planner: Planner, budget: Budget, **terms: Any) -> Any:
    return execute(planner, Request(TEXT_100, budget, **terms))


BUILT: dict[str, Any] = {
    "alpha": 0.1,
    "confidence": 0.9,
    "fitted": 200,
    "calibrated": 100,
    "plans": [
        {"row": 0, "early": 0.0, "saved": 0.0, "changed": 0.0},
        {"row": 3, "early": 0.5, "saved": 0.25, "changed": 0.01},
    ],
}


def index_that_says(built: Any) -> Index:
    """The index with exits, whose costs are paid for, and what a build says of them."""
    index = with_margins(0.0)
    package = index.package
    assert package is not None
    costs = index.coefficients.copy()
    costs[:, 0] += exit_costs(package.margins, package.fallbacks, package.model_s)
    package = replace(package, meta={**package.meta, "exits": built})
    return Index.from_candidates(costs, index.qualities, index.sizes, package)


def money_planner() -> Planner:
    index = make_index("usd")
    return Planner(index, extractor_of(index))


# seconds of the two samples on the machine of the build
MACHINE_TIMES = {
    "overhead": [1e-4, 1e-4],
    "step": [[1e-3], [1e-3]],
    "feature": [[1e-3, 2e-3, 4e-3]] * 2,
    "model": [[1e-4] * 4] * 2,
}


def timed_index(machine_times: Any = MACHINE_TIMES, **meta: Any) -> Index:
    """The tiny index, with times of its samples."""
    index = make_index()
    assert index.package is not None
    facts = {**index.package.meta, "pace": machine_times, **meta}
    return replace(index, package=replace(index.package, meta=facts))


def planner_of(index: Index) -> Planner:
    assert index.package is not None
    return Planner(index, index.package.extractor([FEATURES_FILE]))
