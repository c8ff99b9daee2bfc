"""Ensembles that are evaluated as far as there is time."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.items import Item, ReadRecord
from polydom.indexer import Index
from polydom.indexer.index.package import Package
from polydom.models.early_exit.model_part import ModelPart
from polydom.server.batch.batch_budget import Assignment, carry_out
from polydom.server.engine.budget import Budget, Deadline, MoneyBudget
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.planning.ladder import LOOK_S, Ladder, Looks, make_ladders
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome, Request
from tests.support.clock import Clock
from tests.support.indexes.stopping_records import (
    MODEL_S,
    WHOLE_S,
    draw_rows,
    make_ladder_index,
)

ROWS = draw_rows(60, 3)
CLASSES = pytest.mark.parametrize("classes", [2, 3])
LATE_S = 100.0


class Ticking(Clock):
    """A clock that moves by `tick_s` each time that somebody looks at it."""

    tick_s = 0.0

    def __call__(self) -> float:
        self.now_s += self.tick_s
        return self.now_s


def cut_off(found: Outcome) -> bool:
    """True if the model's time was up before it stopped or had answered whole."""
    used, size = found.base_models_used, found.base_models
    return used is not None and size is not None and used < size and not found.early


def package_of(index: Index) -> Package:
    assert index.package is not None
    return index.package


def planner_of(classes: int, clock: Clock | None = None) -> Planner:
    index = make_ladder_index(classes)
    now: Any = {} if clock is None else {"now": clock}
    return Planner(index, package_of(index).extractor(), corrects=False, **now)


def ask(row: Any, budget: Budget | float, **terms: Any) -> Request:
    """A request about a row that was read, as a server reads it."""
    within = Deadline(50.0, budget) if isinstance(budget, float) else budget
    return Request(Item("record", ReadRecord(row), 1.0), within, **terms)


@CLASSES
def test_rows_of_one_model_share_it_and_a_ladder(classes: int) -> None:
    package = package_of(make_ladder_index(classes))
    counts = [0, 0, 0, *((24,) if classes == 2 else (5, 10))]
    assert package.base_models == counts
    assert package.owners.tolist() == [0, 1, *[2] * (len(counts) - 2)]
    for row in range(3, len(counts)):
        assert package.early_exits[row] is package.early_exits[2]
    ladders = make_ladders(package)
    ladder = ladders[2]
    assert ladder is not None
    assert ladders[:2] == (None, None)
    assert set(ladders[2:]) == {ladder}
    size = 40 if classes == 2 else 20
    assert ladder.counts == (*counts[3:], size)
    assert ladder.rows == (*range(3, len(counts)), 2)
    assert ladder.high_s == tuple(package.model_s[list(ladder.rows)])
    assert ladder.high_s[-1] == MODEL_S
    each_s = WHOLE_S / size
    assert ladder.step_s == pytest.approx(ladder.step * each_s)
    assert ladder.step_s >= LOOK_S or ladder.step == size
    exits = package.early_exits[2]
    assert exits is not None
    assert ladder.step % exits.step == 0 or ladder.step == size


@given(counts=st.sets(st.integers(1, 50), min_size=1), used=st.integers(1, 50))
def test_numbers_of_base_models_are_between_two_rows(
    counts: set[int], used: int
) -> None:
    ordered = sorted(counts)
    seconds = tuple(count / 2 for count in ordered)
    ladder = Ladder(tuple(ordered), tuple(ordered), seconds, 2, 1.5)
    below = [count for count in ordered if count <= used]
    assert ladder.reached(used) == (below[-1] if below else ordered[0])
    if used <= ordered[-1]:
        covering = min(count for count in ordered if count >= used)
        assert ladder.seconds(used) == min(covering / 2, used * 0.75)


@CLASSES
def test_the_choice_is_the_best_of_all_rows_that_fit(classes: int) -> None:
    planner = planner_of(classes)
    index = planner.index
    for budget_s in np.linspace(1e-5, 2e-4, 77):
        request = ask(ROWS[0], MoneyBudget(float(budget_s)))
        fits = [
            row
            for row in range(len(index.qualities))
            if index.cost_s(row, 1.0) <= budget_s
        ]
        best = max(fits, key=lambda row: index.qualities[row], default=planner.prior)
        assert planner.choose(request, 0.0).plan.row == best


def outcome_of(
    classes: int, row: Any, budget_s: float, tick_s: float, **terms: Any
) -> Outcome:
    clock = Ticking()
    planner = planner_of(classes, clock)
    execution = begin(planner, ask(row, budget_s, **terms))
    clock.tick_s = tick_s
    return execution.run()


@pytest.mark.jit
@CLASSES
def test_an_answer_uses_the_time_that_is_left(classes: int) -> None:
    package = package_of(make_ladder_index(classes))
    exits, ladder = package.early_exits[2], make_ladders(package)[2]
    assert exits is not None
    assert ladder is not None
    planned = ladder.rows[0]
    budget_s = 1.05 * float(make_ladder_index(classes).cost_s(planned, 1.0))
    seen = set()
    for row in ROWS:
        whole = exits.answer(row)
        for tick_s in (1e-7, 2e-6, 2e-5, 1.0):
            found = outcome_of(classes, row, budget_s, tick_s)
            used = found.base_models_used
            assert used is not None
            if not cut_off(found):
                assert used == whole.used
                assert (found.row, found.quality) == (2, 0.9)
                assert found.reason == ("sure" if found.early else None)
                continue
            seen.add(used)
            part = exits.answer_first(row, used)
            assert part.scores is not None
            assert found.label == package.labels[exits.classifier.classes[part.code]]
            assert found.scores == dict(zip(package.labels, part.scores, strict=True))
            assert used in range(ladder.counts[0], exits.size)
            assert found.row == ladder.reached(used)
            assert found.quality == float(
                make_ladder_index(classes).qualities[found.row]
            )
            assert found.reason == "budget"
            features_s = 2e-5 + 2 * 1e-5
            assert found.charged == pytest.approx(features_s + ladder.seconds(used))
            assert found.predicted == pytest.approx(found.charged)
    assert ladder.counts[0] in seen


@CLASSES
def test_time_for_the_whole_model_is_not_looked_at(classes: int) -> None:
    package = package_of(make_ladder_index(classes))
    exits = package.early_exits[2]
    assert exits is not None
    for row in ROWS[:9]:
        found = outcome_of(classes, row, 1.0, 0.0)
        assert not cut_off(found)
        assert found.row == 2
        assert found.reason == ("sure" if found.early else None)
        assert found.base_models_used == exits.answer(row).used


@CLASSES
def test_exact_scores_come_from_whole_models_that_fit(classes: int) -> None:
    planner = planner_of(classes)
    for budget_s, row in ((9e-5, 0), (1.85e-4, 1), (1.0, 2)):
        request = ask(ROWS[0], budget_s, exact=True)
        choice = planner.choose(request, 50.0)
        assert choice.plan.row == row
    found = execute(planner, ask(ROWS[0], MoneyBudget(1.0), exact=True))
    own = package_of(planner.index).models[2].answer(ROWS[0])[1]
    assert list((found.scores or {}).values()) == own
    assert not cut_off(found)


@pytest.mark.jit
@CLASSES
def test_a_plan_without_a_deadline_computes_what_it_has_reserved(classes: int) -> None:
    planner = planner_of(classes)
    package = package_of(planner.index)
    for row, count in enumerate(package.base_models):
        if not count:
            continue
        part = package.models[row]
        for values in ROWS[:20]:
            assignment = Assignment(ask(values, MoneyBudget(1.0)).item, row)
            found = carry_out(planner, assignment)
            code, scores = part.answer(values)
            assert isinstance(part, ModelPart)
            assert found.label == package.labels[part.classes[code]]
            assert list((found.scores or {}).values()) == scores
            assert cut_off(found) == (found.row == row)
            if cut_off(found):
                assert found.base_models_used == count


@pytest.mark.jit
def test_no_part_begins_for_its_own_sake_while_others_wait() -> None:
    clock = Ticking()
    planner = planner_of(3, clock)
    ladder = planner.ladders[2]
    assert ladder is not None
    budget_s = float(planner.index.cost_s(3, 1.0)) * 1.02
    for row in ROWS:
        request = ask(row, budget_s)
        found = begin(planner, request, others=lambda: 1).run()
        if cut_off(found):
            assert found.base_models_used == ladder.counts[0]


def test_looks_end_when_the_next_part_would_be_late() -> None:
    clock = Clock(10.0)
    looks = Looks(clock, 11.0, 0.25, 8, lambda: 0)
    clock.now_s = 10.75
    assert looks(4)
    assert looks.cut == 0
    clock.now_s = math.nextafter(10.75, 11.0)
    assert not looks(6)
    assert looks.cut == 6
    waiting = Looks(clock, LATE_S, 0.25, 8, lambda: 1)
    assert waiting(7)
    assert not waiting(8)


@CLASSES
def test_an_index_with_parts_of_models_is_kept_in_a_file(
    classes: int, tmp_path: Path
) -> None:
    index = make_ladder_index(classes)
    index.save(tmp_path / "parts.pdx")
    again = Index.load(tmp_path / "parts.pdx")
    before, after = package_of(index), package_of(again)
    assert after.base_models == before.base_models
    assert after.fallbacks == before.fallbacks
    assert again.qualities.tolist() == index.qualities.tolist()
    for row, count in enumerate(after.base_models):
        if count:
            assert after.early_exits[row] is after.early_exits[2]
            assert after.models[row].answer(ROWS[0]) == before.models[row].answer(
                ROWS[0]
            )
