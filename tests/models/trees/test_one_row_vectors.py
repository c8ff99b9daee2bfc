"""Single rows through vectors of trees, against the kernels that walk them."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.models.scoring.preparation import plain
from polydom.models.scoring.stopping_rule import UNDECIDED, Limits, Margins, Stops
from polydom.models.trees.kernels.avx512 import LANES, MOST_DEPTH, VECTORS
from polydom.models.trees.kernels.one_row import ABREAST as SIX
from polydom.models.trees.kernels.one_row_vectors import ABREAST, MOST_CUTS, SPAN
from polydom.models.trees.keys import find_slots
from polydom.models.trees.nodes import Tree
from polydom.models.trees.trees import Trees, join
from tests.support.models.drawn_trees import NEVER, drawn_trees, packed, rows_of

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(not VECTORS, reason="this processor has no AVX-512 VBMI"),
]


def same(trees: Trees, order: Any = None, stops: Stops = NEVER) -> None:
    """Stop unless both kernels answer rows the same, to the bit."""
    lanes, portable = packed(trees, order, stops)
    assert lanes is not None
    X = rows_of(trees)
    totals, codes = lanes.follow(X)
    expected, walked = portable.follow(X)
    assert totals.tobytes() == expected.tobytes()
    np.testing.assert_array_equal(codes, walked)


@pytest.mark.parametrize("depth", range(MOST_DEPTH + 1))
@pytest.mark.parametrize("cuts", [3, 40, 2000])
def test_margins_are_those_of_a_walk(depth: int, cuts: int) -> None:
    same(drawn_trees(depth, depth=depth, cuts=cuts))


@pytest.mark.parametrize(
    "count", [7, 8, 9, LANES - 1, LANES, LANES + 1, LANES * SPAN + LANES + 1]
)
def test_any_number_of_trees(count: int) -> None:
    same(drawn_trees(count, count=count, depth=3))


def test_a_slot_with_many_cuts_is_several() -> None:
    trees = drawn_trees(0, count=200, depth=6, cuts=5000, wide=1)
    slots = find_slots(trees)
    cuts = np.unique(slots.keys[slots.of == 0])
    assert len(cuts) > 3 * MOST_CUTS
    same(trees)


@pytest.mark.parametrize("terms", [1, 3])
def test_scores_of_classes_are_those_of_a_walk(terms: int) -> None:
    same(drawn_trees(terms, count=100, scores=3, terms=terms))


def drawn_limits(seed: int, count: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Limits that narrow, of which some are never passed, some always, some NaN."""
    draw = np.random.default_rng(seed)
    width = draw.choice([2.0, 8.0]) * np.linspace(1, 0, count)
    lower, upper = -width * draw.random(count), width * draw.random(count)
    for limits, never in ((lower, -np.inf), (upper, np.inf)):
        limits[draw.random(count) < draw.choice([0.1, 0.9])] = never
        limits[draw.random(count) < 0.01] = -never
        limits[draw.random(count) < 0.02] = np.nan
    return lower, upper


@pytest.mark.parametrize("seed", range(12))
def test_exits_are_those_of_a_walk(seed: int) -> None:
    trees = drawn_trees(seed, count=300, depth=4)
    order = np.random.default_rng(seed).permutation(300)
    same(trees, order, Limits(*drawn_limits(seed, 300)))


@pytest.mark.parametrize("place", [0, 7, 8, 63, 64, 98])
def test_sums_at_a_limit_do_not_pass_it_and_those_beside_it_do(place: int) -> None:
    draw = np.random.default_rng(place)
    values = draw.normal(size=99) * 10.0 ** draw.integers(-9, 9, 99)
    leaf = np.array([-1])
    trees = join(
        [Tree(leaf, leaf, leaf, leaf, np.array([[v]]), leaf * 0) for v in values],
        [0] * 99,
        plain(np.arange(1)),
        bias=np.zeros(1),
        single=True,
    )
    at = np.cumsum(values)
    X = np.zeros((1, 1), np.float32)
    for beyond, answer in (((at, at), 4 * 99 + UNDECIDED), *beside(at, place)):
        for rows in packed(trees, stops=Limits(*beyond)):
            assert rows is not None
            total, code = rows.follow(X)
            assert code[0] == answer
            assert total[0, 0] == at[98 if answer & 3 == UNDECIDED else place]


def beside(at: NDArray[Any], place: int) -> list[Any]:
    """Limits of which the sum at one place is just beyond one; and the answer."""
    above, below = at.copy(), at.copy()
    above[place] = np.nextafter(at[place], np.inf)
    below[place] = np.nextafter(at[place], -np.inf)
    return [((above, at), 4 * place + 4), ((at, below), 4 * place + 5)]


def test_floors_leave_out_only_what_cannot_pass() -> None:
    trees = drawn_trees(1, count=48, depth=3)
    limits = np.full(48, -1.0), np.full(48, np.inf)
    lows = [tree.min() for tree in np.split(trees.leaves[:, 0], leaf_ends(trees))]
    for rows, abreast in zip(
        packed(trees, stops=Limits(*limits)), (ABREAST, SIX), strict=True
    ):
        assert rows is not None
        sums = np.cumsum(np.reshape(lows, (-1, abreast)), axis=1)
        floors = rows.table.arrays["floors"][: 48 // abreast]
        np.testing.assert_allclose(floors, (-1.0 - sums).max(axis=1))
        assert (floors > (-1.0 - sums).max(axis=1)).all()
        np.testing.assert_array_equal(rows.table.arrays["lower"][:48], limits[0])


def leaf_ends(trees: Trees) -> NDArray[np.int64]:
    """Where each tree's leaves end but the last's."""
    leaf = (trees.nodes["column"] < 0).astype(np.int64)
    ends: NDArray[np.int64] = np.cumsum(leaf)[trees.roots[1:-1] - 1]
    return ends


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("margin", [0.3, 3.0, np.inf])
def test_stops_by_margin_are_those_of_a_walk(group: int, margin: float) -> None:
    trees = drawn_trees(group, count=198, scores=3, terms=3 if group == 1 else 1)
    same(trees, stops=Margins(np.full(198 // group, margin), group))


@pytest.mark.parametrize(
    "options",
    [
        {"depth": MOST_DEPTH + 1},
        {"wide": LANES + 1, "count": 300},  # more slots than a vector has bytes
        {"count": 1, "depth": 6},  # less to walk than to test
    ],
    ids=["deep", "wide", "few"],
)
def test_trees_better_walked_are_not_packed(options: dict[str, int]) -> None:
    trees = drawn_trees(0, **options)
    lanes, portable = packed(trees)
    assert lanes is None
    assert np.isfinite(portable.follow(rows_of(trees))[0]).all()


def test_as_many_slots_as_there_are_bytes() -> None:
    draw = np.random.default_rng(0)
    trees = [
        Tree(
            np.array([c % 64, -1, -1]), np.zeros(3), np.array([1, 0, 0]),
            np.array([2, 0, 0]), draw.normal(size=(3, 1)), np.zeros(3, np.int64),
        )
        for c in range(128)
    ]  # fmt: skip
    same(join(trees, [0] * 128, plain(np.arange(64)), bias=np.zeros(1), single=True))
