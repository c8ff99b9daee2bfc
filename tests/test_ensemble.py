"""Ensembles: LightGBM and XGBoost files, base scores, early exit."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from threadpoolctl import threadpool_limits

from polydom.features.errors import BadInput, BadModel
from polydom.models import compile_ensemble
from polydom.models.ensemble import Ensemble
from polydom.models.from_lightgbm import read_lightgbm
from polydom.models.from_xgboost import read_xgboost

from . import oracles
from .agreement import assert_agrees, bundled, edge_rows

lightgbm = pytest.importorskip("lightgbm")
xgboost = pytest.importorskip("xgboost")

FEW = {"n_estimators": 12, "n_jobs": 1, "random_state": 0}


def lgbm(**options: Any) -> Any:
    return lightgbm.LGBMClassifier(**FEW, verbose=-1, min_child_samples=3, **options)


def xgb(**options: Any) -> Any:
    return xgboost.XGBClassifier(**FEW, **options)


def thresholds(ensemble: Ensemble) -> NDArray[np.float64]:
    nodes = ensemble.classifier.scorer.nodes  # type: ignore[attr-defined]
    found: NDArray[np.float64] = nodes["threshold"][nodes["column"] >= 0]
    return found


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
@pytest.mark.parametrize(
    "options",
    [{}, {"zero_as_missing": True}, {"use_missing": False}, {"boosting": "rf"}],
    ids=["plain", "zero is missing", "no missing", "forest"],
)
def test_lightgbm_decides_alike_on_edge_rows(
    name: str, options: dict[str, Any]
) -> None:
    X, y = bundled(name)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    X[np.random.default_rng(1).random(X.shape) < 0.1] = 0.0
    if options.get("boosting") == "rf":
        options = options | {"subsample": 0.6, "subsample_freq": 1}
    fitted = lgbm(**options).fit(X, y)
    near = thresholds(compile_ensemble(fitted))
    rows = edge_rows(X, near, 400, missing=True, infinite=True)
    assert_agrees(fitted, X, tolerance=1e-12)
    assert_agrees(fitted, rows, tolerance=1e-12)


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
def test_lightgbm_raw_scores_are_bit_equal_in_float64(name: str) -> None:
    X, y = bundled(name)
    fitted = lgbm().fit(X, y)
    ensemble = compile_ensemble(fitted)
    near = thresholds(ensemble)
    rows = edge_rows(X, near, 300, missing=True, infinite=True)
    draw = np.random.default_rng(4)
    swapped = draw.random(rows.shape) < 0.3
    beside = np.concatenate([near, np.nextafter(near, 1e9), np.nextafter(near, -1e9)])
    rows[swapped] = draw.choice(beside, swapped.sum())
    np.testing.assert_array_equal(
        ensemble.decision_function(rows), fitted.predict(rows, raw_score=True)
    )


def test_lightgbm_categories_decide_alike() -> None:
    X, y = bundled("wine")
    draw = np.random.default_rng(5)
    X = X[:, 1:7]
    X[:, 2] = 2 * draw.integers(0, 35, len(X)) + (y == 1)
    X[:, 5] = draw.integers(0, 4, len(X))
    options = {
        "max_cat_to_onehot": 1,
        "min_data_per_group": 1,
        "cat_smooth": 1,
        "cat_l2": 0,
    }
    fitted = lgbm(**options).fit(X, y, categorical_feature=[2, 5])
    rows = edge_rows(X, X[0], 300, missing=True)
    odd = [-1.0, -0.5, 0.5, 3.7, 69.0, 200.0, 3e9, np.nan]
    rows[::2, 2] = draw.choice(odd, len(rows[::2]))
    assert compile_ensemble(fitted).classifier.arrays()["set_bits"].size
    assert_agrees(fitted, X, tolerance=1e-12)
    assert_agrees(fitted, rows, tolerance=1e-12)


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
def test_xgboost_decides_alike_on_edge_rows(name: str) -> None:
    X, y = bundled(name)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    fitted = xgb().fit(X, y)
    rows = edge_rows(X, thresholds(compile_ensemble(fitted)), 400, missing=True)
    assert_agrees(fitted, X, tolerance=1e-5)
    assert_agrees(fitted, rows, tolerance=1e-5)


def test_files_are_read_without_their_packages(tmp_path: Path) -> None:
    X, y = bundled("breast_cancer")
    first, second = lgbm().fit(X, y), xgb().fit(X, y)
    first.booster_.save_model(tmp_path / "model.txt")
    second.get_booster().save_model(tmp_path / "model.json")
    for path, fitted in (("model.txt", first), ("model.json", second)):
        ensemble = compile_ensemble(tmp_path / path)
        np.testing.assert_array_equal(ensemble.predict(X), fitted.predict(X))


@dataclass
class Plan:
    """A schedule made by hand."""

    order: NDArray[np.int64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]


def ensembles() -> dict[str, tuple[Any, Ensemble]]:
    X, y = bundled("breast_cancer")
    learners = {
        "lightgbm": lgbm(),
        "xgboost": xgb(),
        "boosting": GradientBoostingClassifier(n_estimators=9, random_state=0),
        "histogram": HistGradientBoostingClassifier(max_iter=9),
        "adaboost": AdaBoostClassifier(n_estimators=9, random_state=0),
        "forest": RandomForestClassifier(10, max_depth=2, random_state=0),
        "linear": RidgeClassifier(),
    }
    with threadpool_limits(1):
        return {
            name: (e.fit(X, y), compile_ensemble(e)) for name, e in learners.items()
        }


ENSEMBLES = ensembles()
X_TWO = bundled("breast_cancer")[0]


@pytest.mark.parametrize("name", ENSEMBLES)
def test_base_scores_sum_to_the_decision(name: str) -> None:
    _, ensemble = ENSEMBLES[name]
    scores = ensemble.base_scores(X_TWO)
    assert scores.shape == (len(X_TWO), ensemble.size)
    np.testing.assert_allclose(
        scores.sum(axis=1) - ensemble.threshold,
        ensemble.decision_function(X_TWO),
        atol=1e-9,
    )


def test_base_scores_of_three_classes_have_three_columns() -> None:
    X, y = bundled("wine")
    ensemble = compile_ensemble(lgbm().fit(X, y))
    scores = ensemble.base_scores(X)
    assert scores.shape == (len(X), 12, 3)
    sums = scores.sum(axis=1) + ensemble.bias
    np.testing.assert_allclose(sums, ensemble.decision_function(X))
    with pytest.raises(BadInput, match="for two classes has one threshold"):
        ensemble.threshold  # noqa: B018


@pytest.mark.parametrize("name", ENSEMBLES)
def test_schedule_that_never_stops_decides_as_the_original(name: str) -> None:
    fitted, ensemble = ENSEMBLES[name]
    T = ensemble.size
    order = np.random.default_rng(0).permutation(T)
    plan = Plan(order, np.full(T, -np.inf), np.full(T, np.inf))
    exit_ = ensemble.early_exit(plan)
    expected = fitted.predict(X_TWO)
    for X in (X_TWO, X_TWO.astype(np.float32)):
        np.testing.assert_array_equal(exit_.predict(X), expected)
        assert (exit_.choices(X)[1] == T).all()
    row = X_TWO[7].astype(np.float32)
    assert ensemble.classes[exit_.choose(row)] == expected[7]


@pytest.mark.parametrize("name", ["lightgbm", "forest", "linear"])
@settings(max_examples=40)
@given(data=st.data())
def test_early_decisions_are_those_of_a_walk_by_hand(
    name: str, data: st.DataObject
) -> None:
    ensemble = ENSEMBLES[name][1]
    T = ensemble.size
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    X = X_TWO[draw.integers(0, len(X_TWO), 20)]
    scores = ensemble.base_scores(X)
    spread = np.abs(scores).sum(axis=1).mean() * data.draw(st.floats(0.01, 1.0))
    limits = ensemble.threshold + np.sort(draw.normal(0, spread, (T, 2)), axis=1)
    plan = Plan(draw.permutation(T), limits[:, 0].copy(), limits[:, 1].copy())
    exit_ = ensemble.early_exit(plan)
    chosen, used = exit_.choices(X)
    singles = exit_.choices(X.astype(np.float32))
    np.testing.assert_array_equal(singles, (chosen, used))
    for i, row in enumerate(scores):
        positive, steps = oracles.early_decision(
            row,
            plan.order.tolist(),
            plan.lower.tolist(),
            plan.upper.tolist(),
            ensemble.threshold,
        )
        assert used[i] == steps
        assert chosen[i] == positive == exit_.choose(X[i].astype(np.float32))


def test_schedule_of_another_length_is_refused() -> None:
    ensemble = ENSEMBLES["forest"][1]
    limits = np.zeros(3)
    with pytest.raises(BadInput, match="not an order of 10 base models"):
        ensemble.predict_early(X_TWO, Plan(np.arange(3), limits, limits))
    with pytest.raises(BadInput, match="limits are not 10 each"):
        ensemble.predict_early(X_TWO, Plan(np.arange(10), limits, limits))


def test_model_that_is_no_sum_is_refused() -> None:
    with pytest.raises(BadModel, match="gaussian model is no sum of base models"):
        compile_ensemble(GaussianNB().fit(X_TWO, X_TWO[:, 0] > 14))


LIGHTGBM_TEXT = lgbm().fit(*bundled("breast_cancer")).booster_.model_to_string()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tree\n", "forest\n", "its first line is not 'tree'"),
        ("version=v4", "version=v9", "of version 'v9'; known: v2, v3, v4"),
        ("objective=binary", "objective=poisson", "objective 'poisson' has no comp"),
        ("objective=binary", "objective=multiclass", "multiclass model with 1 trees"),
        ("num_class=1", "num_class=x", "num_class is 'x'"),
        ("is_linear=0", "is_linear=1", "linear leaves have no compiled form"),
        ("split_feature=", "split_feature=99 ", "fields of other lengths"),
        ("max_feature_idx=29", "max_feature_idx=1", "a feature outside the 2 there"),
        ("left_child=", "left_child_=", "damaged LightGBM tree: 'left_child'"),
    ],
)
def test_damaged_lightgbm_text_is_refused(old: str, new: str, message: str) -> None:
    assert old in LIGHTGBM_TEXT
    with pytest.raises(BadModel, match=message):
        read_lightgbm(LIGHTGBM_TEXT.replace(old, new, 1))


XGBOOST_TEXT = (
    xgb().fit(*bundled("breast_cancer")).get_booster().save_raw("json").decode()
)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["learner"], None, "not an XGBoost JSON model"),
        (["learner", "objective", "name"], "rank:ndcg", "objective 'rank:ndcg' has no"),
        (["learner", "gradient_booster", "name"], "dart", "booster 'dart'"),
        (["learner", "learner_model_param", "num_feature"], "1", "outside the 1 there"),
        (["learner", "gradient_booster", "model", "tree_info", 0], 7, "outside the 1"),
        (
            ["learner", "gradient_booster", "model", "trees", 0, "left_children", 0],
            0,
            "with a cycle",
        ),
        (
            ["learner", "gradient_booster", "model", "trees", 0, "right_children", 0],
            9999,
            "a child that does not exist",
        ),
        (
            ["learner", "gradient_booster", "model", "trees", 0, "default_left"],
            [],
            "fields of different lengths",
        ),
    ],
)
def test_damaged_xgboost_json_is_refused(
    path: list[Any], value: Any, message: str
) -> None:
    model = json.loads(XGBOOST_TEXT)
    inside = model
    for key in path[:-1]:
        inside = inside[key]
    inside[path[-1]] = value
    with pytest.raises(BadModel, match=message):
        read_xgboost(json.dumps(model))


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(
        BadModel, match=r"model\.bin is neither a LightGBM text file nor"
    ):
        compile_ensemble(tmp_path / "model.bin")
