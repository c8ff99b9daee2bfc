"""A search that has good sets soon, and proves as much as its time allows."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.building.project_tables.search import Search
from polydom.indexer.building.training.search.progressive_search import (
    FEWEST,
    ProgressiveSearch,
    search_progressively,
    with_free,
)
from polydom.indexer.progress import Silence
from polydom.indexer.set_search.feature_order import prefixes
from tests.support.builds.known_sets import KnownSets
from tests.support.oracles import set_search as oracle

M = 5


def cost_of(mask: int) -> float:
    return float(sum(2**f for f in range(62) if mask >> f & 1))


def even(mask: int) -> float:
    """Every feature adds as much."""
    return 0.5 + mask.bit_count() / 128


def search(sets: KnownSets, m: int = M, **terms: float) -> ProgressiveSearch:
    asked = Search(method="progressive", **terms)  # type: ignore[arg-type]
    return search_progressively(asked, m, sets, cost_of, Silence())


@given(
    steps=st.lists(st.integers(0, 9), min_size=1 << M, max_size=1 << M),
    alpha=st.floats(1, 1.5),
)
def test_search_proves_its_alpha_where_there_is_time(
    steps: list[int], alpha: float
) -> None:
    def accuracy(mask: int) -> float:  # grows with the set
        return max(s for sub, s in enumerate(steps) if sub & ~mask == 0) / 9

    found = search(KnownSets(accuracy), alpha=alpha).search
    assert found.complete
    for mask in range(1 << M):
        within = [a for s, a in found.expanded.items() if s & ~mask == 0]
        assert alpha * max(within) >= accuracy(mask) - 1e-12


def test_search_goes_on_to_alpha_one_unless_an_alpha_is_asked_for() -> None:
    def accuracy(mask: int) -> float:  # the last features gain little
        return 0.8 + 0.1 * (1 - 0.2 ** mask.bit_count())

    asked = search(KnownSets(accuracy), alpha=1.05).search
    assert asked.alpha == 1.05
    assert len(asked.expanded) < 1 << M
    default = search(KnownSets(accuracy)).search
    assert default.alpha == 1.0
    assert len(default.expanded) == 1 << M


def test_search_trains_the_beginnings_of_greedys_orders() -> None:
    def accuracy(mask: int) -> float:
        return 1 - math.prod(0.5 + f / 20 for f in range(M) if mask >> f & 1)

    found = search(KnownSets(accuracy), alpha=1.9)
    for per_cost in (False, True):
        order = oracle.greedy_order(M, accuracy, cost_of, per_cost=per_cost)
        assert set(prefixes(order)) <= set(found.search.expanded)


@pytest.mark.parametrize("m", [1, 2, 24, 25, 62])
def test_search_ends_in_time_and_has_both_ends(m: int) -> None:
    sets = KnownSets(even, lambda mask: 1.0)
    found = search(sets, m, alpha=1.0, budget_s=40.0)
    assert {0, (1 << m) - 1} <= set(found.search.expanded)
    assert sets.spent.seconds <= 42.0
    assert found.search.complete == (m <= 2)


def test_search_trains_the_best_sets_of_the_sample_outside_its_orders() -> None:
    known = {0: 0.5, 1: 0.52, 2: 0.51, 4: 0.6, 8: 0.61, 0b101: 0.75, 0b110: 0.8}

    def on_few(mask: int) -> float:
        return known.get(mask, (0.5, 0.5, 0.62, 0.8)[min(mask.bit_count(), 3)])

    sets = KnownSets(even, lambda mask: 1.0, rows=100_000, on_few=on_few)
    found = search(sets, 12, budget_s=40.0)
    for per_cost in (False, True):
        order = oracle.greedy_order(12, on_few, cost_of, per_cost=per_cost)
        assert 0b110 not in prefixes(order)
    assert 0b110 in found.search.expanded
    assert sets.asked.index(0b110) < sets.asked.index(0b10)  # Poly-Dom trains that one


def test_sets_that_train_quickly_do_not_wait_for_those_of_many_columns() -> None:
    """Feature 5 has so many columns that two sets with it take the time."""

    def on_few(mask: int) -> float:
        return 0.5 + 0.05 * (mask & 31).bit_count() + 0.15 * (mask >> 5 & 1)

    def takes_s(mask: int) -> float:
        return 20.0 if mask >> 5 & 1 else 0.01

    sets = KnownSets(on_few, takes_s, rows=100_000, on_few=on_few)
    search(sets, 6, budget_s=60.0)
    slow = [n for n, mask in enumerate(sets.asked) if mask >> 5 & 1]
    assert {1, 3, 7, 15} <= {*sets.asked[slow[0] + 1 : slow[1]]}


def test_a_feature_is_tried_with_all_that_cost_hardly_more_beside_it() -> None:
    pieces = 0b0111  # features 0, 1, 2 of one chain, and a feature 3 of its own

    def chain(mask: int) -> float:
        chained = mask & pieces
        steps = 10.0 * chained.bit_length()  # a piece runs those before it, too
        return 1.0 + steps + 0.1 * mask.bit_count() + 5.0 * (mask >> 3 & 1)

    assert with_free(4, chain) == [0b0011, 0b0111]
    assert with_free(4, lambda mask: 0.0) == []
    sets = KnownSets(even)
    asked = Search(method="progressive", alpha=1.9)
    search_progressively(asked, 4, sets, chain, Silence())
    assert {0b0011, 0b0111} <= {*sets.asked}


def test_cheap_sets_are_trained_where_all_features_take_most_of_the_time() -> None:
    """The pieces of a chain, 0 to 4, have many columns, and the others few."""

    def chain(mask: int) -> float:
        return 10.0 * (mask & 31).bit_length() + 0.1 * mask.bit_count()

    def takes_s(mask: int) -> float:
        return 0.1 + 18.0 * (mask & 31).bit_count()

    sets = KnownSets(even, takes_s, rows=3000)
    asked = Search(method="progressive", budget_s=120.0)
    found = search_progressively(asked, 10, sets, chain, Silence())
    assert {*prefixes(range(5, 10))} <= {*found.search.expanded}


@pytest.mark.parametrize(("each_s", "said"), [(15.0, False), (25.0, True)])
def test_a_first_training_that_takes_most_of_the_time_is_told(
    each_s: float, said: bool, caplog: pytest.LogCaptureFixture
) -> None:
    search(KnownSets(even, lambda mask: each_s), budget_s=40.0)
    assert ("may take 25 s, and the search has 40 s" in caplog.text) is said


def test_search_finds_orders_on_few_rows_where_training_takes_long() -> None:
    sets = KnownSets(even, lambda mask: 1.0, rows=100_000)
    found = search(sets, 30, alpha=1.0, budget_s=60.0)
    assert sets.sample is not None
    assert found.sample == sets.sample.rows
    assert FEWEST <= found.sample < 100_000
    # orders have their time, and so has what they begin with
    assert found.tried > 30
    assert len(found.search.expanded) > 20
    assert sets.spent.seconds <= 62.0


def test_search_on_few_rows_takes_no_accuracy_of_theirs() -> None:
    def on_few(mask: int) -> float:
        return 0.9 if mask == 1 else 0.1

    sets = KnownSets(even, lambda mask: 1.0, 100_000, on_few)
    found = search(sets, 30, alpha=1.0, budget_s=60.0)
    assert all(found.search.expanded[mask] == even(mask) for mask in sets.asked)


def test_search_repeated_with_what_was_kept_ends_where_it_ended() -> None:
    def run() -> list[int]:
        sets = KnownSets(even, lambda mask: 0.1 * (1 + mask % 7))
        return list(search(sets, 12, alpha=1.0, budget_s=20.0).search.expanded)

    assert run() == run()


def test_search_has_two_minutes_or_three_trainings_of_all() -> None:
    assert Search().limit_s(0.1) == 30
    assert Search().limit_s(20) == 60
    assert Search().limit_s(1000) == 120
    assert Search(budget_s=7.0).limit_s(1000) == 7
