"""What a report says of how an index was built, line by line."""

import io
from typing import Any

import pytest
from rich.console import Console

from polydom.indexer.index.facts import facts_of
from polydom.server.cli.index_report import build_lines, show_schedules
from tests.support import served

SEARCH = {
    **{"method": "progressive", "alpha": 1.05, "tolerance": 0.0},
    **{"sets": 8, "expanded": 8, "complete": True},
}
SCHEDULE = {
    **{"mean": 0.25, "p99": 0.75, "base_models": 40},
    **{"mean_us": 1.25, "p99_us": 3.5, "whole_us": 4.75},
}
EARLY = {"row": 1, "early": 0.5, "saved": 0.25}
EXITS = {"alpha": 0.005, "confidence": 0.95, "calibrated": 700, "plans": [EARLY]}
NEVER = {"row": 1, "early": 0.0, "saved": 0.0}


def lines(built: dict[str, Any], facts: dict[str, Any] | None = None) -> list[str]:
    """Say what a build wrote of itself."""
    facts = facts_of(served.make_index()) | (facts or {})
    built = {
        **{"items": 1200, "tested": 100, "skipped": [], "remarks": {}},
        **{"unit": "s", "learner": {"name": "tree"}, "selection": None},
        **built,
        "search": SEARCH | built.get("search", {}),
    }
    facts["build"] = built
    return [*build_lines(facts, built)]


@pytest.mark.parametrize(
    ("built", "line"),
    [
        ({"skipped": [["a.txt", "empty"]]}, "  left out a.txt: empty"),
        ({"remarks": {"no convergence": 3}}, "  in 3 trainings: no convergence"),
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
            {"testing": {"budgets": [0.001, 0.5]}},
            "  only the best for budgets of 1.00 ms to 500 ms",
        ),
        (
            {"exits": EXITS},
            "  after some features 50% of the time on average, which saves 25% of the "
            "features' cost",
        ),
        (
            {"exits": EXITS | {"confidence": None}},
            "plans answer early where at most 0.50% of answers change, of the fitted "
            "items; nothing is promised of fresh ones, for want of an exits.confidence",
        ),
        (
            {"exits": EXITS | {"plans": [NEVER | {"schedule": SCHEDULE}]}},
            "  1 models stop early: after 25% to 25% of their base models on average",
        ),
        (
            {"exits": EXITS | {"plans": [NEVER]}},
            "no early exits: none would save a plan a twentieth of its cost",
        ),
        (
            {"exits": {"lacking": "too few items"}},
            "built without early exits: too few items",
        ),
    ],
)
def test_a_report_says_what_a_build_did(built: dict[str, Any], line: str) -> None:
    assert line in lines(built)


def test_a_report_says_what_learned_features_know() -> None:
    learned = {"words": {"terms": 1200, "texts": 5000}}
    told = lines({}, {"learned": learned})
    assert "  words knows 1,200 terms, learned from 5,000 of the texts" in told


def test_models_that_stop_early_are_shown_with_what_that_saves() -> None:
    facts = facts_of(served.make_index())
    console = Console(file=io.StringIO(), width=120)
    facts["build"] = {"exits": {"plans": [NEVER]}}
    show_schedules(facts, console)
    facts["build"] = {"exits": {"plans": [NEVER | {"schedule": SCHEDULE}]}}
    show_schedules(facts, console)
    assert isinstance(console.file, io.StringIO)
    table = console.file.getvalue().splitlines()
    assert table[-1].split() == [
        *("10.0", "30.0", "40", "1.2", "3.5", "4.8"),
        *", ".join(facts["sets"][1]).split(),
    ]
