"""Schedules of an index's models: built, kept, promised and answered by."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadInput
from polydom.indexer import Index, build
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.exits.exit_goal import ExitGoal
from polydom.indexer.building.exits.schedules import (
    FEWEST_FITTED,
    ScheduleFitter,
    can_stop,
    divide_aside,
)
from polydom.indexer.building.prepare import ExitItems
from polydom.indexer.index.facts import facts_of
from polydom.models import compile
from polydom.models.early_exit.early_exits import EarlyExit
from polydom.models.scoring.prior import Prior
from polydom.server.cli.reports.index_report import built_of, detail_lines
from tests.support.builds import recorded_times
from tests.support.indexes.stopping_records import draw_rows, label_rows

PROJECT = """\
workers = 1
[data]
table = "rows.jsonl"
[features]
columns = [{ name = "all", columns = ["a", "b", "c", "d", "e", "f"] }]
[learner]
name = "forest"
n_estimators = 100
[costs]
items = 8
repeats = 2
[exits]
alpha = 0.05
confidence = 0.9
"""
NAMES = "abcdef"
LABELS = ("0", "1")


def forest(seed: int = 0) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    rows = draw_rows(300, 0)
    fitted = RandomForestClassifier(30, random_state=seed).fit(
        rows, label_rows(rows, 2)
    )
    return compile(fitted).classifier


def fitter_of(folder: Path, count: int = 500) -> ScheduleFitter:
    rows = draw_rows(2 * count, 1)
    groups = np.arange(count)
    return ScheduleFitter(
        rows[:count], rows[count:], groups, LABELS, Cache(folder), "key"
    )


def test_a_schedule_is_fitted_once_and_found_again(tmp_path: Path) -> None:
    fitter, goal = fitter_of(tmp_path), ExitGoal(0.05, 0.9)
    model = forest()
    first = fitter.fit(model, 1, goal)
    assert isinstance(first, EarlyExit)
    assert first.schedule.promise is not None
    assert first.schedule.promise.bounds == (0.05, 0.05)
    again = fitter.fit(model, 1, goal)
    assert again is not None
    for name, array in first.arrays().items():
        assert np.array_equal(again.arrays()[name], array)
    other = fitter.fit(model, 1, goal.half)
    assert other is not None
    assert other.schedule.promise is not None
    assert other.schedule.promise.confidence == 0.95


def test_boosting_behind_a_filling_stops_early_in_an_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_times.use(monkeypatch)
    project = write(tmp_path, 1600, gaps=0.1)
    boosting = PROJECT.replace('"forest"', '"boosting"').replace("100", "60")
    project.write_text(boosting.replace("rows.jsonl", "rows.csv"))
    build(project, output=tmp_path / "my.pdx")
    package = Index.load(tmp_path / "my.pdx").package
    assert package is not None
    (stops,) = {one for one in package.early_exits if one is not None}
    assert stops.packed is not None
    rows = draw_rows(400, 3)
    rows[np.random.default_rng(3).random(rows.shape) < 0.2] = np.nan
    chosen, used = stops.choices(rows)
    assert used.mean() < stops.size
    np.testing.assert_array_equal(stops.choices(rows.astype(float)), (chosen, used))
    assert np.mean(stops.predict(rows) != stops.classifier.predict(rows)) < 0.1


def test_what_cannot_stop_gets_no_schedule(tmp_path: Path) -> None:
    fitter, goal = fitter_of(tmp_path), ExitGoal(0.05, 0.9)
    prior = Prior.fit(np.array([0, 1, 1]))
    assert not can_stop(prior)
    assert fitter.fit(prior, 0, goal) is None
    alike = ScheduleFitter(
        np.full((40, 6), 9, np.float32), None, None, LABELS, Cache(tmp_path), "alike"
    )
    for _ in range(2):  # the second time from the cache
        assert alike.fit(forest(), 1, ExitGoal(0.05)) is None


def test_what_a_fit_refuses_otherwise_is_seen(tmp_path: Path) -> None:
    rows = draw_rows(40, 1)
    uncalibrated = ScheduleFitter(rows, None, None, LABELS, Cache(tmp_path), "key")
    with pytest.raises(BadInput, match=r"confidence 0\.9 needs calibration rows"):
        uncalibrated.fit(forest(), 1, ExitGoal(0.05, 0.9))


def test_halves_of_a_goal_keep_to_it() -> None:
    assert ExitGoal(0.04, 0.9).half == ExitGoal(0.02, 0.95)
    assert ExitGoal(0.04).half == ExitGoal(0.02)


def write(folder: Path, count: int, gaps: float = 0.0) -> Path:
    folder.mkdir(exist_ok=True)
    rows = draw_rows(count, 5)
    away = np.random.default_rng(6).random(rows.shape) < gaps
    with (folder / "rows.csv").open("w") as file:
        file.write(",".join([*NAMES, "label"]) + "\n")
        for row, gap, code in zip(rows, away, label_rows(rows, 2), strict=True):
            cells = [
                "" if no else repr(float(x)) for x, no in zip(row, gap, strict=True)
            ]
            file.write(",".join([*cells, str(code)]) + "\n")
    (folder / "PROJECT.toml").write_text(PROJECT.replace("rows.jsonl", "rows.csv"))
    return folder / "PROJECT.toml"


def test_a_build_fits_schedules_and_says_what_they_are_worth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded_times.use(monkeypatch)
    project = write(tmp_path, 1600)
    index = build(project, output=tmp_path / "my.pdx")
    package = index.package
    assert package is not None
    (stops,) = {one for one in package.early_exits if one is not None}
    promise = stops.schedule.promise
    assert promise is not None
    # half of the 200 set aside: the model has been trained on what was held out
    assert (sum(promise.rows), promise.confidence) == (100, 0.9)
    row = package.early_exits.index(stops)
    assert package.mean_s[row] < package.whole_s[row]
    facts = facts_of(index)
    (plan,) = [one for one in package.meta["exits"]["plans"] if "schedule" in one]
    assert plan["row"] == row
    assert plan["changed"] <= 0.05
    assert 0 < plan["schedule"]["mean"] <= plan["schedule"]["p99"] <= 1
    assert any(
        "1 models stop early" in line for line in detail_lines(facts, built_of(facts))
    )
    again = build(project)
    again.save(tmp_path / "again.pdx")
    assert (tmp_path / "again.pdx").read_bytes() == (tmp_path / "my.pdx").read_bytes()
    off = project.read_text().replace("workers = 1", 'workers = 1\nexits = "off"')
    project.write_text(off[: off.index("[exits]")])
    whole = build(project).package
    assert whole is not None
    assert whole.early_exits == ()
    assert Index.load(tmp_path / "my.pdx").package is not None


@pytest.mark.parametrize(
    ("count", "size", "goal", "share"),
    [
        (1000, 1, ExitGoal(0.05, 0.9), 0.5),  # needs 45 independent items
        (1000, 1, ExitGoal(0.0033, 0.9), 0.7),  # 697
        (1000, 1, ExitGoal(0.0025, 0.9), None),  # 920, which leave too few to fit on
        (199, 1, ExitGoal(0.05, 0.9), None),
        (1000, 2, ExitGoal(0.05, 0.9), 0.5),
        (8000, 10, ExitGoal(0.005, 0.95), 0.8),  # 598, and groups weigh like one item
        (1000, 1000, ExitGoal(0.05, 0.9), None),
    ],
)
def test_items_set_aside_are_divided_by_whole_groups(
    count: int, size: int, goal: ExitGoal, share: float | None
) -> None:
    groups = np.random.default_rng(0).permutation(np.arange(count) // size)
    codes = np.ones(count, np.int64)
    rows = np.empty((count, 0), np.float32)
    items = ExitItems(rows, groups, codes, ("a", "b"), "some", 0, [])
    parts = divide_aside(items, goal, 0)
    if share is None:
        assert parts is None
        return
    assert parts is not None
    fit, calibrate = parts
    assert len(fit) >= FEWEST_FITTED
    assert not goal.lacking(groups[calibrate], codes[calibrate], items.labels)
    assert len(calibrate) == pytest.approx(share * count, abs=size)
    assert sorted([*fit, *calibrate]) == list(range(count))
    assert not {*groups[fit]} & {*groups[calibrate]}
