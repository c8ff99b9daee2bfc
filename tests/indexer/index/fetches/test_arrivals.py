"""Expected qualities are means over all draws of the best row for what has come."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.indexer.index.fetches.arrivals import Arrivals
from polydom.indexer.index.fetches.stored_fetches import MOST_FETCHES, StoredFetch
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from tests.support.indexes import fetched, records
from tests.support.indexes.fetched import EMPLOYER, ORDERS

FEATURES = 4  # as many as the drawn indexes have
TIMES = (0.0, 1.0, 2.0, 3.0, math.inf)  # few, so that draws and waits are often equal


def package_of(index: Index) -> Package:
    assert index.package is not None
    return index.package


def reads(name: str, *columns: str) -> StoredFeature:
    return StoredFeature(
        name, len(columns), "", False, StoredColumns([*columns]) if columns else None
    )


@st.composite
def indexes(draw: st.DrawFn) -> Index:
    """An index whose features read own columns, and columns that fetches bring."""
    count = draw(st.sampled_from([0, 1, 2, 3, MOST_FETCHES]))
    fetches = tuple(
        StoredFetch(f"fetch {u}", ["id"], [f"column {u}"]) for u in range(count)
    )
    brought = st.sampled_from([f"column {u}" for u in range(count)] or ["own"])
    features = tuple(
        reads(f"feature {k}", "own", *draw(st.lists(brought, max_size=3)))
        for k in range(FEATURES)
    )
    sets = st.integers(1, (1 << FEATURES) - 1)
    masks = [0, *draw(st.lists(sets, unique=True, max_size=8))]
    costs = [0.0, *(float(draw(st.integers(0, 4))) for _ in masks[1:])]
    qualities = [0.0, *(draw(st.integers(0, 5)) / 5 for _ in masks[1:])]
    times = st.sampled_from(TIMES)
    shape = draw(st.sampled_from([1, 2, 7])), count
    drawn = draw(st.lists(times, min_size=math.prod(shape), max_size=math.prod(shape)))
    package = replace(
        package_of(records.make_index()),
        features=features,
        masks=np.array(masks, np.uint64),
        fetches=fetches,
        arrivals=np.array(drawn, float).reshape(shape),
    )
    curves = np.array(costs)[:, None]
    return Index.from_candidates(curves, qualities, (1, 1), package)


def expected_slowly(
    index: Index, budget_s: float, sent: int, after_s: float = 0.0
) -> float:
    """Try every row for every draw."""
    package, total = package_of(index), 0.0
    for draw in package.arrivals.tolist():
        there = {"own"}
        for u, fetch in enumerate(package.fetches):
            if sent >> u & 1 and draw[u] <= budget_s - after_s:
                there.update(fetch.columns)
        best = 0.0
        for row, mask in enumerate(package.masks.tolist()):
            features = [f for k, f in enumerate(package.features) if mask >> k & 1]
            possible = all(there.issuperset(f.reads or ()) for f in features)
            if possible and index.cost_s(row, 1) <= budget_s:
                best = max(best, float(index.qualities[row]))
        total += best
    return total / len(package.arrivals)


WAITS = st.sampled_from([-1.0, *TIMES, 1.5, math.nextafter(2.0, 0.0)])
MASKS = st.integers(0, (1 << MOST_FETCHES) - 1)


@given(indexes(), WAITS.filter(lambda wait: wait >= 0), MASKS, st.sampled_from([0, 1]))
def test_expected_quality_is_that_of_trying_every_row_for_every_draw(
    index: Index, budget: float, sent: int, after: int
) -> None:
    found = Arrivals(index).expected(1, budget, sent=sent, after_s=after)
    assert found == pytest.approx(expected_slowly(index, budget, sent, after))


@given(indexes(), MASKS, MASKS)
def test_more_time_or_one_more_fetch_never_lowers_it(
    index: Index, sent: int, more: int
) -> None:
    arrivals, reached = Arrivals(index), -1.0
    for budget in sorted({0.5, *TIMES}):
        quality = arrivals.expected(1, budget, sent=sent)
        assert quality >= reached - 1e-12
        reached = quality
        assert arrivals.expected(1, budget, sent=sent | more) >= quality - 1e-12
        everything = arrivals.expected(1, budget)
        assert everything == pytest.approx(arrivals.expected(1, budget, sent=-1))


@given(indexes(), WAITS, MASKS)
def test_outcomes_are_shares_of_the_draws(index: Index, wait: float, sent: int) -> None:
    arrivals = Arrivals(index)
    outcomes = arrivals.outcomes(wait, sent)
    assert sum(outcomes.values()) == pytest.approx(1.0)
    assert all(share > 0 and not came & ~sent for came, share in outcomes.items())
    for u, share in enumerate(arrivals.share(wait)):
        came = sum(
            one for mask, one in arrivals.outcomes(wait).items() if mask >> u & 1
        )
        assert came == pytest.approx(share)


@given(indexes(), MASKS)
def test_withheld_are_the_features_that_read_what_did_not_come(
    index: Index, came: int
) -> None:
    package, arrivals = package_of(index), Arrivals(index)
    missing = {
        column
        for u, fetch in enumerate(package.fetches)
        for column in fetch.columns
        if not came >> u & 1
    }
    for k, feature in enumerate(package.features):
        lacks = not missing.isdisjoint(feature.reads or ())
        assert bool(arrivals.withheld(came) >> k & 1) == lacks


def test_what_comes_just_in_time_is_used() -> None:
    package = replace(
        package_of(fetched.make_index()), arrivals=np.array([[2e-3, 5e-3]])
    )
    arrivals = Arrivals(replace(fetched.make_index(), package=package))
    assert arrivals.outcomes(2e-3) == {EMPLOYER: 1.0}
    assert arrivals.outcomes(math.nextafter(2e-3, 0)) == {0: 1.0}
    assert arrivals.outcomes(5e-3) == {EMPLOYER | ORDERS: 1.0}
    assert arrivals.expected(1, 2e-3) == 0.75
    assert arrivals.expected(1, 2e-3, after_s=1e-4) == 0.6
    assert arrivals.expected(1, 5e-3) == 0.9
    assert arrivals.expected(1, 5e-3, sent=ORDERS) == 0.8
    assert arrivals.expected(1, 35e-6) == 0.6  # time for one feature only


def test_fetches_that_never_come_leave_what_requests_bring() -> None:
    never: NDArray[np.float64] = np.full((3, 2), np.inf)
    package = replace(package_of(fetched.make_index()), arrivals=never)
    arrivals = Arrivals(replace(fetched.make_index(), package=package))
    assert arrivals.share(1e9).tolist() == [0.0, 0.0]
    assert arrivals.expected(1, 1e9) == 0.6


def test_an_index_without_fetches_expects_its_best_row() -> None:
    arrivals = Arrivals(records.make_index())
    assert arrivals.outcomes(1.0) == {0: 1.0}
    assert arrivals.share(1.0).tolist() == []
    assert arrivals.expected(1, 1.0) == 0.9
    assert arrivals.withheld(0) == 0


def test_a_function_may_read_any_column_so_it_waits_for_all_fetches() -> None:
    package = package_of(fetched.make_index())
    features = (reads("function"), *package.features[1:])
    package = replace(package, features=features)
    arrivals = Arrivals(replace(fetched.make_index(), package=package))
    assert arrivals.needs == (EMPLOYER | ORDERS, EMPLOYER, ORDERS)


def test_fetches_and_draws_outlive_a_file(tmp_path: Path) -> None:
    before = package_of(fetched.make_index())
    after = package_of(Index.load(fetched.save_index(tmp_path)))
    assert after.fetches == before.fetches
    assert np.isinf(before.arrivals).any()
    np.testing.assert_array_equal(after.arrivals, before.arrivals)
