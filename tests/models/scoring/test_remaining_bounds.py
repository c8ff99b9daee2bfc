"""Exact early exits from bounds on the base models' scores."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier
from sklearn.linear_model import RidgeClassifier

from polydom.features.errors import BadInput
from polydom.models import compile
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.qwyc.schedule import Schedule
from polydom.models.scoring.remaining_bounds import RemainingBounds, bound_remaining
from tests.support.models.agreement import bundled, edge_rows

Floats = NDArray[np.float64]


def stopping(remainder: RemainingBounds, threshold: float) -> Schedule:
    return Schedule(remainder.order, *remainder.limits(threshold), threshold)


# A range from 0.0 to -0.0 is refused by Hypothesis, so there is one zero.
small = st.floats(-10, 10, allow_subnormal=False).map(lambda number: number + 0.0)


@given(
    st.lists(st.tuples(small, small).map(sorted), min_size=1, max_size=5),
    st.data(),
    small,
)
def test_bounds_never_change_a_decision(
    bounds: list[list[float]], data: st.DataObject, threshold: float
) -> None:
    least, most = np.array(bounds).T
    rows = [[data.draw(st.floats(low, high)) for low, high in bounds] for _ in range(5)]
    remainder = bound_remaining(least, most)
    schedule = stopping(remainder, threshold)
    scores = np.array(rows)
    decisions, _ = schedule.evaluate(scores)
    whole = np.array([sum(row) for row in scores[:, schedule.order].tolist()])
    assert (decisions == (whole >= threshold)).all()


@given(
    st.lists(st.tuples(small, small).map(sorted), min_size=1, max_size=5),
    st.data(),
    st.floats(0, 10),
)
def test_enough_is_within_tolerance_for_every_row(
    bounds: list[list[float]], data: st.DataObject, tolerance: float
) -> None:
    remainder = bound_remaining(*np.array(bounds).T)
    used, middle = remainder.enough(tolerance)
    row = np.array([data.draw(st.floats(low, high)) for low, high in bounds])
    ordered = row[remainder.order]
    assert abs(ordered[:used].sum() + middle - ordered.sum()) <= tolerance + 1e-9


def test_bounds_stop_as_soon_as_the_rest_is_too_small() -> None:
    remainder = bound_remaining(np.array([0.0, -4.0, -1.0]), np.array([0.5, 4.0, 1.0]))
    assert remainder.order.tolist() == [1, 2, 0]
    rows = np.array([[0.5, 3.0, -1.0], [0.5, 0.5, 0.5], [0.0, -3.0, 1.0]])
    decisions, used = stopping(remainder, 0.0).evaluate(rows)
    assert decisions.tolist() == [True, True, False]
    assert used.tolist() == [1, 2, 1]
    assert remainder.enough(0.0) == (3, 0.0)
    assert remainder.enough(0.3)[0] == 2
    assert remainder.enough(0.3)[1] == pytest.approx(0.25)


@pytest.mark.parametrize(
    ("least", "most", "reason"),
    [
        ([], [], r"shapes \(0,\)"),
        ([0.0], [0.0, 1.0], r"shapes \(1,\) and \(2,\)"),
        ([0.0, 2.0], [0.0, 1.0], "base model 1 has bounds 2.0 and 1.0"),
        ([np.nan], [0.0], "base model 0 has bounds nan"),
        ([0.0], [np.inf], "base model 0 has bounds 0.0 and inf"),
    ],
)
def test_bounds_say_what_is_wrong(
    least: list[float], most: list[float], reason: str
) -> None:
    with pytest.raises(BadInput, match=reason):
        bound_remaining(np.array(least), np.array(most))


def test_bounds_refuse_a_threshold_or_tolerance_that_is_no_number() -> None:
    remainder = bound_remaining(np.zeros(2), np.ones(2))
    with pytest.raises(BadInput, match="threshold is nan"):
        remainder.limits(np.nan)
    with pytest.raises(BadInput, match="tolerance is -1"):
        remainder.enough(-1.0)


def test_bounds_of_trees_are_their_smallest_and_largest_leaves() -> None:
    X, y = bundled("breast_cancer")
    fitted = GradientBoostingClassifier(n_estimators=7, random_state=0).fit(X, y)
    least, most = compile(fitted).bounds()
    leaves = [
        0.1 * tree.tree_.value[tree.tree_.children_left < 0].ravel()
        for (tree,) in fitted.estimators_
    ]
    np.testing.assert_array_equal(least, [values.min() for values in leaves])
    np.testing.assert_array_equal(most, [values.max() for values in leaves])


@pytest.mark.parametrize("interpolation", ["multilinear", "simplex"])
def test_no_row_leaves_the_bounds_of_lattices(interpolation: Any) -> None:
    X, y = bundled("breast_cancer")
    fitted = LatticeEnsembleClassifier(
        n_lattices=4, inputs_per_lattice=3, interpolation=interpolation, random_state=0
    ).fit(X, y)
    ensemble = compile(fitted)
    least, most = ensemble.bounds()
    scores = ensemble.base_scores(edge_rows(X, X[0], 300, missing=True))
    assert (scores >= least).all()
    assert (scores <= most).all()
    assert (least < most).all()


def test_what_has_no_bounds_says_so() -> None:
    X, y = bundled("iris")
    several = compile(GradientBoostingClassifier(n_estimators=2).fit(X, y))
    with pytest.raises(BadInput, match="only an ensemble for two classes"):
        several.bounds()
    least, most = several.terms.bounds()
    assert least.shape == most.shape == (2, 3)
    linear = compile(RidgeClassifier().fit(X, y == 1))
    with pytest.raises(BadInput, match="terms of a linear model have no bounds"):
        linear.bounds()
