"""What the estimators that are indexes have in common: the learner they are given."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from lightgbm import LGBMClassifier
from scipy.sparse import coo_array, csr_matrix
from sklearn.base import clone
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from polydom.features.errors import BadInput, BadModel
from polydom.indexer import BudgetClassifier, BudgetRegressor

X = np.random.default_rng(0).normal(size=(120, 2))
VALUES = X[:, 0] * 2 - X[:, 1]
Y = VALUES > 0


def classifier(learner: Any) -> BudgetClassifier:
    return BudgetClassifier(learner=learner, search_budget_s=0.5, random_state=0)


FRAME = pd.DataFrame(X, columns=["left", "right"])
FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "numbered": lambda frame: frame.set_axis([0, 1][: frame.shape[1]], axis=1),
    "array": lambda frame: frame.to_numpy(),
    "objects": lambda frame: frame.to_numpy().astype(object),
    "lists": lambda frame: frame.to_numpy().tolist(),
    "sparse": lambda frame: csr_matrix(frame.to_numpy()),
    "coordinates": lambda frame: coo_array(frame.to_numpy()),
    "mappings": lambda frame: frame.to_dict("records"),
}
NAMED = ("pandas", "polars", "arrow", "batch", "mappings")


@pytest.mark.parametrize("form", ["pandas", "batch", "numbered", "array", "mappings"])
def test_columns_are_asked_for_as_of_other_estimators(form: str) -> None:
    """By position, with a warning where names are lost; in another order refused."""
    model = classifier("tree").fit(FORMS[form](FRAME), Y)
    ridge = RidgeClassifier()  # whose names are checked by scikit-learn
    ridge.fit(FRAME if form in NAMED else X, Y)
    swapped = FRAME[["right", "left"]]
    for asked in FORMS.keys() - {"mappings"}:
        ours = FORMS[asked](FRAME)
        theirs = FRAME if asked in NAMED else X
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            ridge.predict(theirs)
            expected = [str(one.message) for one in said]
            model.predict(ours)
        told = [str(one.message) for one in said][len(expected) :]
        names = (RidgeClassifier.__name__, BudgetClassifier.__name__)
        assert told == [one.replace(*names) for one in expected], asked
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert (model.predict(ours) == model.predict(FORMS[form](FRAME))).all()
            with pytest.raises(ValueError, match=r"features, but|feature names should"):
                model.predict(FORMS[asked](FRAME[["left"]]))
            if form in NAMED and asked in NAMED:
                with pytest.raises(ValueError, match="must be in the same order as"):
                    model.predict(FORMS[asked](swapped))


def test_mappings_are_asked_for_by_name() -> None:
    for form in ("pandas", "mappings"):
        model = classifier("tree").fit(FORMS[form](FRAME), Y)
        assert model.feature_names_in_.tolist() == ["left", "right"]
        swapped = FRAME[["right", "left"]].to_dict("records")
        assert (model.predict(swapped) == Y).mean() > 0.9
        with pytest.raises(BadInput, match="item 0 has a column 'lefft' that was not"):
            model.predict([{"lefft": 3.0}])
    texts = model.set_params(features=["casing"]).fit(["a", "B"] * 20, [0, 1] * 20)
    assert not hasattr(texts, "n_features_in_")
    assert not hasattr(texts, "feature_names_in_")


def test_a_budget_may_be_a_parameter_for_tools_that_give_none() -> None:
    model = classifier("tree").set_params(budget_ms=0).fit(X, Y)
    prior = model.predict(X)
    assert len(set(prior)) == 1
    assert (model.predict(X, budget_ms=1000) == Y).mean() > 0.9
    assert (model.predict(X, budget_ms=float("inf")) == Y).mean() > 0.9
    assert model.set_params(budget_ms=None).score(X, Y) > 0.9
    priced = classifier("tree").set_params(costs={"x0": 2.0, "x1": 2.0}, budget=1)
    assert (priced.fit(X, Y).predict(X) == prior).all()
    assert priced.plan(budget=4)["cost"] == 4
    with pytest.raises(BadInput, match="costs are in cost: give budget"):
        priced.set_params(budget=None, budget_ms=3).predict(X)
    with pytest.raises(ValueError, match="The 'budget_ms' parameter"):
        classifier("tree").set_params(budget_ms=-1).fit(X, Y)


def test_items_count_by_their_weights(tmp_path: Path) -> None:
    twice = np.r_[X, X]
    labels = np.r_[Y, ~Y]  # each item once so, once otherwise
    first = np.arange(len(twice)) < len(X)
    groups = np.arange(len(twice)) % len(X)
    for heavy, expected in ((first, Y), (~first, ~Y)):
        weights = np.where(heavy, 5.0, 1.0)
        model = classifier("tree").fit(
            twice, labels, groups=groups, sample_weight=weights
        )
        assert (model.predict(X) == expected).mean() > 0.9
        assert model.skyline_[-1]["accuracy"] > 0.75  # of the weight, 5 / 6 at best
    # what has no weight is not there; a cache keeps what was measured
    model = classifier("tree").set_params(cache=tmp_path)
    ours = model.fit(twice, labels, sample_weight=first).skyline_
    answers = model.predict_proba(X)
    assert ours == model.fit(X, Y).skyline_
    assert (model.predict_proba(X) == answers).all()
    prior = classifier("tree").fit(X, Y, sample_weight=np.where(Y, 1.0, 9.0))
    assert not prior.predict(X, budget_ms=0).any()
    with pytest.raises(BadInput, match="y has one class, True"):
        model.fit(X, Y, sample_weight=Y)


def test_numbers_count_by_their_weights() -> None:
    twice, labels = np.r_[X, X], np.r_[VALUES, -VALUES]
    weights = np.r_[np.full(len(X), 9.0), np.full(len(X), 1.0)]
    model = BudgetRegressor(learner="ridge", search_budget_s=0.5)
    model.fit(twice, labels, sample_weight=weights)
    assert model.score(twice, labels, sample_weight=weights) > 0.3
    assert np.corrcoef(model.predict(X), VALUES)[0, 1] > 0.9


@pytest.mark.parametrize(
    ("learner", "said"),
    [
        ("lda", "LinearDiscriminantAnalysis takes none; another learner is needed"),
        ("tre", "did you mean 'tree'"),
        ({"max_depth": 3}, "name is None; it must be a text"),
    ],
)
def test_learners_without_weights_are_refused_before_any_work(
    learner: Any, said: str
) -> None:
    assert hasattr(classifier(learner), "predict_proba")  # tools may look, and fit
    with pytest.raises(BadInput, match=said):
        classifier(learner).fit(X, Y, sample_weight=np.arange(len(X)))


def test_a_column_is_as_scikit_learn_says_no_table() -> None:
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array instead"):
        classifier("tree").fit(X[:, 0], Y)
    with pytest.raises(BadInput, match="item 0: an item is bytes, str or a mapping"):
        classifier("tree").fit(FRAME["left"], Y)


def test_a_learner_may_be_an_estimator() -> None:
    forest = RandomForestClassifier(n_estimators=3)
    model = classifier(forest).fit(X, Y)
    named = {"name": "sklearn.ensemble:RandomForestClassifier", "n_estimators": 3}
    expected = classifier(named).fit(X, Y)
    np.testing.assert_array_equal(model.predict(X), expected.predict(X))
    assert not hasattr(forest, "classes_")
    assert clone(model).learner.get_params() == forest.get_params()
    numbers = BudgetRegressor(learner=Ridge(alpha=0.1), search_budget_s=0.5)
    assert numbers.fit(X, VALUES).score(X, VALUES) > 0.9


def test_a_search_finds_parameters_of_the_learner() -> None:
    grid = {"learner__max_depth": [1, 4]}
    model = classifier(DecisionTreeClassifier()).set_params(search_budget_s=0.1)
    search = GridSearchCV(model, grid, cv=2)
    assert search.fit(X, Y).best_params_ == {"learner__max_depth": 4}


@pytest.mark.parametrize(
    ("learner", "error", "message"),
    [
        (LGBMClassifier(max_dpeth=3), BadInput, "did you mean 'max_depth'?"),
        ({"name": "lightgbm", "lamda_l2": 1.0}, BadInput, "did you mean 'lambda_l2'?"),
        (MLPClassifier(), BadModel, "MLPClassifier has no compiled form; these have:"),
        (Ridge(), BadInput, "'sklearn.linear_model:Ridge' is for numbers"),
        (AdaBoostClassifier(DecisionTreeClassifier()), BadInput, "estimator is Decis"),
        (
            make_pipeline(StandardScaler(), LogisticRegression()),
            BadModel,
            "a Pipeline came as learner: give the estimator at its end, or one of",
        ),
        (RandomForestClassifier, BadModel, "is a class: give an object of it"),
        (7, ValueError, "The 'learner' parameter of"),
    ],
)
def test_learners_that_cannot_be_are_refused_before_any_work(
    learner: Any, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message.replace("?", r"\?")):
        classifier(learner).fit(X, Y)
