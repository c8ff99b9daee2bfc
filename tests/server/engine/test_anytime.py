"""Attempts that ask after every feature what to compute next."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadFeature
from polydom.features.extract import Extractor
from polydom.features.feature import Feature
from polydom.features.items import text_item
from polydom.indexer.index.index import Index
from polydom.server.engine.anytime import AnytimePath, make_onward
from polydom.server.engine.budget import Allowance, Deadline
from polydom.server.engine.drift import Drift
from polydom.server.engine.execution import begin, execute
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Caller, Request
from polydom.server.errors import Abandoned
from tests.support.served import FEATURES_FILE, WIDTHS, make_index

TEXT_100 = text_item("x" * 100)  # its sets cost 0.2, 1.2, 5.2 and 9.2 ms at worst
HALF = np.full(4, 0.5)  # typical times of three features and a step


def typical_index(shares: Any = HALF) -> Index:
    index = make_index()
    assert index.package is not None
    return replace(index, package=replace(index.package, typical=np.array(shares)))


class Clock:
    """A clock that features move."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def __call__(self) -> float:
        return self.now_s


def make_planner(seconds: Sequence[float], index: Index | None = None) -> Planner:
    """A planner whose features take so long, whatever the index says."""
    index, clock = index or typical_index(), Clock()

    def slowed(feature: Feature, pause_s: float) -> Feature:
        def function(*inputs: Any) -> Any:
            clock.now_s += pause_s
            return feature.function(*inputs)

        return replace(feature, function=function)

    assert index.package is not None
    own = index.package.extractor([FEATURES_FILE])
    features = [slowed(f, s) for f, s in zip(own.features, seconds, strict=True)]
    return Planner(index, Extractor(features, WIDTHS), now=clock)


def request(budget_s: float, **terms: Any) -> Request:
    return Request(TEXT_100, Deadline(50.0, budget_s), **terms)


FAST = (0.5e-3, 0.5e-3, 0.5e-3)


def test_course_spends_what_fast_features_leave_over() -> None:
    outcome = execute(make_planner(FAST), request(4.5e-3))
    assert (outcome.row, outcome.reason) == (2, "budget")
    assert outcome.predicted == pytest.approx(1.2e-3)  # of what surely fitted at first
    assert outcome.charged == pytest.approx(5.2e-3)
    best = execute(make_planner(FAST), request(7e-3))
    assert (best.row, best.reason) == (3, None)
    unknown = execute(make_planner(FAST, typical_index([])), request(4.5e-3))
    assert (unknown.row, unknown.reason) == (1, "budget")
    assert unknown.charged == unknown.predicted


def test_course_begins_nothing_that_may_be_late() -> None:
    # after length there are 2 ms left; marks and the step may take 3.6
    planner = make_planner((0.5e-3, 9.0, 9.0))
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
    curves, accuracies = index.coefficients[kept], index.accuracies[kept]
    return Index.from_candidates(curves, accuracies, (1, 10_000), package)


@pytest.mark.parametrize(("budget_s", "row"), [(5.5e-3, 1), (7.5e-3, 2)])
def test_course_begins_nothing_that_leads_to_no_better_answer(
    budget_s: float, row: int
) -> None:
    """After length and marks, which take 2.5 ms, words are begun if 4.1 are left."""
    seconds = (0.5e-3, 2e-3, 1e-3)
    planner = make_planner(seconds, gap_index())
    outcome = execute(planner, request(budget_s))
    assert outcome.row == row
    assert planner.now() - 50.0 == pytest.approx(sum(seconds[: 2 * row - 1]))


def test_course_stops_when_a_feature_takes_too_long() -> None:
    outcome = execute(make_planner((5e-3, 9.0, 9.0)), request(4.5e-3))
    assert (outcome.row, outcome.reason) == (1, "budget")


def test_course_is_concluded_by_another_thread_with_what_is_complete() -> None:
    execution = begin(make_planner(FAST), request(4.5e-3))
    assert execution.longest == pytest.approx(4.5e-3)
    outcome = execution.conclude()
    assert (outcome.row, outcome.reason) == (0, "overrun")
    execution.stopped = True
    with pytest.raises(Abandoned):
        execution.run()
    gone = Caller()
    gone.gone = True
    with pytest.raises(Abandoned):
        begin(make_planner(FAST), request(4.5e-3, caller=gone)).run()


@pytest.mark.parametrize(
    ("budget", "waiting"),
    [(Deadline(50.0, 4.5e-3), 3), (Allowance(4.5e-3), 0), (Deadline(50.0, 10e-3), 0)],
    ids=["others wait", "time does not reduce it", "the best plan fits"],
)
def test_course_is_not_taken_where(budget: Any, waiting: int) -> None:
    execution = begin(make_planner(FAST), Request(TEXT_100, budget), waiting)
    assert execution.longest == execution.choice.cost
    outcome = execution.run()
    assert outcome.row == execution.choice.plan.row
    assert outcome.charged == execution.choice.cost


def test_course_tells_the_drift_what_all_that_was_computed_should_take() -> None:
    planner = make_planner(FAST)
    planner.drift = Drift(0.5)
    execute(planner, request(4.5e-3))
    assert (planner.drift.factor, planner.drift.plans) == (1.0, 1)
    late = make_planner((5e-3, 9.0, 9.0))
    execute(late, request(4.5e-3))
    assert late.drift.factor > 1.0


def test_course_that_fails_or_is_left_tells_what_it_took() -> None:
    def fail(*inputs: Any) -> Any:
        raise ValueError

    for seconds, exceeds in ((0.5e-3, False), (9e-3, True)):
        planner = make_planner((0.5e-3, seconds, 0.5e-3))
        first, marks, words = planner.extractor.features
        slow = marks.function
        broken = replace(marks, function=lambda *x, slow=slow: fail(slow(*x)))
        planner.extractor = Extractor([first, broken, words], WIDTHS)
        with pytest.raises(BadFeature):
            execute(planner, request(4.5e-3))
        assert planner.drift.plans == exceeds
        execution = begin(left := make_planner(FAST), request(4.5e-3))
        length = left.extractor.features[0]

        def leave(*inputs: Any, own: Any = length, end: Any = execution) -> Any:
            end.stopped = True
            return own.function(*inputs)

        stop = replace(length, function=leave)
        left.extractor = Extractor([stop, *left.extractor.features[1:]], WIDTHS)
        with pytest.raises(Abandoned):
            execution.run()
        assert left.drift.plans == 1


def test_course_is_not_set_for_money_or_unknown_times() -> None:
    assert make_onward(typical_index(), "usd") is None
    assert make_onward(make_index(), "s") is None
    onward = make_onward(typical_index(), "s")
    assert onward is not None
    path = AnytimePath(onward, 100.0)
    assert (path.done, path.reached) == (0, (0, 1e-4))
    path.computed(1)
    assert path.done == 0b010
    answer, charged = path.reached
    assert answer == 0
    assert charged == pytest.approx(4.1e-3)
    path.computed(2)  # its step is done
    assert path.reached[1] == pytest.approx(8.1e-3)
