"""What a server says of an index's early exits."""

from dataclasses import replace
from typing import Any, get_args

import msgspec
import numpy as np
import pytest

from polydom.indexer.index.machine_speed import MachineFactors
from polydom.models.trees.self_test import Kind
from polydom.server.runtime.describe_index import (
    describe_index,
    read_exits,
    read_schedules,
)
from polydom.server.schema.facts import (
    ClassExitFacts,
    ExitFacts,
    ForecastFacts,
    Kernels,
    PlanExitFacts,
    ScheduleFacts,
    ScoreFacts,
)
from tests.support.indexes import fetched, stopping_records
from tests.support.indexes.served import make_index
from tests.support.planners import BUILT, index_that_says

NAMES = ((), ("length",), ("length", "marks"), ("length", "marks", "words"))


def read(built: Any) -> ExitFacts | None:
    package = index_that_says(built).package
    assert package is not None
    return read_exits(package, NAMES)


def test_kernels_on_the_wire_are_those_there_are() -> None:
    assert get_args(Kernels) == get_args(Kind)


def test_facts_are_those_of_the_build_with_their_means() -> None:
    assert read(BUILT) == ExitFacts(
        alpha=0.1,
        confidence=0.9,
        fitted=200,
        calibrated=100,
        early=0.25,
        saved=0.125,
        plans=[
            PlanExitFacts((), 0.0, 0.0, 0.0),
            PlanExitFacts(NAMES[3], 0.5, 0.25, 0.01),
        ],
    )


def test_promises_are_told_by_label() -> None:
    prior, best = BUILT["plans"]
    classes = [
        {"bound": 0.1, "items": 90, "changed": 4},
        {"bound": 0.0, "items": 10, "changed": 0},
    ]
    more = {"alphas": [0.1, 0.05], "sides": "negative"}
    facts = read({**BUILT, **more, "plans": [prior, {**best, "classes": classes}]})
    assert facts is not None
    assert facts.alphas == {"ham": 0.1, "spam": 0.05}
    assert facts.sides == "negative"
    assert facts.plans[1].classes == [
        ClassExitFacts("ham", 0.1, 90, 4),
        ClassExitFacts("spam", 0.0, 10, 0),
    ]


def test_scores_of_early_answers_are_told_beside_whole_ones() -> None:
    prior, best = BUILT["plans"]
    early = {"log_loss": 0.5, "error": 0.0625, "brier": 0.25}
    scores = {"items": 40, "early": early, "whole": {"log_loss": 0.25, "error": 0.0}}
    facts = read({**BUILT, "plans": [prior, {**best, "scores": scores}]})
    assert facts is not None
    assert facts.plans[0].scores is None
    told = ForecastFacts(0.5, 0.0625, 0.25), ForecastFacts(0.25, 0.0, None)
    assert facts.plans[1].scores == ScoreFacts(40, *told)


def test_without_a_confidence_nothing_is_promised() -> None:
    facts = read({**BUILT, "confidence": None, "calibrated": 0})
    assert facts is not None
    assert (facts.confidence, facts.calibrated) == (None, 0)


def test_an_index_without_exits_says_so() -> None:
    index = make_index()
    assert describe_index(index).exits is None
    assert read({}) is None
    assert read({**BUILT, "plans": []}) is None


def test_facts_name_the_sets() -> None:
    index = index_that_says(BUILT)
    exits = describe_index(index).exits
    assert exits is not None
    assert exits.plans[1].features == ("length", "marks", "words")


SCHEDULE = {"base_models": 300, "mean": 0.125, "p99": 0.5, "mean_us": 12.5}
SAID = ScheduleFacts(300, 0.125, 0.5, 12.5)


def built_with(schedule: Any) -> Any:
    prior, best = BUILT["plans"]
    return {**BUILT, "plans": [prior, {**best, "schedule": schedule}]}


def test_a_set_whose_model_follows_a_schedule_says_so() -> None:
    index = index_that_says(built_with(SCHEDULE))
    facts = describe_index(index)
    assert [said.schedule for said in facts.sets] == [None, None, None, SAID]
    times = {"mean_us": 1, "p99_us": 2.5, "whole_us": 9}
    package = index_that_says(built_with({**SCHEDULE, **times})).package
    assert package is not None
    assert read_schedules(package) == {3: ScheduleFacts(300, 0.125, 0.5, 1.0, 2.5, 9.0)}


@pytest.mark.parametrize("unit", ["s", "usd"])
def test_times_of_a_schedule_are_those_of_where_it_is_served(unit: str) -> None:
    index = stopping_records.make_index()
    times = {"mean_us": 1, "p99_us": 2, "whole_us": 3}
    plan = {**BUILT["plans"][1], "row": 2, "schedule": {**SCHEDULE, **times}}
    assert index.package is not None
    meta = {**index.package.meta, "unit": unit, "exits": {**BUILT, "plans": [plan]}}
    index = replace(index, package=replace(index.package, meta=meta))
    slower = index.rescaled(MachineFactors(1.0, np.ones(0), np.ones(2), 2.0), [0, 0])
    for served, factor in ((index, 1), (slower, 2)):
        assert served.package is not None
        facts = describe_index(served)
        schedule = facts.sets[2].schedule
        assert schedule is not None
        measured = [100 * factor, 50 * factor, 150 * factor]
        found = [schedule.p99_us, schedule.mean_us, schedule.whole_us]
        assert found == pytest.approx(measured if unit == "s" else [2, 1, 3])


def test_schedules_alone_are_exits_too() -> None:
    def without_margins(schedule: Any) -> ExitFacts | None:
        package = index_that_says(built_with(schedule)).package
        assert package is not None
        return read_exits(replace(package, margins=()), NAMES)

    assert without_margins(SCHEDULE) == read(BUILT)
    assert without_margins(None) is None


def test_fetches_are_told_with_what_they_are_worth() -> None:
    facts = describe_index(fetched.make_index())
    assert facts.fetches
    assert [one.name for one in facts.fetches] == ["employer", "orders"]
    assert facts.fetches[1].price == {"usd": 0.002}
    assert facts.waits
    assert facts.waits[0].came == [0.0, 0.0]
    assert facts.waits[-1].quality > 0.89
    told = msgspec.to_builtins(describe_index(make_index()))
    assert not {"fetches", "waits"} & told.keys()
