"""What is told of an index's fetches are counts of its draws."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.index.fetches.arrivals import Arrivals
from polydom.indexer.index.fetches.fetch_facts import (
    ROWS,
    expected_of,
    fetches_of,
    round_budgets,
)
from polydom.indexer.index.index import Index
from tests.support.indexes import fetched, records


def with_draws(*draws: tuple[float, float]) -> Index:
    index = fetched.make_index()
    assert index.package is not None
    package = replace(index.package, arrivals=np.array(draws))
    return replace(index, package=package)


def test_fetches_are_told_by_the_quantiles_of_their_times() -> None:
    draws = [(k * 1e-3, math.inf if k > 90 else 0.5) for k in range(1, 101)]
    told = fetches_of(with_draws(*draws))
    assert told is not None
    employer, orders = told.fetches
    assert told.draws == 100
    assert (employer.p50_ms, employer.p90_ms) == pytest.approx((50.0, 90.0))
    assert employer.p99_ms == pytest.approx(99.0)
    assert (employer.never, employer.features) == (0.0, ["work"])
    assert (orders.p50_ms, orders.p90_ms, orders.p99_ms) == (500.0, 500.0, None)
    assert (orders.never, orders.features) == (0.1, ["history"])
    assert orders.price == {"usd": 0.002}


def test_what_a_budget_brings_leaves_time_for_the_dearest_answer() -> None:
    index = with_draws((2e-3, 4e-3), (2e-3, math.inf))
    arrivals = Arrivals(index)
    late, early = 4e-3 + 49e-6, 4e-3 + 51e-6  # an answer takes up to 50 us
    assert expected_of(index, arrivals, late).came == [1.0, 0.0]
    assert expected_of(index, arrivals, late).quality == 0.75
    assert expected_of(index, arrivals, early).came == [1.0, 0.5]
    assert expected_of(index, arrivals, early).quality == (0.9 + 0.75) / 2


@given(
    st.lists(st.one_of(st.floats(0, 1e3), st.just(math.inf)), min_size=1),
    st.sampled_from([0.0, 1e-6, 1e-3]),
)
def test_budgets_are_round_and_go_from_nothing_to_nearly_all(
    times: list[float], after_s: float
) -> None:
    draws = np.array(times)[:, None]
    budgets = round_budgets(draws, after_s)
    assert 1 <= len(budgets) <= ROWS
    assert budgets == sorted({*budgets})
    came = draws[np.isfinite(draws)]
    if not len(came):
        return
    assert budgets[0] <= max(came.min() + after_s, 1e-9)
    assert budgets[-1] > np.quantile(came, 0.99) + after_s
    assert all(f"{budget:.0e}"[0] in "125" for budget in budgets)


def test_nothing_is_told_without_fetches() -> None:
    assert fetches_of(records.make_index()) is None
    bare = replace(records.make_index(), package=None)
    assert fetches_of(bare) is None


def test_fetches_that_never_come_are_told() -> None:
    told = fetches_of(with_draws((math.inf, math.inf)))
    assert told is not None
    assert [one.p50_ms for one in told.fetches] == [None, None]
    assert [at.came for at in told.budgets] == [[0.0, 0.0]]
