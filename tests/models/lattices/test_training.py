"""How lattices learn: slopes against differences, and sums stretched to fit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.lattices.kernels.training import Model, gradient, sum_rows
from polydom.models.lattices.training import locate_all, start, stretch
from tests.support.examples import few

Floats = NDArray[np.float64]


def log_loss(raw: Floats, y: NDArray[np.int64]) -> float:
    """Sum over rows, of raw scores (N, 1) or (N, K)."""
    if raw.shape[1] == 1:
        raw = np.column_stack([np.zeros(len(raw)), raw])
    shares = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    return float(-np.log(shares[np.arange(len(y)), y]).sum())


@settings(max_examples=few(25), deadline=None)
@given(
    seed=st.integers(0, 9999),
    K=st.sampled_from([2, 3]),
    joint=st.booleans(),
    simplex=st.booleans(),
)
def test_slopes_are_those_of_the_loss(
    seed: int, K: int, joint: bool, simplex: bool
) -> None:
    draw = np.random.default_rng(seed)
    N, d, T, S, P, R = 9, 4, 3, 2, 3, 1 if K == 2 else K
    X, y = draw.normal(size=(N, d)), np.append(np.arange(K), draw.integers(0, K, N - K))
    X[0, 0] = np.nan
    knots = np.sort(draw.normal(size=(d, P)), axis=1)
    inputs = np.stack([draw.permutation(d)[:S] for _ in range(T)]).astype(np.int32)
    learned = start(y, (T, R, S, P), np.zeros((T, S), np.int64))
    for array in learned:
        array[...] = draw.random(array.shape)
    placed = locate_all(X, knots)
    model = Model(*placed, inputs, simplex, *learned[:2])

    def loss() -> float:
        sums = np.empty((N, R))
        if joint:
            sum_rows(model, sums)
            return log_loss(sums + learned.bias, y)
        total = 0.0
        for t in range(T):
            own = (a[t : t + 1] for a in learned[:2])
            sum_rows(Model(*placed, inputs[t : t + 1], simplex, *own), sums)
            total += log_loss(sums + learned.bias, y)
        return total

    slopes = [np.zeros_like(array) for array in learned]
    gradient(np.arange(N), y, joint, model, learned.bias, *slopes)
    # Alone, lattices keep the bias that they have.
    for array, slope in list(zip(learned, slopes, strict=True))[: 3 if joint else 2]:
        for at in np.ndindex(array.shape):
            here, sides = array[at], []
            for move in (1e-6, -1e-6):
                array[at] = here + move
                sides.append(loss())
            array[at] = here
            difference = (sides[0] - sides[1]) / 2e-6
            assert slope[at] == pytest.approx(difference, abs=1e-6, rel=1e-4)


@pytest.mark.parametrize("K", [2, 4])
def test_stretched_sums_are_a_logistic_regression(K: int) -> None:
    draw = np.random.default_rng(K)
    N, R = 4000, 1 if K == 2 else K
    y = draw.choice(K, N, p=np.array([9.0, *[1.0] * (K - 1)]) / (8 + K))
    sums = draw.normal(size=(N, R)) * 0.1
    sums[np.arange(N), y - 1 if K == 2 else y] += 0.1 * (y > 0 if K == 2 else 1)
    slope, bias = stretch(sums, y, np.zeros(R))
    raw = slope * sums + bias
    if K == 2:
        line = LogisticRegression(C=1e6).fit(sums, y)
        expected = [line.coef_[0, 0], line.intercept_[0]]
        assert [slope, bias[0]] == pytest.approx(expected, rel=0.05)
        assert (1 / (1 + np.exp(-raw))).mean() == pytest.approx(y.mean(), rel=0.01)
    best = log_loss(raw, y)
    for other in (0.9 * slope, 1.1 * slope):
        assert best < log_loss(other * sums + bias, y)


def test_sums_that_tell_all_apart_or_nothing_are_stretched_with_measure() -> None:
    y = np.repeat([0, 1], 50)
    slope, bias = stretch(np.where(y, 1.0, -1.0)[:, None], y, np.zeros(1))
    assert 1.0 < slope < 100.0
    assert abs(bias[0]) < 1e-6
    slope, bias = stretch(np.zeros((100, 1)), y, np.array([7.0]))
    assert slope == 1.0
    assert abs(bias[0]) < 0.5
    # What falls where it should rise would turn promises round.
    slope, bias = stretch(np.where(y, -1.0, 1.0)[:, None], y, np.array([3.0]))
    assert (slope, bias[0]) == (0.0, 3.0)


def rare(seed: int, N: int = 6000) -> tuple[Floats, NDArray[np.int64]]:
    """Rows of which about one in thirty is positive, for reasons of several columns."""
    draw = np.random.default_rng(seed)
    X = draw.normal(size=(N, 8))
    signal = X[:, 0] + X[:, 1] * (X[:, 2] > 0) + np.abs(X[:, 3]) + 0.5 * X[:, 4]
    return X, (signal + 0.3 * draw.normal(size=N) > 3.6).astype(np.int64)


@pytest.mark.jit
@pytest.mark.parametrize("interpolation", ["multilinear", "simplex"])
def test_lattices_trained_alone_find_rare_positives(interpolation: Any) -> None:
    X, y = rare(0)
    fresh, truth = rare(1)
    assert 0.02 < y.mean() < 0.05
    found, ranked = {}, {}
    for training in ("joint", "independent"):
        learner = LatticeEnsembleClassifier(
            30,
            4,
            training=training,
            interpolation=interpolation,
            random_state=0,
        ).fit(X, y)
        raw = learner.decision_function(fresh)
        found[training] = (raw[truth == 1] > 0).mean()
        ranked[training] = roc_auc_score(truth, raw)
        shares = learner.predict_proba(X)[:, 1]
        assert shares.mean() == pytest.approx(y.mean(), rel=0.2)
    assert found["independent"] > 0.35  # hardly any, if sums are left as they are
    assert ranked["independent"] > ranked["joint"] - 0.03
