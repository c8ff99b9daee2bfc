"""Features that fail: what answers without them, what is counted and what is logged."""

import logging
import math
import threading
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from polydom.features.errors import BadItem, FeatureFailed
from polydom.features.extract import Extractor
from polydom.features.feature import Fails, Feature
from polydom.features.items import Gaps
from polydom.indexer.index.index import Index
from polydom.server.batch.batch_budget import Assignment, carry_out
from polydom.server.engine.budget import Budget, Deadline, MoneyBudget
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.monitoring.feature_failures import FeatureFailures
from polydom.server.engine.monitoring.rare_log import QUIET_S
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome, Request
from polydom.server.errors import TooLittleLeft
from tests.support.clock import Clock
from tests.support.indexes.served import ORDERS, WIDTHS, make_index
from tests.support.planners import INDEX, TEXT_100, extractor_of, typical_index

ENOUGH = Deadline(50.0, 1.0)
AS_PROMISED = (1e-3, 3e-3, 4e-3)  # and 1 ms of the step that the last two share
SLOW = (2e-3, 3e-3, 4e-3)
NOTHING, LENGTH, MARKS, WORDS = 0, 0b001, 0b010, 0b100
# Sets without `length`, so that something is left where it fails.
MORE_SETS = ((), (0,), (0, 1), (0, 1, 2), (1,), (1, 2))


def more_sets(unit: str = "s") -> Index:
    """The index with two sets more: marks .75, and marks and words .9."""
    index = make_index(unit)
    assert index.package is not None
    masks = [sum(1 << f for f in order) for order in MORE_SETS]
    package = replace(
        index.package,
        masks=index.package.masks.__class__((len(masks),), "uint64"),
        orders=MORE_SETS,
        fallbacks=((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3), (0, 4), (0, 4, 5)),
        models=(
            *index.package.models,
            index.package.models[2],
            index.package.models[3],
        ),
        model_s=index.package.model_s[[0, 1, 2, 3, 1, 2]],
    )
    package.masks[:] = masks
    curves = package.costs.of_many(package.masks)
    curves[:, 0] += package.model_s
    return Index.from_candidates(
        curves, (0.5, 0.7, 0.8, 0.95, 0.75, 0.9), index.sizes, package
    )


class Broken:
    """A planner whose features fail as told, on a clock that they move."""

    def __init__(
        self,
        failing: int,
        index: Index,
        *,
        fails: Sequence[Fails] = ("without",) * 3,
        seconds: Sequence[float] = AS_PROMISED,
        step_fails: bool = False,
    ) -> None:
        self.clock, self.calls = Clock(), list[str]()
        own = extractor_of(index).features
        step = replace(own[1].needs[0], function=self._of("step", 1e-3, step_fails))
        features = [
            replace(
                feature,
                function=self._of(
                    feature.name, pause_s, bool(failing >> k & 1), feature
                ),
                needs=(step,) * bool(feature.needs),
                fails=fails[k],
            )
            for k, (feature, pause_s) in enumerate(zip(own, seconds, strict=True))
        ]
        self.planner = Planner(index, Extractor(features, WIDTHS), now=self.clock)

    def _of(
        self, name: str, pause_s: float, fails: bool, feature: Feature | None = None
    ) -> Any:
        def function(text: str) -> Any:
            self.calls.append(name)
            self.clock.now_s += pause_s
            if fails:
                raise ValueError(f"{name} of /secret/path")
            return text if feature is None else feature.function(text)

        return function

    def ask(self, budget: Budget = ENOUGH, **terms: Any) -> Outcome:
        return execute(self.planner, Request(TEXT_100, budget, **terms))


@pytest.mark.parametrize("typical", [False, True])
@pytest.mark.parametrize(
    ("failing", "row", "calls"),
    [
        (WORDS, 2, ["length", "step", "marks", "words"]),
        (MARKS, 1, ["length", "step", "marks"]),
        (MARKS | WORDS, 1, ["length", "step", "marks"]),
        (LENGTH, 0, ["length"]),
    ],
)
def test_the_best_set_without_the_feature_answers(
    failing: int, row: int, calls: list[str], typical: bool
) -> None:
    broken = Broken(failing, typical_index() if typical else INDEX)
    outcome = broken.ask(Deadline(50.0, 9.21e-3))
    assert (outcome.row, outcome.reason) == (row, "feature_failed")
    assert outcome.quality == broken.planner.qualities[row]
    assert broken.calls == calls
    assert outcome.scores is not None
    whole = Broken(NOTHING, INDEX).planner.package.models[row]
    assert outcome.label in [INDEX.package.labels[c] for c in whole.classes]  # type: ignore[union-attr]


def test_an_outcome_says_what_failed_if_the_request_asks() -> None:
    outcome = Broken(WORDS, INDEX).ask(Deadline(50.0, 9.21e-3), timed=True)
    assert (outcome.computed, outcome.failed) == (LENGTH | MARKS, WORDS)
    outcome = Broken(WORDS, INDEX).ask(Deadline(50.0, 9.21e-3))
    assert (outcome.computed, outcome.failed) == (0, 0)


@pytest.mark.parametrize(
    ("took_ms", "row", "calls"),
    [
        (1.0, 5, ["length", "step", "marks", "words"]),
        (1.1, 5, ["length", "step", "marks", "words"]),
        (1.12, 4, ["length", "step", "marks"]),
        (5.1, 4, ["length", "step", "marks"]),
        (5.12, 0, ["length"]),
    ],
)
def test_what_is_left_of_the_budget_decides_which_features_follow(
    took_ms: float, row: int, calls: list[str]
) -> None:
    """Of 9.21 ms; marks with their step and a model take 4.1, and words 4 more."""
    broken = Broken(LENGTH, more_sets(), seconds=(took_ms / 1e3, 3e-3, 4e-3))
    outcome = broken.ask(Deadline(50.0, 9.21e-3))
    assert (outcome.row, outcome.reason, broken.calls) == (row, "feature_failed", calls)
    assert outcome.finished_s <= 50.0 + 9.21e-3


def test_a_feature_that_overruns_after_the_failure_leaves_what_is_computed() -> None:
    broken = Broken(LENGTH, more_sets(), seconds=(1e-3, 8e-3, 4e-3))
    outcome = broken.ask(Deadline(50.0, 11e-3))
    assert (outcome.row, broken.calls) == (4, ["length", "step", "marks"])


def test_a_step_that_fails_withholds_all_features_that_need_it() -> None:
    broken = Broken(NOTHING, more_sets(), step_fails=True)
    assert broken.ask().row == 1
    assert broken.calls == ["length", "step"]


def test_a_feature_that_refuses_still_refuses_after_another_failed() -> None:
    both = ("without", "without", "refuse")
    broken = Broken(LENGTH | WORDS, more_sets(), fails=both)  # type: ignore[arg-type]
    with pytest.raises(FeatureFailed, match="'words' raised ValueError"):
        broken.ask()
    assert broken.planner.failures.counts() == {"length": 1, "words": 1}


def test_by_default_an_item_is_refused_and_the_error_counted() -> None:
    broken = Broken(WORDS, INDEX, fails=("refuse",) * 3)
    for _ in range(2):
        with pytest.raises(FeatureFailed, match="'words' raised ValueError"):
            broken.ask()
    assert broken.planner.failures.counts() == {"words": 2}


@pytest.mark.parametrize("value", [math.nan, math.inf, 1e39])
def test_a_number_that_no_model_can_use_is_a_failure(value: float) -> None:
    planner = Broken(NOTHING, INDEX).planner
    own = planner.extractor.features
    odd = replace(own[2], function=lambda _: [value])
    planner.extractor = Extractor([*own[:2], odd], WIDTHS)
    outcome = execute(planner, Request(TEXT_100, ENOUGH))
    assert (outcome.row, outcome.reason) == (2, "feature_failed")


@pytest.mark.parametrize(
    ("terms", "row"),
    [
        ({"min_quality": 0.6}, 1),
        ({"min_quality": 0.75}, 1),  # nothing more is worth computing
        ({"min_quality": 0.75, "on_infeasible": "cheapest"}, 1),
        ({"min_quality": 0.6, "on_infeasible": "error"}, 1),
    ],
)
def test_terms_hold_after_a_failure(terms: dict[str, Any], row: int) -> None:
    assert Broken(MARKS, INDEX).ask(**terms).row == row


def test_the_failure_is_the_error_if_nothing_without_the_feature_is_enough() -> None:
    with pytest.raises(FeatureFailed, match="'marks'"):
        Broken(MARKS, INDEX).ask(min_quality=0.75, on_infeasible="error")


def test_too_little_left_is_the_error_if_something_would_be_enough() -> None:
    broken = Broken(LENGTH, more_sets(), seconds=SLOW)
    with pytest.raises(TooLittleLeft, match="8,100 us for an item"):
        broken.ask(Deadline(50.0, 9.21e-3), min_quality=0.85, on_infeasible="error")


def test_who_wants_the_cheapest_gets_it_late() -> None:
    broken = Broken(LENGTH, more_sets(), seconds=SLOW)
    wish: Any = {"min_quality": 0.85, "on_infeasible": "cheapest"}
    outcome = broken.ask(Deadline(50.0, 9.21e-3), **wish)
    assert (outcome.row, outcome.reason) == (5, "feature_failed")


@pytest.mark.parametrize(("amount", "row"), [(9.3, 2), (20.0, 2)])
def test_money_is_charged_for_all_that_was_computed(amount: float, row: int) -> None:
    broken = Broken(WORDS, make_index("usd", 1e3))
    outcome = broken.ask(MoneyBudget(amount))
    assert (outcome.row, outcome.reason) == (row, "feature_failed")
    assert outcome.charged == pytest.approx(0.1 + 1 + 3 + 1 + 4 + 0.1)


@pytest.mark.parametrize(("amount", "row"), [(9.21, 5), (20.0, 5)])
def test_the_rest_of_a_sum_of_money_decides_what_follows(
    amount: float, row: int
) -> None:
    index = more_sets("usd")
    broken = Broken(LENGTH, index)
    outcome = broken.ask(MoneyBudget(amount / 1e3))
    assert (outcome.row, outcome.charged <= amount / 1e3) == (row, True)


def test_an_item_of_a_batch_keeps_to_the_cost_of_its_plan() -> None:
    broken = Broken(LENGTH, more_sets())
    outcome = carry_out(broken.planner, Assignment(TEXT_100, 3))
    assert (outcome.row, outcome.reason) == (5, "feature_failed")


def test_features_that_an_item_lacks_stay_withheld() -> None:
    broken = Broken(LENGTH, more_sets())
    item = msgspec.structs.replace(TEXT_100, gaps=Gaps((), 1, WORDS))
    outcome = execute(broken.planner, Request(item, ENOUGH))
    assert (outcome.row, broken.calls) == (4, ["length", "step", "marks"])


def test_an_item_that_no_step_can_use_is_refused_as_ever() -> None:
    planner = Broken(NOTHING, INDEX).planner
    own = planner.extractor.features

    def refuse(_: str) -> Any:
        raise BadItem("no text")

    planner.extractor = Extractor([*own[:2], replace(own[2], function=refuse)], WIDTHS)
    with pytest.raises(BadItem, match="no text"):
        execute(planner, Request(TEXT_100, ENOUGH))
    assert not planner.failures.counts()


def test_a_rescue_answers_from_what_the_rest_has_computed() -> None:
    inside, go_on = threading.Event(), threading.Event()
    broken = Broken(LENGTH, more_sets())
    own = broken.planner.extractor.features

    def stuck(text: str) -> Any:
        inside.set()
        assert go_on.wait(10)
        return own[2].function(text)

    features = [*own[:2], replace(own[2], function=stuck)]
    broken.planner.extractor = Extractor(features, WIDTHS)
    execution = begin(broken.planner, Request(TEXT_100, ENOUGH))
    thread = threading.Thread(target=execution.run)
    thread.start()
    assert inside.wait(10)
    outcome = execution.rescue()
    go_on.set()
    thread.join()
    assert (outcome.row, outcome.reason) == (4, "feature_failed")


def failure() -> FeatureFailed:
    """A failure with a cause, as an extraction raises it."""
    try:
        try:
            raise ValueError("/secret/path")
        except ValueError as error:
            raise FeatureFailed("feature 'hog' raised ValueError", 0) from error
    except FeatureFailed as failed:
        return failed


def test_each_feature_is_logged_once_a_minute_with_its_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock = Clock()
    failures = FeatureFailures(clock)
    with caplog.at_level(logging.ERROR, "polydom"):
        for _ in range(5):
            failures.add("hog", failure())
        failures.add("lbp", failure())
        clock.now_s += QUIET_S - 1e-3
        failures.add("hog", failure())
        clock.now_s += 2e-3
        failures.add("hog", failure())
    said = [record.getMessage() for record in caplog.records]
    why = "feature 'hog' raised ValueError"
    assert said == [
        f"feature 'hog' failed: {why}",
        f"feature 'lbp' failed: {why}",
        f"feature 'hog' failed 6 times since the last record: {why}",
    ]
    assert "ValueError: /secret/path" in caplog.text
    assert 'raise ValueError("/secret/path")' in caplog.text
    assert failures.counts() == {"hog": 7, "lbp": 1}


def test_the_orders_of_the_index_are_those_that_these_tests_think_of() -> None:
    assert MORE_SETS[:4] == ORDERS
