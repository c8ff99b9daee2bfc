"""Regressors as models, and as sums of trees, whole and in part."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import (
    GradientBoostingRegressor,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import PoissonRegressor, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.errors import BadInput, BadModel, BadRow
from polydom.features.threads import one_thread
from polydom.models import Regressor, compile
from polydom.models.early_exit.stored_schedule import load_early_exit
from polydom.models.importers.compile_model import compile_model
from tests.support.models.agreement import bundled, edge_rows, stored_and_loaded
from tests.support.models.boosters import lightgbm

# by kernels that others run interpreted
pytestmark = pytest.mark.jit


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
    sums = regressor.base_scores(rows).sum(axis=1) + regressor.scorer.base_bias()[0]
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
    sums = scores.sum(axis=1) + regressor.scorer.base_bias()[0] + 0.25
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


def test_answer_is_the_value(regressor: Regressor) -> None:
    rows = rows_for(regressor).astype(np.float32)
    values = regressor.predict(rows)
    assert values.dtype == np.float64
    assert regressor.classes.tolist() == [0]
    np.testing.assert_array_equal(regressor.predict_scores(rows)[:, 0], values)
    for row, value in zip(rows[:20], values, strict=False):
        assert regressor.answer(row) == (0, [value])
        assert regressor.choose(row) == 0


@pytest.mark.parametrize("loss", ["squared_error", "poisson"])
def test_within_keeps_preparation_columns_and_link(loss: str) -> None:
    X, y = bundled("wine")
    last = HistGradientBoostingRegressor(loss=loss, max_iter=30, min_samples_leaf=5)
    with one_thread():
        fitted = make_pipeline(SimpleImputer(), StandardScaler(), last).fit(X, y)
    columns = np.arange(13, dtype=np.int32)[::-1].copy()
    whole = compile_model(fitted, columns)
    assert isinstance(whole, Regressor)
    full = np.zeros((len(X), 13), np.float32)
    full[:, columns] = X
    less = whole.within(0.1)
    assert 1 < less.size < whole.size
    gap = np.abs(less.decision_function(full) - whole.decision_function(full))
    assert gap.max() <= 0.1 + 1e-12
    assert less.link == whole.link
    again = stored_and_loaded(less, 13)
    np.testing.assert_array_equal(again.predict(full), less.predict(full))
    assert again.answer(full[3]) == (0, [less.predict(full[3:4])[0]])


def test_linear_terms_are_neither_left_out_nor_bounded() -> None:
    X, y = bundled("wine")
    regressor = compile(Ridge().fit(X, y))
    with pytest.raises(BadInput, match="terms of a linear model have no bounds"):
        regressor.within(1.0)
    with pytest.raises(BadInput, match="a linear model cannot be cut into parts"):
        regressor.part(np.array([0]))
    sums = regressor.base_scores(X).sum(axis=1) + regressor.scorer.base_bias()[0]
    np.testing.assert_allclose(regressor.predict(X), sums, rtol=1e-12)


def test_value_beyond_float64_is_refused() -> None:
    X, y = bundled("wine")
    regressor = compile(PoissonRegressor(alpha=1e-3).fit(X[:, :1], y))
    row = np.array([np.copysign(1e30, regressor.scorer.weights[0, 0])], np.float32)
    for ask in (regressor.predict_one, regressor.answer):
        with pytest.raises(BadRow, match=r"row 0 give a sum of .* of which exp leaves"):
            ask(row)
    with pytest.raises(BadRow, match=r"row 1 give a sum"):
        regressor.predict(np.stack([row * 0, row]))
    assert regressor.predict_one(-row) == 0.0


def test_what_is_no_regressor_is_refused() -> None:
    X, y = bundled("wine")
    scorer = compile(Ridge().fit(X, y)).scorer
    with pytest.raises(BadModel, match="unknown link 'log'; known: identity, exp"):
        Regressor(scorer, "log")  # type: ignore[arg-type]
    many = compile(RandomForestClassifier(2).fit(X, y)).classifier.scorer
    with pytest.raises(BadModel, match="trees model of 3 raw scores is no regressor"):
        Regressor(many)


def test_schedule_of_a_regressor_is_refused() -> None:
    X, y = bundled("wine")
    model = compile(RandomForestRegressor(3, random_state=0).fit(X, y))
    with pytest.raises(BadModel, match="Regressor of kind 'trees' has no base"):
        load_early_exit(model, {})
