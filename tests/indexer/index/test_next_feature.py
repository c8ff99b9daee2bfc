"""What to compute next: by expected accuracy at the deadline, compared with a twin."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable
from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN
from polydom.indexer.index.next_feature import AnytimeRule
from polydom.indexer.index.package import Package
from polydom.indexer.set_search.feature_order import (
    answers_along,
    order_features,
    prefixes,
)
from tests.support.oracles.anytime import expected_accuracy

M, STEPS = 4, 2
NEEDS = ((), (0,), (0, 1), (1,))


def make_package(
    masks: list[int], accuracies: list[float], costs: list[int], share: float = 1.0
) -> tuple[Package, NDArray[np.float64]]:
    """Features cost as many seconds as `costs` says, the last two are the steps'."""
    table = CostTable(
        np.array(costs[:M], float)[:, None],
        np.array(costs[M:], float)[:, None],
        NEEDS,
        np.zeros(1),
    )
    gains = np.array(accuracies)
    orders, fallbacks = order_features(
        masks, gains, lambda mask: float(table.of(mask)[0])
    )
    package = Package(
        kind="record",
        labels=(),
        features=(),
        costs=table,
        masks=np.array(masks, np.uint64),
        orders=orders,
        fallbacks=fallbacks,
        models=(),
        model_s=np.zeros(len(masks)),
        overhead_s=0.0,
        meta={},
        typical=np.full(M + STEPS, share),
    )
    return package, gains


def make_anytime(
    masks: list[int], accuracies: list[float], costs: list[int], share: float = 1.0
) -> AnytimeRule:
    """Make the rule for such a package."""
    return AnytimeRule.of(*make_package(masks, accuracies, costs, share), 0.99)


ALL = [0b0000, 0b0001, 0b0010, 0b0011, 0b1111]
GAINS = [0.1, 0.5, 0.6, 0.7, 0.9]
COSTS = [1, 2, 4, 8, 1, 1]  # the last two are the steps'


def test_rule_goes_for_the_best_that_is_sure_to_fit() -> None:
    anytime = make_anytime(ALL, GAINS, COSTS)
    at = anytime.at(1.0)
    assert [anytime.target(at, 0, left) for left in (0.9, 1, 3, 4, 16.9, 17)] == [
        -1,
        1,
        2,
        3,
        3,
        4,
    ]
    # what is done is paid, with its steps
    assert anytime.target(at, 0b0010, 1.0) == 3
    assert anytime.next(4, 0b0010) in (0, 2, 3)
    assert anytime.target(at, 0b1111, 100.0) == -1
    assert anytime.answer(0b0111) == 3


def test_rule_gambles_where_the_way_there_secures_an_answer() -> None:
    anytime = make_anytime(ALL, GAINS, COSTS, share=0.5)
    at = anytime.at(1.0)
    # all takes 17 s at worst and typically 8.5 s, and the last one 8 s at worst
    assert anytime.target(at, 0, 15.0) == 4
    # nothing is begun that may not be done: the step and the feature at worst
    assert anytime.target(at, 0, 0.6) == -1
    assert anytime.target(at, 0, 0.6, careful=False) == 1


def test_rule_begins_nothing_for_what_will_likely_not_be_reached() -> None:
    """From the first two features on, the next better answer takes them all.

    Features take 4 and 8 s at worst, the step between them 1 s, and typically half. The
    one with the step takes 4 + 1, at worst typically 2.5 + 2.06; the other is begun
    only where its 8 s are left then.
    """
    anytime = make_anytime(ALL, GAINS, COSTS, share=0.5)
    at, last = anytime.at(1.0), anytime.orders[4].tolist()
    order = [feature for feature in last if feature >= 2]
    assert order == [2, 3]
    for left, row in ((6.4, -1), (6.6, 4)):
        assert anytime.target(at, 0b0011, left, careful=False) == row
    for left, row in ((10.4, -1), (10.6, 4), (13.0, 4)):
        assert anytime.target(at, 0b0011, left) == row
    # the first one took 3 s of 10.6: for the second there is not enough
    assert anytime.target(at, 0b0111, 7.6) == -1


def test_rule_leaves_the_last_feature_where_all_time_is_its_own() -> None:
    """The one before typically takes half of its 4 s; of 8 s none may be gone."""
    anytime = make_anytime(ALL, GAINS, [1, 2, 4, 8, 0, 0], share=0.5)
    at = anytime.at(1.0)
    assert [anytime.target(at, 0b0011, left) for left in (8.0, 12.0)] == [-1, 4]


def test_rule_leaves_a_models_time() -> None:
    package, gains = make_package(ALL, GAINS, COSTS)
    half = np.full(len(ALL), 0.5)
    slow = AnytimeRule.of(
        replace(package, model_s=half, typical=np.empty(0)), gains, 0.5
    )
    at = slow.at(1.0)
    assert [slow.target(at, 0, left) for left in (0.5, 1.4, 1.5)] == [-1, -1, 1]


def _orders(anytime: AnytimeRule) -> Any:
    orders = tuple(tuple(f for f in row if f >= 0) for row in anytime.orders.tolist())
    return orders, answers_along(orders, anytime.masks.tolist(), anytime.qualities)


@given(
    others=st.sets(st.integers(1, 2**M - 1), max_size=8),
    costs=st.lists(st.integers(0, 9), min_size=M + STEPS, max_size=M + STEPS),
    done=st.integers(0, 2**M - 1),
    left=st.floats(0.01, 40),
    share=st.sampled_from([0.2, 0.6, 1.0]),
    careful=st.booleans(),
    data=st.data(),
)
def test_rule_chooses_as_the_slow_twin(
    others: set[int],
    costs: list[int],
    done: int,
    left: float,
    share: float,
    careful: bool,
    data: st.DataObject,
) -> None:
    masks = [0, *sorted(others)]
    accuracies = [data.draw(st.integers(0, 9)) / 9 for _ in masks]
    anytime = make_anytime(masks, accuracies, costs, share)
    orders, fallbacks = _orders(anytime)
    row = anytime.target(anytime.at(1.0), done, left, careful=careful)
    if careful and not done and left < anytime.least_s:
        assert row == -1
    worths = [
        expected_accuracy(
            order,
            [accuracies[answer] for answer in answers],
            lambda feature: float(costs[feature]),
            lambda feature: {
                M + step: float(costs[M + step]) for step in NEEDS[feature]
            },
            (done, accuracies[anytime.answer(done)]),
            left,
            share,
            careful,
        )
        for order, answers in zip(orders, fallbacks, strict=True)
    ]
    stopping = accuracies[anytime.answer(done)]
    if row < 0:
        assert max(worths) <= stopping + LEAST_GAIN + 1e-9
    else:
        assert worths[row] >= max(worths) - 1e-9
        assert worths[row] > stopping + LEAST_GAIN - 1e-9
        feature = anytime.next(row, done)
        assert masks[row] >> feature & 1
        assert not done >> feature & 1


@given(done=st.integers(0, 15))
def test_rule_answers_with_the_best_that_is_complete(done: int) -> None:
    anytime = make_anytime(ALL, GAINS, COSTS)
    within = [g for g, mask in zip(GAINS, ALL, strict=True) if mask & ~done == 0]
    assert GAINS[anytime.answer(done)] == max(within)
    assert all(a & ~b == 0 for a, b in pairwise(prefixes((0, 1))))
