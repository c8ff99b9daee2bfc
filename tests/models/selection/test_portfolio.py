import warnings
from functools import partial
from importlib.util import find_spec

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_wine

from polydom.features.errors import BadInput
from polydom.features.threads import one_thread
from polydom.models.importers.compile_model import compile_model
from polydom.models.selection import portfolio
from polydom.models.selection.arms import last_step
from polydom.models.selection.portfolio import (
    BOOSTED,
    BOOSTED_NUMBERS,
    NUMBERS,
    SERVABLE,
    installed,
    make_portfolio,
)
from polydom.models.selection.select import select

X, y = load_breast_cancer(return_X_y=True)
X = X.astype(np.float32).astype(np.float64)


def test_servable_holds_thirty_settings_of_many_families() -> None:
    learners = make_portfolio(SERVABLE, seed=0)
    assert list(learners) == list(SERVABLE)
    assert len(learners) >= 30
    kinds = {
        type(getattr(one, "steps", [[0, one]])[-1][1]) for one in learners.values()
    }
    assert len(kinds) >= 15


def test_installed_is_what_is_servable_and_the_libraries_that_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there = [name for name in BOOSTED if find_spec(name.partition(",")[0])]
    assert list(installed()) == [*SERVABLE, *there]
    monkeypatch.setattr(portfolio, "find_spec", lambda name: None)
    assert installed() == SERVABLE
    assert installed("regression") == NUMBERS


def test_numbers_have_many_families_and_the_libraries_too() -> None:
    learners = make_portfolio(NUMBERS, 0, "regression")
    assert list(learners) == list(NUMBERS)
    assert len({type(last_step(one)) for one in learners.values()}) >= 12
    there = [name for name in BOOSTED_NUMBERS if find_spec(name.partition(",")[0])]
    assert list(installed("regression")) == [*NUMBERS, *there]
    with pytest.raises(BadInput, match=r"portfolio, 'ridge, strong': .*classes"):
        make_portfolio({"ridge, strong": {"name": "lda"}}, 0, "regression")


@pytest.mark.parametrize("name", installed("regression"))
def test_every_raced_learner_of_numbers_compiles(name: str) -> None:
    setting = installed("regression")[name]
    (learner,) = make_portfolio({name: setting}, 0, "regression").values()
    few = {"n_estimators": 8, "max_iter": 8} if "boost" in name else {"n_estimators": 8}
    learner.set_params(**{k: v for k, v in few.items() if k in learner.get_params()})
    values = X[:, 0] + y
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # convergence is not what is tested
        learner.fit(X[:300], values[:300])
    found, expected = compile_model(learner).predict(X[300:]), learner.predict(X[300:])
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("name", installed())
def test_every_raced_learner_compiles_and_answers_as_it_predicts(name: str) -> None:
    (learner,) = make_portfolio({name: installed()[name]}, seed=0).values()
    few = {"n_estimators": 8, "max_iter": 8} if "boost" in name else {"n_estimators": 8}
    learner.set_params(**{k: v for k, v in few.items() if k in learner.get_params()})
    with warnings.catch_warnings(), one_thread():
        warnings.simplefilter("ignore")  # convergence is not what is tested
        learner.fit(X[:300], y[:300])
    model = compile_model(learner)
    assert np.array_equal(model.predict(X[300:400]), learner.predict(X[300:400]))


def test_select_chooses_from_the_whole_servable_portfolio_without_a_failure() -> None:
    rows, classes = load_wine(return_X_y=True)
    settings = {
        name: setting
        for name, setting in SERVABLE.items()
        if "300" not in name and "200" not in name
    }
    chosen = select(make_portfolio(settings, seed=0), rows, classes)
    assert not chosen.failed
    assert chosen.score > 0.95


def test_select_takes_the_boosting_libraries_that_are_installed() -> None:
    settings = {k: v for k, v in installed().items() if k in BOOSTED}
    if not settings:
        pytest.skip("neither lightgbm nor xgboost is installed")
    chosen = select(make_portfolio(settings, seed=0), X, y)
    assert not chosen.failed
    assert chosen.score > 0.9


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "holds no settings"),
        ({"mine": {"name": "lojistic"}}, "portfolio, 'mine': .*'logistic'"),
        ({"mine": {"name": "sklearn.svm:SVC"}}, "portfolio, 'mine': .*compiled form"),
    ],
    ids=["empty", "misspelt", "not servable"],
)
def test_make_portfolio_names_the_setting_that_is_wrong(
    settings: dict[str, dict[str, str]], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        partial(make_portfolio, seed=0)(settings)
