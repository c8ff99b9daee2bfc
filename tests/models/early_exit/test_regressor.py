"""Regressors as sums of trees, whole and in part."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor

from polydom.features.errors import BadInput
from polydom.models import Regressor, compile
from tests.support.agreement import bundled, edge_rows
from tests.support.boosters import lightgbm


@pytest.fixture(scope="module", params=["boosting", "forest", "categories"])
def regressor(request: pytest.FixtureRequest) -> Any:
    X, y = bundled("wine")
    if request.param == "boosting":
        return compile(GradientBoostingRegressor(random_state=0).fit(X, y))
    if request.param == "forest":
        forest = RandomForestRegressor(20, max_depth=5, random_state=0)
        return compile(forest.fit(X, y))
    X = np.column_stack([X, np.arange(len(X)) % 7])
    few = lightgbm.LGBMRegressor(
        n_estimators=20, min_child_samples=3, n_jobs=1, verbose=-1, max_cat_to_onehot=1
    )
    noise = 3 * (X[:, -1] % 2) + y
    return compile(few.fit(X, noise, categorical_feature=[13]))


def rows_for(regressor: Regressor) -> NDArray[np.float64]:
    X, _ = bundled("wine")
    X = np.column_stack([X, np.arange(len(X)) % 9])
    return edge_rows(X, X[3], 200, missing=True)


def test_whole_is_the_sum_of_its_trees(regressor: Regressor) -> None:
    rows = rows_for(regressor)
    sums = regressor.base_scores(rows).sum(axis=1) + regressor.trees.base_bias()[0]
    np.testing.assert_allclose(regressor.decision_function(rows), sums, rtol=1e-12)
    singles = rows.astype(np.float32)
    ones = [regressor.predict_one(row) for row in singles]
    np.testing.assert_array_equal(ones, regressor.predict(singles))


@pytest.mark.parametrize("tolerance", [0.0, 1e-3, 0.05, 0.3, 1e9])
def test_within_is_within_its_tolerance(regressor: Regressor, tolerance: float) -> None:
    rows = rows_for(regressor)
    less = regressor.within(tolerance)
    gap = np.abs(less.decision_function(rows) - regressor.decision_function(rows))
    assert gap.max() <= tolerance + 1e-12
    assert (tolerance > 1) == (less.size == 1)
    # What it leaves out is all that it may leave out.
    spread = np.sort(np.ptp(regressor.base_scores(rows), axis=0))
    assert spread[: regressor.size - less.size].sum() / 2 <= tolerance + 1e-12


def test_tolerance_leaves_trees_out() -> None:
    X, y = bundled("wine")
    whole = compile(GradientBoostingRegressor(random_state=0).fit(X, y))
    sizes = [whole.within(tolerance).size for tolerance in (0, 0.01, 0.1, 0.5, 9)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 100
    assert sizes[-1] == 1
    assert 1 < sizes[2] < 100
    one = whole.within(0.1)
    assert one.predict_one(X[0].astype(np.float32)) == one.predict(X[:1])[0]


@pytest.mark.parametrize("seed", range(12))
def test_part_sums_the_trees_that_are_asked_for(
    regressor: Regressor, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    which = draw.integers(0, regressor.size, draw.integers(1, 40))
    rows = rows_for(regressor)[:20]
    part = regressor.part(which, rest=0.25)
    scores = regressor.base_scores(rows)[:, which]
    sums = scores.sum(axis=1) + regressor.trees.base_bias()[0] + 0.25
    np.testing.assert_allclose(part.decision_function(rows), sums, atol=1e-9)
    np.testing.assert_array_equal(part.base_scores(rows), scores)


@pytest.mark.parametrize("which", [[], [-1], [0, 10**6]])
def test_part_of_trees_that_are_not_there_is_refused(
    regressor: Regressor, which: list[int]
) -> None:
    with pytest.raises(BadInput, match="positions of trees must be some of 0 to"):
        regressor.part(np.array(which))


@pytest.mark.parametrize("tolerance", [-1e-9, float("nan")])
def test_tolerance_below_nothing_is_refused(
    regressor: Regressor, tolerance: float
) -> None:
    with pytest.raises(BadInput, match="tolerance is"):
        regressor.within(tolerance)
