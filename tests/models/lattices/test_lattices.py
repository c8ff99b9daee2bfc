"""Lattices: exact interpolation, calibrators, storage, early exit."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadModel
from polydom.models import Schedule
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.lattices.lattices import Lattices, make_lattices
from polydom.models.load import load_model
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LARGEST, LOGISTIC, POSITIVE, SOFTMAX
from polydom.models.scoring.preparation import plain
from tests.support.examples import few
from tests.support.models.agreement import stored_and_loaded
from tests.support.oracles.early_exit import walk_early
from tests.support.oracles.lattices import calibrated_value, interpolated

D = 5


def drawn(
    seed: int, T: int = 6, S: int = 3, R: int = 1, P: int = 4, simplex: bool = False
) -> Lattices:
    """Lattices with nothing learned in them."""
    draw = np.random.default_rng(seed)
    return make_lattices(
        plain(np.arange(D)),
        np.sort(draw.normal(size=(D, P)), axis=1).astype(np.float32),
        np.stack([draw.permutation(D)[:S] for _ in range(T)]),
        draw.random((T, S, P + 1)),
        draw.normal(size=(T, R, 2**S)) * 10.0 ** draw.integers(-6, 6),
        draw.normal(size=R),
        simplex,
    )


def classifier(lattices: Lattices) -> Classifier:
    R = lattices.outputs
    link, rule = (LOGISTIC, POSITIVE) if R == 1 else (SOFTMAX, LARGEST)
    return Classifier(lattices.with_packed(), Head(np.arange(max(R, 2)), link, rule, R))


def rows(lattices: Lattices, seed: int, count: int = 20) -> NDArray[np.float32]:
    """Rows with values between, at and beyond keypoints, and missing ones."""
    draw = np.random.default_rng(seed)
    X = draw.normal(0, 2, (count, D))
    at = draw.random(X.shape) < 0.3
    X[at] = draw.choice(lattices.knots.ravel(), at.sum())
    X[draw.random(X.shape) < 0.1] = np.nan
    X[draw.random(X.shape) < 0.05] = np.inf
    X[draw.random(X.shape) < 0.05] = -1e38
    return X.astype(np.float32)


@given(seed=st.integers(0, 9999), S=st.integers(1, D), R=st.sampled_from([1, 3]))
def test_scores_are_sums_over_vertices_of_products_of_weights(
    seed: int, S: int, R: int
) -> None:
    lattices = drawn(seed, S=S, R=R)
    X = rows(lattices, seed, 5)
    scores = lattices.base_scores(X)
    assert scores.shape == (5, 6, R)
    largest = np.abs(lattices.vertices).max() * lattices.unit
    for i, t, r in np.ndindex(scores.shape):
        calibrated = [
            calibrated_value(
                float(X[i, j]),
                lattices.knots[j].tolist(),
                lattices.calibrations[t, s, :-1] / 2**20,
            )
            for s, j in enumerate(lattices.inputs[t])
        ]
        vertices = (lattices.vertices[t, r] * lattices.unit).tolist()
        expected = interpolated(vertices, calibrated)
        assert scores[i, t, r] == pytest.approx(expected, abs=1e-5 * largest)


@settings(max_examples=few(30))
@given(seed=st.integers(0, 9999), R=st.sampled_from([1, 3]), simplex=st.booleans())
def test_sums_are_exact_in_any_order(seed: int, R: int, simplex: bool) -> None:
    lattices = drawn(seed, T=25, R=R, simplex=simplex)
    X = rows(lattices, seed)
    order = np.random.default_rng(seed).permutation(25)
    scores = lattices.base_scores(X)[:, order]
    walked = np.zeros((len(X), R))
    for t in range(25):
        walked += scores[:, t]
    np.testing.assert_array_equal(walked + lattices.bias, lattices.raw(X))
    np.testing.assert_array_equal(lattices.raw(X.astype(np.float64)), lattices.raw(X))


@given(seed=st.integers(0, 9999), simplex=st.booleans(), data=st.data())
def test_what_ascends_in_its_numbers_ascends_in_its_scores(
    seed: int, simplex: bool, data: st.DataObject
) -> None:
    lattices = drawn(seed, S=3, simplex=simplex)
    column = data.draw(st.integers(0, D - 1))
    calibrations, vertices = lattices.calibrations.copy(), lattices.vertices.copy()
    for t, s in zip(*np.nonzero(lattices.inputs == column), strict=True):
        calibrations[t, s, :-2].sort()
        vertices[t].reshape(1, 8 >> (s + 1), 2, 1 << s).sort(axis=2)
    lattices = replace(lattices, calibrations=calibrations, vertices=vertices)
    row = rows(lattices, seed, 1)[0].astype(np.float64)
    knots = lattices.knots[column]
    values = np.random.default_rng(seed).uniform(knots[0] - 0.1, knots[-1] + 0.1, 99)
    beside = [np.nextafter(v, w) for v in [*knots, *values] for w in (-9, 9)]
    values = np.sort(np.concatenate([knots, values, beside]))
    X = np.tile(row, (len(values), 1))
    X[:, column] = values
    assert (np.diff(lattices.raw(X)[:, 0]) >= 0).all()


@pytest.mark.parametrize("R", [1, 3])
@pytest.mark.parametrize("simplex", [False, True])
def test_stored_lattices_answer_alike(R: int, simplex: bool) -> None:
    lattices = drawn(3, R=R, simplex=simplex)
    model, X = classifier(lattices), rows(lattices, 3)
    again: Any = stored_and_loaded(model, D)
    assert again.scorer.simplex == simplex
    np.testing.assert_array_equal(again.predict_scores(X), model.predict_scores(X))
    for row, scores in zip(X, model.predict_scores(X), strict=True):
        chosen = again.choose(row)
        assert again.answer(row) == (chosen, scores.tolist())
    strided = np.repeat(X[0], 2)[::2]
    assert again.choose(strided) == again.choose(X[0])
    with pytest.raises(BadInput, match="width > 4"):
        again.predict(X[:, :4])


def test_one_lattice_over_one_input_is_its_calibrator() -> None:
    lattices = make_lattices(
        plain(np.array([2])),
        np.array([[0.0, 1.0, 4.0]]),
        np.array([[0]]),
        np.array([[[0.0, 0.5, 1.0, 0.25]]]),
        np.array([[[0.0, 8.0]]]),
        np.array([1.0]),
    )
    X = np.zeros((8, 3))
    X[:, 2] = [-5.0, 0.0, 0.5, 1.0, 2.5, 4.0, 9.0, np.nan]
    expected = [1.0, 1.0, 3.0, 5.0, 7.0, 9.0, 9.0, 3.0]
    np.testing.assert_array_equal(lattices.raw(X)[:, 0], expected)


@settings(max_examples=few(60))
@given(seed=st.integers(0, 9999), simplex=st.booleans())
def test_early_decisions_are_those_of_a_walk_by_hand(seed: int, simplex: bool) -> None:
    lattices = drawn(seed, T=12, simplex=simplex)
    ensemble = as_ensemble(classifier(lattices))
    X = rows(lattices, seed)
    scores = ensemble.base_scores(X)
    draw = np.random.default_rng(seed)
    spread = np.abs(scores).sum(axis=1).mean()
    limits = ensemble.threshold + np.sort(draw.normal(0, spread, (12, 2)), axis=1)
    # Some limits are sums that occur: at a limit itself a row goes on.
    order = draw.permutation(12)
    sums = scores[:, order].cumsum(axis=1)
    limits[0, 0] = min(sums[0, 0], limits[0, 1])
    plan = Schedule(order, limits[:, 0], limits[:, 1], ensemble.threshold)
    exit_ = ensemble.early_exit(plan)
    chosen, used = exit_.choices(X)
    np.testing.assert_array_equal(exit_.choices(X.astype(np.float64)), (chosen, used))
    lower, upper = limits.T
    slow = walk_early(scores, order.tolist(), lower, upper, ensemble.threshold)
    assert (chosen.tolist(), used.tolist()) == slow
    assert [exit_.choose(row) for row in X] == slow[0]


def _set(name: str, place: Any, value: Any) -> Any:
    def damage(arrays: dict[str, Any]) -> None:
        arrays[name] = arrays[name].copy()
        arrays[name][place] = value

    return damage


def _put(name: str, array: Any) -> Any:
    def damage(arrays: dict[str, Any]) -> None:
        arrays[name] = array

    return damage


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_set("knots", (0, 0), 99.0), "2 keypoints or more, ascending"),
        (_set("knots", (0, 0), np.nan), "'knots' holds NaN"),
        (
            _set("knots", (0, slice(None)), [-1e308, 1e308, 1.1e308, 1.2e308]),
            "ascending",
        ),
        (_put("knots", np.zeros((D, 1))), "2 keypoints or more"),
        (_set("inputs", (0, 0), D), "'inputs' leaves the range 0 to 4"),
        (_set("inputs", (0, 0), -1), "'inputs' leaves the range"),
        (_put("inputs", np.zeros((0, 3), np.int32)), "0 lattices over 3 inputs"),
        (_put("inputs", np.zeros((1, 60), np.int32)), "1 lattices over 60 inputs"),
        (_set("calibrations", (0, 0, 0), 2**20 + 1), "'calibrations' leaves"),
        (_set("calibrations", (0, 0, 0), -1), "'calibrations' leaves"),
        (_set("vertices", (0, 0, 0), 2**30 + 1), "'vertices' leaves the range"),
        (_put("vertices", np.zeros((6, 1, 4), np.int32)), r"it must be \(6, 1, 8\)"),
        (_set("bias", 0, 1e300), "too small for its bias"),
        (_set("bias", 0, 1e-300), "no whole number of units"),
        (_put("bias", np.zeros(2)), "2 raw scores"),
        (_put("simplex", np.array([2], np.uint8)), "'simplex' leaves the range 0 to 1"),
        (_put("unit", np.array([0.3])), "no power of two"),
        (_put("unit", np.array([0.0])), "no power of two"),
        (_put("unit", np.array([-0.5])), "no power of two"),
    ],
)
def test_damaged_arrays_are_refused(damage: Any, message: str) -> None:
    arrays = classifier(drawn(1)).arrays()
    damage(arrays)
    with pytest.raises(BadModel, match=message):
        load_model("lattices", arrays, width=D)
