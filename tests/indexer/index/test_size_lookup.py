import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile, BadInput
from polydom.indexer.index.size_lookup import SizeLookup
from tests.support.builds.curves import SIZES, Candidates, candidates
from tests.support.oracles.skyline import exact_crossings, exact_skyline, horner

Floats = NDArray[np.float64]
Array = NDArray[np.generic]

# Four curves with six crossings, of which four change the skyline, and the accuracies
# of the example in ICSP, section 3.2.
COSTS = np.array([[4.0, 0.0], [1.0, 1.0], [2.0, 0.5], [0.5, 2.0]])
ACCURACIES = np.array([0.8, 0.65, 0.76, 0.7])


def sizes_worth_asking(coefficients: Floats, lookup: SizeLookup) -> list[float]:
    """Every breakpoint and crossing, just beside them, in between, and the ends."""
    points = sorted(
        {*lookup.breakpoints, *exact_crossings(coefficients.tolist(), SIZES)}
    )
    beside = [math.nextafter(n, side) for n in points for side in (-9, 9)]
    ends = [SIZES[0], *points, SIZES[1]]
    middles = [(a + b) / 2 for a, b in itertools.pairwise(ends)]
    return [n for n in {*ends, *beside, *middles} if SIZES[0] <= n <= SIZES[1]]


@given(drawn=candidates())
def test_best_holds_the_budget_and_misses_nothing_that_fits(drawn: Candidates) -> None:
    coefficients, accuracies = drawn
    lookup = SizeLookup.build(coefficients, accuracies, SIZES)
    for n in sizes_worth_asking(coefficients, lookup):
        costs = [horner(row, n) for row in coefficients]
        beside = [math.nextafter(c, side) for c in costs for side in (-9.0, 1e9)]
        for budget in {*costs, *beside, 0.0, math.inf}:
            row = lookup.best(n, budget)
            assert row < 0 or costs[row] <= budget
            best = accuracies[row] if row >= 0 else -1.0
            fits = np.array(costs) <= budget * (1 - 1e-12)
            assert best >= accuracies[fits].max(initial=-1.0)


@given(drawn=candidates())
def test_skyline_is_that_of_sorting_all_candidates(drawn: Candidates) -> None:
    coefficients, accuracies = drawn
    lookup = SizeLookup.build(coefficients, accuracies, SIZES)
    for low, high in itertools.pairwise([SIZES[0], *lookup.breakpoints, SIZES[1]]):
        n = low + 0.377 * (high - low)
        if low < n < high:
            curves, values = coefficients.tolist(), accuracies.tolist()
            expected = exact_skyline(curves, values, n)
            assert lookup.skyline(n).tolist() == expected


def test_lookup_changes_skyline_only_at_interesting_crossings() -> None:
    lookup = SizeLookup.build(COSTS, ACCURACIES, (0.01, 10.0))
    assert lookup.breakpoints.tolist() == [0.5, 1.0, 2.0, 4.0]
    assert [lookup.skyline(n).tolist() for n in (0.1, 0.5, 1.0, 2.0, 9.0)] == [
        [3, 2, 0],
        [1, 3, 2, 0],
        [1, 2, 0],
        [2, 0],
        [0],
    ]


@pytest.mark.parametrize(
    ("budget", "row"), [(1.99, -1), (2.0, 1), (2.4, 1), (2.5, 2), (4.0, 0), (9, 0)]
)
def test_best_changes_exactly_at_each_cost(budget: float, row: int) -> None:
    lookup = SizeLookup.build(COSTS, ACCURACIES, (0.01, 10.0))
    assert lookup.best(1.0, budget) == row


def test_best_is_nothing_for_a_budget_or_size_that_is_no_number() -> None:
    lookup = SizeLookup.build(COSTS, ACCURACIES, (0.01, 10.0))
    assert lookup.best(1.0, math.nan) == lookup.best(math.nan, 9.0) == -1


def test_best_outside_the_sizes_still_holds_the_budget() -> None:
    lookup = SizeLookup.build(COSTS, ACCURACIES, (1.0, 2.0))
    assert lookup.best(0.1, 0.7) == -1
    assert lookup.best(100.0, 4.0) == 0


def test_lookup_prefers_the_cheaper_of_equally_accurate_candidates() -> None:
    costs, accuracies = np.array([[2.0], [1.0], [1.0], [3.0]]), np.full(4, 0.5)
    assert SizeLookup.build(costs, accuracies, SIZES).skyline(1.0).tolist() == [1]


def test_lookup_prefers_the_more_accurate_of_equally_dear_candidates() -> None:
    costs, accuracies = np.ones((3, 2)), np.array([0.5, 0.7, 0.7])
    assert SizeLookup.build(costs, accuracies, SIZES).skyline(1.0).tolist() == [1]


def test_lookup_ignores_curves_that_only_touch() -> None:
    # (n - 2)^2 + 1 touches the more accurate constant 1 at size 2
    costs, accuracies = np.array([[5.0, -4.0, 1.0], [1.0, 0, 0]]), np.array([0.5, 0.9])
    lookup = SizeLookup.build(costs, accuracies, SIZES)
    assert lookup.breakpoints.size == 0
    assert lookup.best(2.0, 1.0) == 1


def test_lookup_of_one_size_has_one_skyline() -> None:
    lookup = SizeLookup.build(COSTS, ACCURACIES, (1.0, 1.0))
    assert lookup.breakpoints.size == 0
    assert lookup.skyline(1.0).tolist() == [1, 2, 0]


def staircase(count: int) -> tuple[Floats, Floats]:
    """Half the curves stay on the skyline; each of the others is on it for a while."""
    k = np.arange(count)
    stay = np.column_stack([k + 1.0, np.zeros(count)])
    # Dearer than all that stay and more accurate, until the next one is cheaper.
    slopes = 2.0 - k / count
    tangents = np.column_stack([10.0 * count + (2.0 - slopes) * k, slopes])
    costs = np.concatenate([stay, tangents])
    return costs, np.concatenate([k / (4 * count), 0.5 + k / (4 * count)])


@pytest.mark.jit
def test_lookup_bytes_grow_with_changes_and_not_with_skyline_length() -> None:
    sizes = (1e-3, 1e6)
    small, large = (
        SizeLookup.build(*staircase(count), sizes).arrays() for count in (100, 1000)
    )
    changes = {len(arrays["breakpoints"]) for arrays in (small, large)}
    assert min(changes) >= 99
    per_change = [
        sum(arrays[name].nbytes for name in ("stays", "blocks", "offsets"))
        / len(arrays["breakpoints"])
        for arrays in (small, large)
    ]
    assert per_change[1] < 1.1 * per_change[0] < 100


@given(drawn=candidates())
def test_from_arrays_gives_the_same_lookup(drawn: Candidates) -> None:
    lookup = SizeLookup.build(*drawn, SIZES)
    arrays = lookup.arrays()
    for array in arrays.values():
        array.flags.writeable = False
    again = SizeLookup.from_arrays(arrays)
    for n, budget in itertools.product((0.0, 1.0, 2.5, 4.0), (0.0, 1.0, 20.0)):
        assert again.best(n, budget) == lookup.best(n, budget)


def damaged(name: str, array: object) -> dict[str, Array]:
    arrays = dict(SizeLookup.build(COSTS, ACCURACIES, (0.01, 10.0)).arrays())
    return arrays | {name: np.asarray(array)}


INT32 = np.int32


@pytest.mark.parametrize(
    ("name", "array", "message"),
    [
        ("breakpoints", np.array([0.5, 0.4, 2.0, 4.0]), "breakpoints do not ascend"),
        ("breakpoints", np.array([0.5, math.nan, 2.0, 4.0]), "breakpoints do not"),
        ("breakpoints", np.array([0.5]), "do not fit|does not fit"),
        ("guide", np.zeros(6, INT32), "guide does not fit"),
        ("guide", np.zeros(3, INT32), "guide does not fit"),
        ("spacing", np.array([0.01]), "guide does not fit"),
        ("spacing", np.array([0.01, math.nan]), "guide does not fit"),
        ("blocks", np.full(5, 7, INT32), "blocks do not fit"),
        ("blocks", np.full(5, -1, INT32), "blocks do not fit"),
        ("blocks", np.full(5, 0.0), "blocks are float64 of 1 dim"),
        ("offsets", np.array([], INT32), "blocks do not fit"),
        ("offsets", np.array([0, 99], INT32), "offsets do not fit"),
        ("stays", np.full((4, 3), 9, INT32), "stays are no triples"),
        ("stays", np.full((4, 3), -1, INT32), "stays are no triples"),
        ("stays", np.zeros((4, 2), INT32), "stays are no triples"),
        ("coefficients", np.full((4, 2), math.inf), "costs are not one finite"),
        ("coefficients", np.zeros((3, 2)), "costs are not one finite"),
        ("coefficients", np.zeros((4, 0)), "costs are not one finite"),
        ("coefficients", np.zeros((2, 4)).T, "coefficients are not contiguous"),
        ("rows", np.array([0, 1, -2, 3]), "rows are negative"),
    ],
)
def test_from_arrays_refuses_damage(name: str, array: Array, message: str) -> None:
    with pytest.raises(BadIndexFile, match=message):
        SizeLookup.from_arrays(damaged(name, array))


def test_from_arrays_names_a_missing_array() -> None:
    arrays = damaged("rows", [])
    del arrays["stays"]
    with pytest.raises(BadIndexFile, match="no array 'stays'"):
        SizeLookup.from_arrays(arrays)


@pytest.mark.parametrize(
    ("costs", "accuracies", "sizes", "message"),
    [
        (np.ones(3), np.ones(3), SIZES, "shape"),
        (np.ones((3, 2)), np.ones(2), SIZES, "shape"),
        (np.ones((0, 2)), np.ones(0), SIZES, "no candidates"),
        (np.ones((2, 0)), np.ones(2), SIZES, "no candidates"),
        (np.full((2, 2), math.nan), np.ones(2), SIZES, "candidate 0 .* not finite"),
        (np.ones((2, 2)), np.array([1, 1.1]), SIZES, "candidate 1 .* outside"),
        (np.ones((2, 2)), np.array([1, math.nan]), SIZES, "candidate 1 .* outside"),
        (np.ones((2, 2)), np.ones(2), (2.0, 1.0), r"sizes are \(2\.0, 1\.0\)"),
        (np.ones((2, 2)), np.ones(2), (-1.0, 1.0), "low <= high is needed"),
        (np.ones((2, 2)), np.ones(2), (1.0, math.inf), "low <= high is needed"),
        (np.array([[1.0, 1], [4, -2]]), np.ones(2), SIZES, "candidate 1 .* negative"),
        (np.array([[3.99, -4, 1]]), np.ones(1), SIZES, "candidate 0 .* negative"),
    ],
)
def test_build_refuses_candidates_that_cannot_be_indexed(
    costs: Floats,
    accuracies: Floats,
    sizes: tuple[float, float],
    message: str,
) -> None:
    with pytest.raises(BadInput, match=message):
        SizeLookup.build(costs, accuracies, sizes)


def test_build_takes_a_curve_that_touches_zero() -> None:
    costs = np.array([[4.0, -4.0, 1.0]])
    assert SizeLookup.build(costs, np.ones(1), SIZES).best(2.0, 0.0) == 0
