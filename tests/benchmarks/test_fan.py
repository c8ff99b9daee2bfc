"""Fan et al.'s bins, a rival in the benchmarks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.exits.fan import FanSchedule, fit_fan, tabulate
from polydom.features.errors import BadInput
from tests.support.oracles.fan import fan_early
from tests.support.votes import drawn_scores, noisy_votes

Floats = NDArray[np.float64]


@given(
    drawn_scores(models=3),
    drawn_scores(models=3),
    st.permutations(range(3)),
    st.sampled_from([0.5, 1.0]),
    st.sampled_from([0.0, 0.7, 3.0]),
)
def test_fan_agrees_with_a_hash_map_per_position(
    fitted: Floats, scores: Floats, order: list[int], width: float, spreads: float
) -> None:
    tables = tabulate(fitted, np.array(order), width)
    fan = FanSchedule(np.array(order), *tables, width, spreads, 0.0)
    decisions, used = fan.evaluate(scores)
    slow = fan_early(fitted, scores, order, width, spreads, 0.0)
    # A mean's last bit may decide a row that lies exactly at its bin's limit.
    near = np.array([exactly_at_a_limit(fan, row) for row in scores])
    same = (decisions == slow[0]) & (used == slow[1])
    assert (same | near).all()


def exactly_at_a_limit(fan: FanSchedule, row: Floats) -> bool:
    sums = np.cumsum(row[fan.order])
    for r, total in enumerate(sums):
        here = slice(fan.starts[r], fan.starts[r + 1])
        for k in np.flatnonzero(fan.bins[here] == np.rint(total / fan.width)):
            middle = fan.threshold - fan.means[here][k]
            reach = fan.spreads * fan.deviations[here][k]
            if abs(abs(total - middle) - reach) < 1e-12:
                return True
    return False


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1])
def test_fan_changes_at_most_alpha_of_the_rows_it_was_fitted_on(alpha: float) -> None:
    scores = noisy_votes(2000, 20)
    decisions, used = fit_fan(scores, 0.0, alpha, width=0.1).evaluate(scores)
    assert np.mean(decisions != (scores.sum(axis=1) >= 0)) <= alpha
    assert used.mean() < 20


def test_fan_goes_on_in_a_bin_that_no_fitted_row_fell_into() -> None:
    scores = np.array([[-1.0, -1.0], [1.0, 1.0]])
    fan = fit_fan(scores, 0.0, 0.0, order="natural", width=0.1)
    assert fan.evaluate(scores)[1].tolist() == [1, 1]
    assert fan.evaluate(np.array([[5.0, -9.0]]))[1].tolist() == [2]


@pytest.mark.parametrize("width", [0.0, -1.0, np.nan, np.inf])
def test_fan_refuses_a_width_that_makes_no_bins(width: float) -> None:
    with pytest.raises(BadInput, match="width is"):
        fit_fan(noisy_votes(10, 2), 0.0, 0.0, width=width)
