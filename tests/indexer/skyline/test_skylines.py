import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.indexer.skyline.skylines import Skylines, skylines
from tests.support.builds.curves import SIZES, Candidates, candidates
from tests.support.examples import few
from tests.support.oracles.skyline import skylines_by_sweep


def stays(found: Skylines) -> list[tuple[int, float, float]]:
    columns = found.rows, found.starts, found.ends
    return list(zip(*(column.tolist() for column in columns), strict=True))


@settings(max_examples=few(300))
@given(drawn=candidates())
def test_sweep_and_envelope_agree_exactly(drawn: Candidates) -> None:
    assert stays(skylines_by_sweep(*drawn, SIZES)) == stays(skylines(*drawn, SIZES))


@given(drawn=candidates(4), at=st.sampled_from([0.0, 1.0, 2.5, 1 / 3, 4.0]))
def test_sweep_and_envelope_agree_at_a_single_size(
    drawn: Candidates, at: float
) -> None:
    assert stays(skylines_by_sweep(*drawn, (at, at))) == stays(
        skylines(*drawn, (at, at))
    )


@given(
    steepness=st.lists(st.integers(0, 6), min_size=2, max_size=7),
    at=st.sampled_from([1.0, 0.1, 1 / 3, 2.7182818]),
    accuracies=st.lists(st.integers(0, 10), min_size=7, max_size=7),
)
def test_sweep_and_envelope_agree_where_many_curves_meet_in_one_point(
    steepness: list[int], at: float, accuracies: list[int]
) -> None:
    # k * (n - at), so that every pair crosses at `at` however it is rounded
    costs = np.array([[40.0 - k * at, float(k)] for k in steepness])
    gains = np.array(accuracies[: len(steepness)]) / 10
    assert stays(skylines_by_sweep(costs, gains, SIZES)) == stays(
        skylines(costs, gains, SIZES)
    )


def test_both_builders_let_the_upper_of_two_curves_enter_at_their_crossing() -> None:
    # theorem 3.13, scenario 2: from size 2 on the second is cheaper, less accurate
    costs, accuracies = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([0.9, 0.5])
    for build in (skylines_by_sweep, skylines):
        assert stays(build(costs, accuracies, SIZES)) == [
            (0, 0.0, np.inf),
            (1, 2.0, np.inf),
        ]


def test_both_builders_let_the_lower_of_two_curves_leave_at_their_crossing() -> None:
    # theorem 3.13, scenario 1
    costs, accuracies = np.array([[0.0, 1.0], [2.0, 0.0]]), np.array([0.5, 0.9])
    for build in (skylines_by_sweep, skylines):
        found = build(costs, accuracies, SIZES)
        assert stays(found) == [(0, 0.0, 2.0), (1, 0.0, np.inf)]
        assert found.breakpoints.tolist() == [2.0]


def test_both_builders_find_all_three_crossings_of_two_cubics() -> None:
    # (n - 1)(n - 2)(n - 3) + 6 against 6
    costs = np.array([[0.0, 11.0, -6.0, 1.0], [6.0, 0.0, 0.0, 0.0]])
    for build in (skylines_by_sweep, skylines):
        assert stays(build(costs, np.array([0.5, 0.9]), SIZES)) == [
            (0, 0.0, 1.0),
            (0, 2.0, 3.0),
            (1, 0.0, np.inf),
        ]


def test_both_builders_hold_a_stay_together_where_its_rival_changes() -> None:
    # 1 is below 0 and 2 throughout; 0 and 2 cross at size 2
    costs = np.array([[4.0, 0.0], [1.0, 0.0], [2.0, 1.0]])
    accuracies = np.array([0.9, 0.5, 0.9])
    for build in (skylines_by_sweep, skylines):
        assert stays(build(costs, accuracies, SIZES)) == [
            (0, 2.0, np.inf),
            (1, 0.0, np.inf),
            (2, 0.0, 2.0),
        ]


def test_sweep_visits_crossings_of_neighbours_only_once() -> None:
    lines = np.array([[k + 1.0, 8.0 - k] for k in range(8)])
    found = skylines_by_sweep(lines, np.linspace(0.1, 0.9, 8), (0.0, 100.0))
    # all 28 crossings are at size 1: from there only the most accurate stays
    assert found.breakpoints.tolist() == [1.0]
    assert len(found.rows) == 8
