"""Models that stop early, in plans: what they answer, when, and what is told of it."""

import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile
from polydom.features.items import record_item
from polydom.indexer import Index
from polydom.indexer.index.file.pdx_file import read_file, write_file
from polydom.indexer.index.package import mean_costs
from polydom.server.engine.budget import Deadline, MoneyBudget
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome, Request
from tests.support.clock import Clock
from tests.support.indexes.stopping_records import (
    ALPHA,
    MASKS,
    MEAN_S,
    MODEL_S,
    WHOLE_S,
    draw_rows,
    make_index,
    record_of,
)

ROWS = draw_rows(300, 2)


def planner_of(index: Index, **options: Any) -> Planner:
    assert index.package is not None
    return Planner(index, index.package.extractor(), **options)


def answers(planner: Planner, **terms: Any) -> list[Outcome]:
    return [
        execute(
            planner, Request(record_item(record_of(row)), MoneyBudget(1.0), **terms)
        )
        for row in ROWS
    ]


@pytest.mark.parametrize("classes", [2, 3])
def test_early_answers_are_the_schedules_own(classes: int) -> None:
    index = make_index(classes)
    package = index.package
    assert package is not None
    evaluator = package.early_exits[2]
    assert evaluator is not None
    codes, used = evaluator.choices(ROWS)
    found = answers(planner_of(index))
    labels = [package.labels[evaluator.classifier.classes[code]] for code in codes]
    assert [one.label for one in found] == labels
    assert [one.base_models_used for one in found] == used.tolist()
    assert {one.base_models for one in found} == {evaluator.size}
    early = used < evaluator.size
    assert 0 < early.mean() < 1
    whole = package.models[2].predict_scores(ROWS)
    for one, stopped, own in zip(found, early, whole, strict=True):
        assert (one.reason == "sure") == one.early == stopped
        assert one.quality == 0.9
        assert one.scores is not None
        assert one.score_bounds is not None
        if stopped:
            for label, score in zip(package.labels, own, strict=True):
                low, high = one.score_bounds[label]
                assert low <= score <= high
        else:
            assert [*one.scores.values()] == pytest.approx(own.tolist())
            exactly = {label: (s, s) for label, s in one.scores.items()}
            assert one.score_bounds == exactly
    given = np.array([[*(one.scores or {}).values()] for one in found])
    expected = evaluator.predict_scores(ROWS)
    np.testing.assert_allclose(given, expected, rtol=1e-9)


@pytest.mark.parametrize("classes", [2, 3])
def test_who_asks_for_scores_gets_whole_models(classes: int) -> None:
    index = make_index(classes)
    assert index.package is not None
    own = index.package.models[2].predict_scores(ROWS)
    found = answers(planner_of(index, corrects=False), exact=True)
    for one, scores in zip(found, own, strict=True):
        assert one.scores is not None
        assert [*one.scores.values()] == scores.tolist()
        assert (one.reason, one.base_models) == (None, None)
        assert one.predicted / one.drift == pytest.approx(2e-5 + 2e-5 + WHOLE_S)
    early = answers(planner_of(index, corrects=False))
    changed = [a.label != b.label for a, b in zip(early, found, strict=True)]
    assert np.mean(changed) <= 3 * ALPHA
    first = early[0]
    assert first.predicted / first.drift == pytest.approx(2e-5 + 2e-5 + MODEL_S)


def test_audits_draw_answers_that_went_on_after_a_pause() -> None:
    planner = planner_of(make_index(), audit=1.0)
    found = []
    for row in ROWS:
        request = Request(record_item(record_of(row)), MoneyBudget(1.0))
        execution = begin(planner, request)
        execution.pause()
        execution.run()
        found.append(execution.go_on(request).run())
    assert {one.row for one in found} == {2}
    assert all(one.passed != (one.audit is not None) for one in found)
    assert any(one.audit is not None for one in found)
    whole = answers(planner, exact=True)
    assert [one.label for one in found] == [one.label for one in whole]


def test_a_budget_that_covers_no_whole_model_buys_one_that_stops() -> None:
    planner = planner_of(make_index(), now=Clock(0.0))
    item = record_item(record_of(ROWS[0]))
    budget = Deadline(0.0, 2e-5 + 2e-5 + (MODEL_S + WHOLE_S) / 2)
    rows = [
        planner.choose(Request(item, budget, exact=exact), 0.0).plan.row
        for exact in (False, True)
    ]
    assert rows == [2, 0]
    choice = planner.choose(Request(item, Deadline(0.0, 1.0), exact=True), 0.0)
    assert planner.holds(choice, Request(item, Deadline(0.0, 1.0), exact=True), 0.0)
    assert choice.cost == pytest.approx(4e-5 + WHOLE_S)


def test_an_answer_that_is_early_keeps_the_reason_why_its_plan_is_not_the_best() -> (
    None
):
    planner = planner_of(make_index(), now=Clock(0.0), corrects=False)
    budget = Deadline(0.0, 1.4e-4)  # covers the first group
    found = [
        execute(planner, Request(record_item(record_of(row)), budget)) for row in ROWS
    ]
    assert {one.reason for one in found} == {"budget"}
    assert any(one.early for one in found)
    assert {one.row for one in found} == {1}


def test_whoever_concludes_meanwhile_answers_by_the_schedule_of_what_is_there() -> None:
    planner = planner_of(make_index(), now=Clock(0.0))
    for row in ROWS[:20]:
        request = Request(record_item(record_of(row)), Deadline(0.0, 1.0))
        outcome = begin(planner, request).conclude()
        assert (outcome.row, outcome.reason) == (0, "overrun")
        assert outcome.base_models is None


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_early_answers_are_audited(share: float) -> None:
    planner = planner_of(make_index(), audit=share)
    found = answers(planner)
    for one in found:
        planner.audit.answered(one)
    audit = planner.audit
    if not share:
        assert not audit.drawn.total()
        assert audit.exits == sum(one.early for one in found)
        return
    early = answers(planner_of(make_index()))
    changed = 0
    for one, unaudited in zip(found, early, strict=True):
        assert not one.early  # the whole model's answer
        assert one.reason is None
        stopped = unaudited.early
        # whether an answer is audited is chance, and does not change its fields
        for field in ("scores", "score_bounds", "base_models", "base_models_used"):
            assert getattr(one, field) is not None
            assert getattr(unaudited, field) is not None
        assert (one.audit is not None) == stopped
        assert one.passed == (not stopped)
        changed += bool(one.audit)
        assert bool(one.audit) == (one.label != unaudited.label)
    assert (audit.audited.total(), audit.changed.total()) == (audit.exits, changed)
    assert audit.drawn == Counter(one.label for one in found)  # the whole plan's


def test_answers_that_could_not_be_early_are_not_drawn() -> None:
    planner = planner_of(make_index(), audit=1.0)
    for one in answers(planner, exact=True):
        assert (one.audit, one.passed) == (None, False)
    both = planner_of(with_checkpoint(), audit=1.0)
    for one in answers(both, exact=True, threshold=0.25):
        assert (one.audit, one.passed) == (None, False)


def with_checkpoint() -> Index:
    """An index whose last plan has an exit after its first feature, too."""
    index = make_index()
    package = index.package
    assert package is not None
    margins = ((math.inf,), (math.inf, math.inf), (math.inf, 0.6, math.inf))
    return replace(index, package=replace(package, margins=margins))


def test_a_checkpoint_that_is_sure_answers_by_a_whole_model() -> None:
    both = planner_of(with_checkpoint())
    kinds = set()
    for one in answers(both):
        kinds.add((one.row, one.reason, one.early, one.base_models is None))
        assert one.quality == 0.9
        assert one.scores is not None
    assert kinds >= {(1, "sure", True, True), (2, "sure", True, False)}


def test_an_item_with_a_gap_is_answered_or_refused_as_before() -> None:
    index = make_index()
    package = index.package
    assert package is not None
    record = record_of(ROWS[0])
    del record["d"]
    whole = planner_of(replace(index, package=replace(package, early_exits=())))
    for planner in (planner_of(index), whole):
        outcome = execute(planner, Request(record_item(record), MoneyBudget(1.0)))
        assert outcome.row == 2


def test_costs_are_high_for_budgets_and_means_for_prices() -> None:
    index = make_index()
    package = index.package
    assert package is not None
    means = mean_costs(package, index.coefficients)[:, 0]
    assert means.tolist() == pytest.approx([2e-5, 3e-5 + MEAN_S, 4e-5 + MEAN_S])
    margins = ((math.inf,), (math.inf, math.inf), (math.inf, 0.6, math.inf))
    ends = ((1.0,), (0.0, 1.0), (0.0, 0.25, 0.75))
    both = replace(package, margins=margins, ends=ends)
    coefficients = index.coefficients.copy()
    coefficients[2, 0] += WHOLE_S  # the checkpoint asks
    slow = 0.25 * (3e-5 + WHOLE_S) + 0.75 * (4e-5 + WHOLE_S + MEAN_S)
    assert mean_costs(both, coefficients)[2, 0] == pytest.approx(slow)


def test_schedules_come_back_out_of_a_file(tmp_path: Path) -> None:
    for classes in (2, 3):
        index, path = make_index(classes), tmp_path / f"{classes}.pdx"
        index.save(path)
        loaded = Index.load(path)
        first, second = answers(planner_of(index)), answers(planner_of(loaded))
        assert [a.label for a in first] == [b.label for b in second]
        assert [a.base_models_used for a in first] == [
            b.base_models_used for b in second
        ]
        assert loaded.package is not None
        assert loaded.package.ends == ((1.0,), (0.0, 1.0), (0.0, 0.0, 1.0))


def test_a_schedule_that_is_not_its_models_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "my.pdx"
    make_index().save(path)
    meta, arrays, _ = read_file(path)
    order = arrays["schedules/2/order"]
    threshold = arrays["schedules/2/threshold"]
    swapped = {
        name.replace("schedules/1/", "schedules/2/"): array
        for name, array in arrays.items()
        if name.startswith("schedules/1/")
    }
    damages: list[dict[str, Any]] = [
        {"schedules/2/order": order[:-1]},
        {"schedules/2/order": np.zeros_like(order)},
        {"schedules/2/threshold": threshold + 1},
        swapped,  # of another model with as many trees
    ]
    for damage in damages:
        write_file(path, meta, arrays | damage)
        with pytest.raises(BadIndexFile, match="schedules/2"):
            Index.load(path)
    for name in ("whole_s", "mean_s"):
        short = {**arrays, name: np.zeros(2)}
        write_file(path, meta, short)
        with pytest.raises(BadIndexFile, match="costs are not its candidates"):
            Index.load(path)
    write_file(path, meta, arrays | {"schedules/9/order": order})
    with pytest.raises(BadIndexFile, match="belongs to no model"):
        Index.load(path)
    assert len(MASKS) == 3
