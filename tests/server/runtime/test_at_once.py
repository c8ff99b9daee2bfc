"""Answers without a server keep of their budgets what making them takes."""

import pytest

from polydom.features.errors import BadInput, BadItem
from polydom.server.engine.planner import Planner
from polydom.server.runtime.at_once import AFTER_S, AtOnce
from polydom.server.runtime.translator import Translator
from polydom.server.schema.predict import Terms
from polydom.server.settings import Settings
from tests.support.planners import INDEX, extractor_of, planner_of
from tests.support.served import HAM, SPAM


class Ticking:
    """A clock that moves by a millisecond whenever somebody looks."""

    now_s = 50.0

    def __call__(self) -> float:
        self.now_s += 1e-3
        return self.now_s


class Stalling:
    """A clock that moves by a microsecond, and once by 20 ms after so many looks."""

    now_s = 50.0
    stalls_after = 0

    def __call__(self) -> float:
        self.now_s += 1e-6
        if self.stalls_after:
            self.stalls_after -= 1
            self.now_s += 0.0 if self.stalls_after else 20e-3
        return self.now_s


def test_what_making_an_answer_takes_is_kept_of_the_next_budget() -> None:
    planner = Planner(INDEX, extractor_of(INDEX), now=Ticking(), busy=float)
    at_once = AtOnce(Translator(planner, Settings()))
    first, second = (at_once.answer(Terms(budget_ms=50.0), HAM) for _ in range(2))
    assert first.reserve_us == 2 * AFTER_S * 1e6
    assert isinstance(second.reserve_us, float)
    assert 4000.0 <= second.reserve_us <= 8000.0  # twice a few looks
    assert second.budget_met
    scarce = at_once.answer(Terms(budget_ms=7.0), HAM)
    assert (scarce.features, scarce.budget_met) == ((), True)
    assert not at_once.answer(Terms(budget_ms=3.0), HAM).budget_met


@pytest.mark.parametrize("look", range(1, 13))
def test_a_stall_wherever_it_comes_leaves_later_answers_their_plan(look: int) -> None:
    clock = Stalling()
    planner = Planner(INDEX, extractor_of(INDEX), now=clock, busy=float)
    at_once = AtOnce(Translator(planner, Settings()))
    for _ in range(20):
        usual = at_once.answer(Terms(budget_ms=8.0), HAM)
    assert usual.features
    clock.stalls_after = look
    while clock.stalls_after:
        at_once.answer(Terms(budget_ms=8.0), HAM)
    after = [at_once.answer(Terms(budget_ms=8.0), HAM) for _ in range(5)]
    assert [answer.features for answer in after] == 5 * [usual.features]


def test_what_cannot_be_asked_is_refused() -> None:
    at_once = AtOnce(Translator(planner_of(INDEX), Settings()))
    assert at_once.answer(Terms(budget_ms=900.0), SPAM).label == "spam"
    with pytest.raises(BadItem, match="a text was expected, not bytes"):
        at_once.answer(Terms(budget_ms=900.0), b"GIF")
    with pytest.raises(BadInput, match="budget_ms is -1"):
        at_once.answer(Terms(budget_ms=-1.0), HAM)
