"""Rules of stopping: NumPy's against a walk by hand, the compiled against NumPy's."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import njit
from polydom.models.scoring.kernels.stopping_rule import (
    beyond_margin,
    margin_of,
    outside,
    side,
)
from polydom.models.scoring.stopping_rule import (
    BEST,
    NEAR,
    NEGATIVE,
    POSITIVE,
    UNDECIDED,
    Limits,
    Margins,
    Never,
)

numbers = st.floats(-3, 3) | st.sampled_from([0.0, -0.0, np.inf, -np.inf])


def test_rows_stop_beyond_a_limit_and_not_at_it() -> None:
    limits = Limits(np.array([-1.0, -0.5]), np.array([1.0, 0.5]), 0.25)
    sums = np.array([[-1.5, 9], [1.5, -9], [1.0, 0.5], [-1, -0.6], [1.0, 0.6]])
    totals, codes = limits.follow(sums[:, :, None])
    assert (codes >> 2).tolist() == [1, 1, 2, 2, 2]
    answers = [NEGATIVE, POSITIVE, UNDECIDED, NEGATIVE, POSITIVE]
    assert (codes & 3).tolist() == answers
    assert totals[:, 0].tolist() == [-1.5, 1.5, 0.5, -0.6, 0.6]
    assert limits.chosen(totals, codes).tolist() == [0, 1, 1, 0, 1]
    assert limits.start(np.array([5.0])).tolist() == [0.0]


def test_rows_stop_once_the_best_is_beyond_the_margin() -> None:
    margins = Margins(np.array([1.0, 0.5]))
    sums = np.array(
        [[[0, 2, 0.5], [9, 0, 0]], [[0, 1, 0], [3, 3, 4]], [[0, 1, 0], [1, 1.5, 1]]]
    )
    totals, codes = margins.follow(sums)
    assert (codes >> 2).tolist() == [1, 2, 2]
    assert (codes & 3).tolist() == [BEST, BEST, UNDECIDED]
    assert margins.chosen(totals, codes).tolist() == [1, 2, 1]


def test_whole_sums_are_clear_unless_near_a_tie() -> None:
    limits = Limits(np.zeros(1), np.zeros(1), 1000.0)
    apart = np.array([[1000.0 + 2000 * NEAR], [1000.0 + 500 * NEAR]])
    assert limits.clear(apart).tolist() == [True, False]
    margins = Margins(np.zeros(1))
    apart = np.array([[1000.0, 1000.0 + 2000 * NEAR, 0], [1000.0, 1000.0, 0]])
    assert margins.clear(apart).tolist() == [True, False]


def test_all_base_models_are_added_where_no_rule_is() -> None:
    sums = np.arange(12.0).reshape(2, 3, 2)
    np.testing.assert_array_equal(Never().follow(sums)[0], sums[:, -1])
    assert Never().start(np.ones(2)).tolist() == [1.0, 1.0]


def test_limits_are_laid_out_tree_by_tree() -> None:
    limits = Limits(np.array([-1.0]), np.array([2.0])).by_tree(3)
    assert limits["lower"].tolist() == [-1.0, -np.inf, -np.inf]
    assert limits["upper"].tolist() == [2.0, np.inf, np.inf]
    margins = Margins(np.array([1.0, 2.0]), 3).by_tree(8)["upper"]
    assert Never().by_tree(8) == {}
    assert margins.tolist() == [*[np.inf] * 2, 1.0, *[np.inf] * 2, 2.0, *[np.inf] * 2]


@njit()
def limits_by_hand(sums: Any, lower: Any, upper: Any) -> int:
    for t in range(sums.shape[0]):
        if outside(sums[t], lower[t], upper[t]):
            return 4 * (t + 1) + int(sums[t] > upper[t])
    return int(4 * sums.shape[0] + UNDECIDED)


@njit()
def margins_by_hand(sums: Any, margin: Any) -> int:
    for t in range(sums.shape[0]):
        if beyond_margin(sums[t], margin[t]):
            return int(4 * (t + 1) + BEST)
    return int(4 * sums.shape[0] + UNDECIDED)


@njit()
def call_side(total: float, threshold: float) -> int:
    return int(side(total, threshold))


@njit()
def call_margin(totals: Any) -> Any:
    return margin_of(totals)


def floats(draw: st.DrawFn, count: int) -> NDArray[np.float64]:
    return np.array(draw(st.lists(numbers, min_size=count, max_size=count)))


@given(st.data(), st.integers(1, 6))
def test_compiled_limits_give_the_codes_of_numpy_s(data: Any, count: int) -> None:
    sums, lower, upper = (floats(data.draw, count) for _ in range(3))
    code = Limits(lower, upper).follow(sums[None, :, None])[1][0]
    assert limits_by_hand(sums, lower, upper) == code


@given(st.data(), st.integers(1, 5), st.integers(2, 4))
def test_compiled_margins_give_the_codes_of_numpy_s(
    data: Any, count: int, classes: int
) -> None:
    sums = floats(data.draw, count * classes).reshape(count, classes)
    sums = np.nan_to_num(sums, posinf=9.0, neginf=-9.0)
    margin = floats(data.draw, count)
    code = Margins(margin).follow(sums[None])[1][0]
    assert margins_by_hand(sums, margin) == code
    ranked = np.sort(sums[0])
    assert call_margin(sums[0]) == ranked[-1] - ranked[-2]


@pytest.mark.parametrize("threshold", [0.0, -2.5, 1e6])
@pytest.mark.parametrize("apart", [-1.0, -1e-8, -1e-12, 0.0, 1e-12, 1e-8, 1.0])
def test_compiled_sides_are_those_of_clear_sums(threshold: float, apart: float) -> None:
    total = np.array([[threshold + apart * max(1.0, abs(threshold))]])
    limits = Limits(np.zeros(1), np.zeros(1), threshold)
    clear = bool(limits.clear(total)[0])
    expected = int(total[0, 0] > threshold) if clear else UNDECIDED
    assert call_side(float(total[0, 0]), threshold) == expected
