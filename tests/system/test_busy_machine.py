"""A machine that was busy answers small budgets again within a second of quiet.

And while it is busy, it keeps no more of them than is best for right answers in time.
"""

from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.items import text_item
from polydom.server.engine.budget import Deadline
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Outcome, Request
from polydom.server.engine.send_time import LASTING_S, Level, SendTime, SendTimes, weigh
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.schema.wire import Answer, PredictRequest
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.indexes.served import make_index
from tests.support.oracles.engine import right_in_time
from tests.support.planners import extractor_of

TEXT_100 = "x" * 100  # its sets cost 0.2, 1.2, 5.2 and 9.2 ms, times the scale
BUSY_S, QUIET_S = 6.0, 1.0
LONG_S = 5.6e-3  # what follows a plan on a busy machine, now and then


class Scene:
    """A server with a clock of its own, whose answers take as long to go out as told.

    Plans are quick and take no time, so that only what follows them matters.
    """

    def __init__(self) -> None:
        self.clock = Clock()
        index = make_index(scale=0.05)
        planner = Planner(index, extractor_of(index), now=self.clock)
        self.served = ServedModel(Translator(planner, Settings()), WorkQueue())
        self.served.ready = True
        resting = [1e-4] * 200
        now_s = self.clock()
        self.served.send_times = SendTimes(
            SendTime(resting, now_s), SendTime(resting, now_s)
        )

    def ask(self, budget_ms: float, after_s: float) -> Answer:
        ask, arrived_s = (
            PredictRequest(text=TEXT_100, budget_ms=budget_ms),
            self.clock(),
        )
        item = self.served.translator.item(ask)
        request, outcome = self.served.begin(ask, item, arrived_s, Caller())
        assert isinstance(outcome, Outcome)
        answer = self.served.translator.answer(request, outcome)
        self.clock.now_s += after_s
        self.served.sent(request, outcome)
        return answer

    def be_busy(self, rate: float) -> list[Answer]:
        """Answers with 5 ms on a machine that takes long after one plan in thirty."""
        answers = []
        for turn in range(round(BUSY_S * rate)):
            after_s = LONG_S if turn % 30 == 29 else 1e-4
            answers.append(self.ask(5.0, after_s))
            self.clock.now_s += max(1 / rate - after_s, 0.0)
        return answers


@pytest.mark.parametrize("rate", [25, 200])
@pytest.mark.parametrize("meanwhile", [True, False])
def test_small_budgets_get_answers_again_after_a_second_of_quiet(
    rate: float, meanwhile: bool
) -> None:
    scene = Scene()
    scene.be_busy(rate)
    scene.ask(5.0, LONG_S)
    quiet_s = scene.clock() + QUIET_S
    while meanwhile and scene.clock() + 1 / rate < quiet_s:
        scene.ask(2.0, 1e-4)
        scene.clock.now_s += 1 / rate
    scene.clock.now_s = np.nextafter(quiet_s, 100.0)
    answer = scene.ask(2.0, 1e-4)
    assert answer.features == ("length", "marks", "words")
    assert cast(float, answer.reserve_us) <= 250


def test_a_busy_machine_does_not_keep_a_small_budget_whole() -> None:
    """One answer in thirty goes out late; the prior would be wrong in half of them."""
    scene = Scene()
    answers = scene.be_busy(200)
    assert scene.served.send_times.loop.at(scene.clock()) == pytest.approx(LONG_S)
    assert all(len(answer.features) == 3 for answer in answers)
    # a large budget keeps all that there is to keep
    reserve_us = cast(float, scene.ask(50.0, 1e-4).reserve_us)
    assert reserve_us == pytest.approx(LONG_S * 1e6)


@given(
    pairs=st.lists(
        st.tuples(st.floats(0.01, 1), st.floats(0, 10)), min_size=1, max_size=8
    ),
    left_s=st.floats(0, 12),
    data=st.data(),
)
def test_what_is_kept_gives_most_right_answers_in_time(
    pairs: list[tuple[float, float]], left_s: float, data: st.DataObject
) -> None:
    falling = (sorted(values, reverse=True) for values in zip(*pairs, strict=True))
    levels = [Level(*pair) for pair in zip(*falling, strict=True)]
    drawn = sorted(data.draw(st.lists(st.floats(0, 1), min_size=13, max_size=13)))

    def accuracy(kept_s: float) -> float:
        return drawn[int(left_s - kept_s)] if kept_s < left_s else 0.0

    kept_s = weigh(levels, accuracy, accuracy(levels[-1].seconds))
    worths = [accuracy(level.seconds) for level in levels]
    best = max(level.chance for level in levels if level.seconds == kept_s)
    assert best * accuracy(kept_s) == right_in_time(levels, worths)


def test_what_is_of_no_use_is_not_weighed_in() -> None:
    index = make_index()
    planner = Planner(index, extractor_of(index), now=Clock())
    item, budget = text_item(TEXT_100), Deadline(50.0, 5.3e-3)
    plain = Request(item, budget)
    picky = Request(item, budget, min_quality=0.75)
    assert planner.quality_within(plain, 1.3e-3, 50.0) == 0.7
    assert planner.quality_within(plain, 1.1e-3, 50.0) == 0.5
    assert planner.quality_within(plain, 0.0, 50.0) == 0.0
    assert planner.quality_within(picky, 1.3e-3, 50.0) == 0.0
    assert planner.quality_within(picky, 5.3e-3, 50.0) == 0.8
    planner.drift.add(True, 50.0)
    assert planner.quality_within(plain, 1.22e-3, 50.0) == 0.5


def test_forgetting_is_at_the_second_exactly() -> None:
    send_time = SendTime([1e-4] * 200, 50.0)
    send_time.add(1.0, 60.0)
    assert send_time.at(60.0 + LASTING_S) == 1.0
    assert send_time.at(np.nextafter(60.0 + LASTING_S, 100.0)) < 3e-4
