"""What is compiled is the library's own class, and answers drawn rows as it does."""

from importlib import import_module
from typing import Any

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.ensemble import (
    BaggingClassifier,
    BaggingRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, Normalizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from polydom.features.errors import BadModel
from polydom.models import compile
from polydom.models.importers.comparison import ROWS, draw_rows
from polydom.models.importers.compile_model import (
    CLASSIFIERS,
    REGRESSORS,
    compilable,
    compile_model,
)
from polydom.models.importers.known_classes import find_class
from polydom.models.importers.transformers import TRANSFORMERS
from tests.support.models.agreement import bundled
from tests.support.models.boosters import lgbm, xgb

X, Y = bundled("iris")


def impostor(name: str, base: type) -> Any:
    """A class of the user's own, of a library's name."""
    return type(name, (base,), {})


class Logarithm(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    norm = "l2"

    def fit(self, X: Any, y: Any = None) -> "Logarithm":
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X: Any) -> Any:
        return np.log1p(X)


class Stubborn(DecisionTreeClassifier):  # type: ignore[misc]
    def predict(self, X: Any, check_input: bool = True) -> Any:
        return np.full(len(X), self.classes_[-1])


@pytest.mark.filterwarnings("ignore:Class PassiveAggressiveClassifier is deprecated")
@pytest.mark.parametrize("full", [*CLASSIFIERS, *REGRESSORS, *TRANSFORMERS])
def test_each_compiled_class_is_where_it_is_said_to_be(full: str) -> None:
    module, _, name = full.rpartition(".")
    kind = getattr(import_module(module), name)
    assert find_class(kind(), [full]) == full
    assert find_class(kind, [full]) is None
    assert find_class(impostor(name, kind)(), [full]) is None


def test_transformer_of_a_librarys_name_is_refused() -> None:
    own = impostor("Normalizer", Logarithm)()
    pipeline = make_pipeline(own, LogisticRegression(max_iter=999))
    message = r"Normalizer, which is not sklearn\.preprocessing\.Normalizer, in a Pipe"
    with pytest.raises(BadModel, match=message):
        compilable(pipeline)
    with pytest.raises(BadModel, match=message):
        compile_model(pipeline.fit(X, Y))


@pytest.mark.parametrize("name", ["DecisionTreeClassifier", "RandomForestClassifier"])
def test_classifier_of_a_librarys_name_is_refused(name: str) -> None:
    fitted = impostor(name, Stubborn)().fit(X, Y)
    with pytest.raises(BadModel, match=f"{name}, which is not sklearn"):
        compile_model(fitted)
    fitted.__class__.__module__ = "sklearn.tree._classes"
    with pytest.raises(BadModel, match=f"{name}, which is not sklearn"):
        compile_model(fitted)


def test_parts_of_a_librarys_name_are_refused() -> None:
    tree = impostor("DecisionTreeClassifier", DecisionTreeClassifier)()
    with pytest.raises(BadModel, match="BaggingClassifier of DecisionTreeClassifier"):
        compile_model(BaggingClassifier(tree, 3).fit(X, Y))
    other = impostor("DecisionTreeRegressor", DecisionTreeRegressor)()
    with pytest.raises(BadModel, match="BaggingRegressor of DecisionTreeRegressor"):
        compile(BaggingRegressor(other, 3).fit(X, Y))
    with pytest.raises(BadModel, match=r"DecisionTreeRegressor, which is not sklearn"):
        compile(other.fit(X, Y))
    steps = impostor("Pipeline", Pipeline)([("tree", DecisionTreeClassifier())])
    with pytest.raises(BadModel, match=r"Pipeline has no compiled form"):
        compile_model(steps.fit(X, Y))


LEARNERS: dict[str, Any] = {
    "linear": LogisticRegression(max_iter=999),
    "scaled": make_pipeline(StandardScaler(), LogisticRegression()),
    "squeezed": make_pipeline(MinMaxScaler(), LogisticRegression()),
    "normalised": make_pipeline(Normalizer(), LogisticRegression(C=1e3, max_iter=999)),
    "bayes": GaussianNB(),
    "forest": RandomForestClassifier(9, random_state=0),
    "boosting": GradientBoostingClassifier(n_estimators=9, random_state=0),
    "histogram": HistGradientBoostingClassifier(max_iter=9),
    "scaled trees": make_pipeline(StandardScaler(), DecisionTreeClassifier()),
    "lightgbm": lgbm(),
    "xgboost": xgb(),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_predict_that_was_replaced_is_found_out(name: str) -> None:
    fitted = clone(LEARNERS[name]).fit(X, Y)
    compile_model(fitted)
    fitted.predict = lambda rows: np.roll(type(fitted).predict(fitted, rows), 1)
    found = rf"disagree on \d+ of {ROWS} drawn rows.*\[|has no answer to a row"
    with pytest.raises(BadModel, match=found):
        compile_model(fitted)


@pytest.mark.parametrize("name", LEARNERS)
def test_drawn_rows_lie_where_the_model_decides(name: str) -> None:
    """More than one class among a dozen rows: they tell models apart."""
    model: Any = compile_model(clone(LEARNERS[name]).fit(X, Y))
    columns = np.arange(4, dtype=np.int32)
    rows = draw_rows(model.scorer, columns, np.random.default_rng(0))
    assert rows.shape == (ROWS, 4)
    assert len(np.unique(model.predict(np.nan_to_num(rows)))) > 1


def test_regressor_whose_predict_was_replaced_is_found_out() -> None:
    fitted = RandomForestRegressor(5, random_state=0).fit(X, Y)
    compile(fitted)
    fitted.predict = lambda rows: 1.01 + type(fitted).predict(fitted, rows)
    with pytest.raises(BadModel, match=f"disagree on {ROWS} of {ROWS} drawn rows"):
        compile(fitted)


def test_estimators_fitted_on_frames_are_compared_by_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=["a", "b", "c", "d"])
    for learner in (LogisticRegression(max_iter=999), lgbm(), xgb()):
        fitted = learner.fit(frame, Y)
        model = compile_model(fitted, np.array([3, 1, 0, 2]))
        moved = np.empty_like(X)
        moved[:, [3, 1, 0, 2]] = X
        np.testing.assert_array_equal(model.predict(moved), fitted.predict(frame))
        fitted.predict = lambda rows: np.full(len(rows), 7)
        with pytest.raises(BadModel, match=r"disagree on|has no answer to a row"):
            compile_model(fitted)
