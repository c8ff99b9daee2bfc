"""Executions that ask after every feature what to compute next."""

from dataclasses import replace
from typing import Any

import pytest

from polydom.features.errors import BadFeature, BadItem
from polydom.features.extract import Extractor
from polydom.indexer.index.index import Index
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.monitoring.cost_drift import CostDrift
from polydom.server.engine.planning.index_terms import make_anytime
from polydom.server.engine.request import Caller, Request
from polydom.server.errors import Abandoned
from tests.support.indexes.served import WIDTHS, make_index
from tests.support.planners import FAST, TEXT_100, typical_index, typical_planner


def request(budget_s: float, **terms: Any) -> Request:
    return Request(TEXT_100, Deadline(50.0, budget_s), **terms)


def test_any_time_spends_what_fast_features_leave_over() -> None:
    outcome = execute(typical_planner(FAST), request(4.5e-3))
    assert (outcome.row, outcome.reason) == (2, "budget")
    assert outcome.predicted == outcome.charged  # of what was bought
    assert outcome.charged == pytest.approx(5.2e-3)
    best = execute(typical_planner(FAST), request(7e-3))
    assert (best.row, best.reason) == (3, None)
    unknown = execute(typical_planner(FAST, typical_index([])), request(4.5e-3))
    assert (unknown.row, unknown.reason) == (1, "budget")
    assert unknown.charged == unknown.predicted


def test_any_time_begins_nothing_that_may_be_late() -> None:
    # after length there are 2 ms left; marks and the step may take 3.6
    planner = typical_planner((0.5e-3, 9.0, 9.0))
    assert execute(planner, request(2.5e-3)).row == 1


def gap_index() -> Index:
    """The index without the set of length and marks: only all three beat length."""
    index = typical_index()
    assert index.package is not None
    kept = [0, 1, 3]
    package = replace(
        index.package,
        masks=index.package.masks[kept],
        orders=tuple(index.package.orders[row] for row in kept),
        fallbacks=((0,), (0, 1), (0, 1, 1, 2)),
        models=tuple(index.package.models[row] for row in kept),
        model_s=index.package.model_s[kept],
    )
    curves, accuracies = index.coefficients[kept], index.qualities[kept]
    return Index.from_candidates(curves, accuracies, (1, 10_000), package)


@pytest.mark.parametrize(("budget_s", "row"), [(5.5e-3, 1), (7.5e-3, 2)])
def test_any_time_begins_nothing_that_leads_to_no_better_answer(
    budget_s: float, row: int
) -> None:
    """After length and marks, which take 2.5 ms, words are begun if 4.1 are left."""
    seconds = (0.5e-3, 2e-3, 1e-3)
    planner = typical_planner(seconds, gap_index())
    outcome = execute(planner, request(budget_s))
    assert outcome.row == row
    assert planner.now() - 50.0 == pytest.approx(sum(seconds[: 2 * row - 1]))


def test_any_time_stops_when_a_feature_takes_too_long() -> None:
    outcome = execute(typical_planner((5e-3, 9.0, 9.0)), request(4.5e-3))
    assert (outcome.row, outcome.reason) == (1, "budget")


def test_any_time_works_for_nothing_less_than_was_asked_for() -> None:
    """The sets are .5, .7, .8 and .95 good."""
    never = typical_planner(FAST)
    outcome = execute(never, request(8e-3, min_quality=0.96))
    assert (outcome.row, outcome.reason, outcome.charged) == (0, "infeasible", 0.2e-3)
    assert never.now() == 50.0
    in_luck = execute(typical_planner(FAST), request(4.5e-3, min_quality=0.8))
    assert (in_luck.row, in_luck.reason) == (2, "budget")
    slow = typical_planner((2e-3, 9.0, 9.0))
    short = execute(slow, request(4.5e-3, min_quality=0.8))
    assert (short.row, short.reason) == (1, "infeasible")
    assert short.quality < 0.8


def test_any_time_is_concluded_by_another_thread_with_what_is_complete() -> None:
    execution = begin(typical_planner(FAST), request(4.5e-3))
    assert execution.longest == pytest.approx(4.5e-3)
    outcome = execution.conclude()
    assert (outcome.row, outcome.reason) == (0, "overrun")
    execution.stopped = True
    with pytest.raises(Abandoned):
        execution.run()
    gone = Caller()
    gone.gone = True
    with pytest.raises(Abandoned):
        begin(typical_planner(FAST), request(4.5e-3, caller=gone)).run()


@pytest.mark.parametrize(
    ("budget", "waiting"),
    [(Deadline(50.0, 4.5e-3), 3), (MoneyBudget(4.5e-3), 0), (Deadline(50.0, 10e-3), 0)],
    ids=["others wait", "time does not reduce it", "the best plan fits"],
)
def test_any_time_is_not_taken_where(budget: Any, waiting: int) -> None:
    execution = begin(typical_planner(FAST), Request(TEXT_100, budget), waiting)
    assert execution.longest == execution.choice.cost
    outcome = execution.run()
    assert outcome.row == execution.choice.plan.row
    assert outcome.charged == execution.choice.cost


def test_any_time_tells_the_drift_what_all_that_was_computed_should_take() -> None:
    planner = typical_planner(FAST)
    planner.drift = CostDrift(0.5)
    execute(planner, request(4.5e-3))
    assert (planner.drift.factor, planner.drift.plans) == (1.0, 1)
    late = typical_planner((5e-3, 9.0, 9.0))
    execute(late, request(4.5e-3))
    assert late.drift.factor > 1.0


@pytest.mark.parametrize(
    ("error", "said"), [(ValueError(), BadFeature), (BadItem("cut off"), BadItem)]
)
def test_any_time_that_fails_or_is_left_tells_what_it_took(
    error: Exception, said: type[Exception]
) -> None:
    def fail(*inputs: Any) -> Any:
        raise error

    for seconds, exceeds in ((0.5e-3, False), (9e-3, True)):
        planner = typical_planner((0.5e-3, seconds, 0.5e-3))
        first, marks, words = planner.extractor.features
        slow = marks.function
        broken = replace(marks, function=lambda *x, slow=slow: fail(slow(*x)))
        planner.extractor = Extractor([first, broken, words], WIDTHS)
        with pytest.raises(said):
            execute(planner, request(4.5e-3))
        assert planner.drift.plans == exceeds
        execution = begin(left := typical_planner(FAST), request(4.5e-3))
        length = left.extractor.features[0]

        def leave(*inputs: Any, own: Any = length, end: Any = execution) -> Any:
            end.stopped = True
            return own.function(*inputs)

        stop = replace(length, function=leave)
        left.extractor = Extractor([stop, *left.extractor.features[1:]], WIDTHS)
        with pytest.raises(Abandoned):
            execution.run()
        assert left.drift.plans == 1


def test_any_time_is_not_for_money_or_unknown_times() -> None:
    assert make_anytime(typical_index(), "usd") is None
    assert make_anytime(make_index(), "s") is None
    assert make_anytime(typical_index(), "s") is not None


def test_any_time_is_charged_the_high_seconds_of_what_is_computed() -> None:
    """What a step takes is charged once; overhead also where nothing is computed."""
    planner = typical_planner(FAST)
    execution = begin(planner, request(7e-3))
    charged = [execution.conclude().charged]
    features = list(planner.extractor.features)
    for k, own in enumerate(features):

        def tell(*inputs: Any, own: Any = own) -> Any:
            charged.append(execution.conclude().charged)
            return own.function(*inputs)

        features[k] = replace(own, function=tell)
    planner.extractor = Extractor(features, WIDTHS)
    charged.append(execution.run().charged)
    assert charged == pytest.approx([2e-4, 2e-4, 1.2e-3, 5.2e-3, 9.2e-3])
