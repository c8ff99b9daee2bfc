"""Trees of every shape, drawn, and rows at their edges."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.qwyc.schedule import Schedule
from polydom.models.scoring.preparation import plain
from polydom.models.scoring.stopping_rule import Never, Stops
from polydom.models.trees.keys import find_slots
from polydom.models.trees.nodes import Tree
from polydom.models.trees.one_row import PackedTrees, find_tree_depths, pack_one_row
from polydom.models.trees.one_row_vectors import pack_one_row_vectors
from polydom.models.trees.self_test import edge_rows
from polydom.models.trees.trees import Trees, join


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


NEVER = Never()


def rows_of(trees: Trees) -> NDArray[np.float32]:
    """Rows at the trees' edges."""
    return edge_rows(find_slots(trees), len(trees.columns))


def packed(
    trees: Trees, order: NDArray[Any] | None = None, stops: Stops = NEVER
) -> tuple[PackedTrees | None, PackedTrees]:
    """The trees for both kernels."""
    order = np.arange(trees.size) if order is None else order
    slots, depths = find_slots(trees), find_tree_depths(trees)
    portable = pack_one_row(trees, slots, order, depths, stops)
    assert portable is not None
    return pack_one_row_vectors(trees, slots, order, depths, stops), portable


def narrowing(ensemble: Ensemble) -> Schedule:
    """Make a schedule whose limits come nearer and nearer to the threshold."""
    order = np.random.default_rng(0).permutation(ensemble.size)
    upper = np.linspace(4.0, 0.1, ensemble.size)
    return Schedule(order, -upper, upper, ensemble.threshold)
