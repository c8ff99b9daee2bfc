"""Trees for many rows at once, against one row at a time and the plain walk."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.models.scoring.preparation import plain
from polydom.models.trees import many_rows, self_test
from polydom.models.trees.kernels.avx512 import LANES, VECTORS
from polydom.models.trees.kernels.many_rows import BLOCK, MOST_CUTS
from polydom.models.trees.kernels.walk import add_trees
from polydom.models.trees.many_rows import (
    FEWEST_BESIDE_VECTORS,
    FEWEST_ROWS,
    MOST_CODES,
    MOST_LEAVES,
    BatchTrees,
)
from polydom.models.trees.nodes import Tree
from polydom.models.trees.trees import Trees, join
from tests.support.models.drawn_trees import drawn_tree

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


def both_ways(trees: Trees, X: NDArray[np.float32]) -> list[NDArray[np.float64]]:
    """Raw scores by the batch kernel, without this processor's vectors and with."""
    assert trees.packed is not None
    assert trees.packed.batch is not None
    packed = trees.packed.batch
    return [
        replace(packed, vector=vector).follow(X, trees.bias)[0]
        for vector in {False, VECTORS}
    ]


def lopsided(leaves: int, draw: np.random.Generator) -> Tree:
    """A tree each of whose tests has a leaf on its left, down to the last two."""
    inner, count = leaves - 1, 2 * leaves - 1
    number = np.arange(count)
    left = np.where(number < inner, inner + number, -1)
    right = np.where(number < inner, number + 1, -1)
    right[inner - 1 : inner] = 2 * inner
    return Tree(
        np.where(number < inner, draw.integers(0, WIDE, count), -1),
        draw.normal(size=count), left, right,
        draw.normal(size=(count, 1)), np.zeros(count, np.int64),
    )  # fmt: skip


def summed(trees: list[Tree]) -> Trees:
    """Make one raw score of trees."""
    targets = [0] * len(trees)
    return join(trees, targets, plain(np.arange(WIDE)), bias=np.zeros(1), single=True)


@pytest.mark.parametrize(("scores", "terms"), [(1, 1), (3, 1), (3, 3), (4, 2)])
@pytest.mark.parametrize("depth", range(9))
@pytest.mark.parametrize("cuts", [3, 40, 4000])
def test_batches_are_bit_equal_to_single_rows(
    depth: int, cuts: int, scores: int, terms: int
) -> None:
    trees = drawn_forest(depth, depth=depth, cuts=cuts, scores=scores, terms=terms)
    X = drawn_rows(trees, FEWEST_BESIDE_VECTORS + 7)
    expected = walked(trees, X)
    np.testing.assert_array_equal(np.vstack([trees.raw(x[None]) for x in X]), expected)
    for found in (trees.raw(X), *both_ways(trees, X)):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("leaves", [1, 2, 16, 17, 32, 33, 64, 65, MOST_LEAVES])
def test_trees_of_any_number_of_leaves_answer_as_walked(leaves: int) -> None:
    draw = np.random.default_rng(leaves)
    trees = summed([lopsided(leaves, draw) for _ in range(3)])
    X = drawn_rows(trees, 1000)
    for found in both_ways(trees, X):
        np.testing.assert_array_equal(found, walked(trees, X))


@pytest.mark.parametrize(
    "count",
    [
        *(0, 1, FEWEST_ROWS - 1, FEWEST_ROWS, LANES - 1, LANES, LANES + 1),
        *(FEWEST_BESIDE_VECTORS - 1, FEWEST_BESIDE_VECTORS),
        *(BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + LANES + 3),
    ],
)
def test_batches_of_any_size_are_whole(count: int) -> None:
    trees = drawn_forest(1, depth=5, cuts=40, scores=1, terms=1)
    X = drawn_rows(trees, count)
    for found in (trees.raw(X), *both_ways(trees, X)):
        np.testing.assert_array_equal(found, walked(trees, X))


@pytest.mark.parametrize(
    ("cuts", "codes"), [(MOST_CUTS, 1), (MOST_CUTS + 1, 2), (3 * MOST_CUTS + 1, 4)]
)
def test_what_a_byte_cannot_count_has_several_codes(cuts: int, codes: int) -> None:
    column, left, right = (np.array([n, -1, -1]) for n in range(3))
    made = summed(
        [
            Tree(
                column, np.full(3, float(cut)), left, right,
                np.array([[0.0], [0.1], [cut]]), np.zeros(3, np.int64),
            )
            for cut in range(cuts)
        ]
    )  # fmt: skip
    assert made.packed is not None
    assert made.packed.batch is not None
    assert made.packed.batch.forest.codes.tolist() == [0, codes]
    X = drawn_rows(made, 1000)
    X[: cuts + 2, 0] = np.arange(-1, cuts + 1)[:1000]
    for found in both_ways(made, X):
        np.testing.assert_array_equal(found, walked(made, X))


def test_rows_of_too_many_codes_are_walked(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    trees = [drawn_tree(draw, np.arange(9.0), WIDE, 3, 1) for _ in range(9)]
    made = summed(trees)
    assert made.packed is not None
    assert made.packed.batch is not None
    codes = int(made.packed.batch.forest.codes[-1])
    assert codes < MOST_CODES
    monkeypatch.setattr(many_rows, "MOST_CODES", codes - 1)
    made = summed(trees)
    assert made.packed is not None
    assert made.packed.batch is None


def test_larger_trees_are_walked() -> None:
    draw = np.random.default_rng(0)
    made = summed([lopsided(MOST_LEAVES + 1, draw)])
    assert made.packed is not None
    assert made.packed.batch is None
    X = drawn_rows(made, 100)
    np.testing.assert_array_equal(made.raw(X), walked(made, X))


def test_room_does_not_grow_with_the_rows() -> None:
    trees = drawn_forest(2, depth=8, cuts=4000, scores=3, terms=3)
    assert trees.packed is not None
    assert trees.packed.batch is not None
    blocks = trees.packed.batch
    bound = BLOCK * (8 + blocks.forest.codes[-1] + 8 * 3 + 2 * MOST_LEAVES)
    assert sum(part.nbytes for part in blocks.work_arrays()) <= bound


@pytest.mark.skipif(not VECTORS, reason="this processor has no AVX-512 VBMI")
def test_batches_do_without_vectors_that_are_not_trusted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees = drawn_forest(3, depth=4, cuts=40, scores=1, terms=1)
    right = BatchTrees.follow

    def wrong(packed: BatchTrees, X: Any, start: Any) -> Any:
        totals, codes = right(packed, X, start)
        return totals + packed.vector, codes

    trust = self_test.Trust()
    monkeypatch.setattr(self_test, "TRUST", trust)
    monkeypatch.setattr(BatchTrees, "follow", wrong)
    packed = trees.with_packed().packed
    assert packed is not None
    assert packed.batch is not None
    assert not packed.vector
    assert not packed.batch.vector
    assert trust.kernels == "portable"
