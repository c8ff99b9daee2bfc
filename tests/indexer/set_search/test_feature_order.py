import itertools

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.set_search.feature_order import order_features
from tests.support.oracles.set_search import CostOf, area_of_order, largest_chain_area

M = 4


def additive(costs: list[float]) -> CostOf:
    return lambda mask: sum(c for f, c in enumerate(costs) if mask >> f & 1)


def test_order_passes_through_the_sets_that_are_stored() -> None:
    masks = [0b000, 0b100, 0b101, 0b111]
    orders, fallbacks = order_features(
        masks, np.array([0.1, 0.5, 0.7, 0.9]), additive([1, 1, 1])
    )
    assert orders == ((), (2,), (2, 0), (2, 0, 1))
    assert fallbacks == ((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3))


def test_order_takes_the_more_accurate_beginning_where_costs_are_equal() -> None:
    orders, _ = order_features(
        [0, 0b01, 0b10, 0b11], np.array([0.1, 0.6, 0.7, 0.9]), additive([1, 1])
    )
    assert orders[3] == (1, 0)


def test_order_takes_the_cheap_beginning_where_the_dear_gains_little() -> None:
    orders, _ = order_features(
        [0, 0b01, 0b10, 0b11], np.array([0.1, 0.6, 0.7, 0.9]), additive([1, 10])
    )
    assert orders[3] == (0, 1)


def test_order_without_stored_sets_between_is_cheapest_first() -> None:
    orders, fallbacks = order_features(
        [0, 0b111], np.array([0.1, 0.9]), additive([3, 1, 2])
    )
    assert orders[1] == (1, 2, 0)
    assert fallbacks[1] == (0, 0, 0, 1)


def test_order_falls_back_on_a_smaller_set_that_is_more_accurate() -> None:
    _, fallbacks = order_features(
        [0, 0b1, 0b11], np.array([0.1, 0.9, 0.8]), additive([1, 1])
    )
    assert fallbacks[2] == (0, 1, 1)


def test_order_of_the_empty_set_alone_is_empty() -> None:
    assert order_features([0], np.array([0.5]), additive([])) == (((),), ((0,),))


def chains(pieces: list[list[float]], own: float) -> CostOf:
    """Return costs of chains of features: each needs all pieces of the earlier ones."""
    names = [(c, k) for c, chain in enumerate(pieces) for k in range(len(chain))]

    def cost_of(mask: int) -> float:
        needed = set[tuple[int, int]]()
        for f, (chain, last) in enumerate(names):
            if mask >> f & 1:
                needed |= {(chain, k) for k in range(last + 1)}
        return own * mask.bit_count() + sum(pieces[c][k] for c, k in needed)

    return cost_of


def test_pieces_of_a_network_are_computed_one_after_the_other() -> None:
    """Without piece 2 on the way to piece 3, both would run without a stop between."""
    cost_of = chains([[1, 1, 2, 1]], own=0.01)
    orders, fallbacks = order_features(
        [0, 0b0010, 0b1010, 0b1111], np.array([0.1, 0.5, 0.8, 0.9]), cost_of
    )
    assert orders == ((), (1,), (1, 3), (0, 1, 2, 3))
    assert fallbacks[3] == (0, 0, 1, 1, 3)


def test_a_feature_of_much_work_of_its_own_keeps_its_place() -> None:
    cost_of = chains([[1, 1, 2, 1]], own=0.5)
    orders, _ = order_features(
        [0, 0b0010, 0b1010, 0b1111], np.array([0.1, 0.5, 0.8, 0.9]), cost_of
    )
    assert orders[3] == (1, 3, 0, 2)


@given(
    lengths=st.lists(st.integers(1, 4), min_size=1, max_size=3),
    data=st.data(),
)
def test_chains_have_all_their_stops(lengths: list[int], data: st.DataObject) -> None:
    """No piece of a set comes after a later piece of its chain; no area is lost."""
    piece = st.integers(1, 9).map(float)
    pieces = [data.draw(st.lists(piece, min_size=n, max_size=n)) for n in lengths]
    m, cost_of = sum(lengths), chains(pieces, own=0.0)
    others = data.draw(st.sets(st.integers(1, 2**m - 1), max_size=8))
    masks = [0, *others]
    accuracies = np.array([data.draw(st.integers(0, 10)) / 10 for _ in masks])
    orders, _ = order_features(masks, accuracies, cost_of)
    begins = np.cumsum([0, *lengths])
    for row, order in enumerate(orders):
        assert sum(1 << f for f in order) == masks[row]
        for first, behind in itertools.pairwise(begins.tolist()):
            own = [f for f in order if first <= f < behind]
            assert own == sorted(own)
        area = area_of_order(order, masks, accuracies, cost_of)
        best = largest_chain_area(row, masks, accuracies, cost_of)
        assert area >= best - 1e-9


@given(
    others=st.sets(st.integers(1, 2**M - 1), max_size=10),
    costs=st.lists(st.integers(0, 9).map(float), min_size=M, max_size=M),
    data=st.data(),
)
def test_order_is_a_chain_with_the_largest_area(
    others: set[int], costs: list[float], data: st.DataObject
) -> None:
    masks = [0, *others]
    accuracies = np.array([data.draw(st.integers(0, 10)) / 10 for _ in masks])
    orders, fallbacks = order_features(masks, accuracies, additive(costs))
    for row, order in enumerate(orders):
        assert sum(1 << f for f in order) == masks[row]
        done = 0
        for k, answer in enumerate(fallbacks[row]):
            done |= 1 << order[k - 1] if k else 0
            within = [
                a for m, a in zip(masks, accuracies, strict=True) if m & ~done == 0
            ]
            assert masks[answer] & ~done == 0
            assert accuracies[answer] == max(within)
        area = area_of_order(order, masks, accuracies, additive(costs))
        best = largest_chain_area(row, masks, accuracies, additive(costs))
        assert area >= best - 1e-9
