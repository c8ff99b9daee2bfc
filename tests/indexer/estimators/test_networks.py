"""Networks as features of estimators, beside names and files."""

import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
from sklearn.base import clone

from polydom.features import network
from polydom.features.errors import BadFeature, BadProject
from polydom.indexer import BudgetClassifier, BudgetRegressor
from tests.support.networks.small_networks import of_columns

ROWS = np.random.default_rng(0).normal(size=(90, 2)).astype(np.float32)
RIGHT = np.where(ROWS[:, 0] > ROWS[:, 1], "left", "right")
OWN = """\
from polydom.features.feature import feature


@feature(kind="record")
def difference(record):
    return [record["x0"] - record["x1"]]
"""


def save_network(folder: Path) -> str:
    onnx.save(of_columns(2), folder / "net.onnx")
    return str(folder / "net.onnx")


def rows() -> list[dict[str, float]]:
    return [{"x0": float(a), "x1": float(b)} for a, b in ROWS]


def test_a_classifier_uses_a_network_beside_a_file(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    terms = network("net", save_network(tmp_path), kind="record", columns=["x0", "x1"])
    model = BudgetClassifier(
        [str(tmp_path / "own.py"), terms],
        learner="logistic",
        search_budget_s=0.5,
        random_state=0,
    )
    model.fit(rows(), RIGHT)
    names = {name for one in model.skyline_ for name in one["features"]}
    assert names <= {"difference", "net_1", "net_2", "net_3"}
    assert (model.predict(rows()) == RIGHT).mean() > 0.9
    again = pickle.loads(pickle.dumps(model))
    (tmp_path / "net.onnx").unlink()  # the index has it
    assert (again.predict(rows()) == model.predict(rows())).all()


def test_terms_are_a_parameter_like_others(tmp_path: Path) -> None:
    terms = network("net", save_network(tmp_path), kind="record", columns=["x0", "x1"])
    for model in (BudgetClassifier(["x", terms]), BudgetRegressor([terms])):
        assert clone(model).get_params() == model.get_params()
        assert clone(model).features[-1] == terms
        assert "NetworkTerms(name='net'" in repr(model)
        assert "std" not in repr(terms)  # of the keys, those that were given
        assert pickle.loads(pickle.dumps(model)).features == model.features
        assert model.set_params(features=[terms]).features == [terms]


def test_terms_that_fit_nothing_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(
        BadProject, match="network 'a': 'side' is unknown; did you mean"
    ):
        network("a", "a.onnx", kind="image", side=[32])
    with pytest.raises(BadProject, match="'a' has sides, which is for images"):
        network("a", "a.onnx", kind="record", sides=[32])
    lost = network("lost", tmp_path / "lost.onnx", kind="record")
    with pytest.raises(BadFeature, match=r"network 'lost': .*lost.onnx: No such file"):
        BudgetClassifier([lost]).fit(rows(), RIGHT)
    path = save_network(tmp_path)
    twice = [network("net", path, kind="record", columns=["x0", "x1"])] * 2
    with pytest.raises(ValueError, match="has the name 'net' twice"):
        BudgetClassifier(twice).fit(rows(), RIGHT)
