"""What a build says of itself is checked where an index is loaded."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.built_facts import LARGEST, MOST, exits_of
from polydom.indexer.index.file.pdx_file import read_file
from polydom.indexer.index.index import Index
from tests.support.edited_files.edits import Arrays, Meta, sealed
from tests.support.indexes import told

NOT = object()  # the fact lacks


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> tuple[Meta, Arrays]:
    path = tmp_path_factory.mktemp("told") / "told.pdx"
    told.make_index().save(path)
    meta, arrays, _ = read_file(path)
    return meta, arrays


def load(folder: Path, meta: Meta, arrays: Arrays) -> Index:
    (folder / "a.pdx").write_bytes(sealed(meta, arrays))
    return Index.load(folder / "a.pdx")


def changed(meta: Meta, where: str, value: Any) -> Meta:
    """The facts with another one at a path of keys, or without it."""
    meta = copy.deepcopy(meta)
    inside = meta["package"]["meta"]
    *path, last = (int(k) if k.lstrip("-").isdigit() else k for k in where.split("."))
    for key in path:
        inside = inside[key]
    if value is NOT:
        del inside[last]
    else:
        inside[last] = value
    return meta


# where, what is there instead, and what is said of it
DAMAGED: list[tuple[str, Any, str]] = [
    ("unit", "", r"length >= 1 - at `\$\.unit`"),
    ("unit", "usd", "unit is 'usd', but what counts is s"),
    ("weights", {"usd": 1.0}, "unit is 's', but what counts is usd"),
    ("quantile", 1.0, "quantile"),
    ("found.0.items", -1.0, "items"),
    ("found.0.recall.low", 1.5, "low"),
    ("inputs.items", 0, r"inputs\.items"),
    ("inputs.columns.0.feature", "g9", "of no column of its features"),
    ("inputs.labels.values", [0, 9], "other classes than its own"),
    ("exits.alpha", 1.0, "alpha"),
    ("exits.alpha", "0.1", "alpha"),
    ("exits.alpha", NOT, "missing required field `alpha`"),
    ("exits.alpha", 0.001, "all are told to do 0.001 with 0.9"),
    ("exits.confidence", 0.95, "all are told to do 0.05 with 0.95"),
    ("exits.confidence", -1, "confidence"),
    ("exits.calibrated", 0.5, "calibrated"),
    ("exits.fitted", MOST + 1, "fitted"),
    ("exits.plans", None, "plans"),
    ("exits.plans.0", {"row": 0}, "missing required field"),
    ("exits.plans.0.row", -1, "row"),
    ("exits.plans.0.row", 5, "not its candidates'"),
    ("exits.plans.0.row", 4, "not its candidates'"),  # told of twice
    ("exits.plans.1.saved", 2.0, "saved"),
    ("exits.plans.1.early", 0.5, "candidate 1 has none of the exits told of"),
    ("exits.plans.4.early", 0.25, "0.25 of candidate 4's items are told to end early"),
    ("exits.plans.3.schedule", {"base_models": 6, "mean": 1, "p99": 1}, "one for 0"),
    ("exits.plans.4.schedule", "none", "schedule"),
    ("exits.plans.4.schedule.base_models", 7, "for 7 base models .* one for 6"),
    ("exits.plans.4.schedule.mean", 0.1, "0.6 base models are told to be used"),
    ("exits.plans.4.schedule.mean", 1.5, "mean"),
    ("exits.plans.4.schedule.p99_us", -1, "p99_us"),
    ("exits.plans.4.schedule.whole_us", 10 * LARGEST, "whole_us"),
    ("exits.lacking", 3, r"exits\.lacking"),
    ("curves", "none", "curves"),
    ("curves.2", NOT, "curves told of are not its features'"),
    ("curves.2.name", "words", "curves told of are not its features'"),
    ("curves.0.coefficients", [], "coefficients"),
    ("curves.0.coefficients", [-1.0], "coefficients"),
    ("curves.0.covered", 1.5, "covered"),
    ("curves.0.waits", 1.5, "waits"),
    ("curves.0.waits", float("nan"), "waits"),
    ("curves.0.measured", [], "measured"),
    ("curves.0.measured.sizes", [], "'g0' are not of its sizes"),
    ("curves.0.measured.sizes", [[1.0]], "'g0' are not of its sizes"),
    ("curves.0.measured.sizes", [[1.0, 2.0], [1.0, 2.0]], "'g0' are not of its sizes"),
    ("curves.0.measured.sizes.0.0", 0.0, "sizes"),
    ("curves.0.measured.seconds.0", float("inf"), "seconds"),
    ("curves.0.points.0.0", [1.0, 1.0], "meta.curves"),
    ("measured.busy", "yes", "busy"),
    ("measured.machines.0", {}, "processor"),
    ("pace.overhead", 1.0, "overhead"),
    ("learner", {}, "name"),
    ("learner", None, "learner"),
    ("selection.curves", {}, "'forest' won a race that it was not in"),
    ("selection.levels", 3, "meta.selection"),
    ("search.sets", "8", "sets"),
    ("search.alpha", float("nan"), "alpha"),
    ("search.violations.count", -1, "count"),
    ("testing.budgets", [1.0], "budgets"),
    ("items", -1, "items"),
    ("tested", 0, "tested"),
    ("skipped.0", "row 7", "skipped"),
    ("remarks", [], "remarks"),
    ("observed", [], "observed"),
    ("observed", [0.5], "tells of 1 candidates, and has 5"),
    ("refitted", [True] * 6, "tells of 6 candidates, and has 5"),
    ("numbers", {"mean": 0.0, "deviation": 1.0, "mae": [1.0]}, "tells of 1 candidates"),
]


@pytest.mark.parametrize(("where", "value", "said"), DAMAGED)
def test_what_cannot_be_is_refused(
    content: tuple[Meta, Arrays], tmp_path: Path, where: str, value: Any, said: str
) -> None:
    meta, arrays = content
    with pytest.raises(BadIndexFile, match=said) as caught:
        load(tmp_path, changed(meta, where, value), arrays)
    assert "a.pdx: damaged: " in str(caught.value)


@pytest.mark.parametrize(
    ("where", "value"),
    [
        *((key, NOT) for key in ["exits", "curves", "measured", "pace", "weights"]),
        *((key, NOT) for key in ["learner", "search", "testing", "tested", "observed"]),
        ("exits", {}),
        ("exits", {"lacking": "there are too few items"}),
        ("exits.confidence", None),
        ("exits.later", 1),
        ("later", {"a": [1]}),
        ("curves", []),
        ("curves.0.measured", NOT),  # as older releases wrote
        ("curves.0.measured", None),  # its seconds are declared
        ("measured.machines", NOT),
        ("search.alpha", float("inf")),
        *((f"exits.plans.4.schedule.{key}", NOT) for key in ["mean_us", "p99_us"]),
        ("exits.plans.4.schedule", NOT),
    ],
)
def test_what_may_lack_may_and_later_keys_are_passed_over(
    content: tuple[Meta, Arrays], tmp_path: Path, where: str, value: Any
) -> None:
    meta, arrays = content
    load(tmp_path, changed(meta, where, value), arrays)


def put(name: str, value: Any) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {**arrays, name: np.array(value, arrays[name].dtype)}


def first(name: str, value: Any, at: Any = 0) -> Callable[[Arrays], Arrays]:
    def edit(arrays: Arrays) -> Arrays:
        array = arrays[name].copy()
        array[at] = value
        return {**arrays, name: array}

    return edit


def without(name: str) -> Callable[[Arrays], Arrays]:
    return lambda arrays: {k: v for k, v in arrays.items() if not k.startswith(name)}


OF_ARRAYS: list[tuple[Callable[[Arrays], Arrays], str]] = [
    (without("whole_s"), "'whole_s' is missing"),
    (put("whole_s", []), "whole models' costs are not its candidates'"),
    (put("mean_s", []), "whole models' costs are not its candidates'"),
    (first("whole_s", 2e-5), "candidate 0's model never stops early"),
    (first("whole_s", 1e300, 4), r"'whole_s' holds a cost beyond 1e\+30"),
    (without("schedules/"), "schedule for 6 base models of candidate 4, .* one for 0"),
    (without("margins"), "always goes on"),
    (first("margins", 0.0, (3, 0)), "before its first feature or at its end"),
    (first("margins", 0.0, (4, 3)), "before its first feature or at its end"),
    (first("margins", 1e300, (2, 1)), "before its first feature or at its end"),
    (first("ends", [0.5, 0, 0.5, 0], 4), "where candidate 4 always goes on"),
    (first("schedules/4/lower", np.inf), r"lower\[0\] is inf"),
    (first("schedules/4/upper", -np.inf, 5), r"upper\[5\] is -inf"),
    (first("schedules/4/promise", 0.5), "a schedule may change 0.5 of the answers"),
    (first("schedules/4/promise", 3, 3), "its promise cannot be"),
    (put("schedules/4/promise", []), "a schedule lacks the promise that is told of"),
    (first("coefficients", 3.2e-4, (3, 0)), "costs"),
]


@pytest.mark.parametrize(("edit", "said"), OF_ARRAYS)
def test_arrays_that_cannot_be_are_refused(
    content: tuple[Meta, Arrays],
    tmp_path: Path,
    edit: Callable[[Arrays], Arrays],
    said: str,
) -> None:
    meta, arrays = content
    with pytest.raises(BadIndexFile, match=said):
        load(tmp_path, meta, edit(arrays))


def test_a_plan_pays_for_the_models_at_its_exits(
    content: tuple[Meta, Arrays], tmp_path: Path
) -> None:
    """Else it would cost more than what a budget was compared with."""
    meta, arrays = content
    package = load(tmp_path, meta, arrays).package
    assert package is not None
    assert package.margins[4][2] < np.inf
    # candidate 3 answers there: its model's cost grows, what the plan may cost does not
    whole_s = (
        arrays["whole_s"].copy(),
        arrays["mean_s"].copy(),
        arrays["model_s"].copy(),
    )
    for array in whole_s:
        array[1] *= 1 + 1e-6
    more = dict(zip(("whole_s", "mean_s", "model_s"), whole_s, strict=True))
    with pytest.raises(BadIndexFile, match="candidate costs less than its parts"):
        load(tmp_path, meta, arrays | more)


def test_a_race_for_sets_of_each_size_is_read(
    content: tuple[Meta, Arrays], tmp_path: Path
) -> None:
    meta, arrays = content
    race = meta["package"]["meta"]["selection"]
    levels = [{**race, "low": 1, "high": 1}, {**race, "low": 2, "high": 3}]
    load(tmp_path, changed(meta, "selection", {"levels": levels}), arrays)
    del levels[1]["learner"]
    with pytest.raises(BadIndexFile, match=r"meta\.selection"):
        load(tmp_path, changed(meta, "selection", {"levels": levels}), arrays)


def test_why_there_are_no_exits_is_no_report_of_exits() -> None:
    assert exits_of({}) is exits_of({"exits": {"lacking": "too few"}}) is None
