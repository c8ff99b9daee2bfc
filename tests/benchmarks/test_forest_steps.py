"""Orders of node steps: Jump Like A Squirrel in the benchmarks."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from benchmarks.exits.forest_steps import (
    accuracies,
    at_random,
    backward,
    breadth_first,
    depth_first,
    depths_of,
    forward,
    optimal,
    read_paths,
)
from tests.support.oracles.step_orders import (
    all_orders,
    greedy,
    mean_right,
    shares_by_walking,
)

pytestmark = pytest.mark.jit  # rivals: what they have of kernels is tested by ours

Drawn = tuple[Any, NDArray[np.float32], NDArray[np.int64]]


def forest(seed: int, trees: int = 3, depth: int = 2, rows: int = 30) -> Drawn:
    draws = np.random.default_rng(seed)
    X = draws.normal(size=(rows, 4)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] + draws.normal(size=rows) > 0).astype(np.int64)
    y += (X[:, 2] > 1).astype(np.int64)
    grown = RandomForestClassifier(trees, max_depth=depth, random_state=seed)
    return grown.fit(X, y), X, y


def test_paths_are_those_of_rows_walked_one_by_one() -> None:
    grown, X, _ = forest(0)
    paths, lengths = read_paths(grown, X)
    for path, length, estimator in zip(paths, lengths, grown.estimators_, strict=True):
        for n, row in enumerate(X):
            for steps in range(len(path)):
                shares, taken = shares_by_walking(estimator.tree_, row, steps)
                assert path[steps, n].tolist() == pytest.approx(shares)
            assert length[n] == taken
    whole = np.mean([path[-1] for path in paths], axis=0)
    assert whole == pytest.approx(grown.predict_proba(X))


@pytest.mark.parametrize("seed", range(4))
def test_orders_agree_with_their_slow_twins(seed: int) -> None:
    draws = np.random.default_rng(seed)
    depths = [2, 1, 3]
    paths = [draws.dirichlet(np.ones(3), (depth + 1, 20)) for depth in depths]
    y = draws.integers(0, 3, 20)
    labels = y.tolist()
    assert forward(paths, y) == greedy(paths, labels, back=False)
    assert backward(paths, y) == greedy(paths, labels, back=True)
    best = max(mean_right(order, paths, labels) for order in all_orders(depths))
    assert mean_right(optimal(paths, y), paths, labels) == pytest.approx(best)
    assert accuracies(optimal(paths, y), paths, y).mean() == pytest.approx(best)


def test_an_optimum_of_one_tree_is_its_only_order() -> None:
    grown, X, y = forest(1, trees=1)
    paths, _ = read_paths(grown, X)
    only = [0] * depths_of(paths)[0]
    assert optimal(paths, y) == forward(paths, y) == backward(paths, y) == only


def test_plain_orders_take_each_step_once() -> None:
    depths = [2, 0, 3]
    assert depth_first(depths, [2, 0, 1]) == [2, 2, 2, 0, 0]
    assert breadth_first(depths) == [0, 2, 0, 2, 2]
    assert sorted(at_random(depths, 0)) == [0, 0, 2, 2, 2]
