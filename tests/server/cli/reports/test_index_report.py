"""What is printed of an index: in plain words, and how it was found."""

import io
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from polydom.indexer.index.facts import Facts, facts_of
from polydom.indexer.index.index import Index
from polydom.server.cli.reports.index_report import (
    built_of,
    detail_lines,
    show_early_scores,
    show_schedules,
    show_text,
)
from tests.support.indexes import fetched, numbers, served, stopping_records

SEARCH = {
    **{"method": "progressive", "alpha": 1.05, "tolerance": 0.0},
    **{"sets": 8, "expanded": 8, "complete": True},
}
LATE = {"sets": 4096, "expanded": 12, "complete": False, "alpha": 1.3}
SCHEDULE = {
    **{"mean": 0.25, "p99": 0.75, "base_models": 40},
    **{"mean_us": 1.25, "p99_us": 3.5, "whole_us": 4.75},
}
CALL = {"call": 1.2e-3, "gain": 3e-4}
PLAN = {"row": 1, "early": 0.5, "saved": 0.25, "changed": 0.0}
NEVER = PLAN | {"early": 0.0, "saved": 0.0}
FITTED = {"fitted": 500, "calibrated": 700}
CLASSES = [
    {"bound": 0.005, "items": 660, "changed": 3},
    {"bound": 0.0, "items": 40, "changed": 0},
]
OTHERS = [
    {"bound": 0.005, "items": 650, "changed": 1},
    {"bound": 0.0, "items": 50, "changed": 0},
]
BY_CLASS = {
    "alphas": [0.005, 0.01],
    "sides": "positive",
    "plans": [PLAN | {"classes": CLASSES}, PLAN | {"row": 2, "classes": OTHERS}],
}
SCORES = {
    "items": 500,
    "early": {"log_loss": 0.25, "error": 0.0625, "brier": 0.125},
    "whole": {"log_loss": 0.1875, "error": 0.03125},
}
EXITS = {"alpha": 0.005, "confidence": 0.95, "plans": [PLAN], **FITTED}
FOUND = {"items": 36.0, "recall": {"share": 0.8056, "low": 0.63978, "high": 0.91814}}
BUSY = {"busy": True, "lost": 0.5, "others": None, "processors": 2}


def saying(built: dict[str, Any], index: Index | None = None) -> tuple[Index, Facts]:
    """An index whose build says this of itself, and the index's facts."""
    index = index or served.make_index()
    assert index.package is not None
    meta = {
        **index.package.meta,
        **{"items": 1200, "tested": 100, "skipped": [], "remarks": {}},
        **{"unit": "s", "quantile": 0.99, "learner": {"name": "tree"}},
        **built,
        "search": SEARCH | built.get("search", {}),
    }
    index = replace(index, package=replace(index.package, meta=meta))
    return index, facts_of(index)


def said(
    built: dict[str, Any],
    best: float | None = None,
    index: Index | None = None,
    *,
    verbose: bool = False,
) -> str:
    """What is printed of such an index, on one line."""
    index, facts = saying(built, index)
    if best is not None:
        last = facts.skylines[-1].skyline[-1]
        last.quality = last.accuracy = best
    console = Console(file=io.StringIO(), width=200 if verbose else 80)
    show_text(index, facts, console, verbose=verbose)
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
        (
            {"found": [FOUND, None, FOUND, FOUND]},
            "of 36 held-out items of the class and all others: recall 0.806 (0.640 to "
            "0.918 with 95%)",
        ),
        (
            {"search": {"expanded": 5}},
            "others is expected to be more than 1.05 times as accurate at its features",
        ),
        (
            {"search": {"expanded": 5, "alpha_of": "gain"}},
            "to gain more than 1.05 times as much over the prior at its",
        ),
        (
            {"search": {"expanded": 5, "complete": False, "alpha": 1.04}},
            "none of the others is expected to be more than 1.04 times as accurate",
        ),
        (
            {"search": {"expanded": 5, "alpha": 1.0}},
            "expected to be better at its features' cost",
        ),
        (
            {"search": LATE},
            "models of 12 of the 4,096 ways to combine the features, the",
        ),
        (
            {"search": LATE},
            "no other can be more than 1.3 times as accurate at its features",
        ),
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
        (
            {"exits": EXITS},
            "at most 0.50% of all answers change by that, with 95% confid",
        ),
        (
            {"exits": EXITS | {"plans": []}},
            "never come early, before all is computed: it",
        ),
        (
            {"exits": EXITS | {"plans": [PLAN, PLAN | {"row": 2, "scores": SCORES}]}},
            "expected calibration error is 0.062 on average; that of whole answers to "
            "the same items is 0.031",
        ),
        (
            {"exits": EXITS | {"plans": [PLAN | CALL]}},
            "exits: 1.20 ms -> 0.900 ms a call (-25%): ",
        ),
        (
            {"exits": EXITS | {"plans": [NEVER | CALL]}},
            "no exits: they would save at most 25.0% of a call: ",
        ),
        (
            {"exits": EXITS | {"plans": [NEVER | CALL | {"gain": 0.0}]}},
            "no exits: none would save anything: ",
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
        "no feature: the prior answers",
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
    assert "no other can be more than 1.3 times as good at its features' cost" in shown
    assert "a cell: features, expected balanced accuracy, time" in shown


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (numbers.make_index, ["R2 features, in", "none: the mean"]),
        (numbers.make_balanced_index, ["balanced accuracy accuracy features"]),
        (served.make_index, ["predicted accuracy features", "none: the class prior"]),
    ],
)
def test_the_details_name_the_measure(
    make: Callable[[], Index], words: list[str]
) -> None:
    shown = said({}, index=make(), verbose=True)
    for expected in words:
        assert expected in shown


def test_facts_leave_measured_times_out() -> None:
    curve = {"name": "length", "covered": 1.0, "coefficients": [1.0]}
    _, facts = saying({"curves": [{**curve, "measured": {"seconds": [1.0]}}]})
    assert facts.build["curves"] == [curve]  # type: ignore[index]


def details(built: dict[str, Any]) -> list[str]:
    _, facts = saying(built)
    return [*detail_lines(facts, built_of(facts))]


@pytest.mark.parametrize(
    ("built", "line"),
    [
        (
            {"search": {"complete": False, "expanded": 5}},
            "feature sets by progressive (alpha 1.05, tolerance 0): 8 possible, 5 "
            "trained, 3 left, for want of time, 4 kept",
        ),
        (
            {"search": {"sequences": 1, "method": "greedy", "expanded": 5}},
            "feature sets by greedy (1 sequence): 8 possible, 5 trained, 3 never "
            "reached, 4 kept",
        ),
        (
            {"exits": EXITS},
            "  after some features 50% of the time on average, which saves 25% of the "
            "features' cost",
        ),
        (
            {"exits": EXITS | {"confidence": None}},
            "plans answer early where at most 0.50% of all answers change, of the "
            "fitted items; nothing is promised of fresh ones, for want of an "
            "exits.confidence",
        ),
        (
            {"exits": EXITS | BY_CLASS},
            "plans answer early where at most 0.50% of answers 'ham', 1.00% of answers "
            "'spam' change, of each plan with 95% confidence, by 700 calibration items",
        ),
        (
            {"exits": EXITS | BY_CLASS | {"alphas": [0.005, 0.005]}},
            "plans answer early where at most 0.50% of each class's answers change, of "
            "each plan with 95% confidence, by 700 calibration items",
        ),
        (
            {"exits": EXITS | {"unlabelled": 300}},
            "plans answer early where at most 0.50% of all answers change, of each "
            "plan with 95% confidence, by 700 calibration items, 300 of them without "
            "labels",
        ),
        (
            {"exits": EXITS | BY_CLASS},
            "  only answers 'spam' come early; 'ham' is always computed whole",
        ),
        (
            {"exits": EXITS | BY_CLASS},
            "  'ham': 650 to 660 calibration items, of which at most 3 changed",
        ),
        (
            {"exits": EXITS | BY_CLASS},
            "  'spam': 40 to 50 calibration items; never left early, or only where "
            "nothing can overrule it",
        ),
        (
            {"exits": EXITS | {"plans": [NEVER | {"schedule": SCHEDULE}]}},
            "  1 models stop early: after 25% to 25% of their base models on average",
        ),
        (
            {"exits": EXITS | {"plans": [NEVER]}},
            "no early exits: none saves a tenth of a call, or 5 us of it",
        ),
        (
            {"exits": {"lacking": "too few items"}},
            "built without early exits: too few items",
        ),
    ],
)
def test_the_details_say_what_a_build_did(built: dict[str, Any], line: str) -> None:
    assert line in details(built)


def test_the_details_name_every_remark_that_the_summary_leaves_out() -> None:
    shown = details({"remarks": {f"remark {k}": 1 for k in range(7)}})
    assert shown[-2:] == ["  in 1 trainings: remark 5", "  in 1 trainings: remark 6"]


def test_the_details_show_each_race_of_a_build_with_several() -> None:
    race = {
        "strategy": "daub",
        "learner": "bayes",
        "score": 0.75,
        "seconds": 1.0,
        "full_s": 2.0,
        "curves": {"bayes": [[100, 0.5, 0.5], [2000, 0.75, 0.5]]},
    }
    races = [{"low": 1, "high": 1, **race}, {"low": 2, "high": 4, **race}]
    lines = details({"selection": {"levels": races}})
    for sets in ("1 feature", "2 to 4 features"):
        assert any(
            line.startswith(f"learner for sets of {sets} chosen by daub: bayes")
            for line in lines
        )
    assert lines[-1] == "  its curve: 0.5000 on 100, 0.7500 on 2,000 examples"


def test_the_details_say_what_learned_features_know() -> None:
    _, facts = saying({})
    facts.learned = {"words": {"terms": 1200, "texts": 5000}}
    told = [*detail_lines(facts, built_of(facts))]
    assert "  words knows 1,200 terms, learned from 5,000 of the texts" in told


def test_scores_of_early_answers_are_shown_beside_those_of_whole_answers() -> None:
    console = Console(file=io.StringIO(), width=160)
    for plan in (NEVER, PLAN | {"scores": SCORES}):
        _, facts = saying({"exits": EXITS | {"plans": [plan]}})
        show_early_scores(facts, console)
    assert isinstance(console.file, io.StringIO)
    *_, last = console.file.getvalue().splitlines()
    assert facts.sets
    numbers = ["500", "0.1250", "-", "0.2500", "0.1875", "0.0625", "0.0312"]
    assert last.split() == [*numbers, *", ".join(facts.sets[1]).split()]


def test_an_index_whose_early_answers_have_no_scores_says_so() -> None:
    index = stopping_records.make_index()
    package = index.package
    assert package is not None
    older = tuple(one and replace(one, lines=None) for one in package.early_exits)
    words = "early answers have no scores, because an older version built this index"
    assert words not in said({"exits": EXITS}, index=index)
    index = replace(index, package=replace(package, early_exits=older))
    assert words in said({"exits": EXITS}, index=index)


def test_models_that_stop_early_are_shown_with_what_that_saves() -> None:
    console = Console(file=io.StringIO(), width=120)
    for plan in (NEVER, NEVER | {"schedule": SCHEDULE}):
        _, facts = saying({"exits": EXITS | {"plans": [plan]}})
        show_schedules(facts, console)
    assert isinstance(console.file, io.StringIO)
    *_, last = console.file.getvalue().splitlines()
    assert facts.sets
    features = ", ".join(facts.sets[1]).split()
    assert last.split() == ["10.0", "30.0", "40", "1.2", "3.5", "4.8", *features]


def test_fetches_are_told_with_their_times_and_by_budget() -> None:
    words = said({}, index=fetched.make_index(), verbose=True)
    assert (
        "fetch 'orders' brings n_orders, mean_amount by customer_id, for 0.002 usd a "
        "key; it comes within 11.8 ms (half), 38.7 ms (90 %); 2.0% never came"
    ) in words
    assert "(for a request for which all fetches have come)" in words
    assert "budget employer orders expected accuracy 0.100 ms 0% 0% 0.600" in words
    assert "50.0 ms 100% 94% 0.890" in words
    assert "fetch" not in said({})
