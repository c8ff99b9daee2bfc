"""Gaussian naive Bayes against scikit-learn."""

import numpy as np
import pytest
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.errors import BadModel
from polydom.models.importers.compile_model import compile_model
from tests.support.models.agreement import BUNDLED, assert_agrees, bundled, edge_rows


@pytest.mark.parametrize("name", BUNDLED)
def test_gaussian_bayes_decides_as_scikit_learn(name: str) -> None:
    X, y = bundled(name)
    assert_agrees(GaussianNB().fit(X[::2], y[::2]), X)


def test_gaussian_bayes_decides_as_scikit_learn_on_drawn_rows() -> None:
    X, y = bundled("wine")
    fitted = make_pipeline(StandardScaler(), GaussianNB()).fit(X, y)
    rows = edge_rows(X, fitted[-1].theta_.reshape(-1), 300)
    assert_agrees(fitted, np.clip(rows, -1e18, 1e18))


def test_gaussian_bayes_of_one_class_is_certain() -> None:
    model = compile_model(GaussianNB().fit([[0.0], [1.0]], [4, 4]))
    assert model.answer(np.zeros(1, np.float32)) == (0, [1.0])


def test_gaussian_bayes_without_variance_is_refused() -> None:
    fitted = GaussianNB(var_smoothing=0.0)
    fitted.fit([[0.0, 1.0], [0.0, 2.0], [0.0, 5.0], [0.0, 7.0]], [0, 0, 1, 1])
    with pytest.raises(BadModel, match="an input without variance"):
        compile_model(fitted)
