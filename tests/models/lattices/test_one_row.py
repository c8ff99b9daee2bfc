"""Lattices sixteen at a time, against one at a time and against exact fractions."""

from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.models.lattices.kernels.vector_steps import LANES
from polydom.models.lattices.lattices import MOST_INPUTS, Lattices, make_lattices
from polydom.models.lattices.one_row import (
    MOST_KEYPOINTS,
    pack_lattices,
    sorting_network,
)
from polydom.models.scoring.preparation import plain
from polydom.models.scoring.scorer import PackedTerms
from polydom.models.scoring.stopping_rule import (
    BEST,
    UNDECIDED,
    Limits,
    Margins,
    Never,
    Stops,
)
from tests.support.examples import few
from tests.support.oracles.lattices import calibrated_value, on_simplex

WIDE = 12  # columns of the rows
NEVER = np.inf


@dataclass(frozen=True)
class Sizes:
    """Of an ensemble: lattices, inputs, raw scores, keypoints."""

    T: int = 20
    S: int = 3
    R: int = 1
    P: int = 5
    simplex: bool = True


def drawn(seed: int, sizes: Sizes) -> Lattices:
    """Lattices with nothing learned, and inputs that are often equal."""
    draw = np.random.default_rng(seed)
    T, S, R, P = sizes.T, sizes.S, sizes.R, sizes.P
    calibrations = draw.random((T, S, P + 1))
    calibrations = np.where(draw.random(calibrations.shape) < 0.4, 0.5, calibrations)
    calibrations[draw.random(calibrations.shape) < 0.1] = draw.integers(2)
    return make_lattices(
        plain(draw.permutation(WIDE)),
        np.sort(draw.normal(size=(WIDE, P)), axis=1).astype(np.float32),
        np.stack([draw.permutation(WIDE)[:S] for _ in range(T)]),
        calibrations,
        draw.normal(size=(T, R, 2**S)) * 10.0 ** draw.integers(-6, 6),
        draw.normal(size=R),
        sizes.simplex,
    )


def rows(lattices: Lattices, seed: int, count: int = 40) -> NDArray[np.float32]:
    """Rows with values between, at, beside and beyond keypoints, and missing ones."""
    draw = np.random.default_rng(seed)
    X = draw.normal(0, 1.5, (count, WIDE)).astype(np.float32)
    at = draw.random(X.shape) < 0.3
    X[at] = draw.choice(lattices.knots.ravel(), at.sum())
    beside = draw.random(X.shape) < 0.1
    X[beside] = np.nextafter(X[beside], draw.choice([-9, 9], beside.sum()))
    odd = draw.random(X.shape) < 0.2
    X[odd] = draw.choice([np.nan, np.inf, -np.inf, 3e38, -3e38, 1e-45, -0.0], odd.sum())
    X[-1] = np.nan
    return X


def plainly(lattices: Lattices, X: Any) -> NDArray[np.float64]:
    """What the plain kernel gives: each lattice's values (N, T, R)."""
    return replace(lattices, packed=None).base_scores(X)


NEVER_STOPS = Never()


def packed_of(
    lattices: Lattices, order: Any = None, stops: Stops = NEVER_STOPS
) -> PackedTerms:
    order = np.arange(lattices.size) if order is None else order
    made = pack_lattices(lattices, order, stops)
    assert made is not None
    return made


@given(seed=st.integers(0, 9999), S=st.integers(1, 6))
def test_a_simplex_gives_its_vertices_weights_that_are_exact(seed: int, S: int) -> None:
    lattices = drawn(seed, Sizes(T=4, S=S))
    X = rows(lattices, seed, 4)
    found = plainly(lattices, X)[:, :, 0] / lattices.unit
    for i, t in np.ndindex(found.shape):
        inputs = []
        for s, j in enumerate(lattices.inputs[t]):
            column = lattices.preparation.columns[j]
            value = calibrated_value(
                float(X[i, column]),
                lattices.knots[j].tolist(),
                lattices.calibrations[t, s, :-1] / 2**20,
            )
            # Exactly what it is rounded to, a whole number of 2^-20.
            inputs.append(Fraction(round(value * 2**20), 2**20))
        expected = on_simplex(lattices.vertices[t, 0].tolist(), inputs)
        largest = float(np.abs(lattices.vertices[t]).max())
        # The calibrator's own place is rounded first, which moves it by one more part.
        near = pytest.approx(float(expected), abs=4 * S * largest / 2**20 + 1)
        assert found[i, t] == near


@given(
    seed=st.integers(0, 9999),
    S=st.integers(1, 5),
    data=st.data(),
)
def test_interpolation_on_a_simplex_is_exact_but_for_one_rounding(
    seed: int, S: int, data: st.DataObject
) -> None:
    parts = st.sampled_from([0, 1, 2**19, 2**20 - 1, 2**20]) | st.integers(0, 2**20)
    inputs = data.draw(st.lists(parts, min_size=S, max_size=S))
    draw = np.random.default_rng(seed)
    heights = draw.integers(-(2**30), 2**30, 2**S)
    # Keypoints at 0 and 1, calibrators that give what is wanted at 0.
    lattices = Lattices(
        plain(np.arange(S)),
        np.tile([0.0, 1.0], (S, 1)),
        np.arange(S, dtype=np.int32)[None],
        np.array([[[c, 0, 0, 0] for c in inputs]], np.int32),
        heights.astype(np.int32)[None, None],
        np.zeros(1),
        1.0,
        simplex=True,
    )
    exact = on_simplex(heights.tolist(), [Fraction(c, 2**20) for c in inputs])
    X = np.zeros((1, S), np.float32)
    assert lattices.raw(X)[0, 0] == round(exact)
    assert lattices.with_packed().raw(X)[0, 0] == round(exact)


SHAPES = [
    Sizes(T, S, R, P, simplex)
    for (T, S, R, P), simplex in product(
        [
            *((20, S, 1, 5) for S in range(1, MOST_INPUTS + 1)),
            (1, 3, 1, 2),
            (LANES, 4, 1, 20),
            (LANES + 1, 4, 3, 3),
            (5, 8, 4, 64),
            (600, 2, 1, 7),
            (70, 5, 2, 1000),
        ],
        (True, False),
    )
    if R != 2 or simplex
]


@pytest.mark.jit
@pytest.mark.parametrize("sizes", SHAPES, ids=str)
def test_whole_sums_are_those_of_the_plain_kernel_to_the_bit(sizes: Sizes) -> None:
    lattices = drawn(sizes.T + sizes.S, sizes)
    X = rows(lattices, sizes.P)
    expected = plainly(lattices, X).sum(axis=1)
    packed = packed_of(lattices)
    for same in (X, X.astype(np.float64)):
        sums = packed.follow(same)[0]
        np.testing.assert_array_equal(sums, expected + lattices.bias)
    out = np.empty(sizes.R)
    for row, sums in zip(X, expected, strict=True):
        assert packed.takes(row)
        packed.enter(row, packed.at, out)
        np.testing.assert_array_equal(out, sums)
    np.testing.assert_array_equal(
        lattices.with_packed().raw(X), expected + lattices.bias
    )


@pytest.mark.jit
@settings(max_examples=few(60))
@given(
    seed=st.integers(0, 9999),
    T=st.sampled_from([1, 7, 16, 17, 60, 300]),
    simplex=st.booleans(),
)
def test_rows_stop_where_the_plain_sums_do(seed: int, T: int, simplex: bool) -> None:
    lattices = drawn(seed, Sizes(T=T, simplex=simplex))
    X, draw = rows(lattices, seed), np.random.default_rng(seed)
    order = draw.permutation(T)
    sums = plainly(lattices, X)[:, order, 0].cumsum(axis=1)
    limits = np.sort(draw.choice(sums.ravel(), (2, T)), axis=0)
    limits[:, draw.random(T) < 0.5] = [[-NEVER], [NEVER]]
    packed = packed_of(lattices, order, Limits(*limits))
    stopped, codes = packed.follow(X)
    for i, walked in enumerate(sums):
        beyond = np.flatnonzero((walked < limits[0]) | (walked > limits[1]))
        last = beyond[0] if len(beyond) else T - 1
        answer = int(walked[last] > limits[1, last]) if len(beyond) else 2
        assert (codes[i], stopped[i, 0]) == (4 * (last + 1) + answer, walked[last])


@pytest.mark.jit
@settings(max_examples=few(40))
@given(
    seed=st.integers(0, 9999),
    T=st.sampled_from([1, 16, 40]),
    R=st.sampled_from([3, 5]),
    simplex=st.booleans(),
)
def test_rows_stop_where_the_plain_margin_is(
    seed: int, T: int, R: int, simplex: bool
) -> None:
    lattices = drawn(seed, Sizes(T=T, R=R, simplex=simplex))
    X, draw = rows(lattices, seed), np.random.default_rng(seed)
    order = draw.permutation(T)
    sums = lattices.bias + plainly(lattices, X)[:, order].cumsum(axis=1)
    ranked = np.sort(sums, axis=2)
    own = ranked[:, :, -1] - ranked[:, :, -2]
    margin = draw.choice(own.ravel(), T)  # at a margin itself a row goes on
    packed = packed_of(lattices, order, Margins(margin))
    totals, codes = packed.follow(X)
    for i, margins in enumerate(own):
        beyond = np.flatnonzero(margins > margin)
        last = beyond[0] if len(beyond) else T - 1
        answer = BEST if len(beyond) else UNDECIDED
        assert codes[i] == 4 * (last + 1) + answer
        np.testing.assert_array_equal(totals[i], sums[i, last])
        sums_of_row = lattices.bias.copy()
        assert packed.enter(X[i], packed.at, sums_of_row) == codes[i]
        np.testing.assert_array_equal(sums_of_row, totals[i])


@pytest.mark.parametrize("size", range(1, 9))
def test_the_network_sorts_every_row_of_zeros_and_ones(size: int) -> None:
    # What sorts these sorts everything (Knuth, vol. 3, 5.3.4, theorem Z).
    for bits in product([0, 1], repeat=size):
        row = list(bits)
        for i, j in sorting_network(size):
            row[i], row[j] = max(row[i], row[j]), min(row[i], row[j])
        assert row == sorted(bits, reverse=True)


def test_the_network_of_eight_is_as_short_as_can_be() -> None:
    assert len(sorting_network(8)) == 19
    assert sorting_network(1) == []


def test_very_many_keypoints_are_left_to_the_plain_kernel() -> None:
    lattices = drawn(0, Sizes(T=2, S=1, P=MOST_KEYPOINTS + 1))
    X = rows(lattices, 0)
    assert lattices.with_packed().packed is None
    expected = plainly(lattices, X).sum(axis=1) + lattices.bias
    np.testing.assert_array_equal(lattices.with_packed().raw(X), expected)
