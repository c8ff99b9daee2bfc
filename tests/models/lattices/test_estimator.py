"""The lattice classifier: scikit-learn's rules, accuracy, monotone scores."""

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from polydom.features.errors import BadModel
from polydom.models import compile, make_learner
from polydom.models.importers.compile_model import compile_model
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from tests.support.examples import few
from tests.support.models.agreement import Labelled, assert_agrees, bundled, real

# trained by kernels that others run interpreted
pytestmark = pytest.mark.jit
FEW: dict[str, Any] = {"n_lattices": 6, "epochs": 4, "random_state": 0}


def lattices(**options: Any) -> LatticeEnsembleClassifier:
    return LatticeEnsembleClassifier(**FEW | options)


def part_of(name: str) -> Labelled:
    """Every sixth row of a data set: what is compared is exact for any number."""
    X, y = bundled(name)
    return X[::6].copy(), y[::6]


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [LatticeEnsembleClassifier(8, 3, epochs=60)]
)
def test_it_is_a_scikit_learn_classifier(estimator: Any, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
@pytest.mark.parametrize(
    ("training", "interpolation"),
    [("joint", "multilinear"), ("independent", "multilinear"), ("joint", "simplex")],
)
def test_compiled_lattices_answer_as_the_estimator(
    name: str, training: str, interpolation: str
) -> None:
    X, y = part_of(name)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    X[:, 2] = 7.0
    options = {"training": training, "interpolation": interpolation}
    fitted = lattices(**options).fit(X, y)
    assert_agrees(fitted, X, tolerance=0.0)
    rows = np.random.default_rng(1).normal(0, 1e5, X[:40].shape)
    assert_agrees(fitted, rows.astype(np.float32).astype(np.float64), tolerance=0.0)


def test_lattices_behind_a_scaler_answer_as_the_pipeline() -> None:
    X, y = part_of("breast_cancer")
    fitted = make_pipeline(StandardScaler(), lattices()).fit(X, y)
    assert_agrees(fitted, X, tolerance=0.0)
    assert compile(fitted).size == 6


@pytest.mark.parametrize("training", ["joint", "independent"])
def test_base_scores_sum_to_the_decision_exactly(training: str) -> None:
    X, y = part_of("breast_cancer")
    fitted = lattices(training=training).fit(X, y)
    ensemble = compile(fitted)
    sums = ensemble.base_scores(X).sum(axis=1) - ensemble.threshold
    np.testing.assert_array_equal(sums, fitted.decision_function(X))


def test_one_input_each_and_constant_columns() -> None:
    X = np.column_stack([np.arange(40.0), np.full(40, 3.0), np.full(40, np.nan)])
    y = np.where(X[:, 0] < 15, "no", "yes")
    options = {"inputs_per_lattice": 1, "n_lattices": 3, "epochs": 60, "l2": 0.1}
    fitted = lattices(**options).fit(X, y)
    assert fitted.score(X, y) >= 0.95
    assert_agrees(fitted, X, tolerance=0.0)


def test_equal_seeds_give_equal_lattices_and_others_others() -> None:
    X, y = part_of("wine")
    first, second, third = (
        lattices(random_state=seed).fit(X, y).lattices_.arrays() for seed in (3, 3, 4)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])
    assert not np.array_equal(first["vertices"], third["vertices"])


TWO = bundled("breast_cancer")
SIGNS = {0: 1, 1: -1, 3: 1, 7: -1, 20: 1}
KINDS = [
    (training, interpolation)
    for training in ("joint", "independent")
    for interpolation in ("multilinear", "simplex")
]


@functools.cache
def monotonic(training: str, interpolation: str) -> LatticeEnsembleClassifier:
    options: dict[str, Any] = {"training": training, "interpolation": interpolation}
    more = {"inputs_per_lattice": 4, "n_lattices": 20, "epochs": 12}
    return lattices(monotonic=SIGNS, **options, **more).fit(TWO[0][::9], TWO[1][::9])


@pytest.mark.parametrize("kind", KINDS, ids=" ".join)
@settings(max_examples=few(40))
@given(data=st.data())
def test_scores_follow_the_inputs_that_they_must_to_the_last_bit(
    kind: tuple[str, str], data: st.DataObject
) -> None:
    fitted = monotonic(*kind)
    draw = np.random.default_rng(data.draw(st.integers(0, 9999)))
    X = TWO[0][draw.integers(0, len(TWO[0]), few(60))]
    higher = X.copy()
    moved = [c for c in SIGNS if draw.random() < 0.5]
    for column in moved:
        scale = np.ptp(TWO[0][:, column]) * 10.0 ** draw.integers(-17, 2)
        rise = np.abs(draw.normal(0, scale, len(X)))
        higher[:, column] = X[:, column] + SIGNS[column] * rise
        beside = np.nextafter(X[:, column], SIGNS[column] * np.inf)
        swapped = draw.random(len(X)) < 0.3
        higher[swapped, column] = beside[swapped]
    below, above = fitted.decision_function(X), fitted.decision_function(higher)
    assert (above >= below).all()


def test_a_monotone_input_is_used_where_it_helps() -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(600, 3))
    y = (X[:, 0] - X[:, 1] + 0.1 * draw.normal(size=600) > 0).astype(int)
    right = lattices(epochs=40, monotonic={0: 1, 1: -1}).fit(X, y)
    wrong = lattices(epochs=40, monotonic={0: -1, 1: 1}).fit(X, y)
    assert right.score(X, y) > 0.93
    assert wrong.score(X, y) < 0.7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_lattices": 0}, "'n_lattices' parameter"),
        ({"inputs_per_lattice": 11}, "'inputs_per_lattice' parameter"),
        ({"keypoints": 1}, "'keypoints' parameter"),
        ({"training": "both"}, "'training' parameter"),
        ({"interpolation": "cubic"}, "'interpolation' parameter"),
        ({"l2": -1.0}, "'l2' parameter"),
        ({"monotonic": {30: 1}}, "column 30 is not one of the 30 from 0 on"),
        ({"monotonic": {2: 3}}, "column 2 has 3"),
    ],
)
def test_unusable_options_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        lattices(**options).fit(*TWO)


def test_monotone_scores_are_for_two_classes() -> None:
    with pytest.raises(ValueError, match="for two classes; the data has 3"):
        lattices(monotonic={0: 1}).fit(*bundled("wine"))


def test_unfitted_lattices_are_not_compiled() -> None:
    with pytest.raises(BadModel, match="LatticeEnsembleClassifier is not fitted"):
        compile_model(lattices())


def test_adult_is_learned_better_than_by_a_line(data: Path) -> None:
    X, y = real("adult", data)
    train, test = slice(0, 24_000), slice(24_000, None)
    learner = make_learner({"name": "lattices", "epochs": 3}, seed=0)
    fitted = learner.fit(X[train], y[train])
    line = make_pipeline(StandardScaler(), LogisticRegression()).fit(X[train], y[train])
    assert fitted.score(X[test], y[test]) > line.score(X[test], y[test]) + 0.02
    compiled = compile_model(fitted)
    expected: NDArray[np.int64] = fitted.predict(X[test])
    np.testing.assert_array_equal(compiled.predict(X[test]), expected)
