"""XGBoost's models, JSON files and UBJSON files."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.features.errors import BadModel
from polydom.models import compile
from polydom.models.importers.from_xgboost import CLASSIFICATIONS, read_xgboost
from tests.support.models.agreement import assert_agrees, bundled, edge_rows
from tests.support.models.boosters import beside, thresholds, xgb, xgboost

KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "several trees a round": {"num_parallel_tree": 3, "subsample": 0.7},
    "dart": {"booster": "dart", "rate_drop": 0.4},
    "one base score": {"base_score": 0.3},
    "pruned": {"tree_method": "exact", "gamma": 2},
}


@pytest.mark.parametrize("name", ["iris", "wine", "breast_cancer"])
@pytest.mark.parametrize("kind", KINDS)
def test_xgboost_decides_alike_on_edge_rows(name: str, kind: str) -> None:
    X, y = bundled(name)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    fitted = xgb(**KINDS[kind]).fit(X, y)
    near = thresholds(compile(fitted))
    rows = edge_rows(X, near, 400, missing=True)
    assert_agrees(fitted, X, tolerance=1e-5)
    assert_agrees(fitted, rows, tolerance=1e-5)


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
@pytest.mark.parametrize("kind", KINDS)
def test_xgboost_margins_are_within_a_hundred_thousandth(name: str, kind: str) -> None:
    X, y = bundled(name)
    fitted = xgb(**KINDS[kind]).fit(X, y)
    assert_margins(fitted, X)


def assert_margins(fitted: Any, X: NDArray[np.float64]) -> None:
    """Margins and choices on the rows, on edge rows and beside thresholds."""
    ensemble = compile(fitted)
    sets = [X]
    if hasattr(ensemble.classifier.scorer, "nodes"):
        near = thresholds(ensemble)
        sets.append(edge_rows(X, near, 300, missing=True))
        sets.append(beside(sets[-1], near))
    for rows in sets:
        margins = fitted.predict(rows, output_margin=True)
        np.testing.assert_allclose(
            ensemble.decision_function(rows), margins, atol=1e-5, rtol=1e-6
        )
        np.testing.assert_array_equal(ensemble.predict(rows), fitted.predict(rows))


@pytest.mark.parametrize("most", [1, 100], ids=["partition", "one-hot"])
def test_xgboost_categories_decide_alike(most: int) -> None:
    X, y = bundled("wine")
    draw = np.random.default_rng(5)
    X = X[:, 1:7]
    X[:, 2] = 2 * draw.integers(0, 35, len(X)) + (y == 1)
    X[:, 5] = draw.integers(0, 4, len(X)) + 2 * (y == 2)
    X[::9, 2] = np.nan
    fitted = xgb(
        enable_categorical=True,
        max_cat_to_onehot=most,
        feature_types=["q", "q", "c", "q", "q", "c"],
    ).fit(X, y)
    rows = edge_rows(X, X[0], 300, missing=True)
    for column in (2, 5):
        odd = [-1.0, -0.5, -0.0, 0.5, 3.7, 69.0, 200.0, 3e9, np.nan]
        rows[::2, column] = draw.choice(odd, len(rows[::2]))
    assert compile(fitted).classifier.arrays()["set_bits"].size
    assert_agrees(fitted, X, tolerance=1e-5)
    assert_agrees(fitted, rows, tolerance=1e-5)


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
@pytest.mark.parametrize("options", [{}, {"base_score": 0.3}], ids=["", "base score"])
def test_xgboost_linear_booster_decides_alike(
    name: str, options: dict[str, Any]
) -> None:
    X, y = bundled(name)
    fitted = xgb(booster="gblinear", **options).fit(X, y)
    gaps = X.copy()
    gaps[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    for rows in (X, gaps):
        assert_agrees(fitted, rows, tolerance=1e-5)
        assert_margins(fitted, rows)
    scores = compile(fitted).base_scores(gaps)
    assert scores.shape[:2] == X.shape  # the terms are base models
    assert not scores[np.isnan(gaps)].any()


@pytest.mark.parametrize("booster", ["gbtree", "dart"])
def test_xgboost_that_stopped_early_answers_with_its_best_rounds(
    booster: str, tmp_path: Path
) -> None:
    X, y = bundled("wine")
    fitted = xgb(
        n_estimators=200, booster=booster, num_parallel_tree=2, early_stopping_rounds=3
    ).fit(X[::2], y[::2], eval_set=[(X[1::2], y[1::2])], verbose=False)
    best = fitted.best_iteration
    assert 0 < best + 1 < fitted.get_booster().num_boosted_rounds()
    assert_agrees(fitted, X, tolerance=1e-5)
    assert_margins(fitted, X)
    fitted.save_model(tmp_path / "model.json")
    ensemble = compile(tmp_path / "model.json")
    np.testing.assert_array_equal(ensemble.predict(X), fitted.predict(X))
    model = json.loads((tmp_path / "model.json").read_text())
    booster_ = model["learner"]["gradient_booster"]
    trees = booster_["gbtree"]["model"] if booster == "dart" else booster_["model"]
    del trees["iteration_indptr"]  # as before XGBoost 2
    np.testing.assert_array_equal(
        read_xgboost(json.dumps(model)).predict_scores(X),
        ensemble.classifier.predict_scores(X),
    )


def test_xgboost_hinge_and_weights_decide_alike() -> None:
    X, y = bundled("breast_cancer")
    for options in ({"objective": "binary:hinge"}, {"scale_pos_weight": 3}):
        assert_margins(xgb(**options).fit(X, y), X)


def test_xgboost_random_forest_decides_alike() -> None:
    X, y = bundled("wine")
    fitted = xgboost.XGBRFClassifier(n_estimators=12, n_jobs=1).fit(X, y)
    assert_agrees(fitted, X, tolerance=1e-5)
    assert_margins(fitted, X)


def test_ubjson_and_json_files_hold_the_same_model(tmp_path: Path) -> None:
    X, y = bundled("wine")
    X[::7] = np.nan
    kinds = {**KINDS, "linear": {"booster": "gblinear"}}
    for options in kinds.values():
        booster = xgb(**options).fit(X, y).get_booster()
        for name in ("model.json", "model.ubj"):
            booster.save_model(tmp_path / name)
        binary = compile(tmp_path / "model.ubj").classifier.arrays()
        text = compile(tmp_path / "model.json").classifier.arrays()
        assert binary.keys() == text.keys()
        for name, array in binary.items():
            np.testing.assert_array_equal(array, text[name], err_msg=name)


def test_xgboost_with_another_missing_value_is_refused() -> None:
    X, y = bundled("breast_cancer")
    fitted = xgb(missing=0.0).fit(X, y)
    with pytest.raises(BadModel, match=r"XGBClassifier\(missing=0.0\) has no compiled"):
        compile(fitted)


@pytest.mark.parametrize(
    "objective",
    [
        "reg:squarederror",
        "reg:gamma",
        "reg:tweedie",
        "count:poisson",
        "binary:logitraw",
        "rank:ndcg",
        "rank:pairwise",
        "survival:cox",
    ],
)
def test_xgboost_objectives_without_classes_are_refused_by_name(
    objective: str,
) -> None:
    X, y = bundled("breast_cancer")
    label = y if objective.startswith(("rank", "binary")) else y + 1
    data = xgboost.DMatrix(X, label)
    if objective.startswith("rank"):
        data.set_group([len(y)])
    booster = xgboost.train({"objective": objective, "nthread": 1}, data, 2)
    with pytest.raises(BadModel, match=f"objective '{objective}' has no compiled form"):
        read_xgboost(bytes(booster.save_raw("ubj")), objectives=CLASSIFICATIONS)


def test_xgboost_of_several_outputs_is_refused() -> None:
    X, y = bundled("wine")
    both = np.column_stack([y > 0, y > 1])
    with pytest.raises(BadModel, match=r"several outputs"):
        read_xgboost(bytes(xgb().fit(X, both).get_booster().save_raw("ubj")))
    vector = xgb(multi_strategy="multi_output_tree").fit(X, y)
    with pytest.raises(BadModel, match="vector leaves have no compiled form"):
        compile(vector)


XGBOOST_TEXT = (
    xgb().fit(*bundled("breast_cancer")).get_booster().save_raw("json").decode()
)
MODEL = ["learner", "gradient_booster", "model"]
TREE = [*MODEL, "trees", 0]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["learner"], None, "not an XGBoost model"),
        (["version"], [4, 0, 0], r"version 4\.0\.0; known: 1\.x, 2\.x, 3\.x"),
        (["version"], [], "XGBoost model of version"),
        (["learner", "objective", "name"], "rank:ndcg", "objective 'rank:ndcg' has no"),
        (["learner", "gradient_booster", "name"], "new", "booster 'new' has no comp"),
        (["learner", "learner_model_param", "num_feature"], "1", "outside the 1 there"),
        (["learner", "learner_model_param", "base_score"], "0E0", "it must be in"),
        (["learner", "learner_model_param", "base_score"], "[.1,.1]", "not an XGBoost"),
        (["learner", "attributes", "best_iteration"], "12", "best round, 12, does not"),
        (["learner", "attributes", "best_iteration"], "-1", "best round, -1, does not"),
        ([*MODEL, "tree_info", 0], 7, "outside the 1"),
        ([*MODEL, "tree_info"], [0], "12 XGBoost trees for 1 classes"),
        ([*TREE, "left_children", 0], 0, "with a cycle"),
        ([*TREE, "right_children", 0], 9999, "a child that does not exist"),
        ([*TREE, "default_left"], [], "fields of different lengths"),
        ([*TREE, "split_type"], [], "fields of different lengths"),
        ([*TREE, "split_indices", 0], 1e300, "a feature outside"),
        ([*TREE, "split_conditions", 0], float("nan"), "a threshold that is no number"),
        ([*TREE, "split_conditions", -1], 1e300, "a leaf or a threshold that is no"),
        ([*TREE, "split_type", 0], 1, "split on categories without a set"),
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
        read_xgboost(json.dumps(model), objectives=CLASSIFICATIONS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"categories": [-1]}, "category outside 0 to 16777215"),
        ({"categories": [1 << 24]}, "category outside 0 to 16777215"),
        ({"categories_sizes": [2]}, "set of categories that does not exist"),
        ({"categories_segments": [-1]}, "set of categories that does not exist"),
        ({"categories_nodes": [1]}, "split on categories without a set"),
        ({"categories_sizes": []}, "not an XGBoost model"),
    ],
)
def test_damaged_xgboost_categories_are_refused(
    change: dict[str, Any], message: str
) -> None:
    model = json.loads(XGBOOST_TEXT)
    tree = model["learner"]["gradient_booster"]["model"]["trees"][0]
    tree["split_type"][0] = 1
    whole = {
        "categories": [3],
        "categories_nodes": [0],
        "categories_segments": [0],
        "categories_sizes": [1],
    }
    tree.update(whole)
    assert read_xgboost(json.dumps(model)).arrays()["set_bits"].tolist() == [8]
    tree.update(change)
    with pytest.raises(BadModel, match=message):
        read_xgboost(json.dumps(model))


def test_json_nested_too_deep_is_refused() -> None:
    with pytest.raises(BadModel, match="not an XGBoost model"):
        read_xgboost('{"learner":' * 200_000)


def test_damaged_weights_are_refused() -> None:
    X, y = bundled("breast_cancer")
    for options, path, bad, message in (
        ({"booster": "dart"}, "weight_drop", [1.0], "12 XGBoost trees for 12 classes"),
        ({"booster": "dart"}, "weight_drop", [np.nan] * 12, "tree is not finite"),
        ({"booster": "gblinear"}, "weights", [0.0], "1 weights in a linear XGBoost"),
        ({"booster": "gblinear"}, "weights", [np.inf] * 31, "model is not finite"),
    ):
        raw = xgb(**options).fit(X, y).get_booster().save_raw("json")
        model = json.loads(raw)
        booster = model["learner"]["gradient_booster"]
        (booster["model"] if path == "weights" else booster)[path] = bad
        with pytest.raises(BadModel, match=message):
            read_xgboost(json.dumps(model))
