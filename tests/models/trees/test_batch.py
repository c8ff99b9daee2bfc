"""Trees for many rows at once, against one row at a time and the plain walk."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.models.scoring.preparation import plain
from polydom.models.trees.batch import FEWEST_ROWS, MOST_LEAVES
from polydom.models.trees.kernels.batch import BLOCK, WIDTH
from polydom.models.trees.kernels.walk import add_trees
from polydom.models.trees.nodes import Tree
from polydom.models.trees.trees import Trees, join
from tests.support.drawn_trees import drawn_tree

WIDE = 5  # columns of the rows
pytestmark = pytest.mark.jit


def drawn_forest(seed: int, *, depth: int, cuts: int, scores: int, terms: int) -> Trees:
    """Trees of depths up to `depth`, after some without any test."""
    draw = np.random.default_rng(seed)
    at = np.concatenate([draw.normal(size=cuts).round(3), [0.0, np.inf, -np.inf]])
    deepest = [0, 1, 2, *draw.integers(0, depth + 1, 10), depth]
    return join(
        [drawn_tree(draw, at, WIDE, d, terms) for d in deepest],
        draw.integers(0, scores - terms + 1, len(deepest)).tolist(),
        plain(np.arange(WIDE)),
        bias=draw.normal(size=scores),
        single=True,
    )


def drawn_rows(trees: Trees, count: int) -> NDArray[np.float32]:
    """Rows at, next to and far from thresholds, with missing values and zeros."""
    draw = np.random.default_rng(count)
    X = draw.normal(size=(count, WIDE)).astype(np.float32)
    with np.errstate(over="ignore"):
        at = trees.nodes["threshold"].astype(np.float32)
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-36], np.float32)
    odd = np.concatenate([odd, at, np.nextafter(at, np.float32(np.inf))])
    where = draw.random(X.shape) < 0.6
    X[where] = draw.choice(odd, int(where.sum()))
    return X


def walked(trees: Trees, X: NDArray[np.float32]) -> NDArray[np.float64]:
    """Raw scores by the plain kernel."""
    out = np.tile(trees.bias, (len(X), 1))
    add_trees(
        X, trees.nodes, trees.roots, trees.targets, trees.leaves,
        trees.set_starts, trees.set_bits, out,
    )  # fmt: skip
    return out


@pytest.mark.parametrize(("scores", "terms"), [(1, 1), (3, 1), (3, 3), (4, 2)])
@pytest.mark.parametrize("depth", range(9))
@pytest.mark.parametrize("cuts", [3, 40, 4000])
def test_batches_are_bit_equal_to_single_rows(
    depth: int, cuts: int, scores: int, terms: int
) -> None:
    trees = drawn_forest(depth, depth=depth, cuts=cuts, scores=scores, terms=terms)
    assert trees.packed is not None
    assert trees.packed.batch is not None
    X = drawn_rows(trees, FEWEST_ROWS + 7)
    found = trees.raw(X)
    np.testing.assert_array_equal(found, walked(trees, X))
    np.testing.assert_array_equal(found, np.vstack([trees.raw_one(x) for x in X]))


@pytest.mark.parametrize(
    "count",
    [
        *(0, 1, FEWEST_ROWS - 1, FEWEST_ROWS, WIDTH - 1, WIDTH, WIDTH + 1),
        *(BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + WIDTH + 3),
    ],
)
def test_batches_of_any_size_are_whole(count: int) -> None:
    trees = drawn_forest(1, depth=5, cuts=40, scores=1, terms=1)
    X = drawn_rows(trees, count)
    np.testing.assert_array_equal(trees.raw(X), walked(trees, X))


@pytest.mark.parametrize(("cuts", "code"), [(255, np.uint8), (256, np.uint16)])
def test_codes_have_16_bits_where_8_are_too_few(cuts: int, code: Any) -> None:
    column, left, right = (np.array([n, -1, -1]) for n in range(3))
    trees = [
        Tree(
            column, np.full(3, float(cut)), left, right,
            np.array([[0.0], [0.1], [cut]]), np.zeros(3, np.int64),
        )
        for cut in range(cuts)
    ]  # fmt: skip
    made = join(
        trees, [0] * cuts, plain(np.arange(WIDE)), bias=np.zeros(1), single=True
    )
    assert made.packed is not None
    assert made.packed.batch is not None
    assert made.packed.batch.forest.tests.dtype == code
    X = drawn_rows(made, 1000)
    np.testing.assert_array_equal(made.raw(X), walked(made, X))


def test_larger_trees_are_walked() -> None:
    draw = np.random.default_rng(0)
    trees = [drawn_tree(draw, np.arange(9.0), WIDE, 10, 1) for _ in range(4)]
    assert max(int((t.column < 0).sum()) for t in trees) > MOST_LEAVES
    made = join(trees, [0] * 4, plain(np.arange(WIDE)), bias=np.zeros(1), single=True)
    assert made.packed is not None
    assert made.packed.batch is None
    X = drawn_rows(made, 100)
    np.testing.assert_array_equal(made.raw(X), walked(made, X))


def test_room_does_not_grow_with_the_rows() -> None:
    trees = drawn_forest(2, depth=8, cuts=4000, scores=3, terms=3)
    assert trees.packed is not None
    assert trees.packed.batch is not None
    blocks = trees.packed.batch
    slots = len(blocks.forest.columns)
    bound = BLOCK * (8 + 2 * slots + 8 * 3) + 2 * 2 * MOST_LEAVES * WIDTH
    assert sum(part.nbytes for part in blocks.room()) <= bound
