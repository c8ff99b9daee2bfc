"""Keypoints, and which inputs share a lattice."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import HistGradientBoostingClassifier

from polydom.models.lattices.inputs import join_inputs, keypoints, pairs_tested


@given(
    values=st.lists(st.floats(allow_nan=True, allow_infinity=False), max_size=30),
    count=st.integers(2, 12),
)
def test_keypoints_ascend_and_are_as_many_as_asked(
    values: list[float], count: int
) -> None:
    found = keypoints(np.array(values), count)
    assert found.shape == (count,)
    gaps = np.diff(found)
    assert ((gaps > 0) & np.isfinite(gaps)).all()


def test_keypoints_are_quantiles_or_all_values() -> None:
    np.testing.assert_array_equal(
        keypoints(np.arange(101.0), 5), [0.0, 25.0, 50.0, 75.0, 100.0]
    )
    few = keypoints(np.array([0.0, 1.0, 1.0, 4.0, np.nan]), 4)
    np.testing.assert_array_equal(few, [0.0, 1.0, 2.5, 4.0])
    mostly = keypoints(np.r_[np.zeros(1000), np.arange(10.0)], 4)
    assert mostly[0] == 0.0
    assert mostly[-1] == 9.0


def test_pairs_on_a_path_are_counted() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(400, 5))
    y = ((X[:, 1] > 0) ^ (X[:, 3] > 0.3)).astype(int)
    boosted = HistGradientBoostingClassifier(max_iter=4, max_depth=3, random_state=0)
    trees = [tree.nodes for (tree,) in boosted.fit(X, y)._predictors]
    expected = np.zeros((5, 5))
    for nodes in trees:
        for path in paths(nodes, 0, []):
            *above, column = path
            expected[column, column] += 1
            for other in set(above) - {column}:
                expected[column, other] += 1
                expected[other, column] += 1
    assert expected[1, 3] > 0
    np.testing.assert_array_equal(pairs_tested(trees, 5), expected)


def paths(nodes: Any, at: int, above: list[int]) -> list[list[int]]:
    """Columns from the root down to every node that tests one."""
    if nodes["is_leaf"][at]:
        return []
    path = [*above, int(nodes["feature_idx"][at])]
    left, right = int(nodes["left"][at]), int(nodes["right"][at])
    return [path, *paths(nodes, left, path), *paths(nodes, right, path)]


@pytest.mark.parametrize("S", [1, 2, 5])
def test_inputs_that_interact_are_joined(S: int) -> None:
    together = np.zeros((6, 6))
    together[[0, 1], [1, 0]] = together[[4, 5], [5, 4]] = 50.0
    np.fill_diagonal(together, [9, 9, 0, 0, 9, 9])
    inputs = join_inputs(together, (20, S), np.random.default_rng(0))
    assert all(len(set(row)) == S for row in inputs.tolist())
    if S == 2:
        assert {frozenset(row) for row in inputs.tolist()} == {
            frozenset({0, 1}),
            frozenset({4, 5}),
        }
