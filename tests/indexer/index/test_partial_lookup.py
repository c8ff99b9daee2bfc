"""What is found among the candidates that are left is what trying each finds."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.indexer.index.partial_lookup import PartialLookup
from tests.support.indexes import records
from tests.support.oracles.given import Drawn, best_with_one_more

FEATURES = 3
EVERY = (1 << FEATURES) - 1


@st.composite
def indexes(draw: st.DrawFn) -> tuple[Index, Drawn, Size]:
    """An index of sets of three features; costs and qualities are often equal."""
    sets = st.integers(0, EVERY)
    masks = [0, *draw(st.lists(sets.filter(bool), unique=True))]
    numbers = st.integers(0, 4)
    rows = [draw(st.tuples(numbers, numbers, numbers)) for _ in masks]
    qualities = [draw(st.integers(0, 5)) / 5 for _ in masks]
    pair = draw(st.booleans())
    low: Any = (1.0, 1.0) if pair else 1.0
    high: Any = (2.0, 3.0) if pair else 3.0
    package = records.make_index().package
    assert package is not None
    package = replace(package, masks=np.array(masks, np.uint64))
    index = Index.from_candidates(
        np.array(rows, float), qualities, (low, high), package
    )
    size: Any = (1.5, 2.0) if pair else draw(st.sampled_from([1.0, 1.5, 3.0]))
    costs = [index.cost_s(row, size) for row in range(len(masks))]
    return index, Drawn(masks, costs, qualities), size


@given(indexes())
def test_look_up_is_that_of_trying_what_is_left(
    drawn: tuple[Index, Drawn, Size],
) -> None:
    index, every, size = drawn
    beside = {math.nextafter(c, side) for c in every.costs for side in (-1, 1e9)}
    budgets = sorted({*every.costs, *beside, math.inf})
    for withheld in range(EVERY + 1):
        lookup, left = PartialLookup(index, withheld), every.without(withheld)
        rows = lookup.skyline(size).tolist()
        stairs = [(every.costs[row], every.qualities[row]) for row in rows]
        assert stairs == left.skyline()
        reached = -1.0
        for budget in budgets:
            row = lookup.best(size, budget)
            quality = every.qualities[row] if row >= 0 else -1.0
            assert row < 0 or not every.masks[row] & withheld
            assert row < 0 or every.costs[row] <= budget
            assert quality == left.best(budget) >= reached
            reached = quality


# Each feature comes alone; or the first comes with the second, which has its columns.
TOGETHER = st.sampled_from([(0b001, 0b010, 0b100), (0b001, 0b011, 0b100)])


@given(indexes(), TOGETHER)
def test_what_is_wanted_is_that_of_giving_feature_by_feature(
    drawn: tuple[Index, Drawn, Size], together: tuple[int, ...]
) -> None:
    index, every, size = drawn
    for withheld in range(EVERY + 1):
        lookup, left = PartialLookup(index, withheld, together), every.without(withheld)
        for budget in (*every.costs, math.inf):
            one, some = lookup.wanting(size, budget)
            now = left.best(budget)
            reached = max(now, every.qualities[one] if one >= 0 else -1.0)
            best = best_with_one_more(every, withheld, budget, together)
            assert reached == max(now, best)
            if one >= 0:
                assert every.masks[one] & withheld
                assert every.costs[one] <= budget
            if some >= 0:
                assert every.masks[some] & withheld
                assert every.qualities[some] == every.best(budget)
            else:
                assert every.best(budget) == now


@pytest.mark.parametrize("withheld", [0b01, 0b10, 0b11])
def test_nothing_is_withheld_of_what_needs_nothing(withheld: int) -> None:
    lookup = PartialLookup(records.make_index(), withheld)
    rows = [0, 1] if withheld == 0b10 else [0]
    assert lookup.skyline(1.0).tolist() == rows
    assert lookup.best(1.0, 0.0) == -1
