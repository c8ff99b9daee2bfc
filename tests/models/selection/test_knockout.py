"""Knockouts between learners: who trains on what, and who wins."""

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer
from sklearn.dummy import DummyClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from polydom.features.errors import BadInput
from polydom.models.selection.knockout import WORK, knockout, plan_rounds
from polydom.models.selection.race import Race, TrainingOutcome
from polydom.models.selection.select import Running, select
from tests.support.oracles.learner_races import knockout_on_table

X, y = load_breast_cancer(return_X_y=True)
SCORES = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=20
)


def rising(start: int, end: int) -> Callable[[int], float]:
    """A learning curve from one score to another; curves may cross."""
    return lambda n: start / 8 + (end - start) / 8 * n / 64


@given(curves=SCORES, rounds=st.sampled_from([(), (64,), (4, 16, 64), (1, 4, 16, 64)]))
def test_knockout_trains_and_chooses_as_its_slow_twin(
    curves: list[tuple[int, int]], rounds: tuple[int, ...]
) -> None:
    scores = [rising(*curve) for curve in curves]
    arms = {
        str(i): lambda n, score=score: TrainingOutcome(score(n))
        for i, score in enumerate(scores)
    }
    race = Race(arms, limit=64)
    winner = knockout(race, rounds=rounds)
    expected, log = knockout_on_table(scores, rounds or (64,))
    assert winner == str(expected)
    assert [(int(line.learner), line.amount) for line in race.log] == log


def test_of_equal_learners_the_first_wins_and_of_others_the_better() -> None:
    def arm(score: float) -> Callable[[int], TrainingOutcome]:
        return lambda n: TrainingOutcome(score)

    scores = [0.5, 0.75, math.nextafter(0.75, 1), math.nextafter(0.75, 1)]
    arms = {str(i): arm(score) for i, score in enumerate(scores)}
    assert knockout(Race(arms, limit=9)) == "2"


@pytest.mark.parametrize("rounds", [(), (5, 20)])
def test_a_learner_that_fails_leaves_and_the_others_go_on(
    rounds: tuple[int, ...],
) -> None:
    def fails(n: int) -> TrainingOutcome:
        if n > 9:
            raise MemoryError("too many rows")
        return TrainingOutcome(1.0)

    arms = {"fails": fails, "good": lambda n: TrainingOutcome(0.5)}
    race = Race(arms, limit=20)
    assert knockout(race, rounds=rounds) == "good"
    assert race.failed["fails"].error == "MemoryError: too many rows"
    with pytest.raises(BadInput, match="every learner failed"):
        knockout(Race({"fails": fails}, limit=20))


@given(
    rows=st.integers(1, 10**7),
    columns=st.integers(1, 5000),
    outputs=st.integers(1, 50),
    folds=st.integers(1, 5),
)
def test_rounds_grow_by_four_to_all_rows_and_then_to_all_folds(
    rows: int, columns: int, outputs: int, folds: int
) -> None:
    rounds = plan_rounds(rows, columns, outputs, folds)
    each = math.sqrt(columns * outputs)
    assert rounds[-1] == rows * folds
    assert list(rounds) == sorted(set(rounds))
    if len(rounds) == 1:
        assert folds == 1 or rows * folds * each <= WORK
    else:
        assert rows * folds * each > WORK
        assert {rows, min(2, folds) * rows} <= set(rounds)
    for fewer, more in itertools.pairwise(rounds):
        if more <= rows:
            assert fewer == math.ceil(more / 4)
            assert more * each > WORK
    # the first round is cheap, unless rows are few
    assert rounds[0] * each <= WORK or rounds[0] < 4000


def test_few_rows_are_one_round_and_many_rows_are_several() -> None:
    assert plan_rounds(100, 4, 3, 5) == (500,)
    assert plan_rounds(2000, 15, 1, 5) == (2000, 4000, 10_000)
    assert plan_rounds(20_000, 16, 1, 2) == (5000, 20_000, 40_000)
    assert plan_rounds(400_000, 54, 7) == (1563, 6250, 25_000, 100_000, 400_000)


LEARNERS = {
    "dummy": DummyClassifier(),
    "bayes": GaussianNB(),
    **{f"depth {k}": DecisionTreeClassifier(max_depth=k) for k in range(1, 7)},
}


def raced(**more: Any) -> list[tuple[str, int, float | None]]:
    chosen = select(LEARNERS, X, y, strategy="knockout", **more)
    return [(line.learner, line.amount, line.score) for line in chosen.log]


def test_folds_are_trained_in_turn_and_none_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("polydom.models.selection.knockout.WORK", 2000)
    fitted: list[int] = []
    real = GaussianNB.fit

    def fit(self: Any, X: Any, y: Any, sample_weight: Any = None) -> Any:
        fitted.append(len(X))
        return real(self, X, y, sample_weight)

    monkeypatch.setattr(
        GaussianNB, "partial_fit", lambda self, X, y, classes: fit(self, X, y)
    )
    log = raced(validation=3)
    amounts = [amount for _, amount, _ in log]
    assert amounts == [379] * 8 + [2 * 379] * 4 + [3 * 379] * 4
    assert fitted in ([379], [379] * 3)
    # the mean of the folds is that of a race on all folds at once
    whole = select(LEARNERS, X, y, strategy="all", validation=3)
    scores = {line.learner: line.score for line in whole.log}
    assert [score for _, _, score in log[12:]] == [
        scores[name] for name, _, _ in log[12:]
    ]


def test_the_same_rows_and_seed_give_the_same_learner() -> None:
    fold = np.arange(len(y)) % 4
    folds = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in (0, 1)]
    assert raced(validation=folds) == raced(validation=folds)


def test_a_knockout_that_was_interrupted_goes_on_from_its_log() -> None:
    whole = select(LEARNERS, X, y, validation=3)
    lines = [line.to_dict() for line in whole.log]
    again = partial(select, LEARNERS, X, y, validation=3)
    first = again(running=Running(log=lines[:5]))
    assert [line.score for line in first.log] == [line.score for line in whole.log]
    assert again(running=Running(log=lines)).log == whole.log
