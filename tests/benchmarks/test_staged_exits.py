"""Ways to stop within a plan: what rows pay, and what sums of some slices decide."""

import numpy as np
import pytest

from benchmarks.exits.staged_budgets import Plan, Side, budgets
from benchmarks.exits.staged_exits import (
    Slices,
    Trained,
    at_both,
    at_equal_change,
    between_models,
    prefixes,
    reordered,
)
from benchmarks.exits.staged_sets import Part, Problem
from polydom.models.selection.learners import make_learner
from tests.support.agreement import bundled

pytestmark = pytest.mark.jit  # rivals: what they have of kernels is tested by ours

LEARNERS = {
    "logistic": make_learner("logistic", 0),
    "lda": make_learner("lda", 0),
    "forest": make_learner({"name": "forest", "n_estimators": 5, "max_depth": 3}, 0),
}


def problem_of(name: str) -> Problem:
    """Four features of a bundled set, of which the last two share a step."""
    X, y = bundled(name)
    paid = np.random.default_rng(0).uniform(1, 2, (len(X), 5))
    every = Part(X.astype(np.float32), y, paid)
    thirds = np.random.default_rng(1).permutation(len(X)) % 3
    train, held, fresh = (every.take(np.flatnonzero(thirds == k)) for k in range(3))
    needs = np.eye(4, 5, dtype=bool)
    needs[2:, 4] = True
    columns = ((0,), (1, 2), (5, 3, 4), (6, 7, 8))
    return Problem(train, held, fresh, columns, needs, 1e-3)


@pytest.mark.parametrize("name", ["wine", "breast_cancer"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_slices_of_all_features_decide_as_the_model(name: str, learner: str) -> None:
    problem = problem_of(name)
    model = prefixes(problem, LEARNERS[learner], (2, 0, 3))[-1]
    slices = Slices.of(model)
    margins, choices = model.partly(slices.fresh, 3)
    np.testing.assert_array_equal(choices, model.answers(problem.fresh)[1])
    assert (margins >= 0).all()
    schedule = slices.schedule(0.02, np.arange(model.size)).without_stops()
    np.testing.assert_array_equal(schedule.evaluate(slices.fresh)[0], choices)


def test_a_linear_model_has_a_slice_for_each_feature_and_keeps_their_order() -> None:
    model = prefixes(problem_of("wine"), LEARNERS["lda"], (2, 0, 3))[-1]
    assert (model.size, model.starts) == (3, [0, 3, 4])
    np.testing.assert_array_equal(model.last_read(), [0, 1, 2])
    assert reordered(model, np.array([1, 2, 0])) == [0, 3, 2]


def test_sums_of_some_slices_see_no_feature_that_comes_later() -> None:
    problem = problem_of("wine")
    model: Trained = prefixes(problem, LEARNERS["forest"], (2, 0, 3))[-1]
    blind = problem.fresh.X.copy()
    blind[:, problem.columns[3]] = -1e6
    other = problem.fresh._replace(X=blind)
    for known in (1, 2):
        seen = model.partly(model.scores(problem.fresh), known)
        unseen = model.partly(model.scores(other), known)
        np.testing.assert_array_equal(seen[0], unseen[0])
        np.testing.assert_array_equal(seen[1], unseen[1])


def test_a_shared_step_is_paid_for_once() -> None:
    problem = problem_of("wine")
    models = prefixes(problem, LEARNERS["lda"], (2, 0, 3))
    positions = between_models(models, (2, 0, 3))
    steps = [[2, 4], [0], [3]]
    paid = [problem.costs[own].sum() for own in steps]
    checks = problem.own * np.arange(1, 4)
    np.testing.assert_allclose(positions.costs, paid + checks)
    both = at_both(models)
    each = [paid[0] + 1e-3, 1e-3, paid[1] + 1e-3, 2e-3, paid[2] + 1e-3]
    np.testing.assert_allclose(both.costs, each)
    np.testing.assert_array_equal(both.taken[::2], positions.taken)
    np.testing.assert_array_equal(both.fresh.choices[:, -1], both.fresh.choices[:, 4])


def test_between_points_and_from_the_whole_plan_on_lies_a_straight_line() -> None:
    given = {"set": "s", "learner": "l", "rule": "r"}
    points = [(None, 0.0, 1.0), (0.0, 0.01, 0.5), (0.1, 0.0, 0.8), (0.2, 0.005, 0.7)]
    names = "alpha", "changed", "of_whole"
    rows = [{**given, **dict(zip(names, point, strict=True))} for point in points]
    (found,) = at_equal_change(rows)
    shares = [found[f"at {change}"] for change in ("0.2%", "0.5%", "1.0%", "2.0%")]
    assert shares == pytest.approx([0.76, 0.7, 0.5, 0.5])


def test_what_comes_too_late_is_answered_by_what_is_there() -> None:
    costs = np.array([[2.0, 5.0], [4.0, 9.0], [8.0, 9.0]])
    choices = np.array([[0, 1], [1, 0], [1, 1]])
    truth = np.array([1, 1, 1])
    side = Side(costs, choices, np.array([1, 1, 1]), truth, 0)
    accuracy, paid = side.taken(5.0)
    assert accuracy == pytest.approx(2 / 3)
    assert paid.tolist() == [5.0, 4.0, 0.0]
    plain = Plan(side, side, exits=False)
    early = Plan(*(side._replace(at=np.array([0, 0, 0])),) * 2, exits=True)
    found = budgets([plain, early], 5.0)
    assert found["guaranteed"] == (0.0, 0.0)  # its slowest rows take too long
    assert found["guaranteed, any"][0] == pytest.approx(2 / 3)
    assert found["mean, exits"] == pytest.approx((2 / 3, 14 / 3))
