"""What the estimators that are indexes have in common: the learner they are given."""

from typing import Any

import numpy as np
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.ensemble import AdaBoostClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge
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
