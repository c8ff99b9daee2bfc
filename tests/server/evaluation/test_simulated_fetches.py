"""Simulated fetches come as the index's draws say, and wait in virtual time."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.features.items import text_item
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.send_time import SendTime
from polydom.server.evaluation.labelled_items import LabelledItem
from polydom.server.evaluation.simulated_fetches import (
    SimulatedFetches,
    SkippingClock,
    refuse_simulation,
)
from polydom.server.fetching.latency import Latency
from polydom.server.runtime.request_fetches import USUAL_LAG_S
from polydom.server.runtime.translator import AtOnce, Translator
from polydom.server.runtime.waiting import TICK_S
from polydom.server.schema.wire import Answer, Fetched, Terms
from polydom.server.settings import Settings
from tests.support.clock import Clock
from tests.support.indexes import fetched, vectors
from tests.support.indexes.fetched import EMPLOYER, ORDERS, PEOPLE
from tests.support.indexes.zoo import with_exits
from tests.support.oracles.fetching import wait

INDEX = fetched.make_index()
QUALITIES = {0: 0.6, EMPLOYER: 0.75, ORDERS: 0.8, EMPLOYER | ORDERS: 0.9}
SEED = 3


def simulation(
    draws: NDArray[np.float64] | None = None, clock: SkippingClock | None = None
) -> Callable[[Terms, Any], Answer]:
    """Fetches that come after drawn times, while all else takes no time."""
    assert INDEX.package is not None
    clock = clock or SkippingClock(Clock())
    planner = Planner(INDEX, INDEX.package.extractor(), now=clock)
    if draws is not None:
        planner.adopt(INDEX, replace(INDEX.package, arrivals=draws))
    made = SimulatedFetches(Translator(planner, Settings()), clock)
    MADE.append(made)
    return made.asker(SEED)


MADE: list[SimulatedFetches] = []  # by the current test


@pytest.fixture(autouse=True)
def closed_at_last() -> Iterator[None]:
    yield
    while MADE:
        MADE.pop().close()


def states(answer: Answer) -> tuple[str, ...]:
    assert isinstance(answer.fetched, dict)
    return tuple(one.state for one in answer.fetched.values())


def came_in(answer: Answer) -> int:
    return sum(1 << u for u, state in enumerate(states(answer)) if state == "came")


def sent_in(answer: Answer) -> int:
    return sum(1 << u for u, state in enumerate(states(answer)) if state != "not_sent")


def late(lag: SendTime, began_s: float, ended_s: float) -> None:
    lag.add(0.0, began_s + ended_s)


@pytest.mark.parametrize("budget_ms", [0.5, 2.5, 5.0, 12.0, 40.0])
def test_waits_end_as_in_a_simulation_step_by_step(budget_ms: float) -> None:
    draws = fetched.draw_arrivals()
    latencies = [Latency(own) for own in draws.T]
    clock = SkippingClock(Clock())
    simulated, rng = simulation(clock=clock), np.random.default_rng(SEED)
    lag = SendTime([USUAL_LAG_S])
    compared = 0
    for number in range(60):
        began_s = clock()
        answer = simulated(Terms(budget_ms=budget_ms), PEOPLE[number % 4])
        draw = draws[rng.integers(len(draws))].tolist()
        assert isinstance(answer.budget_us, float)
        assert isinstance(answer.reserve_us, float)
        assert isinstance(answer.fetch_us, float)
        left_s = (answer.budget_us - answer.reserve_us) / 1e6
        # 50 us of the best row are kept for the answer, and the event loop is late
        until_s = left_s - 5e-5 - lag.at(began_s)
        on_late = partial(late, lag, began_s)
        twin = wait(draw, latencies, QUALITIES, 1, until_s, TICK_S, on_late)
        # the first time, each free fetch is tried
        if twin.close or not number:
            continue
        compared += 1
        assert sent_in(answer) == twin.sent
        assert (answer.price == 0.002) == bool(twin.sent & ORDERS)
        assert came_in(answer) == twin.came
        assert answer.expected_quality == QUALITIES[twin.came]
        assert answer.fetch_us / 1e6 == pytest.approx(twin.waited_s, abs=twin.near_s)
        assert answer.elapsed_us == pytest.approx(answer.fetch_us, abs=0.2)
        assert answer.budget_met
    assert compared >= 15


def test_the_answer_is_that_of_a_record_with_what_came() -> None:
    draws = np.tile([1e-3, math.inf], (9, 1))
    answer = simulation(draws)(Terms(budget_ms=20), PEOPLE[1])
    assert INDEX.package is not None
    planner = Planner(INDEX, INDEX.package.extractor(), now=Clock())
    at_once = AtOnce(Translator(planner, Settings()))
    own = {name: PEOPLE[1][name] for name in ("age", "height", "job")}
    expected = at_once.answer(Terms(budget_ms=20), own)
    assert (answer.label, answer.scores) == (expected.label, expected.scores)
    assert answer.features == ("person", "work")


def test_nobody_waits_for_a_fetch_that_never_comes() -> None:
    never = np.full((9, 2), math.inf)
    simulated = simulation(never)
    # the first time, both are tried
    first = simulated(Terms(budget_ms=900), PEOPLE[0])
    assert states(first) == ("late", "late")
    answer = simulated(Terms(budget_ms=900), PEOPLE[0])
    assert states(answer) == ("not_sent", "not_sent")
    assert (answer.features, answer.fetch_us) == (("person",), 0.0)
    patient = simulation(never)(Terms(budget_ms=900, fetch="all"), PEOPLE[0])
    assert states(patient) == ("late", "late")
    assert patient.reason == "late_fetch"
    assert isinstance(patient.fetch_us, float)
    assert 890e3 < patient.fetch_us < 900e3


def test_what_comes_at_once_is_all_used() -> None:
    answer = simulation(np.zeros((9, 2)))(Terms(budget_ms=5), PEOPLE[0])
    assert states(answer) == ("came", "came")
    assert answer.features == ("person", "work", "history")
    assert (answer.fetch_us, answer.price) == (0.0, 0.002)


def test_a_source_that_is_always_faster_than_a_timer_is_waited_for() -> None:
    draws = np.random.default_rng(0).uniform(2e-4, 6e-4, (99, 2))
    answer = simulation(draws)(Terms(budget_ms=20), PEOPLE[0])
    assert states(answer) == ("came", "came")
    assert isinstance(answer.fetch_us, float)
    assert 400 <= answer.fetch_us <= 1200  # one after the other


def test_without_a_budget_nothing_is_sent() -> None:
    simulated = simulation()
    simulated(Terms(budget_ms=0), PEOPLE[0])  # tries free fetches
    answer = simulated(Terms(budget_ms=0), PEOPLE[0])
    assert states(answer) == ("not_sent", "not_sent")
    assert (answer.features, answer.expected_quality) == ((), 0.5)


def test_no_more_is_paid_than_allowed() -> None:
    terms = Terms(budget_ms=50, max_price=0.001)
    answer = simulation(np.zeros((9, 2)))(terms, PEOPLE[0])
    assert states(answer) == ("came", "not_sent")


def test_all_budgets_see_the_same_draws() -> None:
    draws = np.random.default_rng(0).uniform(0, 0.02, (50, 2))
    simulations = [simulation(draws) for _ in range(2)]
    fetches: list[list[Fetched]] = []
    for number in range(10):
        for one, budget_ms in zip(simulations, (500, 900), strict=True):
            answer = one(Terms(budget_ms=budget_ms), PEOPLE[number % 4])
            assert isinstance(answer.fetched, dict)
            fetches.append([*answer.fetched.values()])
    assert fetches[::2] == fetches[1::2]


@pytest.fixture
def ask_text() -> Callable[..., Answer]:
    """A function that asks about a text whose vector comes after some seconds."""
    index = with_exits(vectors.make_index())
    package = index.package
    assert package is not None
    clock = SkippingClock()
    planner = Planner(index, package.extractor([vectors.FILE]), now=clock)
    # a work of up to 0.4 s does not change what it is believed to take
    planner.corrects = False

    def ask(text: str, after_s: float, **terms: Any) -> Answer:
        planner.adopt(index, replace(package, arrivals=np.full((9, 1), after_s)))
        made = SimulatedFetches(Translator(planner, Settings()), clock)
        MADE.append(made)
        brought = {"meaning": np.array([text.count("!")], np.float32)}
        item = msgspec.structs.replace(text_item(text), brought=brought)
        return made.asker(SEED)(Terms(fetch="all", **terms), item)

    return ask


def test_a_text_is_computed_while_its_vector_is_awaited(
    ask_text: Callable[..., Answer],
) -> None:
    sure = "win a free phone!! $$ 77 " * 4  # by its length alone
    came = ask_text(sure, 0.3, budget_ms=9_000)
    assert states(came) == ("came",)
    assert not came.early
    assert {"length", "marks", "words", "digits", "meaning"} <= {*came.features}
    late = ask_text(sure, math.inf, budget_ms=1_000)
    assert (states(late), late.features, late.budget_met) == (
        ("late",),
        ("length",),
        True,
    )
    assert late.elapsed_us >= 0.9e6


def test_what_takes_too_long_is_left_out_as_in_a_server(
    ask_text: Callable[..., Answer],
) -> None:
    # two features take 0.2 s each, and should take 10 us
    answer = ask_text("0 slow free lunch", math.inf, budget_ms=300)
    assert "digits" not in answer.features
    assert answer.elapsed_us < 0.38e6
    failed = ask_text("0 marks fail: lunch?", 0.1, budget_ms=9_000)
    assert "marks" not in failed.features
    assert "meaning" in failed.features


def test_values_that_would_come_must_be_known() -> None:
    assert INDEX.package is not None
    items = [LabelledItem("0", {"age": 3, "job": "clerk"}, "flies", 1.0, None)]
    with pytest.raises(BadInput, match="mean_amount, n_orders"):
        refuse_simulation(INDEX.package, items)
    with pytest.raises(BadInput, match="has no fetches"):
        refuse_simulation(replace(INDEX.package, fetches=()), items)
