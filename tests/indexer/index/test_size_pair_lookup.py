import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.costs.polynomials import cost_at
from polydom.features.errors import BadIndexFile, BadInput
from polydom.indexer.index.size_pair_lookup import LONGEST_RUN, SizePairLookup
from polydom.indexer.skyline.size_pairs import control_values
from tests.support.builds.curves import RECTANGLE, Candidates, pair_candidates
from tests.support.oracles.lookups import most_accurate_pairs, pair_skyline

Floats = NDArray[np.float64]
Array = NDArray[np.generic]
Pair = tuple[float, float]

(LOW_A, LOW_B), (HIGH_A, HIGH_B) = RECTANGLE
SIZES = st.tuples(st.floats(LOW_A, HIGH_A), st.floats(LOW_B, HIGH_B))

# By width alone, by height alone, by both, and the same for everything.
COSTS = np.array([[0.0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0], [0, 0, 0, 0, 1, 0]])
COSTS = np.vstack([COSTS, [3.0, 0, 0, 0, 0, 0]])
ACCURACIES = np.array([0.7, 0.8, 0.9, 0.6])


def borders(lookup: SizePairLookup) -> list[Pair]:
    """Sizes on every border between cells, just before it, and the corners."""
    found = [(a, b) for a in (LOW_A, HIGH_A) for b in (LOW_B, HIGH_B)]
    for at, (axis, *_) in zip(lookup.thresholds, lookup.nodes, strict=True):
        for n in (float(at), math.nextafter(at, 0)):
            found += [(n, LOW_B), (n, 3.0)] if axis == 0 else [(LOW_A, n), (3.0, n)]
    return found


def budgets(coefficients: Floats, size: Pair) -> Iterator[float]:
    """Every cost at a size, and just beside it; nothing, and everything."""
    yield from (0.0, math.inf)
    for row in coefficients.tolist():
        cost = cost_at(row, size)
        yield from (cost, math.nextafter(cost, -1), math.nextafter(cost, math.inf))


def check_best(drawn: Candidates, lookup: SizePairLookup, size: Pair) -> None:
    """Compare a look-up at one size with trying every candidate."""
    coefficients, accuracies = drawn
    for budget in budgets(coefficients, size):
        row = lookup.best(size, budget)
        assert row < 0 or cost_at(coefficients[row].tolist(), size) <= budget
        best = accuracies[row] if row >= 0 else -1.0
        surely = Fraction(min(budget, 1e9)) * (1 - Fraction(1, 10**12))
        assert best >= most_accurate_pairs(
            coefficients.tolist(), accuracies.tolist(), size, surely
        )


@given(drawn=pair_candidates(), size=SIZES)
def test_best_holds_the_budget_and_misses_nothing_that_fits(
    drawn: Candidates, size: Pair
) -> None:
    check_best(drawn, SizePairLookup.build(*drawn, RECTANGLE), size)


@pytest.mark.parametrize("seed", range(3))
def test_best_is_exact_at_the_borders_of_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    kinds = np.array([[5, 0, 0, 0, 0, 0], [0, 1, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0]])
    drawn = rng.random((20, 3)) @ kinds + 1e-3 * rng.random((20, 6)), rng.random(20)
    lookup = SizePairLookup.build(*drawn, RECTANGLE)
    assert len(lookup.cells) > 1
    for size in borders(lookup)[::5][:10]:
        check_best(drawn, lookup, size)


@given(drawn=pair_candidates(), size=SIZES)
def test_skyline_is_that_of_sorting_all_candidates(
    drawn: Candidates, size: Pair
) -> None:
    coefficients, accuracies = drawn
    lookup = SizePairLookup.build(*drawn, RECTANGLE)
    rows = lookup.skyline(size)
    costs = [cost_at(coefficients[row].tolist(), size) for row in rows]
    assert costs == sorted(costs)
    assert (np.diff(accuracies[rows]) > 0).all()
    exact = pair_skyline(coefficients.tolist(), accuracies.tolist(), size)
    # Rounding may part two equal costs, or join two that hardly differ.
    for accuracy in set(exact) ^ set(accuracies[rows].tolist()):
        (twin,) = {*np.flatnonzero(accuracies == accuracy)[:1]}
        near = np.array([cost_at(row.tolist(), size) for row in coefficients])
        assert np.isclose(near, near[twin], rtol=1e-12).sum() > 1


@given(drawn=pair_candidates(), size=SIZES)
def test_best_is_on_the_skyline_and_the_cheapest_of_equals(
    drawn: Candidates, size: Pair
) -> None:
    coefficients, accuracies = drawn
    lookup = SizePairLookup.build(*drawn, RECTANGLE)
    row = lookup.best(size, math.inf)
    costs = np.array([cost_at(curve.tolist(), size) for curve in coefficients])
    equals = accuracies == accuracies.max()
    assert equals[row]
    assert costs[row] <= costs[equals].min() * (1 + 1e-12)
    assert row == lookup.skyline(size)[-1]


@given(drawn=pair_candidates(), size=SIZES)
def test_control_values_bound_a_cost_everywhere_in_the_rectangle(
    drawn: Candidates, size: Pair
) -> None:
    coefficients, _ = drawn
    controls = control_values(coefficients, RECTANGLE)
    for curve, values in zip(coefficients.tolist(), controls, strict=True):
        low, high = (cost_at(curve, corner) for corner in RECTANGLE)
        assert values[[0, -1]] == pytest.approx([low, high])
        assert values.min() * (1 - 1e-12) <= cost_at(curve, size)
        assert cost_at(curve, size) <= values.max() * (1 + 1e-12)


def test_lookup_tells_wide_from_high() -> None:
    lookup = SizePairLookup.build(COSTS, ACCURACIES, RECTANGLE)
    assert lookup.best((2.0, 30.0), 5.0) == 0
    assert lookup.best((8.0, 2.0), 5.0) == 1
    assert lookup.best((2.0, 2.0), 5.0) == 2
    assert lookup.best((8.0, 8.0), 3.0) == 3
    assert lookup.best((8.0, 8.0), 2.9) == -1


def test_lookup_is_split_until_hardly_anything_is_out_of_order() -> None:
    rng = np.random.default_rng(0)
    costs = rng.random((200, 6)) * [1e4, 100, 100, 1, 1, 1]
    lookup = SizePairLookup.build(costs, rng.random(200), ((10.0, 10.0), (4e3, 4e3)))
    for start, end in lookup.cells:
        steps = "".join("-S"[int(e >= 0)] for e in lookup.entries[start:end])
        assert max(map(len, steps.split("S"))) <= LONGEST_RUN


@pytest.mark.jit  # seconds of the same few lines
def test_lookup_of_candidates_that_meet_everywhere_ends() -> None:
    # All cost 8 a + 8 b where a = b: no cell around that is ever in order.
    tilt = np.arange(1.0, 17.0)
    costs = np.column_stack([np.zeros(16), tilt, 16 - tilt])
    sizes = ((1.0, 1.0), (1e4, 1e4))
    lookup = SizePairLookup.build(costs, tilt / 20, sizes)
    assert lookup.best((100.0, 50.0), 1200.0) == 7
    assert lookup.best((100.0, 100.0), 1600.0) == 15


def test_equal_lists_are_stored_once() -> None:
    rng = np.random.default_rng(1)
    costs = rng.random((60, 6)) * [1e4, 100, 100, 1, 1, 1]
    lookup = SizePairLookup.build(costs, rng.random(60), ((10.0, 10.0), (4e3, 4e3)))
    starts = lookup.cells[:, 0].tolist()
    assert len(set(starts)) < len(starts)


@pytest.mark.parametrize("sizes", [((2.0, 3.0), (2.0, 3.0)), ((2.0, 1.0), (2.0, 9.0))])
def test_lookup_of_one_size_or_a_line_of_them_is_exact(
    sizes: tuple[Pair, Pair],
) -> None:
    lookup = SizePairLookup.build(COSTS, ACCURACIES, sizes)
    for size in sizes:
        check_best((COSTS, ACCURACIES), lookup, size)


def test_lookup_of_one_candidate_is_one_cell() -> None:
    lookup = SizePairLookup.build(COSTS[:1], ACCURACIES[:1], RECTANGLE)
    assert lookup.facts() == {"cells": 1}
    assert lookup.best((2.0, 2.0), 2.0) == 0
    assert lookup.best((2.0, 2.0), 1.9) == -1


def test_of_candidates_alike_the_first_row_counts() -> None:
    lookup = SizePairLookup.build(np.ones((3, 3)), np.full(3, 0.5), RECTANGLE)
    assert lookup.skyline((2.0, 2.0)).tolist() == [0]


@pytest.mark.parametrize("size", [(0.1, 0.1), (100.0, 1.0), (1.0, 1e6), (1e6, 1e6)])
def test_best_outside_the_sizes_still_holds_the_budget(size: Pair) -> None:
    lookup = SizePairLookup.build(COSTS, ACCURACIES, RECTANGLE)
    for budget in budgets(COSTS, size):
        row = lookup.best(size, budget)
        costs = [cost_at(curve, size) for curve in COSTS.tolist()]
        assert (row < 0) == (min(costs) > budget)
        assert row < 0 or costs[row] <= budget


def test_best_is_nothing_for_a_budget_or_size_that_is_no_number() -> None:
    lookup = SizePairLookup.build(COSTS[:3], ACCURACIES[:3], RECTANGLE)
    assert lookup.best((1.0, 1.0), math.nan) == -1
    assert lookup.best((math.nan, math.nan), 9.0) == -1


@given(drawn=pair_candidates(), size=SIZES, budget=st.floats(0, 500))
def test_from_arrays_gives_the_same_lookup(
    drawn: Candidates, size: Pair, budget: float
) -> None:
    lookup = SizePairLookup.build(*drawn, RECTANGLE)
    arrays = lookup.arrays()
    for array in arrays.values():
        array.flags.writeable = False
    assert SizePairLookup.from_arrays(arrays).best(size, budget) == lookup.best(
        size, budget
    )


def damaged(name: str, array: object) -> dict[str, Array]:
    rng = np.random.default_rng(0)
    costs = rng.random((50, 6)) * [500, 50, 50, 1, 1, 1]
    lookup = SizePairLookup.build(costs, rng.random(50), RECTANGLE)
    assert len(lookup.nodes) > 1
    arrays = dict(lookup.arrays())
    changed = array(arrays[name].copy()) if callable(array) else array
    return arrays | {name: np.asarray(changed)}


def put(at: int | tuple[int, int], value: float) -> object:
    def change(array: Floats) -> Floats:
        array[at] = value
        return array

    return change


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("thresholds", put(0, math.nan), "thresholds are not one number"),
        ("thresholds", np.zeros(1), "thresholds are not one number"),
        ("nodes", put((0, 0), 2), "nodes are no tree"),
        ("nodes", put((1, 1), 0), "nodes are no tree"),
        ("nodes", put((1, 1), 1), "nodes are no tree"),
        ("nodes", put((0, 2), 9999), "nodes are no tree"),
        ("nodes", put((0, 2), -9999), "nodes are no tree"),
        ("nodes", lambda array: array[:, :2].copy(), "nodes are no tree"),
        ("cells", put((0, 0), -1), "cells do not fit"),
        ("cells", put((0, 1), 99_999), "cells do not fit"),
        ("cells", np.zeros((0, 2), np.int32), "nodes are no tree|cells do not fit"),
        ("cells", np.zeros((3, 1), np.int32), "nodes are no tree|cells do not fit"),
        ("cells", lambda array: array[:, ::-1].copy(), "cells do not fit"),
        ("entries", put(0, 9999), "entries are no ranks"),
        ("entries", put(0, -9999), "entries are no ranks"),
        ("entries", np.zeros(9), "entries are float64 of 1 dim"),
        ("levels", lambda array: array[::-1].copy(), "levels do not ascend"),
        ("levels", np.zeros(1, np.int32), "levels do not ascend"),
        ("coefficients", put(0, math.inf), "costs are not one rising"),
        ("coefficients", put(0, -1.0), "costs are not one rising"),
        ("coefficients", lambda array: array[:, :5].copy(), "costs are not one rising"),
        ("coefficients", lambda array: array[1:].copy(), "costs are not one rising"),
        ("coefficients", lambda array: array[:, :3], "coefficients are not contiguous"),
        ("rows", put(0, -1), "rows are negative"),
    ],
)
def test_from_arrays_refuses_damage(name: str, array: object, message: str) -> None:
    with pytest.raises(BadIndexFile, match=message):
        SizePairLookup.from_arrays(damaged(name, array))


def test_from_arrays_names_a_missing_array() -> None:
    arrays = damaged("rows", [])
    del arrays["entries"]
    with pytest.raises(BadIndexFile, match="no array 'entries'"):
        SizePairLookup.from_arrays(arrays)


@pytest.mark.parametrize(
    ("costs", "accuracies", "sizes", "message"),
    [
        (np.ones(3), np.ones(3), RECTANGLE, "shape"),
        (np.ones((3, 3)), np.ones(2), RECTANGLE, "shape"),
        (np.ones((0, 3)), np.ones(0), RECTANGLE, "0 candidates"),
        (np.ones((2, 4)), np.ones(2), RECTANGLE, "2 candidates with 4 coefficients"),
        (np.full((2, 3), math.nan), np.ones(2), RECTANGLE, "candidate 0 .* not finite"),
        (np.ones((2, 3)), np.array([1, 1.1]), RECTANGLE, "candidate 1 .* outside"),
        (np.ones((2, 3)), np.ones(2), ((2.0, 1.0), (1.0, 2.0)), "smallest and the la"),
        (np.ones((2, 3)), np.ones(2), ((0.0, 1.0), (1.0, 2.0)), "above 0"),
        (np.ones((2, 3)), np.ones(2), ((1.0, 1.0), (1.0, math.inf)), "above 0"),
        (np.array([[1.0, 1, -1e-9]]), np.ones(1), RECTANGLE, "candidate 0 .* might"),
    ],
)
def test_build_refuses_candidates_that_cannot_be_indexed(
    costs: Floats, accuracies: Floats, sizes: tuple[Pair, Pair], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        SizePairLookup.build(costs, accuracies, sizes)
