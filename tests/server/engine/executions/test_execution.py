"""Plans carried out against the clock, and concluded by others meanwhile."""

import math
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadFeature
from polydom.features.extract import Extractor
from polydom.features.items import record_item, text_item
from polydom.models.scoring.prior import Prior
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Request
from polydom.server.errors import Abandoned
from tests.support.clock import Clock
from tests.support.decoders import decoder_of
from tests.support.indexes import records
from tests.support.indexes.served import ACCURACIES, WIDTHS
from tests.support.planners import (
    AS_PROMISED,
    INDEX,
    TEXT_100,
    ask,
    extractor_of,
    slow_planner,
    with_margins,
)


def test_execution_names_the_feature_that_cannot_be_computed() -> None:
    planner = Planner(INDEX, extractor_of(INDEX))
    with pytest.raises(BadFeature, match="'words'"):
        execute(planner, Request(text_item("a\x00b"), MoneyBudget(1.0)))


def test_execution_falls_back_to_what_is_computed_when_a_feature_overruns() -> None:
    clock = Clock()
    outcome = ask(slow_planner(clock, (1e-3, 8e-3, 4e-3)), Deadline(50.0, 10e-3))
    assert (outcome.row, outcome.reason) == (2, "overrun")
    assert outcome.finished_s == pytest.approx(50.009)
    assert outcome.predicted == pytest.approx(9.2e-3)


def test_execution_goes_on_when_an_overrun_still_leaves_enough() -> None:
    outcome = ask(slow_planner(Clock(), (2e-3, 4e-3, 4e-3)), Deadline(50.0, 10.2e-3))
    assert (outcome.row, outcome.reason) == (3, None)


def test_execution_never_falls_back_where_money_is_counted() -> None:
    clock = Clock()
    outcome = ask(slow_planner(clock, (100.0, 100.0, 100.0)), MoneyBudget(9.3e-3))
    assert (outcome.row, outcome.reason) == (3, None)


def test_execution_stops_at_the_next_checkpoint_when_the_caller_is_gone() -> None:
    clock, caller = Clock(), Caller()
    planner = slow_planner(clock, AS_PROMISED)
    caller.gone = True
    with pytest.raises(Abandoned, match="nobody waits"):
        ask(planner, Deadline(50.0, 1.0), caller=caller)
    assert clock.now_s == 50.0


@given(
    budget_s=st.floats(0, 0.02),
    waited_s=st.floats(0, 0.02),
    pauses=st.tuples(*[st.floats(0, 0.01)] * 3),
)
def test_execution_starts_no_feature_that_what_is_left_does_not_cover(
    budget_s: float, waited_s: float, pauses: tuple[float, float, float]
) -> None:
    clock = Clock(50.0 + waited_s)
    outcome = ask(slow_planner(clock, pauses), Deadline(50.0, budget_s))
    last_s = max(pauses[: outcome.row], default=0.0)
    late_s = outcome.finished_s - max(50.0 + budget_s, 50.0 + waited_s)
    # the last feature started inside the budget, and took what it took
    assert late_s <= last_s + 1e-9


def test_execution_can_be_concluded_from_elsewhere_while_a_feature_runs() -> None:
    inside, go_on = threading.Event(), threading.Event()

    def stuck(function: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*inputs: Any) -> Any:
            inside.set()
            assert go_on.wait(10)
            return function(*inputs)

        return wait

    own = extractor_of(INDEX)
    features = [
        *own.features[:2],
        replace(own.features[2], function=stuck(own.features[2].function)),
    ]
    planner = Planner(INDEX, Extractor(features, WIDTHS))
    execution = begin(planner, Request(TEXT_100, MoneyBudget(1.0)))
    thread = threading.Thread(target=execution.run)
    thread.start()
    assert inside.wait(10)
    outcome = execution.conclude()
    go_on.set()
    thread.join()
    assert (outcome.row, outcome.reason) == (2, "overrun")
    assert outcome.scores is not None
    assert sum(outcome.scores.values()) == pytest.approx(1)


def test_a_plan_that_is_sure_answers_before_its_features_end() -> None:
    index = with_margins(0.0)
    planner = Planner(index, extractor_of(index), now=Clock())
    outcome = ask(planner, MoneyBudget(1.0))
    assert (outcome.row, outcome.reason) == (1, "sure")
    assert outcome.quality == ACCURACIES[3]
    assert outcome.predicted == INDEX.cost_s(3, 100.0)


def test_what_is_concluded_while_a_plan_becomes_sure_is_of_one_moment() -> None:
    """The plan is sure after the first feature, which ends in mid-conclusion."""
    index, go_on = with_margins(0.0), threading.Event()
    package = index.package
    assert package is not None
    length, *others = extractor_of(INDEX).features

    def stuck(*inputs: Any) -> Any:
        assert go_on.wait(10)
        return length.function(*inputs)

    class Slow(Prior):
        def answer(self, row: Any) -> tuple[int, list[float]]:
            go_on.set()
            thread.join()
            return super().answer(row)

    classes = package.models[0].classes
    prior = Slow(classes, np.full(len(classes), 1 / len(classes)))
    slow = replace(package, models=(prior, *package.models[1:]))
    features = [replace(length, function=stuck), *others]
    planner = Planner(replace(index, package=slow), Extractor(features, WIDTHS))
    execution = begin(planner, Request(TEXT_100, MoneyBudget(1.0)))
    thread = threading.Thread(target=execution.run)
    thread.start()
    outcome = execution.conclude()
    assert (outcome.row, outcome.reason) == (0, "overrun")
    assert outcome.quality == ACCURACIES[0]
    assert execution.conclude().reason == "sure"


def test_a_plan_that_is_not_sure_goes_on_to_its_end() -> None:
    index = with_margins(1e9)
    planner = Planner(index, extractor_of(index), now=Clock())
    outcome = ask(planner, MoneyBudget(1.0))
    assert (outcome.row, outcome.reason) == (3, None)
    assert outcome.quality == ACCURACIES[3]


def test_a_margin_exactly_at_the_exit_is_not_enough() -> None:
    package = INDEX.package
    assert package is not None
    row = extractor_of(INDEX).extract(TEXT_100)
    _, scores = package.models[1].answer(row)
    own = max(scores) - min(scores)
    for margin, reason in ((own, None), (math.nextafter(own, 0), "sure")):
        index = with_margins(margin)
        planner = Planner(index, extractor_of(index), now=Clock())
        first = ask(planner, MoneyBudget(1.0))
        assert (first.reason == "sure" and first.row == 1) == (reason == "sure")


@pytest.mark.parametrize("margin", [math.inf, 0.0, 1e9], ids=["none", "sure", "unsure"])
def test_a_record_that_was_read_at_once_is_answered_as_any_other(margin: float) -> None:
    """Nothing is left to compute; its exits count all the same."""
    index = records.make_index()
    assert index.package is not None
    never = ((math.inf,), (math.inf, math.inf))
    package = replace(index.package, margins=(*never, (math.inf, margin, math.inf)))
    index = replace(index, package=package)
    # nothing takes time here, which predictions would follow
    planner = Planner(index, package.extractor(), now=Clock(), corrects=False)
    reader = decoder_of(planner.extractor)
    reasons = set()
    for person in records.PEOPLE:
        for budget_s in (1e-6, 35e-6, 1.0):
            one, other = (
                execute(planner, Request(item, Deadline(50.0, budget_s)))
                for item in (reader.item(person), record_item(person))
            )
            assert one == other
            reasons.add(one.reason)
    assert reasons == {"infeasible", "budget", "sure" if margin == 0 else None}


def test_a_record_that_was_read_at_once_keeps_its_row() -> None:
    index = records.make_index()
    assert index.package is not None
    planner = Planner(index, index.package.extractor(), now=(clock := Clock()))
    reader = decoder_of(planner.extractor)
    item = reader.item(records.PEOPLE[0])
    execution = begin(planner, Request(item, Deadline(50.0, 1.0)))
    assert execution.conclude().reason == "overrun"
    clock.now_s += 2.0  # what is computed already can be answered all the same
    assert (execution.run().row, execution.run().reason) == (2, None)
    execution.stopped = True
    with pytest.raises(Abandoned):
        execution.run()
