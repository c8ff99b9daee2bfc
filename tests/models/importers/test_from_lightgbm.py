"""LightGBM's models and text files."""

import re
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadModel
from polydom.models import compile
from polydom.models.importers.from_lightgbm import CLASSIFICATIONS, read_lightgbm
from polydom.models.trees.nodes import ZERO_LIMIT
from tests.support.models.agreement import assert_agrees, bundled, edge_rows
from tests.support.models.boosters import (
    REGRESSIONS,
    beside,
    lgbm,
    lightgbm,
    thresholds,
)

NAMES = ("breast_cancer", "iris", "wine")
FOREST = {"boosting": "rf", "subsample": 0.6, "subsample_freq": 1}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"zero_as_missing": True},
        {"use_missing": False},
        FOREST,
        {"boosting": "dart", "drop_rate": 0.5},
    ],
    ids=["plain", "zero is missing", "no missing", "forest", "dart"],
)
def test_lightgbm_decides_alike_on_edge_rows(
    name: str, options: dict[str, Any]
) -> None:
    X, y = bundled(name)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    X[np.random.default_rng(1).random(X.shape) < 0.1] = 0.0
    fitted = lgbm(**options).fit(X, y)
    near = thresholds(compile(fitted))
    rows = edge_rows(X, near, 400, missing=True, infinite=True)
    assert_agrees(fitted, X, tolerance=1e-12)
    assert_agrees(fitted, rows, tolerance=1e-12)


OBJECTIVES: dict[str, tuple[str, dict[str, Any]]] = {
    "binary": ("breast_cancer", {"sigmoid": 2.5}),
    "cross entropy": ("breast_cancer", {"objective": "cross_entropy"}),
    "multiclass": ("wine", {}),
    "one against the rest": ("wine", {"objective": "multiclassova", "sigmoid": 0.5}),
    "two against each other": (
        "breast_cancer",
        {"objective": "multiclassova", "num_class": 2},
    ),
}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_lightgbm_objectives_have_its_probabilities_and_raw_scores(
    objective: str,
) -> None:
    name, options = OBJECTIVES[objective]
    X, y = bundled(name)
    fitted = lgbm(**options).fit(X, y)
    ensemble = compile(fitted)
    near = thresholds(ensemble)
    edges = edge_rows(X, near, 300, missing=True, infinite=True)
    assert_agrees(fitted, edges, tolerance=1e-12)
    for rows in (X, edges, beside(edges, near)):
        raw = fitted.predict(rows, raw_score=True)
        own = ensemble.classifier.scorer.raw(rows)
        np.testing.assert_array_equal(own.reshape(raw.shape), raw)
        np.testing.assert_array_equal(ensemble.predict(rows), fitted.predict(rows))


def test_lightgbm_forest_has_the_mean_of_the_sums_that_lightgbm_calls_raw() -> None:
    X, y = bundled("breast_cancer")
    fitted = lgbm(**FOREST).fit(X, y)
    np.testing.assert_array_equal(
        compile(fitted).decision_function(X),
        fitted.predict(X, raw_score=True) / 12,
    )


def test_values_that_lightgbm_takes_for_zero_go_where_zero_goes() -> None:
    draw = np.random.default_rng(0)
    X = draw.choice([-2.0, -1.0, 0.0, 1.0, 2.0], (400, 3))
    fitted = lgbm().fit(X, (X[:, 0] >= 0) ^ (X[:, 1] <= 0))
    ensemble = compile(fitted)
    limits = [ZERO_LIMIT, np.nextafter(ZERO_LIMIT, 1), 1e-40, 5e-324, 0.0]
    rows = draw.choice([*limits, *np.negative(limits), 1.0], (500, 3))
    np.testing.assert_array_equal(
        ensemble.decision_function(rows), fitted.predict(rows, raw_score=True)
    )
    singles = rows.astype(np.float32)
    np.testing.assert_array_equal(
        ensemble.decision_function(singles), fitted.predict(singles, raw_score=True)
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
    assert compile(fitted).classifier.arrays()["set_bits"].size
    assert_agrees(fitted, X, tolerance=1e-12)
    assert_agrees(fitted, rows, tolerance=1e-12)


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
def test_lightgbm_that_stopped_early_answers_with_its_best_rounds() -> None:
    X, y = bundled("breast_cancer")
    stop = lightgbm.early_stopping(2, verbose=False)
    fitted = lgbm(n_estimators=200).fit(
        X[::2], y[::2], eval_set=[(X[1::2], y[1::2])], callbacks=[stop]
    )
    best = fitted.best_iteration_
    assert 0 < best < 200
    ensemble = compile(fitted)
    assert ensemble.size == best
    np.testing.assert_array_equal(ensemble.predict(X), fitted.predict(X))


def test_scores_to_start_from_are_no_part_of_a_lightgbm_model() -> None:
    X, y = bundled("breast_cancer")
    fitted = lgbm().fit(X, y, init_score=np.full(len(y), 0.7))
    np.testing.assert_array_equal(
        compile(fitted).decision_function(X), fitted.predict(X, raw_score=True)
    )


@pytest.mark.parametrize(
    "objective",
    [*REGRESSIONS, "cross_entropy_lambda", "lambdarank", "rank_xendcg"],
)
def test_lightgbm_objectives_without_classes_are_refused_by_name(
    objective: str,
) -> None:
    X, y = bundled("breast_cancer")
    data = lightgbm.Dataset(X, y + 0.1, group=[len(y)] if "rank" in objective else None)
    if "rank" in objective or "entropy" in objective:
        data.label = y
    options = {"objective": objective, "num_threads": 1, "verbose": -1}
    text = lightgbm.train(options, data, 2).model_to_string()
    with pytest.raises(BadModel, match=f"objective '{objective}' has no compiled form"):
        read_lightgbm(text, objectives=CLASSIFICATIONS)


def test_lightgbm_trees_with_linear_leaves_are_refused() -> None:
    X, y = bundled("breast_cancer")
    fitted = lgbm(linear_tree=True).fit(X, y)
    with pytest.raises(BadModel, match="linear leaves have no compiled form"):
        compile(fitted)


LIGHTGBM_TEXT = lgbm().fit(*bundled("breast_cancer")).booster_.model_to_string()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("tree\n", "forest\n", "its first line is not 'tree'"),
        ("version=v4", "version=v9", "of version 'v9'; known: v2, v3, v4"),
        ("objective=binary", "objective=poisson", "objective 'poisson' has no comp"),
        ("objective=binary", "objective=multiclass", "multiclass model with 1 trees"),
        ("objective=binary", "objektive=binary", r"objective '\(none\)' has no comp"),
        ("sigmoid:1", "sigmoid:none", "sigmoid is 'none', it must be above 0"),
        ("sigmoid:1", "sigmoid:-1", "sigmoid is '-1', it must be above 0"),
        ("num_class=1", "num_class=x", "num_class is 'x'"),
        ("num_class=1", "num_class=²", "num_class is '²'"),
        ("is_linear=0", "is_linear=1", "linear leaves have no compiled form"),
        ("split_feature=", "split_feature=99 ", "fields of other lengths"),
        ("max_feature_idx=29", "max_feature_idx=1", "a feature outside the 2 there"),
        ("left_child=", "left_child_=", "damaged LightGBM tree: 'left_child'"),
        ("left_child=1 ", "left_child=inf ", "a child or a decision that is no whole"),
        ("left_child=1 ", "left_child=0 ", "with a cycle, or a child that does not"),
    ],
)
def test_damaged_lightgbm_text_is_refused(old: str, new: str, message: str) -> None:
    assert old in LIGHTGBM_TEXT
    with pytest.raises(BadModel, match=message):
        read_lightgbm(LIGHTGBM_TEXT.replace(old, new, 1), objectives=CLASSIFICATIONS)


@pytest.mark.parametrize("field", ["leaf_value", "threshold"])
def test_lightgbm_numbers_that_are_none_are_refused(field: str) -> None:
    text = re.sub(rf"\n{field}=\S+", f"\n{field}=nan", LIGHTGBM_TEXT, count=1)
    with pytest.raises(BadModel, match="a leaf value or a threshold that is no number"):
        read_lightgbm(text)


def test_lightgbm_text_that_was_cut_anywhere_is_refused() -> None:
    end = LIGHTGBM_TEXT.index("end of trees")
    starts = [found.start() for found in re.finditer("\nTree=", LIGHTGBM_TEXT)]
    for stop in [*range(100, end, 97), *starts, end, end + 5]:
        with pytest.raises(BadModel):
            read_lightgbm(LIGHTGBM_TEXT[:stop])
    read_lightgbm(LIGHTGBM_TEXT[: end + len("end of trees")])


def test_lightgbm_leaf_that_lost_a_digit_is_refused() -> None:
    text = re.sub(r"(\nleaf_value=\S+)\d ", r"\1 ", LIGHTGBM_TEXT, count=1)
    with pytest.raises(BadModel, match="tree 1 of 12 is not where the header says"):
        read_lightgbm(text)


def test_lightgbm_text_with_line_ends_of_windows_is_read() -> None:
    X, _ = bundled("breast_cancer")
    plain = read_lightgbm(LIGHTGBM_TEXT)
    other = read_lightgbm(LIGHTGBM_TEXT.replace("\n", "\r\n"))
    np.testing.assert_array_equal(plain.predict_scores(X), other.predict_scores(X))
