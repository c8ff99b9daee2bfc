import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.tree import DecisionTreeClassifier

from polydom.features.errors import BadInput
from polydom.models.selection.arms import ExamplesArm
from polydom.models.selection.learners import make_learner
from polydom.models.selection.obms import (
    ModelClass,
    choose_class,
    choose_nested,
    coarse_grid,
    dimension_of,
    obms,
    smallest_cover,
    tree_dimension,
    vc_penalty,
)
from polydom.models.selection.race import Race, TrainingOutcome
from polydom.models.selection.splits import split
from polydom.models.selection.validation_scores import SCORES
from tests.support.oracles.learner_races import class_choices, coarse_grid_size

Risk = Callable[[int], float]


def race(risks: dict[str, Risk]) -> Race:
    def arm(risk: Risk) -> Callable[[int], TrainingOutcome]:
        return lambda n: TrainingOutcome(1 - risk(n), train_score=1 - risk(n))

    arms = {name: arm(risk) for name, risk in risks.items()}
    return Race(arms, carries_on=True)


def noisy(limit: float, seed: int) -> Risk:
    """An empirical risk within 1 / (2 sqrt(n)) of its limit."""
    signs = np.random.default_rng(seed).choice([-0.5, 0.5], 64)
    return lambda n: limit + float(signs[n % 64]) / math.sqrt(n)


def vc_nest(count: int, rows: int = 10) -> dict[str, ModelClass]:
    """Example 1 of OBMS: dimensions 1..K, n_i = n_K d_K / d_i."""
    return {
        str(d): ModelClass(rows * count // d, vc_penalty(d))
        for d in range(1, count + 1)
    }


def test_choose_class_queries_suboptimal_classes_a_logarithmic_number_of_times() -> (
    None
):
    risks = {"best": noisy(0.1, 0), "worse": noisy(0.5, 1), "worst": noisy(0.9, 2)}
    classes = {name: ModelClass(4, vc_penalty(1)) for name in risks}
    suboptimal = []
    for quanta in (200, 2_000, 20_000):
        contest = race(risks)
        assert choose_class(contest, classes, quanta=quanta) == "best"
        assert len(contest.log) == quanta
        suboptimal.append(sum(line.learner != "best" for line in contest.log))
    # Each tenfold budget adds a constant, not a factor of ten (Theorem 1).
    first, second, third = suboptimal
    assert second - first < 0.1 * 1_800
    assert third - second < 2 * (second - first) + 10


@given(
    limits=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    seed=st.integers(0, 999),
    quanta=st.integers(5, 80),
)
def test_choose_class_agrees_with_the_algorithm(
    limits: list[float], seed: int, quanta: int
) -> None:
    draw = np.random.default_rng(seed)
    rows = [int(n) for n in draw.integers(1, 50, len(limits))]
    # A little noise keeps two classes from being exactly equal.
    risks = [noisy(v + draw.random() / 1e3, seed + i) for i, v in enumerate(limits)]
    penalties = [vc_penalty(d) for d in draw.integers(1, 9, len(limits))]
    classes = {str(i): ModelClass(rows[i], penalties[i]) for i in range(len(limits))}
    contest = race({str(i): risk for i, risk in enumerate(risks)})
    found = choose_class(contest, classes, quanta=quanta, deviation=0.7)
    expected = class_choices(risks, rows, penalties, quanta, 0.7)
    assert [int(line.learner) for line in contest.log] == expected
    assert found == str(max(range(len(limits)), key=expected.count))


@given(
    values=st.lists(st.floats(0.01, 10), min_size=1, max_size=8),
    slack=st.floats(0.05, 3),
)
def test_smallest_cover_satisfies_inequality_11_with_the_fewest(
    values: list[float], slack: float
) -> None:
    picked = smallest_cover(values, slack)
    for value in values:
        assert any(value <= values[k] <= (1 + slack) * value for k in picked)
    assert len(picked) == coarse_grid_size(values, slack)


@given(
    rows=st.lists(st.integers(1, 1000), min_size=1, max_size=12),
    slack=st.floats(0.1, 2),
    quanta=st.integers(1, 1000),
)
def test_coarse_grid_satisfies_inequality_11_at_its_own_size(
    rows: list[int], slack: float, quanta: int
) -> None:
    classes = {
        str(i): ModelClass(n, lambda m, i=i: (i + 1) / m ** (0.3 + 0.05 * i))  # type: ignore[misc]
        for i, n in enumerate(rows)
    }
    grid = coarse_grid(classes, quanta=quanta, slack=slack)
    at = {k: c.penalty(quanta * c.rows / len(grid)) for k, c in classes.items()}
    for value in at.values():
        assert any(value <= at[j] <= (1 + slack) * value for j in grid)


@pytest.mark.parametrize("slack", [0.2, 0.5, 1.0])
def test_coarse_grid_grows_logarithmically_for_vc_classes(slack: float) -> None:
    for count in (10, 100, 1000):
        grid = coarse_grid(vc_nest(count), quanta=100, slack=slack)
        # g_i is in proportion to d_i, up to the rounding of n_i to whole examples.
        assert len(grid) <= 2 + math.log(count) / math.log(1 + slack) * 1.1
        assert str(count) in grid


def test_choose_nested_trades_risk_against_penalty() -> None:
    classes = vc_nest(8, rows=100)
    # From the third class on nothing more is gained.
    risks = {name: noisy(0.5 - 0.15 * min(int(name), 3), 1) for name in classes}
    contest = race(risks)
    chosen = choose_nested(contest, classes, quanta=1000, slack=0.1)
    assert chosen == "3"
    grid = coarse_grid(classes, quanta=1000, slack=0.1)
    shares = [1000 * classes[name].rows // len(grid) for name in grid]
    assert [line.amount for line in contest.log] == shares


def test_choose_nested_trains_classes_on_real_rows() -> None:
    """Trees up to some depths: a quantum trains shallower ones on more rows."""
    X, y = load_breast_cancer(return_X_y=True)
    parts = split(X[:, :4], y)
    classes = {
        f"depth {depth}": ModelClass(
            400 // depth, vc_penalty(tree_dimension(2**depth, 4), scale=0.05)
        )
        for depth in (1, 2, 4)
    }
    arms = {
        f"depth {depth}": ExamplesArm(
            DecisionTreeClassifier(max_depth=depth), parts, SCORES["accuracy"]
        )
        for depth in (1, 2, 4)
    }
    contest = Race(arms, limit=len(parts[0].y))
    chosen = choose_nested(contest, classes, quanta=4)
    assert not contest.failed
    assert contest.loss(chosen) < 0.2


def test_penalties_fall_with_examples_and_rise_with_complexity() -> None:
    assert vc_penalty(4)(100) == pytest.approx(0.2)
    assert (
        vc_penalty(tree_dimension(8, 10))(1000)
        > vc_penalty(tree_dimension(4, 10))(1000)
        > vc_penalty(tree_dimension(4, 10))(4000)
    )
    assert vc_penalty(tree_dimension(1, 1))(100) == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: vc_penalty(0), "dimension 0"),
        (lambda: tree_dimension(0, 3), "0 leaves"),
        (lambda: coarse_grid({}, quanta=10), "0 classes"),
        (lambda: coarse_grid(vc_nest(3), quanta=10, slack=0.0), "slack 0.0"),
        (
            lambda: choose_class(
                race({"1": noisy(0, 0), "2": noisy(0, 0)}), vc_nest(2), quanta=1
            ),
            "1 quanta for 2 classes",
        ),
        (
            lambda: choose_class(race({"x": noisy(0, 0)}), vc_nest(1), quanta=9),
            "must be the same",
        ),
        (
            lambda: choose_nested(
                race({str(d): noisy(0, 0) for d in range(1, 9)}),
                vc_nest(8),
                quanta=2,
            ),
            "2 quanta for a grid of",
        ),
        (
            lambda: choose_class(
                Race({"1": lambda n: TrainingOutcome(0.5)}, carries_on=True),
                vc_nest(1),
                quanta=3,
            ),
            "no training score",
        ),
    ],
)
def test_budgeted_choice_refuses_what_it_cannot_use(
    call: Callable[[], object], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        call()


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("prior", 1.0),
        ("logistic", 11.0),
        ("ridge", 11.0),
        ("naive_bayes", 40.0),
        ({"name": "tree", "max_depth": 3}, tree_dimension(8, 10)),
        ({"name": "tree", "min_samples_leaf": 20}, tree_dimension(50, 10)),
        ({"name": "forest", "max_depth": 3}, tree_dimension(8, 10)),
        ({"name": "lightgbm", "min_child_samples": 1}, tree_dimension(31, 10)),
        ({"name": "hist_boosting", "max_leaf_nodes": 4}, tree_dimension(4, 10)),
        ("xgboost", tree_dimension(64, 10)),
        ("ada_boost", tree_dimension(2, 10)),
    ],
)
def test_dimensions_follow_settings(spec: Any, expected: float) -> None:
    learner = make_learner(spec, 0)
    assert dimension_of(learner, rows=1000, columns=10, classes=2) == expected


def test_three_classes_take_three_linear_models() -> None:
    learner = make_learner("logistic", 0)
    assert dimension_of(learner, rows=1000, columns=10, classes=3) == 33.0


def test_obms_gives_fast_classes_more_examples_and_most_to_the_best() -> None:
    def arm(score: float, second: float) -> Callable[[int], TrainingOutcome]:
        return lambda n: TrainingOutcome(score, score, fit_s=n * second)

    arms = {"fast": arm(0.7, 1.0), "slow": arm(0.9, 2.0), "poor": arm(0.2, 1.0)}
    contest, alike = Race(arms, limit=800), dict.fromkeys(arms, 4.0)
    assert obms(contest, dimensions=alike, deviation=0.01) == "slow"
    assert {line.amount for line in contest.log[:3]} == {40}
    then = {line.learner: line.amount for line in contest.log[3:6]}
    assert then == {"fast": 40 + 100, "slow": 40 + 50, "poor": 40 + 100}
    # a rich class counts as if it had all rows, and no more than there are
    rich = alike | {"slow": 1e6}
    assert obms(Race(arms, limit=800), dimensions=rich, deviation=0.01) == "slow"
    with pytest.raises(BadInput, match="2 quanta for 3 classes"):
        obms(contest, dimensions=alike, quanta=2)
