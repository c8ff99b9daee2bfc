"""What every model promises: the protocol, stored arrays, and refusal of bad ones."""

from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import (
    LogisticRegression,
    PoissonRegressor,
    Ridge,
    RidgeClassifier,
)
from sklearn.multioutput import MultiOutputClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polydom.features.errors import BadInput, BadModel, BadRow
from polydom.features.threads import one_thread
from polydom.models.importers.compile_model import compile_model
from polydom.models.load import load_model
from polydom.models.scoring.model import Model
from polydom.models.scoring.prior import Mean, Prior
from tests.support.examples import few
from tests.support.first_use import AtFirstUse
from tests.support.models.agreement import (
    assert_agrees,
    bundled,
    edge_rows,
    stored_and_loaded,
)


@cache
def _fitted() -> dict[str, Any]:
    X, y = bundled("iris")
    X[::7, 1] = np.nan
    X[:, 2] = np.floor(X[:, 2])
    filled = np.nan_to_num(X)
    with one_thread():
        return {
            "prior": DummyClassifier().fit(X, y),
            "linear": make_pipeline(
                StandardScaler(), Normalizer(), LogisticRegression()
            ).fit(filled, y),
            "gaussian": make_pipeline(StandardScaler(), GaussianNB()).fit(filled, y),
            "forest": RandomForestClassifier(5, random_state=0).fit(X, y),
            "boosting": GradientBoostingClassifier(n_estimators=4).fit(filled, y),
            "histogram": HistGradientBoostingClassifier(
                max_iter=4, categorical_features=[2], min_samples_leaf=5
            ).fit(X, y),
            "mean": DummyRegressor().fit(X, y + 0.1),
            "ridge": make_pipeline(StandardScaler(), Ridge()).fit(filled, y + 0.1),
            "poisson": PoissonRegressor().fit(filled, y + 0.1),
            "forest of numbers": RandomForestRegressor(5, random_state=0).fit(
                X, y + 0.1
            ),
            "counts": HistGradientBoostingRegressor(
                loss="poisson", max_iter=4, categorical_features=[2]
            ).fit(X, y + 0.1),
        }


NAMES: tuple[str, ...] = (
    "prior",
    "linear",
    "gaussian",
    "forest",
    "boosting",
    "histogram",
    "mean",
)
NAMES += ("ridge", "poisson", "forest of numbers", "counts")
MODELS: AtFirstUse[str, Model] = AtFirstUse(
    NAMES, lambda name: compile_model(_fitted()[name])
)
CONSTANT = {"prior", "mean"}
REFUSING = ("linear", "gaussian", "ridge", "poisson")  # as scikit-learn does


@pytest.mark.parametrize("name", MODELS)
def test_stored_model_is_made_again_and_its_arrays_are_plain(name: str) -> None:
    model = MODELS[name]
    again = stored_and_loaded(model, 4)
    assert again.kind == model.kind
    for key, array in model.arrays().items():
        assert array.dtype.kind in "iuf"
        np.testing.assert_array_equal(again.arrays()[key], array)


@pytest.mark.parametrize("name", sorted(set(MODELS) - CONSTANT))
def test_loaded_model_uses_the_arrays_it_was_given(name: str) -> None:
    arrays = MODELS[name].arrays()
    again = load_model(MODELS[name].kind, arrays, width=4).arrays()
    for key in set(arrays) - {"head", "link", "sum"}:
        assert not arrays[key].size or np.shares_memory(arrays[key], again[key])


@pytest.mark.parametrize("name", MODELS)
def test_scores_of_one_row_are_those_of_many(name: str) -> None:
    X, _ = bundled("iris")
    many = MODELS[name].predict_scores(X)
    assert many.shape == (150, len(MODELS[name].classes))
    for i in range(0, 150, 30):
        _, one = MODELS[name].answer(X[i].astype(np.float32))
        np.testing.assert_array_equal(one, many[i])


@pytest.mark.parametrize("name", MODELS)
def test_no_rows_give_no_answers(name: str) -> None:
    X = np.empty((0, 4), np.float32)
    assert MODELS[name].predict(X).shape == (0,)
    assert MODELS[name].predict_scores(X).shape == (0, len(MODELS[name].classes))


@pytest.mark.parametrize("name", MODELS)
def test_row_of_nothing_but_gaps_is_answered_or_refused(name: str) -> None:
    row = np.full(4, np.nan, np.float32)
    if name in REFUSING:
        with pytest.raises(BadRow, match="row 0 has nan"):
            MODELS[name].answer(row)
        if len(MODELS[name].classes) > 1:
            with pytest.raises(BadRow, match="row 0 has nan"):
                MODELS[name].choose(row)
        return
    chosen, _ = MODELS[name].answer(row)
    assert chosen == MODELS[name].choose(row) in (0, 1, 2)


@pytest.mark.parametrize("name", sorted(set(MODELS) - CONSTANT))
def test_single_row_is_not_taken_for_many(name: str) -> None:
    with pytest.raises(BadInput, match=r"rows of shape \(4,\)"):
        MODELS[name].predict(np.zeros(4, np.float32))


def test_labels_may_be_texts() -> None:
    X, y = bundled("iris")
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    assert_agrees(DecisionTreeClassifier(max_depth=3).fit(X, names), X)


@pytest.mark.parametrize("strategy", ["prior", "most_frequent"])
def test_dummy_becomes_the_prior(strategy: str) -> None:
    X, y = bundled("wine")
    assert_agrees(DummyClassifier(strategy=strategy).fit(X, y), X)


def test_prior_counts_labels_and_takes_the_first_of_ties() -> None:
    prior = Prior.fit(np.array([5, 2, 5, 2, 9]))
    np.testing.assert_allclose(prior.shares, [0.4, 0.4, 0.2])
    row = np.zeros(0, np.float32)
    assert prior.choose(row) == 0
    assert prior.predict(np.zeros((2, 0))).tolist() == [2, 2]


def test_prior_of_no_labels_is_refused() -> None:
    with pytest.raises(BadModel, match="at least one label"):
        Prior.fit(np.array([], np.int64))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        (LogisticRegression(), "LogisticRegression is not fitted"),
        (object(), "object is no model: a fitted estimator"),
        (
            DummyClassifier(strategy="stratified").fit([[0], [0]], [0, 1]),
            "strategy='stratified'",
        ),
        (
            MultiOutputClassifier(RidgeClassifier()),
            "MultiOutputClassifier has no compiled form; these have: Ada.*Pipelines",
        ),
        (
            DecisionTreeClassifier().fit([[0], [1]], [[0, 1], [1, 0]]),
            "several outputs",
        ),
    ],
    ids=["unfitted", "object", "strategy", "unknown", "several outputs"],
)
def test_estimator_without_compiled_form_is_named(estimator: Any, message: str) -> None:
    with pytest.raises(BadModel, match=message):
        compile_model(estimator)


def test_columns_that_do_not_fit_the_estimator_are_refused() -> None:
    with pytest.raises(BadModel, match=r"3 columns given.*which was fitted on 4"):
        compile_model(_fitted()["forest"], np.arange(3))


def test_mean_of_labels_and_weights() -> None:
    assert Mean.fit([1, 2, 6]).value == 3
    mean = Mean.fit(np.array([1.0, 5.0]), np.array([3.0, 1.0]))
    assert mean.answer(np.zeros(0, np.float32)) == (0, [2.0])
    assert mean.predict(np.zeros((2, 0))).tolist() == [2, 2]
    assert mean.predict_scores(np.zeros((2, 0))).tolist() == [[2], [2]]


@pytest.mark.parametrize(
    ("labels", "message"),
    [([], "at least one label"), ([1.0, np.nan], "nan"), ([1e308, 1e308], "is inf")],
)
def test_mean_that_is_no_number_is_refused(labels: list[float], message: str) -> None:
    with pytest.raises(BadModel, match=message):
        Mean.fit(labels)


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(BadModel, match="unknown kind of model 'pickle'; known: prior"):
        load_model("pickle", {}, width=4)


def test_row_narrower_than_the_model_is_refused_on_load() -> None:
    with pytest.raises(BadModel, match="outside the row of 3 columns"):
        load_model("trees", MODELS["forest"].arrays(), width=3)


def _set(name: str, change: Callable[[NDArray[Any]], None]) -> Any:
    def damage(arrays: dict[str, NDArray[Any]]) -> None:
        array = arrays[name].copy()
        change(array)
        arrays[name] = array

    return damage


def _nodes(field: str, value: Any) -> Any:
    def change(array: NDArray[Any]) -> None:
        from polydom.models.trees.nodes import NODE

        array.reshape(-1).view(NODE)[field][0] = value

    return _set("nodes", change)


DAMAGE = [
    ("linear", lambda a: a.pop("weights"), "array 'weights' is missing"),
    ("linear", lambda a: a.update(weights=a["weights"][:2]), "shape \\(2, 3\\), it"),
    ("linear", lambda a: a.update(weights=a["weights"].astype("f4")), "is float32"),
    ("linear", _set("weights", lambda w: w.fill(np.inf)), "NaN or infinity"),
    ("linear", _set("classes", lambda c: c.fill(1)), "classes must ascend"),
    ("linear", _set("head", lambda h: h.fill(9)), "unknown link 9 or rule 9"),
    ("linear", _set("head", lambda h: h.__setitem__(2, 1)), "cannot choose between 3"),
    ("linear", _set("operations", lambda o: o.fill(7)), "unknown operation"),
    ("linear", _set("preparation", lambda p: p.fill(0)), "scale of 0"),
    ("linear", _set("columns", lambda c: c.fill(-1)), "outside the row of 4"),
    ("gaussian", _set("variances", lambda v: v.fill(0)), "variance is not greater"),
    ("prior", _set("shares", lambda s: s.fill(1)), "sum to 1"),
    ("forest", _nodes("child", 0), "child does not follow its parent"),
    ("forest", _nodes("child", 1 << 30), "child does not follow its parent"),
    ("forest", _nodes("column", 4), "tests none of its 4 columns"),
    ("forest", _nodes("threshold", np.nan), "threshold is NaN"),
    ("forest", _nodes("category", 0), "category set that does not exist"),
    ("forest", _set("roots", lambda r: r.fill(0)), "its roots"),
    ("forest", _set("targets", lambda t: t.fill(1)), "raw score that does not exist"),
    ("histogram", _set("set_starts", lambda s: s.fill(0)), "cover their bits"),
    ("boosting", _set("sum", lambda s: s.fill(0)), "divisor not above 0"),
    ("boosting", lambda a: a.update(leaves=a["leaves"][:1]), "a leaf has no values"),
    ("mean", _set("mean", lambda m: m.fill(np.nan)), "NaN or infinity"),
    ("mean", lambda a: a.update(mean=np.zeros(2)), r"shape \(2,\), it must be \(1\)"),
    ("ridge", _set("link", lambda k: k.fill(4)), "unknown link 4"),
    ("ridge", _set("link", lambda k: k.fill(-1)), "unknown link -1"),
    ("ridge", lambda a: a.update(link=np.zeros(1)), "'link' is float64"),
    ("ridge", _set("weights", lambda w: w.fill(1e300)), "leave the range of float64"),
    ("ridge", lambda a: a.pop("link"), "array 'head' is missing"),
    ("linear", lambda a: a.update(link=np.zeros(1, np.int64)), "3 raw scores is no"),
    ("gaussian", lambda a: a.update(link=np.zeros(1, np.int64)), "no sum of terms"),
    ("forest of numbers", _nodes("child", 0), "child does not follow its parent"),
    ("forest of numbers", _set("targets", lambda t: t.fill(1)), "does not exist"),
]


@pytest.mark.parametrize(("name", "damage", "message"), DAMAGE)
def test_damaged_arrays_are_refused_with_the_reason(
    name: str, damage: Callable[[dict[str, NDArray[Any]]], None], message: str
) -> None:
    arrays = dict(MODELS[name].arrays())
    damage(arrays)
    with pytest.raises(BadModel, match=message):
        load_model(MODELS[name].kind, arrays, width=4)


ROWS = edge_rows(bundled("iris")[0], np.zeros(0), 40, missing=True, infinite=True)
EDGE_BYTES = (0, 1, 2, 4, 63, 64, 127, 128, 240, 255)


@settings(max_examples=few(400))
@given(data=st.data())
def test_hostile_arrays_are_refused_or_harmless(data: st.DataObject) -> None:
    """Change bytes, or cut, of a stored model: load it, and use it if it loads."""
    name = data.draw(st.sampled_from(sorted(MODELS)))
    arrays = dict(MODELS[name].arrays())
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from(sorted(arrays)))
        array = arrays[key].copy()
        if data.draw(st.integers(0, 9)) == 0:
            arrays[key] = array[: data.draw(st.integers(0, len(array)))]
        elif array.size:
            changed = array.reshape(-1).view(np.uint8)
            position = data.draw(st.integers(0, len(changed) - 1))
            changed[position] = data.draw(st.sampled_from(EDGE_BYTES))
            arrays[key] = array
    try:
        model = load_model(MODELS[name].kind, arrays, width=4)
    except BadModel:
        return
    classes = len(model.classes)
    # gaps and infinities may be refused, damaged numbers overflow
    with np.errstate(all="ignore"), suppress(BadRow):
        assert model.predict_scores(ROWS).shape == (len(ROWS), classes)
        assert model.predict_scores(ROWS.astype(np.float32)).shape[1] == classes
    with np.errstate(all="ignore"), suppress(BadRow):
        assert len(model.answer(ROWS[0].astype(np.float32))[1]) == classes
    with np.errstate(all="ignore"), suppress(BadRow):
        assert 0 <= model.choose(ROWS[0].astype(np.float32)) < classes
