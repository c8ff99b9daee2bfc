"""Keypoints, and which inputs share a lattice."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeClassifier

from polydom.models import compile_model
from polydom.models.lattice_inputs import (
    draw_inputs,
    join_inputs,
    keypoints,
    pairs_tested,
)


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


@given(d=st.integers(1, 12), T=st.integers(1, 30), seed=st.integers(0, 99))
def test_drawn_inputs_differ_within_a_lattice_and_are_used_alike(
    d: int, T: int, seed: int
) -> None:
    S = min(d, 4)
    inputs = draw_inputs(d, (T, S), np.random.default_rng(seed))
    assert all(len(set(row)) == S for row in inputs.tolist())
    uses = np.bincount(inputs.ravel(), minlength=d)
    assert np.ptp(uses) <= 1


def test_pairs_on_a_path_are_counted() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(400, 5))
    y = ((X[:, 1] > 0) ^ (X[:, 3] > 0.3)).astype(int)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0).fit(X, y)
    model: Any = compile_model(tree)
    counts = pairs_tested(model.scorer, 5)
    nodes = tree.tree_
    expected = np.zeros((5, 5))
    root = nodes.feature[0]
    expected[root, root] += 1
    for child in (nodes.children_left[0], nodes.children_right[0]):
        below = nodes.feature[child]
        expected[below, below] += 1
        if below != root:
            expected[root, below] += 1
            expected[below, root] += 1
    np.testing.assert_array_equal(counts, expected)


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
