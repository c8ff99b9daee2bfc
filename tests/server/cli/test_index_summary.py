"""What is said of an index in plain words."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from polydom.indexer.index.facts import facts_of
from polydom.indexer.index.index import Index
from polydom.server.cli.index_report import show
from polydom.server.cli.index_summary import show_summary
from tests.support import numbers, served

SEARCH = {"sets": 8, "expanded": 8, "complete": True, "alpha": 1.05, "tolerance": 0.0}
LATE = {"sets": 4096, "expanded": 12, "complete": False}
PLAN = {"early": 0.5, "saved": 0.25}
EXITS = {"alpha": 0.005, "confidence": 0.95, "calibrated": 700, "plans": [PLAN]}
BUSY = {"busy": True, "lost": 0.5, "others": None}


def said(
    built: dict[str, Any], best: float | None = None, index: Index | None = None
) -> str:
    """Say what a build wrote of itself, on one line."""
    index = index or served.make_index()
    facts = facts_of(index)
    if best is not None:
        facts["skylines"][-1]["skyline"][-1] |= {"quality": best, "accuracy": best}
    facts["build"] = {
        **{"items": 1200, "tested": 100, "skipped": [], "remarks": {}},
        **{"unit": "s", "quantile": 0.99, "learner": {"name": "tree"}},
        **built,
        "search": SEARCH | built.get("search", {}),
    }
    console = Console(file=io.StringIO(), width=80)
    show_summary(index, facts, console)
    assert isinstance(console.file, io.StringIO)
    return " ".join(console.file.getvalue().split())


@pytest.mark.parametrize(
    ("built", "words"),
    [
        ({}, "data: 1,200 texts in 2 classes: ham, spam 3 features to choose from"),
        ({}, "0.950 ± 0.022 (standard error), measured on 100 items that were not"),
        ({}, "models of 8 of the 8 ways to combine the features"),
        ({}, "99% of items keep to"),
        ({"observed": [0.5, 0.9636]}, "0.964 of them were right; 0.014 of that is"),
        ({"skipped": [["a[b].txt", "empty"]]}, "1 left out left out a[b].txt: empty"),
        ({"search": {"expanded": 5}}, "none of the others is expected to be more than"),
        (
            {"search": {"expanded": 5, "alpha": 1.0}},
            "expected to be better at its cost",
        ),
        (
            {"search": LATE},
            "models of 12 of the 4,096 ways to combine the features, the",
        ),
        ({"search": LATE}, "no other is over 1.05 times as accurate at its cost. To"),
        ({"search": LATE}, "warning: the time for that was up"),
        ({"search": LATE}, "raise search.budget_s in PROJECT.toml and build again"),
        (
            {"search": LATE | {"alpha": float("inf")}, "testing": {"trainings": 12}},
            "trainings was reached. To try more, raise search.trainings in",
        ),
        ({"testing": {"budgets": [0.045, 0.05]}}, "budgets of 45.0 ms to 50.0 ms was"),
        ({"exits": EXITS}, "700 more were kept to check early answers on"),
        (
            {"exits": EXITS},
            "computed, which saves 25% of the features' time on average",
        ),
        ({"exits": EXITS}, "at most 0.50% of answers change by that, with 95% confid"),
        (
            {"exits": EXITS | {"plans": []}},
            "never come early, before all is computed: it",
        ),
        ({"exits": {"lacking": "22 items"}}, "there are too few items to promise"),
        ({"measured": BUSY}, "warning: the machine was busy while costs were measured"),
        (
            {"remarks": {"it did not converge": 3}},
            "note: in 3 trainings: it did not co",
        ),
    ],
)
def test_build_is_told_in_plain_words(built: dict[str, Any], words: str) -> None:
    assert words in said(built)


def test_nothing_is_said_that_was_not_so() -> None:
    plain = said({"observed": [0.95]})
    for words in ("luck", "warning", "note", "left out", "early", "alpha"):
        assert words not in plain


def test_of_a_busy_machine_nothing_is_said_where_costs_are_money() -> None:
    assert "busy" not in said({"measured": BUSY, "unit": "usd"})


def test_of_many_remarks_and_items_left_out_the_first_are_shown() -> None:
    skipped = [[f"{k}.txt", "empty"] for k in range(9)]
    shown = said({"remarks": {f"remark {k}": 1 for k in range(9)}, "skipped": skipped})
    assert "4 more such remarks" in shown
    assert "remark 5" not in shown
    assert "... and 4 more" in shown
    assert "5.txt" not in shown


def test_that_nothing_was_wrong_is_no_promise() -> None:
    assert (
        "with a large budget: 1.000, measured on 30 items that were not trained on; "
        "none was wrong, though 9.5% of fresh ones may be"
    ) in said({"tested": 30}, best=1.0)


NUMBERS = {"mean": 6.0, "deviation": 4.25, "mae": [3.5, 2.0, 1.25, 0.75]}


def test_numbers_are_told_by_their_typical_error() -> None:
    shown = said({"numbers": NUMBERS, "observed": [0.9]}, index=numbers.make_index())
    for words in (
        "texts labelled with numbers: 6 on average, standard deviation 4.25 3 features",
        "R2 with a large budget: 0.900, typical error ±0.75, measured on 100 items",
        "what a budget buys",
        "a cell: features, expected R2, time",
        "no feature: the mean answers",
    ):
        assert words in shown
    assert "accuracy" not in shown
    assert "classes" not in shown
    bare = said({"observed": [0.95]}, index=numbers.make_index())
    assert "texts labelled with numbers 3 features" in bare
    assert "budget: 0.900, measured on" in bare
    assert "on them it was 0.950; 0.050 of that is taken for luck" in bare


def test_another_measure_is_told_beside_accuracy() -> None:
    shown = said({"search": LATE}, index=numbers.make_balanced_index())
    assert (
        "balanced accuracy with a large budget: 0.800, accuracy 0.950 ± 0.022 "
        "(standard error), measured on"
    ) in shown
    assert "no other is over 1.05 times as good at its cost" in shown
    assert "a cell: features, expected balanced accuracy, time" in shown


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            numbers.make_index,
            ["R2 features, in", "none: the mean", "numbers; 1200 use"],
        ),
        (
            numbers.make_balanced_index,
            [
                "balanced accuracy accuracy features",
                "accuracy is 0.950, with a standard",
            ],
        ),
        (served.make_index, ["predicted accuracy features", "none: the class prior"]),
    ],
)
def test_the_details_name_the_measure(
    make: Callable[[], Index], words: list[str]
) -> None:
    facts = facts_of(make())
    facts["build"] = {
        **{"items": 1200, "tested": 100, "skipped": [], "remarks": {}, "curves": []},
        **{"learner": {"name": "tree"}, "search": SEARCH | {"method": "poly-dom"}},
        "selection": {},
    }
    console = Console(file=io.StringIO(), width=200)
    show(facts, console)
    assert isinstance(console.file, io.StringIO)
    shown = " ".join(console.file.getvalue().split())
    for expected in words:
        assert expected in shown


def test_facts_leave_measured_times_out() -> None:
    index = served.make_index()
    assert index.package is not None
    curve = {"name": "length", "covered": 1.0}
    meta = {**index.package.meta, "curves": [{**curve, "measured": {"seconds": [1.0]}}]}
    kept = replace(index, package=replace(index.package, meta=meta))
    assert facts_of(kept)["build"]["curves"] == [curve]
