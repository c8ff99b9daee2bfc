"""Cost curves and tables, and the quantile regression behind them."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.costs import quantile
from polydom.features.costs.curve import CostCurve, CostTable
from polydom.features.errors import BadInput
from tests.support.oracles.costs import (
    cost_of_set,
    feature_seconds,
    least_pinball_loss,
    pinball_loss,
)

Floats = NDArray[np.float64]

COEFFICIENTS = st.lists(st.floats(0, 1e-3), min_size=2, max_size=2)
SIZES = np.geomspace(64, 1e6, 40).repeat(10)

# Two features share a step; a third needs nothing.
TABLE = CostTable(
    [[1e-3, 0], [2e-3, 1e-6], [0, 5e-6]],
    [[4e-3, 1e-7]],
    [[0], [0], []],
    [1e-4, 0],
)


def noisy(coefficients: list[float], seed: int = 0) -> Floats:
    """Times as machines give them: above the curve, and sometimes far above."""
    noise = np.random.default_rng(seed).gamma(1, 0.1, len(SIZES))
    return CostCurve(coefficients)(SIZES) * (1 + noise)


def test_curve_is_a_polynomial_of_the_size() -> None:
    curve = CostCurve([1e-3, 2e-6, 3e-9])
    assert curve.degree == 2
    assert curve(1000) == pytest.approx(1e-3 + 2e-3 + 3e-3)
    assert curve(np.array([1.0, 1000.0])).tolist() == [curve(1), curve(1000)]
    assert curve([1, 1000]).tolist() == [curve(1), curve(1000)]


def test_curve_gives_a_plain_float_for_any_number() -> None:
    curve = CostCurve([1e-3, 2e-6])
    assert type(curve(np.float64(3))) is float
    assert type(curve(3)) is float


def test_curves_of_different_degrees_add_up() -> None:
    total = CostCurve([1.0]) + CostCurve([2.0, 3.0])
    assert total.coefficients.tolist() == [3.0, 3.0]


def test_curve_cannot_be_changed_afterwards() -> None:
    given = np.array([1.0])
    curve = CostCurve(given)
    given[0] = 2.0
    assert curve(1) == 1.0
    with pytest.raises(ValueError, match="read-only"):
        curve.coefficients[0] = 2.0


@pytest.mark.parametrize("bad", [-1e-12, float("nan"), float("inf")])
def test_curve_refuses_a_coefficient_that_is_no_cost(bad: float) -> None:
    with pytest.raises(BadInput, match="coefficients must be finite and not negative"):
        CostCurve([1.0, bad])


@pytest.mark.parametrize("bad", [[], [[1.0]], 1.0])
def test_curve_refuses_coefficients_of_another_shape(bad: object) -> None:
    with pytest.raises(BadInput, match="cost coefficients of shape"):
        CostCurve(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "true",
    [[1e-5], [1e-5, 3e-8], [2e-4, 0.0, 5e-15], [0.0, 1e-8, 0.0, 4e-21], [0.0, 3e-8]],
    ids=["constant", "linear", "quadratic", "cubic", "proportional"],
)
def test_fit_recovers_exact_times(true: list[float]) -> None:
    curve = CostCurve.fit(SIZES, CostCurve(true)(SIZES))
    assert curve.degree == len(true) - 1
    expected = CostCurve(true)(SIZES)
    np.testing.assert_allclose(curve(SIZES), expected, rtol=1e-9)


@pytest.mark.parametrize("share", [0.5, 0.9, 0.99])
@pytest.mark.parametrize(
    "true",
    [[1e-4], [1e-4, 2e-8], [0.0, 2e-8], [1e-5, 1e-8, 1e-14], [1e-4, 0.0, 0.0, 1e-20]],
    ids=["constant", "linear", "proportional", "quadratic", "cubic"],
)
def test_fit_leaves_the_quantile_of_the_times_under_the_curve(
    true: list[float], share: float
) -> None:
    seconds = noisy(true)
    curve = CostCurve.fit(SIZES, seconds, quantile=share)
    assert curve.within(SIZES, seconds) == pytest.approx(share, abs=0.011)


def test_fit_is_as_good_for_small_items_as_for_large_ones() -> None:
    seconds = noisy([1e-5, 1e-8])
    curve = CostCurve.fit(SIZES, seconds, quantile=0.9)
    for half in (SIZES < 8000, SIZES >= 8000):
        assert curve.within(SIZES[half], seconds[half]) == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_fit_does_not_take_a_higher_degree_than_it_needs(degree: int) -> None:
    true = [1e-4, 1e-8, 1e-13, 1e-18][: degree + 1]
    assert CostCurve.fit(SIZES, noisy(true, degree)).degree == degree


def test_fit_takes_at_most_the_highest_degree_allowed() -> None:
    assert CostCurve.fit(SIZES, noisy([0.0, 0.0, 1e-12]), max_degree=1).degree == 1


def test_fit_of_one_size_is_constant() -> None:
    seconds = np.linspace(1e-3, 2e-3, 101)
    curve = CostCurve.fit(np.full(101, 500.0), seconds, quantile=0.9)
    assert curve.coefficients == pytest.approx([1.9e-3], rel=0.01)


def test_fit_of_one_time_is_that_time() -> None:
    assert CostCurve.fit([100.0], [2e-3])(100) == pytest.approx(2e-3)


def test_fit_of_two_sizes_is_a_line() -> None:
    curve = CostCurve.fit([100.0, 200.0], [1e-3, 3e-3])
    assert curve.degree == 1
    assert curve(200) == pytest.approx(3e-3)


def test_fit_of_times_that_are_all_zero_is_zero() -> None:
    assert CostCurve.fit([1.0, 2.0], [0.0, 0.0]).coefficients.tolist() == [0.0]
    disturbed = CostCurve.fit([1.0] * 9, [0.0] * 8 + [1.0], quantile=0.5)
    assert disturbed.coefficients.tolist() == [0.0]


def test_fit_of_times_that_fall_with_the_size_is_constant() -> None:
    curve = CostCurve.fit(SIZES, 1e-3 / np.sqrt(SIZES))
    assert curve.coefficients[1:] == pytest.approx(0)


def test_fit_is_the_same_every_time() -> None:
    seconds = noisy([1e-4, 2e-8])
    first, second = (CostCurve.fit(SIZES, seconds, seed=3) for _ in range(2))
    assert first.coefficients.tolist() == second.coefficients.tolist()


@example([(1.0, 2.2e-313)], 0.5)
@given(
    st.lists(st.tuples(st.floats(1, 1e7), st.floats(0, 1e3)), min_size=1, max_size=30),
    st.floats(0.01, 0.99),
)
def test_fit_never_has_a_negative_coefficient(
    measured: list[tuple[float, float]], share: float
) -> None:
    sizes, seconds = zip(*measured, strict=True)
    curve = CostCurve.fit(sizes, seconds, quantile=share)
    assert np.all(curve.coefficients >= 0)
    assert np.isfinite(curve(1e7))


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 50)), min_size=1, max_size=7),
    st.sampled_from([0.2, 0.5, 0.9, 0.99]),
    st.integers(0, 2),
    st.booleans(),
)
def test_minimise_agrees_with_trying_every_corner(
    measured: list[tuple[int, int]], share: float, degree: int, relative: bool
) -> None:
    sizes, seconds = np.array(measured, np.float64).T
    scale = seconds if relative else np.ones(len(sizes))
    found = quantile.minimise(sizes, seconds, scale, share, degree)
    assert np.all(found >= 0)
    fitted = np.polynomial.polynomial.polyval(sizes, found)
    loss = pinball_loss((seconds - fitted) / scale, share)
    least = least_pinball_loss(sizes, seconds, scale, share, degree)
    assert loss == pytest.approx(least, rel=1e-7, abs=1e-9)


@given(
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 50)), min_size=4, max_size=9),
    st.sampled_from([0.2, 0.5, 0.9, 0.99]),
)
def test_minimise_each_fits_every_part_as_well_as_one_alone(
    measured: list[tuple[int, int]], share: float
) -> None:
    sizes, seconds = np.array(measured, np.float64).T
    fold = np.arange(len(sizes)) % 4
    parts = [(fold != held, degree) for held in range(4) for degree in range(3)]
    found = quantile.minimise_each(sizes, seconds, seconds, share, parts)
    for (kept, degree), coefficients in zip(parts, found, strict=True):
        own = sizes[kept], seconds[kept], seconds[kept]
        fitted = np.polynomial.polynomial.polyval(own[0], coefficients)
        loss = pinball_loss((own[1] - fitted) / own[1], share)
        least = least_pinball_loss(*own, share, degree)
        assert np.all(coefficients >= 0)
        assert loss == pytest.approx(least, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("bad", [0.0, 1.0, -0.5, float("nan")])
def test_fit_refuses_a_quantile_outside_0_and_1(bad: float) -> None:
    with pytest.raises(BadInput, match=r"quantile is .*; between 0 and 1 is needed"):
        CostCurve.fit([1.0], [1.0], quantile=bad)


def test_fit_refuses_a_negative_degree() -> None:
    with pytest.raises(BadInput, match="max_degree is -1; 0 or more is needed"):
        CostCurve.fit([1.0], [1.0], max_degree=-1)


@pytest.mark.parametrize(
    ("sizes", "seconds", "message"),
    [
        ([], [], "at least one"),
        ([1.0], [1.0, 2.0], r"sizes of shape \(1,\) and seconds of shape \(2,\) came"),
        ([[1.0]], [[1.0]], "in one dimension"),
        ([0.0], [1.0], "sizes must be finite and above 0"),
        ([float("nan")], [1.0], "sizes must be finite and above 0"),
        ([1.0], [-1.0], "seconds must be finite and not negative"),
        ([1.0], [float("nan")], "seconds must be finite and not negative"),
        ([1.0], [float("inf")], "seconds must be finite and not negative"),
    ],
)
def test_fit_refuses_times_that_are_none(
    sizes: list[float], seconds: list[float], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        CostCurve.fit(sizes, seconds)


def test_table_counts_a_shared_step_once() -> None:
    assert TABLE.of(0b011) == pytest.approx([1e-4 + 1e-3 + 2e-3 + 4e-3, 1e-6 + 1e-7])


def test_table_counts_the_overhead_alone_for_the_empty_set() -> None:
    assert TABLE.of(0).tolist() == [1e-4, 0]


def test_table_charges_a_step_to_the_first_feature_that_needs_it() -> None:
    step = 4e-3 + 1e-7 * 1000
    forward, backward = ([1e-3 + step, 3e-3, 5e-3], [5e-3, 3e-3 + step, 1e-3])
    assert feature_seconds(TABLE, [0, 1, 2], 1000) == pytest.approx(forward)
    assert feature_seconds(TABLE, [2, 1, 0], 1000) == pytest.approx(backward)
    assert feature_seconds(TABLE, [], 1000).tolist() == []


@st.composite
def tables(draw: st.DrawFn) -> CostTable:
    steps = draw(st.lists(COEFFICIENTS, max_size=4))
    features = draw(st.lists(COEFFICIENTS, min_size=1, max_size=6))
    some = st.sets(st.sampled_from(range(len(steps)))) if steps else st.just(set())
    needs = [sorted(draw(some)) for _ in features]
    return CostTable(features, np.reshape(steps, (-1, 2)), needs, draw(COEFFICIENTS))


@given(tables())
def test_table_agrees_with_adding_up_each_set(table: CostTable) -> None:
    masks = np.arange(1 << len(table.needs), dtype=np.uint64)
    for mask, cost in zip(masks.tolist(), table.of_many(masks), strict=True):
        chosen = [k for k in range(len(table.needs)) if mask >> k & 1]
        expected = cost_of_set(
            table.feature_coefficients.tolist(),
            table.step_coefficients.tolist(),
            table.needs,
            table.overhead.tolist(),
            chosen,
        )
        assert cost.tolist() == expected
        assert table.of(mask).tolist() == expected


@given(tables(), st.data())
def test_table_never_says_that_a_larger_set_costs_less(
    table: CostTable, data: st.DataObject
) -> None:
    large = data.draw(st.integers(0, (1 << len(table.needs)) - 1))
    small = large & data.draw(st.integers(0, (1 << len(table.needs)) - 1))
    assert np.all(table.of(small) <= table.of(large))


@given(tables(), st.data(), st.floats(1, 1e6))
def test_table_s_features_add_up_to_their_set(
    table: CostTable, data: st.DataObject, size: float
) -> None:
    order = data.draw(st.permutations(range(len(table.needs))))
    order = order[: data.draw(st.integers(0, len(order)))]
    whole = CostCurve(table.of(sum(1 << k for k in order)))(size)
    parts = feature_seconds(table, order, size).sum() + CostCurve(table.overhead)(size)
    assert parts == pytest.approx(whole)


def test_table_takes_as_many_features_as_a_mask_has_bits() -> None:
    table = CostTable(np.ones((64, 1)), np.zeros((0, 1)), [[]] * 64, [0.0])
    assert table.of(2**64 - 1).tolist() == [64.0]


def test_table_refuses_a_mask_of_features_that_are_not_there() -> None:
    with pytest.raises(BadInput, match="a mask names more than the 3 features"):
        TABLE.of(0b1000)


def test_table_refuses_curves_of_different_degrees() -> None:
    with pytest.raises(BadInput, match="features have 2 coefficients, steps 1 and the"):
        CostTable([[1.0, 1.0]], [[1.0]], [[0]], [1.0, 1.0])


def test_table_refuses_needs_of_other_features() -> None:
    with pytest.raises(BadInput, match="1 features came with 2 needs"):
        CostTable([[1.0]], [[1.0]], [[0], []], [1.0])


def test_table_refuses_a_step_that_is_not_there() -> None:
    with pytest.raises(BadInput, match=r"needs \[1\] are not among 1 steps"):
        CostTable([[1.0]], [[1.0]], [[1]], [1.0])


WIDTHS = np.geomspace(30, 3000, 12)
PAIRS = np.array([(a, b) for a in WIDTHS for b in WIDTHS])


@pytest.mark.parametrize(
    "true",
    [
        [1e-3, 0, 0],
        [1e-4, 2e-6, 0],
        [1e-4, 0, 3e-6],
        [2e-4, 0, 0, 0, 5e-9, 0],
        [2e-4, 0, 1e-6, 0, 5e-9, 0],
    ],
    ids=["constant", "width", "height", "pixels", "height and pixels"],
)
def test_fit_of_pairs_finds_what_a_cost_depends_on(true: list[float]) -> None:
    curve = CostCurve(true, variables=2)
    noise = np.random.default_rng(0).gamma(1, 0.1, len(PAIRS))
    fitted = CostCurve.fit(PAIRS, curve(PAIRS) * (1 + noise), quantile=0.9)
    assert fitted.variables == 2
    assert fitted.within(PAIRS, curve(PAIRS) * (1 + noise)) == pytest.approx(
        0.9, abs=0.03
    )
    for size in ((30.0, 3000.0), (3000.0, 30.0), (300.0, 300.0)):
        assert fitted.at(size) == pytest.approx(1.23 * curve.at(size), rel=0.3)


def test_fit_of_pairs_beats_pixels_where_a_cost_is_the_width_s() -> None:
    seconds = 1e-4 + 2e-6 * PAIRS[:, 0]
    pair = CostCurve.fit(PAIRS, seconds, quantile=0.9)
    one = CostCurve.fit(PAIRS.prod(axis=1), seconds, quantile=0.9)
    assert pair.at((30.0, 3000.0)) == pytest.approx(1.6e-4, rel=1e-6)
    assert one(90_000) > 5 * 1.6e-4


@given(st.integers(1, 12), st.integers(0, 2**16))
def test_fit_of_few_pairs_is_a_curve_that_falls_in_neither_number(
    count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sizes, seconds = rng.integers(1, 4, (count, 2)), rng.random(count)
    fitted = CostCurve.fit(sizes, seconds, quantile=0.9)
    assert (fitted.coefficients >= 0).all()
    assert fitted.degree <= 2


def test_curve_of_pairs_refuses_what_is_none() -> None:
    with pytest.raises(BadInput, match="2 cost coefficients came"):
        CostCurve([1.0, 2.0], variables=2)
    with pytest.raises(BadInput, match=r"sizes of shape \(3,\) came; \(M, 2\)"):
        CostCurve([1.0], variables=2)([1.0, 2.0, 3.0])
    with pytest.raises(BadInput, match=r"sizes of shape \(4, 3\)"):
        CostCurve.fit(np.ones((4, 3)), np.ones(4))


def test_curves_of_pairs_add_up() -> None:
    total = CostCurve([1.0, 2, 3], 2) + CostCurve([1.0], 2)
    assert total.at((10.0, 100.0)) == 322.0


def test_feature_seconds_add_up_for_sizes_of_two_numbers() -> None:
    table = CostTable([[1, 0, 0], [0, 2, 0]], [[0, 0, 1]], [[0], [0]], [0.5, 0, 0])
    size = (10.0, 100.0)
    assert feature_seconds(table, [1, 0], size).tolist() == [120.0, 1.0]
    whole = CostCurve(table.of(0b11), 2)
    assert whole.at(size) == 121.5
