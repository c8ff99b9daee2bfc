"""Exits of a whole index: fitted on held-out items, built, saved and served."""

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile, BadProject
from polydom.features.items import text_item
from polydom.indexer import Index, build
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.exits.checkpoints import answers_of
from polydom.indexer.building.exits.exit_goal import ExitGoal
from polydom.indexer.building.exits.exit_trials import (
    AnswerTimes,
    CheckpointCosts,
    ExitTrials,
    ItemAnswers,
)
from polydom.indexer.building.exits.plan_exits import PlanExitFitter, PlanExits
from polydom.indexer.building.exits.schedules import ScheduleFitter
from polydom.indexer.building.project import Project
from polydom.indexer.building.training.training_task import columns_of
from polydom.indexer.index.file.pdx_file import read_file, write_file
from polydom.indexer.index.package import Package, exit_costs
from polydom.server.engine.budget import MoneyBudget
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.runtime.describe_index import describe_index
from tests.support.builds import projects
from tests.support.builds.staged_build import StagedBuild
from tests.support.indexes.served import ACCURACIES, FEATURES_FILE, TEXTS, make_index
from tests.support.oracles.building import out_of_sample

LABELS = ("calm", "loud")
PRICES = {0: 0.0, 1: 1.0, 3: 3.0, 7: 7.0}  # of the sets on the way
WITH_EXITS = (
    projects.TEXTS
    + """
[exits]
alpha = 0.1
confidence = 0.9
"""
)


def fitter_of(goal: ExitGoal) -> tuple[Index, PlanExitFitter]:
    index = make_index()
    package = index.package
    assert package is not None
    extractor = package.extractor([FEATURES_FILE])
    rows = np.array([extractor.extract(text_item(text)) for text in TEXTS * 40])
    given = [answers_of(model, rows) for model in package.models]
    margins = np.column_stack([margins for margins, _ in given])
    choices = np.column_stack([choices for _, choices in given])
    groups = np.arange(len(rows))
    masks = package.masks.tolist()
    models = dict(zip(masks, package.models, strict=True))
    trials = ExitTrials(
        goal,
        LABELS,
        masks,
        models.__getitem__,
        lambda row, goal, evaluator: pytest.fail("there is no schedule to time"),
        ItemAnswers(margins, choices, groups, rows),
    )
    if goal.confidence is None:
        return index, PlanExitFitter(trials)
    half = len(margins) // 2
    fitted = ItemAnswers(margins[:half], choices[:half], groups[:half], rows[:half])
    fresh = ItemAnswers(margins[half:], choices[half:], groups[half:], rows[half:])
    return index, PlanExitFitter(replace(trials, fitted=fitted, fresh=fresh))


def fitted(
    package: Package, fitter: PlanExitFitter, prices: Mapping[int, float] = PRICES
) -> PlanExits:
    """Fit the exits of every plan."""
    return fitter.all(
        package.orders,
        package.fallbacks,
        np.full(len(ACCURACIES), 0.01),
        prices.__getitem__,
        lambda done, left=None: None,
    )


@pytest.mark.parametrize("goal", [ExitGoal(0.0), ExitGoal(0.1), ExitGoal(0.2, 0.9)])
def test_what_is_said_of_each_plan_is_what_walking_it_shows(goal: ExitGoal) -> None:
    index, fitter = fitter_of(goal)
    package = index.package
    assert package is not None
    found = fitted(package, fitter)
    checks = exit_costs(
        found.margins, package.fallbacks, np.full(len(ACCURACIES), 0.01)
    )
    assert [len(m) for m in found.margins] == [len(f) for f in package.fallbacks]
    for row, (margins, facts) in enumerate(
        zip(found.margins, found.facts["plans"], strict=True)
    ):
        answers = package.fallbacks[row]
        given = fitter.trials.answers(np.arange(len(ACCURACIES)))
        ended, paid, changed = [], [], []
        for item in range(len(given)):
            at = next(
                k
                for k in range(len(answers))
                if k == len(answers) - 1 or given.margins[item, answers[k]] > margins[k]
            )
            ended.append(at < len(answers) - 1)
            paid.append(PRICES[2**at - 1])
            changed.append(given.choices[item, answers[at]] != given.choices[item, row])
        assert facts["early"] == pytest.approx(np.mean(ended))
        assert facts["changed"] == pytest.approx(np.mean(changed))
        whole = PRICES[2 ** (len(answers) - 1) - 1]
        saved = 1 - np.mean(paid) / whole if whole else 0.0
        assert facts["saved"] == pytest.approx(saved)
        assert checks[row] == pytest.approx(sum(np.isfinite(margins)) * 0.01)
    assert (found.facts["calibrated"] > 0) == (goal.confidence is not None)


def test_what_is_saved_is_a_share_whatever_prices_round_to() -> None:
    index, fitter = fitter_of(ExitGoal(0.0))
    assert index.package is not None
    draw = np.random.default_rng(0)
    for _ in range(50):
        steps = draw.uniform(1e-6, 1e-3, 3).cumsum()
        prices = {0: 0.0, 1: steps[0], 3: steps[1], 7: steps[2]}
        for facts in fitted(index.package, fitter, prices).facts["plans"]:
            assert 0 <= facts["saved"] <= 1
            assert facts["early"] or facts["saved"] == 0


@pytest.mark.parametrize(
    ("answering", "felt", "kept"),
    [
        (0.0, math.inf, True),  # more than a tenth of the call
        (45.0, math.inf, True),
        (60.0, math.inf, False),  # less
        (60.0, 5.0, True),  # but it is felt
        (60.0, 6.0, False),
        (700.0, 5.0, False),  # nothing beside the call, though felt
    ],
)
def test_exits_are_kept_where_a_caller_gains(
    answering: float, felt: float, kept: bool
) -> None:
    index, fitter = fitter_of(ExitGoal(0.2))
    assert index.package is not None
    fitter = replace(fitter, answering=answering, felt=felt)
    found = fitted(index.package, fitter)
    (largest,) = [one for one in found.facts["plans"] if one["row"] == 3]
    assert largest["call"] == pytest.approx(answering + PRICES[7] + 0.01)
    assert largest["gain"] == pytest.approx(5.665)
    assert (largest["early"] > 0) == kept
    if not kept:
        assert largest["changed"] == largest["saved"] == 0


def test_an_index_with_exits_is_built_and_says_what_they_do(tmp_path: Path) -> None:
    folder = projects.texts(tmp_path / "mails", count=400, project=WITH_EXITS)
    index = build(
        folder / "PROJECT.toml", output=folder / "my.pdx", cache=folder / "cache"
    )
    package = index.package
    assert package is not None
    facts = package.meta["exits"]
    some = any(plan["early"] for plan in facts["plans"])
    lengths = [len(fallbacks) for fallbacks in package.fallbacks]
    assert [len(margins) for margins in package.margins] == (lengths if some else [])
    assert (facts["alpha"], facts["confidence"]) == (0.1, 0.9)
    assert all(plan["changed"] <= 0.1 for plan in facts["plans"])
    said = describe_index(index).exits
    assert (said is not None) == some
    if said is not None:
        assert [plan.saved for plan in said.plans] == [
            plan["saved"] for plan in facts["plans"]
        ]


def test_with_folds_exits_are_fitted_on_all_items(tmp_path: Path) -> None:
    terms = "[search]\nfolds = 3\n[exits]\nalpha = 0.05\n"
    folder = projects.texts(tmp_path / "mails", project=projects.TEXTS + terms)
    index = build(folder / "PROJECT.toml", cache=folder / "cache")
    assert index.package is not None
    facts = index.package.meta["exits"]
    assert (facts["fitted"], facts["calibrated"]) == (120, 0)
    assert all(plan["changed"] <= 0.05 for plan in facts["plans"])


@pytest.mark.parametrize("search", ["folds = 3", "held_out = 0.3"])
def test_items_are_answered_by_models_that_have_not_seen_them(
    tmp_path: Path, search: str
) -> None:
    project = projects.TEXTS + f"[search]\n{search}\n"
    folder = projects.texts(tmp_path, count=60, project=project)
    builder = StagedBuild(Project.load(folder / "PROJECT.toml"), tmp_path / "cache")
    dataset, _, values, _ = builder.table
    trainer = builder.trainer
    masks = [0b0000, 0b0010, 0b0111]
    list(trainer.qualities(masks))
    for _ in range(2):  # the second time from the cache
        margins, choices = trainer.answers(masks)
        for row, mask in enumerate(masks):
            used = values[:, columns_of(trainer.task.starts, mask)]
            slow = out_of_sample(used, dataset.codes.tolist(), builder.data.splits)
            assert choices[:, row].tolist() == slow[1]
            assert margins[:, row] == pytest.approx(slow[0], abs=1e-9)


def test_fitted_exits_are_taken_after_a_file_brought_them(tmp_path: Path) -> None:
    index, fitter = fitter_of(ExitGoal(0.1))
    package = index.package
    assert package is not None
    found = fitted(package, fitter)
    kept = replace(package, margins=found.margins)
    costs = index.coefficients.copy()
    costs[:, 0] += exit_costs(found.margins, package.fallbacks, package.model_s)
    index = Index.from_candidates(costs, index.qualities, index.sizes, kept)
    index.save(tmp_path / "exits.pdx")
    loaded = Index.load(tmp_path / "exits.pdx")
    assert loaded.package is not None
    assert loaded.package.margins == found.margins
    planner = Planner(loaded, loaded.package.extractor([FEATURES_FILE]))
    outcomes = [
        execute(planner, Request(text_item(text), MoneyBudget(10.0))) for text in TEXTS
    ]
    early = np.mean([outcome.reason == "sure" for outcome in outcomes])
    assert early == found.facts["plans"][3]["early"] > 0


def test_damaged_exits_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "tiny.pdx"
    make_index().save(path)
    meta, arrays, _ = read_file(path)
    for damage in (np.zeros((4, 2)), np.zeros((3, 4)), np.full((4, 4), np.nan)):
        write_file(path, meta, {**arrays, "margins": damage})
        with pytest.raises(BadIndexFile, match=r"exits|not finite"):
            Index.load(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('exits = "on"', "exits"),
        ("[exits]\nalpha = 0.0", "exits.alpha is 0"),
        (
            "[exits]\nalpha = 0.1\nconfidence = 0.9\n[search]\nfolds = 3",
            "holds out none",
        ),
        ("[exits]\nalpha = 1.0", "exits.alpha"),
    ],
)
def test_terms_that_cannot_be(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "PROJECT.toml"
    path.write_text(projects.TEXTS + text)
    with pytest.raises(BadProject, match=message):
        Project.load(path)


def lacking(goal: ExitGoal, groups: Any) -> str:
    """Why items of one class, in these groups, are too few."""
    return goal.lacking(groups, np.zeros(len(groups), np.int64), ["a", "b"])


def test_a_confidence_that_so_few_items_cannot_give_is_told() -> None:
    assert not lacking(ExitGoal(0.1, 0.9), np.arange(22))
    assert not lacking(ExitGoal(0.1), np.arange(0))
    told = "at least 22 independent items of a class, half of held_out; of 'a' there"
    for count in (21, 0):
        assert f"{told} are {count}" in lacking(ExitGoal(0.1, 0.9), np.arange(count))


def test_items_of_few_groups_are_not_taken_for_many() -> None:
    goal = ExitGoal(0.1, 0.9)
    assert not lacking(goal, np.repeat(np.arange(22), 8))
    told = lacking(goal, np.repeat(np.arange(21), 8))
    assert "there are 168" in told
    assert "in 21 groups, which weigh" in told
    one_large = np.concatenate([np.zeros(100, np.int64), np.arange(1, 101)])
    assert "as much as 2 like the largest, of 1" in lacking(goal, one_large)


@pytest.mark.parametrize(
    ("text", "goal"),
    [
        ("", ExitGoal(0.005, 0.95)),
        ("[exits]\nalpha = 0.02", ExitGoal(0.02, 0.95)),
        ("[exits]\nconfidence = 0.8", ExitGoal(0.005, 0.8)),
        ("[exits]\nconfidence = 0.0", ExitGoal(0.005)),
        ("[search]\nfolds = 3", None),
        ("[search]\nfolds = 3\n[exits]\nalpha = 0.02", ExitGoal(0.02)),
        ("[search]\nfolds = 3\n[exits]\nconfidence = 0.0", None),
    ],
)
def test_what_exits_are_to_keep_to(
    tmp_path: Path, text: str, goal: ExitGoal | None
) -> None:
    path = tmp_path / "PROJECT.toml"
    path.write_text(projects.TEXTS + text)
    assert Project.load(path).exit_goal == goal
    path.write_text('exits = "off"\n' + projects.TEXTS)
    assert Project.load(path).exit_goal is None


def test_a_barred_class_is_never_answered_early() -> None:
    """By the evaluation at the build, and by the server."""
    index, fitter = fitter_of(ExitGoal(0.1, sides="negative"))
    package = index.package
    assert package is not None
    trials = fitter.trials
    held = trials.fitted.without(trials.goal.barred)
    found = fitted(package, PlanExitFitter(replace(trials, fitted=held)))
    exits = {**found.facts, "sides": "negative"}
    kept = replace(package, margins=found.margins, meta=package.meta | {"exits": exits})
    costs = index.coefficients.copy()
    costs[:, 0] += exit_costs(found.margins, package.fallbacks, package.model_s)
    index = Index.from_candidates(costs, index.qualities, index.sizes, kept)
    planner = Planner(index, package.extractor([FEATURES_FILE]))
    outcomes = [
        execute(planner, Request(text_item(text), MoneyBudget(10.0))) for text in TEXTS
    ]
    early = [outcome.reason == "sure" for outcome in outcomes]
    assert any(early)
    assert np.mean(early) == found.facts["plans"][3]["early"]
    assert {outcome.label for outcome in outcomes if outcome.reason == "sure"} == {
        "ham"
    }


def test_calibration_items_do_not_choose_the_kind_of_exits() -> None:
    """The best of several calibrated exits would break its promise too often."""
    index, fitter = fitter_of(ExitGoal(0.2, 0.8))
    package = index.package
    assert package is not None
    values, fresh = fitter.trials.fitted.values, fitter.trials.fresh
    assert fresh is not None
    kinds = set()
    draw = np.random.default_rng(0)
    costs = CheckpointCosts(
        np.array([0, 1, 2, 3]), np.array([0.0, 1.0, 2.0, 4.0]), np.full(4, 1.0)
    )
    timed: list[ExitGoal] = []

    def timer(row: int, goal: ExitGoal, evaluator: Any) -> AnswerTimes:
        timed.append(goal)
        return AnswerTimes(1.0, 0.1, 1.0)

    trials = replace(fitter.trials, timer=timer, schedules=schedules_of(values, fresh))
    rehearsal = replace(
        trials, goal=ExitGoal(0.2), fresh=None, schedules=schedules_of(values, None)
    )
    for _ in range(5):
        mixed = replace(fresh, margins=draw.permuted(fresh.margins, axis=0))
        best, _ = PlanExitFitter(replace(trials, fresh=mixed), rehearsal)._best(costs)
        kinds.add(best.kind if best.saved else "none")
        assert sum(goal.confidence is not None for goal in timed) <= 1
        timed.clear()
    assert len(kinds - {"none"}) == 1


def schedules_of(values: Any, fresh: ItemAnswers | None) -> ScheduleFitter:
    """Fitter of schedules, without a cache that remembers."""
    rows, groups = (None, None) if fresh is None else (fresh.values, fresh.groups)
    return ScheduleFitter(values, rows, groups, LABELS, NoCache(Path()), "key")


class NoCache(Cache):
    """A cache that finds nothing and keeps nothing."""

    def recall(self, name: str, read: Any) -> Any:
        return None

    def store(self, name: str, meta: Any, arrays: Any) -> None:
        return None
