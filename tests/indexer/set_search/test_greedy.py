import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.index.lookup_rivals import GreedyLookup
from polydom.features.errors import BadInput
from polydom.indexer.set_search.greedy import order_by_gain, search_greedy
from tests.support.builds.known_sets import KnownSets
from tests.support.oracles import set_search as oracle
from tests.support.oracles.set_search import greedy_sequence
from tests.support.oracles.skyline import horner

M = 4
COSTS = [1.0, 2.0, 4.0, 8.0]
SINGLE = [0.1, 0.3, 0.35, 0.6]


def cost(mask: int) -> float:
    return sum(c for f, c in enumerate(COSTS) if mask >> f & 1)


def accuracy(mask: int) -> float:
    return 1 - math.prod(1 - a for f, a in enumerate(SINGLE) if mask >> f & 1)


def curves(masks: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Cost is the features' costs times the size."""
    return np.array([[0.0, cost(int(mask))] for mask in masks])


def test_greedy_at_lambda_zero_puts_accuracy_first() -> None:
    search = search_greedy(M, accuracy, cost, lambdas=(0.0, 0.0))
    assert [s.features for s in search.sequences] == [(3, 2, 1, 0)]


def test_greedy_at_infinite_lambda_puts_the_cheapest_first() -> None:
    search = search_greedy(M, accuracy, cost, lambdas=(math.inf, math.inf))
    assert [s.features for s in search.sequences] == [(0, 1, 2, 3)]


def test_greedy_covers_all_lambdas_without_a_gap() -> None:
    sequences = search_greedy(M, accuracy, cost).sequences
    assert len(sequences) > 2
    assert sequences[0].low == 0.0
    assert sequences[-1].high == math.inf
    assert [s.high for s in sequences[:-1]] == [s.low for s in sequences[1:]]


@given(
    accuracies=st.lists(st.integers(0, 64), min_size=16, max_size=16),
    costs=st.lists(st.integers(1, 16), min_size=M, max_size=M),
    place=st.floats(0.1, 0.9),
)
def test_greedy_finds_the_sequence_of_every_lambda(
    accuracies: list[int], costs: list[int], place: float
) -> None:
    def known(mask: int) -> float:
        return accuracies[mask] / 64

    def price(mask: int) -> float:
        return float(sum(c for f, c in enumerate(costs) if mask >> f & 1))

    for low, high, features in search_greedy(M, known, price, most=10_000).sequences:
        end = min(high, low + 10)
        within = low + place * (end - low)
        assert end - low > 1e-9  # lines that meet in one point leave no range between
        expected = greedy_sequence(M, known, price, within)
        assert features == expected


def test_three_lines_through_one_point_have_two_ranges() -> None:
    """Their crossings are computed a unit in the last place apart."""
    gains = [
        0.1 + 0.3 * 3,
        0.1 + 0.3 * 2,
        0.1 + 0.3,
    ]  # all meet at 0.3 with costs 4 - 2

    def known(mask: int) -> float:
        return max((gains[f] for f in range(3) if mask >> f & 1), default=0.0)

    def price(mask: int) -> float:
        return float(sum(4 - f for f in range(3) if mask >> f & 1))

    sequences = search_greedy(3, known, price).sequences
    assert all(s.high - s.low > 1e-9 for s in sequences)


def test_greedy_trains_each_set_once_and_only_those_it_reaches() -> None:
    asked: list[int] = []

    def counted(mask: int) -> float:
        asked.append(mask)
        return accuracy(mask)

    search = search_greedy(M, counted, cost, lambdas=(0.0, 0.0))
    assert sorted(asked) == sorted(search.expanded)
    assert len(asked) == 1 + 4 + 3 + 2 + 1


def test_greedy_trains_in_batches_and_tells_how_far_it_is() -> None:
    batches: list[list[int]] = []
    told: list[tuple[int, int | None]] = []

    def train(masks: list[int]) -> list[float]:
        batches.append(masks)
        return [accuracy(mask) for mask in masks]

    search = search_greedy(
        M, train, cost, batch=True, progress=lambda *step: told.append(step)
    )
    assert search == search_greedy(M, accuracy, cost)
    assert batches[:2] == [[0], [1, 2, 4, 8]]
    assert len(batches) == M + 1
    assert told == [(done, None) for done in range(1, len(search.expanded) + 1)]
    told.clear()
    search_greedy(
        M, accuracy, cost, lambdas=(0.0, 0.0), progress=lambda *step: told.append(step)
    )
    assert told == [(done, 11 - done) for done in range(1, 12)]


def test_greedy_follows_no_more_sequences_than_asked_for() -> None:
    sequences = search_greedy(M, accuracy, cost, most=2).sequences
    assert 1 <= len(sequences) <= 2
    assert sequences[-1].high == math.inf


def test_greedy_lookup_adds_features_while_the_budget_lasts() -> None:
    search = search_greedy(M, accuracy, cost, lambdas=(math.inf, math.inf))
    lookup = GreedyLookup.build(search, curves, size=1.0)
    masks = [int(lookup.masks[lookup.best(1.0, b)]) for b in (0, 0.9, 1, 3, 14.9, 15)]
    assert masks == [0, 0, 0b1, 0b11, 0b111, 0b1111]
    # an item twice as large gets fewer features for the same budget
    assert int(lookup.masks[lookup.best(2.0, 3.0)]) == 0b1
    assert lookup.order(lookup.best(1.0, 7.0)) == (0, 1, 2)


@given(size=st.floats(0.1, 10), budget=st.floats(0, 100))
def test_greedy_lookup_holds_the_budget(size: float, budget: float) -> None:
    lookup = GreedyLookup.build(search_greedy(M, accuracy, cost), curves, size=1.0)
    row = lookup.best(size, budget)
    assert horner(lookup.coefficients[row].tolist(), size) <= budget


def test_greedy_lookup_is_nothing_when_not_even_the_empty_set_fits() -> None:
    search = search_greedy(M, accuracy, cost)
    lookup = GreedyLookup.build(search, lambda masks: curves(masks) + 1.0, size=1.0)
    assert lookup.best(1.0, 0.5) == -1


@pytest.mark.parametrize(
    ("m", "lambdas", "most", "value", "message"),
    [
        (0, (0.0, 1.0), 8, 0.5, "m is 0"),
        (63, (0.0, 1.0), 8, 0.5, "m is 63"),
        (2, (1.0, 0.0), 8, 0.5, "lambdas are"),
        (2, (math.nan, 1.0), 8, 0.5, "lambdas are"),
        (2, (0.0, 1.0), 0, 0.5, "most is 0"),
        (2, (0.0, 1.0), 8, 1.5, r"accuracy of set 0 is 1\.5"),
    ],
)
def test_greedy_refuses_arguments_out_of_range(
    m: int, lambdas: tuple[float, float], most: int, value: float, message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        search_greedy(m, lambda mask: value, cost, lambdas=lambdas, most=most)


DRAWN_FEATURES = 7


def order(
    covers: list[set[int]], costs: list[int], per_cost: bool, most: int = 10**9
) -> tuple[tuple[int, ...], KnownSets]:
    """Order features that each cover some of 20 items: returns diminish."""

    def accuracy(mask: int) -> float:
        covered = set().union(*(c for f, c in enumerate(covers) if mask >> f & 1))
        return len(covered) / 20

    def cost_of(mask: int) -> float:
        return float(sum(c for f, c in enumerate(costs) if mask >> f & 1))

    known = KnownSets(accuracy)
    found = order_by_gain(
        len(covers),
        known.qualities,
        cost_of,
        known={0: accuracy(0)},
        per_cost=per_cost,
        is_over=lambda: len(known.asked) >= most,
        on_trained=lambda: None,
    )
    if most == 10**9:
        assert found == oracle.greedy_order(
            len(covers), accuracy, cost_of, per_cost=per_cost
        )
    return found, known


COVERS = st.lists(st.sets(st.integers(0, 19)), min_size=1, max_size=DRAWN_FEATURES)
DRAWN_COSTS = st.lists(
    st.integers(0, 9), min_size=DRAWN_FEATURES, max_size=DRAWN_FEATURES
)


@given(covers=COVERS, costs=DRAWN_COSTS, per_cost=st.booleans())
def test_order_is_greedys_where_returns_diminish(
    covers: list[set[int]], costs: list[int], per_cost: bool
) -> None:
    found, known = order(covers, costs, per_cost)
    assert len(set(known.asked)) == len(known.asked)
    m = len(covers)
    assert len(known.asked) <= m * (m + 1) // 2
    assert len(set(found)) == len(found) <= m


def test_order_measures_few_of_many() -> None:
    covers = [set(range(20)) - {f} if f < 2 else {f % 20} for f in range(40)]
    found, known = order(covers, [1] * 40, per_cost=False)
    assert found == (0, 1)  # 0 lacks item 0 alone, which 1 covers
    assert len(known.asked) < 2 * 40 + 10


def test_order_puts_the_cheaper_first_for_its_cost() -> None:
    covers, costs = [{0, 1, 2, 3}, {4, 5, 6}], [8, 1]
    assert order(covers, costs, per_cost=False)[0] == (0, 1)
    assert order(covers, costs, per_cost=True)[0] == (1, 0)


def test_order_leaves_out_what_gains_nothing() -> None:
    assert order([{1}, set(), {1}], [1, 1, 2], per_cost=True)[0] == (0,)
    assert order([set()], [1], per_cost=False)[0] == ()


def test_order_goes_on_by_the_last_gains_when_time_is_up() -> None:
    covers = [{f, f + 1} for f in range(7)]
    whole, known = order(covers, [1] * 7, per_cost=False)
    cut, fewer = order(covers, [1] * 7, per_cost=False, most=8)
    assert cut[:1] == whole[:1]
    assert sorted(cut) == [*range(7)]
    assert len(fewer.asked) < len(known.asked)


@pytest.mark.parametrize("per_cost", [False, True])
def test_order_ends_with_what_was_never_measured(per_cost: bool) -> None:
    covers = [{1}, {2, 3}, set(), {4, 5, 6}, {7}, {8}]
    found, known = order(covers, [1] * 6, per_cost, most=4)
    assert known.asked == [1, 2, 4, 8]
    assert found == (3, 1, 0, 4, 5)  # feature 2 alone gains nothing


@given(covers=COVERS, costs=DRAWN_COSTS, most=st.integers(0, 9))
def test_an_order_that_is_cut_leaves_out_nothing_that_gains(
    covers: list[set[int]], costs: list[int], most: int
) -> None:
    whole, _ = order(covers, costs, per_cost=True)
    cut, _ = order(covers, costs, per_cost=True, most=most)
    assert set(whole) <= set(cut)
    assert len(set(cut)) == len(cut)
