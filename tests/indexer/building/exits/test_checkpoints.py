"""Exits at a plan's checkpoints: the rule, its fitting, its promise."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.indexer.building.exits.checkpoints import (
    Answers,
    CheckpointExits,
    CheckpointMargins,
    fit_exits,
)
from polydom.models.qwyc.optimal_stopping import Stopping
from tests.support.oracles.early_exit import exit_of

NEVER = math.inf


def made(margins: Any, choices: Any) -> Answers:
    return Answers(np.array(margins, np.float64), np.array(choices, np.int64))


@st.composite
def drawn_answers(draw: st.DrawFn, checkpoints: int = 3) -> Answers:
    """Margins in quarters, so that they are often tied."""
    size = draw(st.integers(1, 8)) * checkpoints
    margins = draw(st.lists(st.integers(1, 8), min_size=size, max_size=size))
    choices = draw(st.lists(st.integers(0, 2), min_size=size, max_size=size))
    return made(
        np.reshape(margins, (-1, checkpoints)) / 4,
        np.reshape(choices, (-1, checkpoints)),
    )


def surer(items: int, checkpoints: int = 5, seed: int = 0) -> Answers:
    """Models that see a hidden number better and better; their sign decides."""
    draws = np.random.default_rng(seed)
    hidden = draws.normal(size=(items, 1))
    noise = draws.normal(size=(items, checkpoints)).cumsum(axis=1)[:, ::-1] / 3
    seen = hidden + noise - noise[:, -1:]
    return Answers(np.abs(seen), (seen > 0).astype(np.int64))


def counts_of(exits: CheckpointExits, answers: Answers) -> Any:
    """Changed answers of each of three classes."""
    return np.bincount(exits.changed(answers), minlength=3)


def test_answers_beyond_the_margin_and_goes_on_at_it() -> None:
    exits = CheckpointExits(np.array([NEVER, 0.5, NEVER]))
    answers = made([[9, 0.5, 1], [9, 0.75, 1]], [[0, 1, 2], [0, 1, 2]])
    choices, at = exits.evaluate(answers)
    assert (choices.tolist(), at.tolist()) == ([2, 1], [2, 1])
    assert exits.changed(answers).tolist() == [2]


@given(drawn_answers(), st.lists(st.integers(-1, 9), min_size=2, max_size=2))
def test_evaluate_does_what_going_on_by_hand_does(
    answers: Answers, quarters: list[int]
) -> None:
    margins = [*(q / 4 for q in quarters), NEVER]
    choices, at = CheckpointExits(np.array(margins)).evaluate(answers)
    slow = [
        exit_of(own, given, margins)
        for own, given in zip(
            answers.margins.tolist(), answers.choices.tolist(), strict=True
        )
    ]
    assert list(zip(choices.tolist(), at.tolist(), strict=True)) == slow


@given(drawn_answers(checkpoints=2), st.sampled_from([0.0, 0.2, 0.5]))
def test_no_other_margin_is_cheaper_with_as_few_changes(
    answers: Answers, alpha: float
) -> None:
    """With one exit the least cost is that of the most exits allowed."""
    exits = fit_exits(answers, [1.0, 2.0], np.full(3, alpha))
    changed, at = counts_of(exits, answers), exits.evaluate(answers)[1]
    whole = np.bincount(answers.choices[:, -1], minlength=3)
    assert (changed <= alpha * whole).all()
    for margin in [-1.0, *answers.margins[:, 0].tolist()]:
        other = CheckpointExits(np.array([margin, NEVER]))
        if (counts_of(other, answers) <= changed).all():
            assert (other.evaluate(answers)[1] == 0).sum() <= (at == 0).sum()


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1])
def test_changes_at_most_alpha_and_saves_more_with_more(alpha: float) -> None:
    answers = surer(2000)
    exits = fit_exits(answers, [0.0, 1.0, 2.0, 4.0, 8.0], np.full(2, alpha))
    assert len(exits.changed(answers)) <= alpha * 2000
    stops = np.bincount(exits.evaluate(answers)[1], minlength=5)
    assert stops[:4].sum() > (200 if alpha else 20)
    assert exits.thresholds[-1] == NEVER


def test_scale_of_a_models_scores_does_not_matter() -> None:
    answers = surer(1000)
    scale = np.array([2.0**-20, 1.0, 64.0, 7.0, 2.0**20])
    scaled = Answers(answers.margins * scale, answers.choices)
    costs = [0.0, 1.0, 2.0, 4.0, 8.0]
    one, other = (fit_exits(a, costs, np.full(2, 0.01)) for a in (answers, scaled))
    np.testing.assert_allclose(one.thresholds * scale, other.thresholds, rtol=1e-6)


def test_a_calibrated_rate_holds_on_fresh_items() -> None:
    answers = surer(12_000)
    parts = [
        Answers(answers.margins[i : i + 4000], answers.choices[i : i + 4000])
        for i in (0, 4000, 8000)
    ]
    exits = fit_exits(
        parts[0],
        [0.0, 1, 2, 4, 8],
        np.full(2, 0.02),
        confidence=0.95,
        calibration=parts[1],
    )
    assert exits.promise is not None
    assert exits.promise.bounds == (0.02, 0.02)
    assert len(exits.changed(parts[2])) <= 0.02 * 4000
    assert (exits.evaluate(parts[2])[1] < 4).mean() > 0.1


def test_what_cannot_be_promised_never_exits() -> None:
    """Margins that say nothing leave no rate that calibration would confirm."""
    draws = np.random.default_rng(0)
    blind = Answers(draws.random((600, 2)), draws.integers(0, 2, (600, 2)))
    exits = fit_exits(
        blind, [1, 1], np.full(2, 0.02), confidence=0.95, calibration=blind
    )
    assert (exits.evaluate(blind)[1] == 1).all()


def test_the_ladder_grows_bolder() -> None:
    answers = surer(1000)
    margins = CheckpointMargins(answers)
    stopping = Stopping(margins, costs=np.array([1e-9, 1, 2, 4, 8]), both=False)
    ladder = [
        CheckpointExits(-lower * margins.scale)
        for lower, _ in stopping.ladder(np.ones(2))
    ]
    means = [exits.evaluate(answers)[1].mean() for exits in ladder]
    assert means[0] > means[-1]
    assert all(a >= b - 0.2 for a, b in itertools.pairwise(means))


def test_one_checkpoint_has_no_exit() -> None:
    assert fit_exits(
        made([[1.0]], [[0]]), [3.0], np.full(2, 0.1)
    ).thresholds.tolist() == [NEVER]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"costs": [1.0]}, "costs must be 2"),
        ({"costs": [1.0, -1.0]}, "none below 0"),
        ({"confidence": 0.95}, "needs calibration rows"),
        ({"calibration": made([[1, 1]], [[0, 0]])}, "without a confidence"),
        (
            {"confidence": 0.95, "calibration": made([[1, 1]], [[0, 0]])},
            "needs at least 29",
        ),
    ],
)
def test_what_cannot_be_fitted(changes: dict[str, Any], message: str) -> None:
    arguments: dict[str, Any] = {
        "answers": made([[1, 2], [3, 4]], [[0, 0], [1, 0]]),
        "costs": [1.0, 1.0],
        "alphas": np.full(2, 0.1),
    }
    with pytest.raises(BadInput, match=message):
        fit_exits(**(arguments | changes))


@pytest.mark.parametrize(
    ("margins", "choices", "message"),
    [
        (np.zeros(3), np.zeros(3, np.int64), r"must be \(N, K \+ 1\)"),
        (np.zeros((2, 3)), np.zeros((2, 2), np.int64), r"must be \(N, K \+ 1\)"),
        (np.zeros((0, 3)), np.zeros((0, 3), np.int64), "at least one item"),
        (np.full((2, 3), np.nan), np.zeros((2, 3), np.int64), "not a finite number"),
    ],
)
def test_answers_that_cannot_be(margins: Any, choices: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        Answers(margins, choices)
