"""Groups x confidence: what a build promises of early exits where items hang together.

Simulated builds draw groups of items that change together; the promise is broken where
the true share of changed answers, which the simulation knows, exceeds alpha.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from polydom.features.errors import BadInput
from polydom.indexer.building.exits.checkpoints import (
    Answers,
    CheckpointExits,
    fit_exits,
)
from polydom.indexer.building.project import Project
from polydom.models.qwyc.confidence_bound import most_changed, upper_bound
from polydom.models.qwyc.fit_schedule import fit_margin_schedule, fit_schedule
from polydom.models.qwyc.fixed_sequence import ClassTests, FreshRows, calibrate
from tests.support.builds import projects
from tests.support.builds.progresses import Stages
from tests.support.builds.staged_build import StagedBuild
from tests.support.oracles.qwyc import chance_of_so_few

ALPHA, CONFIDENCE = 0.05, 0.95
BUILDS = 400
TRUE_RATES = np.array([0.01, 0.02, 0.03, 0.045, 0.055, 0.07, 0.1, 0.3])


def simulated(random: np.random.Generator, sizes: Any, together: float) -> Answers:
    """Items whose level (N,) is uniform, and in a group the same with a probability.

    An exit at margin -r changes the answers of all items of a level below r.
    """
    groups = np.repeat(np.arange(len(sizes)), sizes)
    own, shared = random.random(len(groups)), random.random(len(sizes))[groups]
    levels = np.where(random.random(len(groups)) < together, shared, own)
    choices = np.zeros((len(groups), 2), np.int64)
    choices[:, 0] = 1
    return Answers(np.column_stack([-levels, np.zeros(len(groups))]), choices)


def chosen_rate(answers: Answers, groups: Any) -> float:
    ladder = [CheckpointExits(np.array([-rate, np.inf])) for rate in TRUE_RATES]
    whole = answers.choices[:, -1]
    tests = ClassTests.of(whole, np.full(2, ALPHA), CONFIDENCE, groups)
    chosen = calibrate(ladder, FreshRows.of(whole, answers), tests)
    return -float(chosen.thresholds[0])


@pytest.mark.parametrize("together", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("shape", ["eights", "mixed"])
def test_promise_is_broken_in_at_most_one_build_of_twenty(
    together: float, shape: str
) -> None:
    random = np.random.default_rng(1)
    broken = useful = 0
    for _ in range(BUILDS):
        sizes = np.full(300, 8) if shape == "eights" else random.integers(1, 9, 300)
        answers = simulated(random, sizes, together)
        rate = chosen_rate(answers, np.repeat(np.arange(300), sizes))
        broken += rate > ALPHA
        useful += rate >= TRUE_RATES[0]
    # three standard errors above 5%
    assert broken <= BUILDS * 0.05 + 3 * (BUILDS * 0.05 * 0.95) ** 0.5
    assert useful > 0.5 * BUILDS  # and it is no empty promise


def test_without_their_groups_such_items_would_break_it() -> None:
    random = np.random.default_rng(1)
    broken = sum(
        chosen_rate(simulated(random, np.full(300, 8), 1.0), None) > ALPHA
        for _ in range(BUILDS)
    )
    assert broken > 0.1 * BUILDS


@example([1] * 59, 0.05, 0.95)
@example([8] * 59, 0.05, 0.95)
@example([8] * 58, 0.05, 0.95)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
    st.sampled_from([0.02, 0.1, 0.3, 0.7]),
    st.sampled_from([0.5, 0.9, 0.95]),
)
def test_most_changed_agrees_with_trying_every_number(
    sizes: list[int], alpha: float, confidence: float
) -> None:
    groups = np.repeat(np.arange(len(sizes)), sizes)
    most = most_changed(len(groups), alpha, confidence, groups)
    for changed in range(len(groups)):
        chance = chance_of_so_few(sizes, changed, alpha)
        if abs(chance - (1 - confidence)) > 1e-9:
            assert (chance <= 1 - confidence) == (changed <= most)


@given(st.integers(1, 60), st.sampled_from([0.02, 0.1, 0.3]))
def test_rows_of_their_own_groups_are_bounded_exactly(rows: int, alpha: float) -> None:
    most = most_changed(rows, alpha, CONFIDENCE)
    assert most_changed(rows, alpha, CONFIDENCE, np.arange(rows)) == most
    for changed in range(rows):
        assert (upper_bound(changed, rows, CONFIDENCE) <= alpha) == (changed <= most)


@given(st.integers(2, 8), st.sampled_from([0.02, 0.05, 0.2]))
def test_so_many_groups_are_needed_as_rows_without_any(size: int, alpha: float) -> None:
    fewest = next(n for n in range(1, 400) if most_changed(n, alpha, CONFIDENCE) >= 0)
    for count in (fewest - 1, fewest):
        groups = np.repeat(np.arange(count), size)
        enough = count > 0 and most_changed(len(groups), alpha, CONFIDENCE, groups) >= 0
        assert enough == (count == fewest)


def test_groups_are_asked_for_by_every_fit() -> None:
    random = np.random.default_rng(0)
    scores = random.normal(0.3, 1, (300, 6))
    groups = np.repeat(np.arange(15), 20)
    terms: dict[str, Any] = {"confidence": 0.95, "groups": groups}
    with pytest.raises(BadInput, match=r"are [0-9]+ .* in 15 groups, .* at least 29 "):
        fit_schedule(scores, 0.0, 0.1, calibration=scores, **terms)
    classes = random.normal(0, 1, (300, 6, 3))
    with pytest.raises(BadInput, match=r"are [0-9]+ .* in 15 groups, .* at least 29 "):
        fit_margin_schedule(classes, 0.1, calibration=classes, **terms)
    answers = simulated(random, np.full(15, 20), 0.5)
    with pytest.raises(BadInput, match=r"are [0-9]+ .* in 15 groups, .* at least 29 "):
        fit_exits(answers, [1.0, 1.0], np.full(2, 0.1), calibration=answers, **terms)
    with pytest.raises(BadInput, match=r"groups have shape \(15,\); one of each of"):
        fit_schedule(
            scores, 0.0, 0.1, confidence=0.95, calibration=scores, groups=np.arange(15)
        )


TERMS = "[exits]\nalpha = 0.2\nconfidence = 0.8\n"


def grouped_texts(folder: Path, project: str) -> Path:
    """A project of texts of which four at a time belong together."""
    projects.texts(folder, count=400, project=project)
    lines = (folder / "mails.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"of": i // 4} for i, line in enumerate(lines)]
    (folder / "mails.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


def test_with_too_few_groups_to_promise_a_build_goes_on_without(tmp_path: Path) -> None:
    project = projects.TEXTS.replace("[features]", 'group = "of"\n[features]')
    terms = "[exits]\nalpha = 0.05\nconfidence = 0.95\n"
    folder = grouped_texts(tmp_path, project + terms)
    plan = Project.load(folder / "PROJECT.toml")
    builder = StagedBuild(plan, tmp_path / "cache")
    assert [len(part.items) for part in builder.divided[:2]] == [400, 0]
    index = builder.index()
    assert index.package is not None
    told = index.package.meta["exits"]["lacking"]
    assert re.search(r"at least 59 .* there are 24 .* in 12 groups", told)
    assert not index.package.margins


def test_calibration_items_are_seen_by_nothing_else(tmp_path: Path) -> None:
    """Other items in their place give the same training, search, order and costs."""
    project = projects.TEXTS.replace("[features]", 'group = "of"\n[features]') + TERMS
    folder = grouped_texts(tmp_path, project)
    plan = Project.load(folder / "PROJECT.toml")
    builder = StagedBuild(plan, tmp_path / "cache")
    dataset, fresh, *_ = builder.divided
    assert len(fresh.items) == 48  # of 12 groups in 100: half of a quarter
    assert not set(dataset.groups) & set(fresh.groups)
    assert not set(dataset.names) & set(fresh.names)
    first = builder.index()

    lines = (folder / "mails.jsonl").read_text().splitlines()
    for name in fresh.names:  # "mails.jsonl, line 7"
        number = int(name.split()[-1]) - 1
        row = json.loads(lines[number])
        lines[number] = json.dumps(row | {"text": "x y " * 2000, "label": "ham"})
    (folder / "mails.jsonl").write_text("\n".join(lines))
    stages = Stages()
    second = StagedBuild(plan, tmp_path / "cache", stages).index()
    for stage in ("measuring costs", "timing models", "timing samples"):
        assert stages.done[stage] == 0  # all of it was found in the cache
    assert first.package is not None
    assert second.package is not None
    assert second.package.masks.tolist() == first.package.masks.tolist()
    assert second.package.orders == first.package.orders
    assert second.sizes == first.sizes
    assert second.qualities.tolist() == first.qualities.tolist()
    facts = second.package.meta["exits"]
    assert (facts["fitted"], facts["calibrated"]) == (52, 48)
