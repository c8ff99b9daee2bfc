"""Single rows through vectors of trees, against the kernels that walk them."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.models import _layout_kernels as portable
from polydom.models._lane_kernels import (
    ABREAST,
    FLOORS,
    LOWER,
    MOST_CUTS,
    SPAN,
    lane_early_many,
    lane_lead_many,
    lane_margins,
    lane_scores,
)
from polydom.models._tree_kernels import find_depths
from polydom.models._vector_kernels import LANES, MOST_DEPTH, VECTORS
from polydom.models.lanes import Lanes, Slots, pack_lanes
from polydom.models.layout import Layout, _keys, _slots, pack
from polydom.models.prepare import plain
from polydom.models.trees import Tree, Trees, join
from polydom.models.trial import edge_rows

pytestmark = [
    pytest.mark.jit,
    pytest.mark.skipif(not VECTORS, reason="this processor has no AVX-512 VBMI"),
]


def drawn_tree(
    draw: np.random.Generator, cuts: NDArray[Any], wide: int, depth: int, terms: int
) -> Tree:
    """A tree of at most this depth with flags of every kind."""
    column, left, right, depths = [-1], [-1], [-1], [0]
    early = draw.choice([0.0, 0.2])
    for node in range(2 ** (depth + 1)):
        if node >= len(column) or depths[node] == depth or draw.random() < early:
            continue
        column[node] = int(draw.integers(wide))
        left[node], right[node] = len(column), len(column) + 1
        column += [-1, -1]
        left += [-1, -1]
        right += [-1, -1]
        depths += [depths[node] + 1] * 2
    n = len(column)
    flags = draw.choice([0, 1, 2, 3, 4, 5], n)
    at = draw.choice(cuts, n)
    values = draw.normal(size=(n, terms))
    return Tree(np.array(column), at, np.array(left), np.array(right), values, flags)


def drawn_trees(
    seed: int,
    *,
    count: int = 70,
    depth: int = 5,
    cuts: int = 40,
    wide: int = 5,
    scores: int = 1,
    terms: int = 1,
) -> Trees:
    """Trees of which some are stumps, and some a single leaf."""
    draw = np.random.default_rng(seed)
    odd = [0.0, -0.0, 1e-36, -1e-45, np.inf, -np.inf, 3e38]
    at = np.concatenate([draw.normal(size=cuts).astype(np.float32), odd])
    depths = np.where(draw.random(count) < 0.2, draw.integers(0, depth + 1), depth)
    depths[-1] = depth
    return join(
        [drawn_tree(draw, at, wide, d, terms) for d in depths],
        draw.integers(0, scores - terms + 1, count).tolist(),
        plain(np.arange(wide)),
        bias=draw.normal(size=scores),
        single=True,
    )


def slots_of(trees: Trees) -> tuple[Slots, NDArray[np.int32]]:
    """What `pack_lanes` takes, and the depths of the trees."""
    inner = trees.nodes["column"] >= 0
    table, slot_of = _slots(trees.nodes, inner)
    keys = np.where(inner, _keys(trees.nodes["threshold"]), portable.HIGHEST)
    depths = np.empty(trees.size, np.int32)
    find_depths(trees.nodes, trees.roots, depths)
    slots = Slots(
        table[portable.COLUMNS],
        table[portable.LACKING],
        table[portable.ZEROS],
        np.where(inner, slot_of.astype(np.int64), -1),
        keys.astype(np.int32),
    )
    return slots, depths


def packed(
    trees: Trees, order: NDArray[Any] | None = None, **stops: Any
) -> tuple[Lanes | None, Layout, NDArray[np.float32]]:
    """The trees for both kernels, and rows at their edges."""
    order = np.arange(trees.size) if order is None else order
    slots, depths = slots_of(trees)
    layout = pack(trees, order, **stops)
    assert layout is not None
    lanes = pack_lanes(trees, order, depths, slots, **stops)
    return lanes, layout, edge_rows(slots, len(trees.columns))


def same_margins(trees: Trees) -> None:
    lanes, layout, X = packed(trees)
    assert lanes is not None
    found, expected = np.empty(len(X)), np.empty(len(X))
    lane_margins(X, lanes.address, found)
    portable.margins(X, layout.address, expected)
    assert found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("depth", range(MOST_DEPTH + 1))
@pytest.mark.parametrize("cuts", [3, 40, 2000])
def test_margins_are_those_of_a_walk(depth: int, cuts: int) -> None:
    same_margins(drawn_trees(depth, depth=depth, cuts=cuts))


@pytest.mark.parametrize(
    "count", [7, 8, 9, LANES - 1, LANES, LANES + 1, LANES * SPAN + LANES + 1]
)
def test_any_number_of_trees(count: int) -> None:
    same_margins(drawn_trees(count, count=count, depth=3))


def test_a_slot_with_many_cuts_is_several() -> None:
    trees = drawn_trees(0, count=200, depth=6, cuts=5000, wide=1)
    slots, _ = slots_of(trees)
    cuts = np.unique(slots.keys[slots.of == 0])
    assert len(cuts) > 3 * MOST_CUTS
    same_margins(trees)


@pytest.mark.parametrize("terms", [1, 3])
def test_scores_of_classes_are_those_of_a_walk(terms: int) -> None:
    trees = drawn_trees(terms, count=100, scores=3, terms=terms)
    lanes, layout, X = packed(trees)
    assert lanes is not None
    found, expected = np.zeros((len(X), 3)), np.zeros((len(X), 3))
    lane_scores(X, lanes.address, found)
    portable.raw_scores(X, layout.address, expected)
    assert found.tobytes() == expected.tobytes()


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
    lanes, layout, X = packed(trees, order, limits=drawn_limits(seed, 300))
    assert lanes is not None
    found = np.empty(len(X)), np.empty(len(X), np.int64)
    expected = np.empty(len(X)), np.empty(len(X), np.int64)
    lane_early_many(X, lanes.address, *found)
    portable.early_many(X, layout.address, *expected)
    for ours, theirs in zip(found, expected, strict=True):
        assert ours.tobytes() == theirs.tobytes()


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
    at, total, code = np.cumsum(values), np.empty(1), np.empty(1, np.int64)
    X = np.zeros((1, 1), np.float32)
    for beyond, answer in (((at, at), 4 * 99 + portable.UNDECIDED), *beside(at, place)):
        lanes, _, _ = packed(trees, limits=beyond)
        assert lanes is not None
        lane_early_many(X, lanes.address, total, code)
        assert code[0] == answer
        assert total[0] == at[98 if answer & 3 == portable.UNDECIDED else place]


def beside(at: NDArray[Any], place: int) -> list[Any]:
    """Limits of which the sum at one place is just beyond one; and the answer."""
    above, below = at.copy(), at.copy()
    above[place] = np.nextafter(at[place], np.inf)
    below[place] = np.nextafter(at[place], -np.inf)
    return [((above, at), 4 * place + 4), ((at, below), 4 * place + 5)]


def test_floors_leave_out_only_what_cannot_pass() -> None:
    trees = drawn_trees(1, count=64, depth=3)
    limits = np.full(64, -1.0), np.full(64, np.inf)
    lanes, _, _ = packed(trees, limits=limits)
    assert lanes is not None
    lows = [tree.min() for tree in np.split(trees.leaves[:, 0], leaf_ends(trees))]
    sums = np.cumsum(np.reshape(lows, (-1, ABREAST)), axis=1)
    np.testing.assert_allclose(lanes.arrays[FLOORS], (-1.0 - sums).max(axis=1))
    assert (lanes.arrays[FLOORS] > (-1.0 - sums).max(axis=1)).all()
    np.testing.assert_array_equal(lanes.arrays[LOWER], limits[0])


def leaf_ends(trees: Trees) -> NDArray[np.int64]:
    """Where each tree's leaves end but the last's."""
    leaf = (trees.nodes["column"] < 0).astype(np.int64)
    ends: NDArray[np.int64] = np.cumsum(leaf)[trees.roots[1:-1] - 1]
    return ends


@pytest.mark.parametrize("group", [1, 3])
@pytest.mark.parametrize("margin", [0.3, 3.0, np.inf])
def test_leads_are_those_of_a_walk(group: int, margin: float) -> None:
    trees = drawn_trees(group, count=198, scores=3, terms=3 if group == 1 else 1)
    lead = np.full(198 // group, margin), group
    lanes, layout, X = packed(trees, lead=lead)
    assert lanes is not None
    found, expected = (np.tile(trees.bias, (len(X), 1)) for _ in range(2))
    codes, walked = np.empty(len(X), np.int64), np.empty(len(X), np.int64)
    lane_lead_many(X, lanes.address, found, codes)
    portable.lead_many(X, layout.address, expected, walked)
    np.testing.assert_array_equal(codes, walked)
    assert found.tobytes() == expected.tobytes()


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
    lanes, layout, X = packed(trees)
    assert lanes is None
    assert np.isfinite(layout.margins(X)).all()


def test_as_many_slots_as_there_are_bytes() -> None:
    draw = np.random.default_rng(0)
    trees = [
        Tree(
            np.array([c % 64, -1, -1]), np.zeros(3), np.array([1, 0, 0]),
            np.array([2, 0, 0]), draw.normal(size=(3, 1)), np.zeros(3, np.int64),
        )
        for c in range(128)
    ]  # fmt: skip
    same_margins(
        join(trees, [0] * 128, plain(np.arange(64)), bias=np.zeros(1), single=True)
    )
