"""Early exits of many rows at once, against one row at a time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.models._block_kernels import BLOCK, WIDTH
from polydom.models._layout_kernels import UNDECIDED, early_many, lead_many
from polydom.models._slice_kernels import FEWEST_OPEN
from polydom.models.layout import Layout, pack
from polydom.models.prepare import plain
from polydom.models.slices import FEWEST_ROWS, starts_of
from polydom.models.trees import Trees, join

from .test_blocks import WIDE, drawn_rows, drawn_tree

pytestmark = pytest.mark.jit
TREES = 210  # five slices


def drawn_forest(
    seed: int, *, scores: int = 1, terms: int = 1, cuts: int = 40, trees: int = TREES
) -> Trees:
    """Trees of depths up to 5 over two columns, rounds of `scores` trees or drawn."""
    draw = np.random.default_rng(seed)
    at = np.concatenate([draw.normal(size=cuts).round(3), [0.0, np.inf, -np.inf]])
    made = [drawn_tree(draw, at, int(d), terms) for d in draw.integers(3, 6, trees)]
    narrow = [
        replace(
            tree,
            column=np.where(tree.column >= 0, tree.column % 2, -1),
            flags=draw.choice([0, 1, 5], len(tree.column)),
        )
        for tree in made
    ]
    targets = np.tile(np.arange(scores - terms + 1), trees)[:trees]
    return join(
        narrow,
        targets.tolist(),
        plain(np.arange(WIDE)),
        bias=draw.normal(size=scores),
        single=True,
    )


def packed(trees: Trees, order: NDArray[Any], **stops: Any) -> Layout:
    """A layout with slices."""
    layout = pack(trees, order, **stops)
    assert layout is not None
    assert layout.slices is not None
    return layout


def compare_exits(layout: Layout, X: NDArray[np.float32]) -> NDArray[np.int64]:
    """Trees used and answers, 4 * trees + answer, if those of `early_many`."""
    sums, codes = np.empty(len(X)), np.empty(len(X), np.int64)
    early_many(X, layout.address, sums, codes)
    found, answers = np.zeros((len(X), 1)), np.empty(len(X), np.int64)
    assert layout.slices is not None
    layout.slices.exits(X, layout.address, found, answers)
    np.testing.assert_array_equal(answers, codes)
    np.testing.assert_array_equal(found[:, 0], sums)
    return codes


def compare_leads(layout: Layout, trees: Trees, X: NDArray[np.float32]) -> None:
    """Stop unless slices give the totals and codes of `lead_many`."""
    totals = np.tile(trees.bias, (len(X), 1))
    found, answers = totals.copy(), np.empty(len(X), np.int64)
    codes = np.empty(len(X), np.int64)
    lead_many(X, layout.address, totals, codes)
    assert layout.slices is not None
    layout.slices.exits(X, layout.address, found, answers)
    np.testing.assert_array_equal(answers, codes)
    np.testing.assert_array_equal(found, totals)


def drawn_limits(draw: Any, count: int, spread: float) -> NDArray[np.float64]:
    """Limits (2, count), some of which no sum is beyond."""
    limits: NDArray[np.float64] = spread * (0.5 + draw.random((2, count))) * [[-1], [1]]
    limits[0, draw.random(count) < 0.2] = -np.inf
    limits[1, draw.random(count) < 0.2] = np.inf
    return limits


@pytest.mark.parametrize("cuts", [3, 40, 4000])
@pytest.mark.parametrize("spread", [1.0, 10.0, 40.0])
@pytest.mark.parametrize("seed", range(3))
def test_exits_are_those_of_single_rows_to_the_bit(
    seed: int, spread: float, cuts: int
) -> None:
    draw = np.random.default_rng(seed)
    trees = drawn_forest(seed, cuts=cuts)
    lower, upper = drawn_limits(draw, TREES, spread)
    layout = packed(trees, draw.permutation(TREES), limits=(lower, upper))
    codes = compare_exits(layout, drawn_rows(trees, 2 * BLOCK + 77))
    assert len(set(codes.tolist())) > (5 if spread == 10.0 else 0)


@pytest.mark.parametrize(
    ("scores", "terms", "group"), [(3, 1, 3), (7, 1, 7), (3, 3, 1)]
)
@pytest.mark.parametrize("spread", [0.5, 3.0, 9.0])
def test_leads_are_those_of_single_rows_to_the_bit(
    spread: float, scores: int, terms: int, group: int
) -> None:
    draw = np.random.default_rng(scores)
    trees = drawn_forest(7, scores=scores, terms=terms)
    models = TREES // group
    margin = np.abs(draw.normal(0, spread, models)) + spread
    margin[draw.random(models) < 0.2] = np.inf
    order = draw.permutation(models)[:, None] * group + np.arange(group)
    layout = packed(trees, order.ravel(), lead=(margin, group))
    X = drawn_rows(trees, FEWEST_ROWS)
    compare_leads(layout, trees, X)
    whole, cut = (np.tile(trees.bias, (len(X), 1)) for _ in range(2))
    codes = layout.leads(X, whole)
    np.testing.assert_array_equal(codes[:9], layout.leads(X[:9], cut[:9]))
    np.testing.assert_array_equal(whole[:9], cut[:9])


@pytest.mark.parametrize(
    "count",
    [
        *(0, 1, FEWEST_OPEN - 1, FEWEST_OPEN, WIDTH - 1, WIDTH, WIDTH + 1),
        *(BLOCK - 1, BLOCK, BLOCK + 1, FEWEST_ROWS),
    ],
)
def test_batches_of_any_size_are_whole(count: int) -> None:
    draw = np.random.default_rng(count)
    trees = drawn_forest(1)
    lower, upper = drawn_limits(draw, TREES, 15.0)
    layout = packed(trees, np.arange(TREES), limits=(lower, upper))
    X = drawn_rows(trees, count)
    codes = compare_exits(layout, X)
    np.testing.assert_array_equal(layout.exits(X)[1], codes)


@pytest.mark.parametrize("at", [0, 1, 11, 12, 13, 35, 36, TREES - 2, TREES - 1])
def test_all_rows_leave_at_once(at: int) -> None:
    trees = drawn_forest(2)
    lower, upper = np.full(TREES, -np.inf), np.full(TREES, np.inf)
    lower[at] = np.inf
    layout = packed(trees, np.arange(TREES), limits=(lower, upper))
    codes = compare_exits(layout, drawn_rows(trees, FEWEST_ROWS))
    assert (codes == 4 * (at + 1)).all()


def test_nobody_leaves() -> None:
    trees = drawn_forest(3)
    limits = np.full(TREES, -np.inf), np.full(TREES, np.inf)
    layout = packed(trees, np.arange(TREES), limits=limits)
    codes = compare_exits(layout, drawn_rows(trees, FEWEST_ROWS))
    assert (codes == 4 * TREES + UNDECIDED).all()


def test_sums_exactly_at_a_limit_go_on() -> None:
    trees = drawn_forest(4)
    order = np.arange(TREES)
    never = np.full(TREES, -np.inf), np.full(TREES, np.inf)
    X = drawn_rows(trees, FEWEST_ROWS)
    first = packed(trees, order, limits=never)
    sums = first.exits(X)[0]
    at = np.full(TREES, -np.inf), np.full(TREES, np.inf)
    at[0][-1] = at[1][-1] = sums[0]
    codes = compare_exits(packed(trees, order, limits=at), X)
    assert codes[0] == 4 * TREES + UNDECIDED
    answers = np.where(sums == sums[0], UNDECIDED, sums > sums[0])
    np.testing.assert_array_equal(codes & 3, answers)


def test_slices_are_whole_base_models_and_sets_of_trees() -> None:
    assert starts_of(500, 1).tolist() == [0, 12, 36, 84, 180, 372, 500]
    assert starts_of(5, 1).tolist() == [0, 5]
    for group in (3, 7, 10):
        inner = starts_of(100 * group, group)[1:-1]
        assert (inner % group == 0).all()
        assert (inner % 6 == 0).all()


def test_rows_of_which_trees_read_too_many_inputs_go_alone() -> None:
    draw = np.random.default_rng(0)
    made = [drawn_tree(draw, np.arange(9.0), 2, 1) for _ in range(30)]
    trees = join(made, [0] * 30, plain(np.arange(WIDE)), bias=np.zeros(1), single=True)
    limits = np.full(30, -1.0), np.full(30, 1.0)
    layout = pack(trees, np.arange(30), limits)
    assert layout is not None
    assert layout.slices is None
    sums, codes = layout.exits(drawn_rows(trees, FEWEST_ROWS))
    assert len(sums) == len(codes) == FEWEST_ROWS


def test_one_call_for_few_rows_packs_no_slices() -> None:
    trees = drawn_forest(5)
    limits = np.full(TREES, -1.0), np.full(TREES, 1.0)
    layout = pack(trees, np.arange(TREES), limits, batches=False)
    assert layout is not None
    assert layout.slices is None
