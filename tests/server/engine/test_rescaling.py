"""A server's costs are those of its own machine, whatever machine built the index."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polydom.features.extract import Extractor
from polydom.features.feature import Feature, Step
from polydom.indexer.index.index import Index
from polydom.indexer.index.machine_speed import LEAST_ROUNDS, finish
from polydom.server.engine.planning.plan import make_plans
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.rescaling import read_machine_times, rescale
from polydom.server.runtime.warm_up import WarmUp
from polydom.server.schema.facts import Rescaling
from tests.support.clock import Clock
from tests.support.indexes.served import WIDTHS
from tests.support.planners import planner_of, timed_index


def timed_planner(
    clock: Clock,
    features_s: Sequence[float],
    step_s: float,
    index: Index | None = None,
) -> Planner:
    """A planner whose features and step move the clock by so much."""

    def slowed(function: Any, pause_s: float) -> Any:
        def work(*inputs: Any) -> Any:
            clock.now_s += pause_s
            return function(*inputs)

        return work

    index = index or timed_index()
    own = planner_of(index).extractor
    (old,) = own.steps
    step = replace(old, function=slowed(old.function, step_s))

    def with_step(needs: tuple[Step, ...]) -> tuple[Step, ...]:
        return tuple(step if need == old else need for need in needs)

    features: list[Feature] = [
        replace(one, function=slowed(one.function, s), needs=with_step(one.needs))
        for one, s in zip(own.features, features_s, strict=True)
    ]
    return Planner(index, Extractor(features, WIDTHS), now=clock)


def rescaled(planner: Planner, clock: Clock) -> Rescaling:
    samples = WarmUp(planner).samples
    rows = [np.zeros(planner.extractor.width, np.float32)] * len(samples)
    machine_times = read_machine_times(planner)
    assert machine_times is not None
    return finish(rescale(planner, machine_times, samples, rows, now=clock))


def test_planner_plans_with_the_costs_of_a_slower_machine() -> None:
    clock = Clock()
    planner = timed_planner(clock, [2e-3, 2e-3, 12e-3], step_s=4e-3)
    before = planner.index
    found = rescaled(planner, clock)
    assert found.state == "rescaled"
    assert found.steps == pytest.approx({"lowered": 4.0})
    assert list(found.features) == ["length", "marks", "words"]
    assert list(found.features.values()) == pytest.approx([2.0, 1.0, 3.0])
    # 0.2 * no time on this clock is the bound of an eighth
    expected = 0.2e-3 / 8 + 2e-3 + 4e-3 + 3e-3 + 12e-3
    assert planner.index.cost_s(3, 100) == pytest.approx(expected)
    assert planner.plans == make_plans(planner.index) != make_plans(before)


def with_waits(*shares: float) -> list[dict[str, Any]]:
    """Curves of the three features and the step, which wait for these shares."""
    names = ["length", "marks", "words", "lowered"]
    return [
        {"name": name, "coefficients": [1.0], "covered": 1.0, "waits": share}
        for name, share in zip(names, shares, strict=True)
    ]


def test_costs_of_waiting_are_the_same_on_every_start() -> None:
    """The processor takes up to four times as long for the little that it does."""
    for slowness in (0.5, 1.6, 3.0, 4.0):
        clock = Clock()
        times = [slowness * 1e-3, slowness * 2e-3, slowness * 4e-3]
        index = timed_index(curves=with_waits(0.99, 0.0, 0.0, 1.0))
        planner = timed_planner(clock, times, slowness * 1e-3, index)
        found = rescaled(planner, clock)
        assert found.features["length"] == pytest.approx(0.99 + 0.01 * slowness)
        assert found.features["marks"] == pytest.approx(slowness)
        assert found.steps == {"lowered": 1.0}


def test_timing_is_over_soon_where_everything_is_slow() -> None:
    clock = Clock()
    planner = timed_planner(clock, [1.0, 1.0, 1.0], step_s=1.0)
    rescaled(planner, clock)
    # four calls of a second for each of two samples; interrupted ones count twice
    least_s = 4 * 2 * LEAST_ROUNDS
    assert least_s <= clock.now_s - 50.0 + 1e-6 <= 2 * least_s


def test_a_bound_that_is_hit_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    rescaled(timed_planner(clock, [1.0, 2e-3, 4e-3], step_s=1e-3), clock)
    (warning,) = [r for r in caplog.records if r.levelname == "WARNING"]
    assert "overhead, models, feature length differ" in warning.getMessage()
