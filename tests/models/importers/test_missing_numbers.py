"""Missing numbers and models: an answer as the original's, or a refusal, never NaN."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import (
    AdaBoostClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Perceptron, RidgeClassifier
from sklearn.naive_bayes import BernoulliNB, GaussianNB, MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from starlette.testclient import TestClient

from polydom.features.costs.curve import CostTable
from polydom.features.errors import BadRow
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.models import make_learner
from polydom.models.importers.compile_model import compile_model
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.scoring.classifier import Head
from polydom.models.scoring.kernels.link import LARGEST, SOFTMAX
from polydom.models.scoring.prior import Prior
from polydom.server.app import create_app
from tests.support.indexes.free_records import stored
from tests.support.models.agreement import bundled
from tests.support.waiting import until_ready

X, Y = bundled("wine")
X = (X - X.min(axis=0)) / np.ptp(X, axis=0)
TWO = Y > 0

REFUSING: dict[str, Callable[[], Any]] = {
    "logistic": LogisticRegression,
    "scaled": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
    "normalised": lambda: make_pipeline(Normalizer(), RidgeClassifier()),
    "perceptron": Perceptron,
    "gaussian": GaussianNB,
    "bernoulli": lambda: BernoulliNB(binarize=0.5),
    "multinomial": MultinomialNB,
}
TAKING: dict[str, Callable[[], Any]] = {
    "tree": lambda: DecisionTreeClassifier(random_state=0),
    "forest": lambda: RandomForestClassifier(9, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=9),
    "lattices": lambda: LatticeEnsembleClassifier(5, 2, epochs=1, random_state=0),
}


@pytest.mark.parametrize("labels", [Y, TWO], ids=["three", "two"])
@pytest.mark.parametrize("name", REFUSING)
def test_what_scikit_learn_refuses_is_refused(name: str, labels: Any) -> None:
    fitted = REFUSING[name]().fit(X, labels)
    model = compile_model(fitted, np.arange(1, X.shape[1] + 1))
    rows = np.column_stack([np.zeros(len(X)), X]).astype(np.float32)
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(rows[:, 1:]))
    rows[7, 4] = np.nan
    for call in (model.predict, model.predict_scores):
        with pytest.raises(BadRow, match="row 7 has nan in column 4") as raised:
            call(rows)
        assert raised.value.column == 4
    with pytest.raises(ValueError, match="contains NaN"):
        fitted.predict(rows[:, 1:])
    for one in (model.choose, model.answer):
        with pytest.raises(BadRow, match="row 0 has nan in column 4"):
            one(rows[7])
    rows[0] = np.nan  # a column that no model reads, and the first it reads
    with pytest.raises(BadRow, match="column 1;"):
        model.choose(rows[0])


@pytest.mark.parametrize("value", [np.inf, -np.inf])
@pytest.mark.parametrize("name", ["logistic", "gaussian", "scaled"])
def test_infinite_inputs_are_refused(name: str, value: float) -> None:
    model = compile_model(REFUSING[name]().fit(X, Y))
    rows = X.astype(np.float32)
    rows[3, 2] = value
    with pytest.raises(BadRow, match=f"row 3 has {value} in column 2"):
        model.predict_scores(rows)


@pytest.mark.parametrize("name", TAKING)
def test_trees_fitted_without_gaps_take_them_as_scikit_learn_does(name: str) -> None:
    fitted = TAKING[name]().fit(X, Y)
    model = compile_model(fitted)
    rows = X.astype(np.float32)
    rows[np.random.default_rng(0).random(rows.shape) < 0.3] = np.nan
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(rows))
    assert np.isfinite(model.predict_scores(rows)).all()
    rows[:5] = np.inf
    assert np.isfinite(model.predict_scores(rows)).all()


@pytest.mark.parametrize("learner", [GradientBoostingClassifier, AdaBoostClassifier])
def test_boosting_answers_where_scikit_learn_refuses(learner: Any) -> None:
    """A gap goes where most training rows went: the rule of scikit-learn's trees."""
    model = compile_model(learner(n_estimators=5, random_state=0).fit(X, Y))
    rows = np.full((1, X.shape[1]), np.nan, np.float32)
    assert np.isfinite(model.predict_scores(rows)).all()


def test_far_rows_of_naive_bayes_have_scores() -> None:
    model = compile_model(GaussianNB().fit(X, Y))
    scores = model.predict_scores(np.full((1, X.shape[1]), 1e200))
    np.testing.assert_allclose(scores, 1 / 3)


def test_finite_rows_whose_sums_are_no_numbers_are_refused() -> None:
    model = compile_model(LogisticRegression(C=1e4, max_iter=9999).fit(X, Y))
    rows = np.full((2, X.shape[1]), 1.7e308)
    rows[0] = 1.0
    with pytest.raises(BadRow, match="row 1 overflow the model's sums"):
        model.predict(rows)


def test_softmax_of_infinite_scores_is_no_nan() -> None:
    head = Head(np.arange(3), SOFTMAX, LARGEST, 3)
    inf = np.inf
    raw = np.array([[inf, 1, inf], [-inf, -inf, -inf], [1, -inf, 1], [-inf, inf, 0]])
    third = 1 / 3
    expected = np.array(
        [[0.5, 0, 0.5], [third, third, third], [0.5, 0, 0.5], [0, 1, 0]]
    )
    np.testing.assert_allclose(head.scores(raw), expected)


@pytest.mark.parametrize(
    "name",
    ["sklearn.linear_model:LogisticRegression", "sklearn.naive_bayes:GaussianNB"],
)
def test_learners_named_by_module_fill_what_they_cannot_take(name: str) -> None:
    rows = X.copy()
    rows[::5, 3] = np.nan
    fitted = make_learner(name, 0).fit(rows, Y)
    model = compile_model(fitted)
    np.testing.assert_array_equal(model.predict(rows), fitted.predict(rows))
    taking = make_learner("sklearn.ensemble:RandomForestClassifier", 0)
    assert type(taking) is RandomForestClassifier


def save_bare(folder: Path) -> Path:
    """An index of records whose model takes no gaps."""
    features = (stored("person", ["age", "height"]), stored("money", ["income"]))
    rows = np.array([[20.0, 1, 5], [50.0, 2, 7], [30.0, 0, 1], [60.0, 4, 8]])
    model = compile_model(LogisticRegression().fit(rows, [0, 1, 0, 1]))
    package = Package(
        kind="record",
        labels=("no", "yes"),
        features=features,
        costs=CostTable(np.zeros((2, 1)), np.zeros((0, 1)), [(), ()], np.zeros(1)),
        masks=np.array([0, 3], np.uint64),
        orders=((), (0, 1)),
        fallbacks=((0,), (0, 0, 1)),
        models=(Prior.fit(np.array([0, 0, 1])), model),
        model_s=np.zeros(2),
        overhead_s=0.0,
        meta={"unit": "s", "samples": [{"age": 31}]},
    )
    path = folder / "bare.pdx"
    index = Index.from_candidates([[0.0], [1e-6]], [0.5, 0.9], (1, 1), package)
    index.save(path)
    return path


def test_server_refuses_a_record_with_a_gap_its_model_cannot_take(
    tmp_path: Path,
) -> None:
    with TestClient(create_app(save_bare(tmp_path))) as client:
        until_ready(client)
        whole = {"age": 31, "height": 2, "income": 3}
        reply = client.post("/v1/predict", json={"record": whole})
        assert reply.status_code == 200
        assert None not in reply.json()["scores"].values()
        record = {key: value for key, value in whole.items() if key != "height"}
        reply = client.post("/v1/predict", json={"record": record})
        assert (reply.status_code, reply.json()["code"]) == (400, "bad_item")
        message = "no number in column 'height' of feature 'person'"
        assert message in reply.json()["error"]
        items = [{"record": whole}, {"record": record}, {"record": whole}]
        reply = client.post("/v1/batch", json={"items": items, "budget_ms": 900})
        first, failed, last = reply.json()["answers"]
        assert (first["label"], failed["code"]) == (last["label"], "bad_item")
        assert message in failed["error"]


def test_server_asks_no_model_for_whose_feature_nothing_came(tmp_path: Path) -> None:
    with TestClient(create_app(save_bare(tmp_path))) as client:
        until_ready(client)
        reply = client.post("/v1/predict", json={"record": {"age": 31, "height": 2}})
        assert (reply.status_code, reply.json()["features"]) == (200, [])
        better = {"columns": ["income"], "expected_quality": 0.9}
        assert reply.json()["best_next"] == better
