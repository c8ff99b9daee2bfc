"""What people see of an evaluation: tables, lines and a picture."""

import io
from typing import Any

from rich.console import Console

from polydom.server.cli.reports.evaluation_report import show
from polydom.server.evaluation.results import (
    BaselineResult,
    Bought,
    BudgetResult,
    ClassRates,
    Confusion,
    Evaluation,
    Pair,
)

JUDGED: dict[str, Any] = {
    "quality": 0.75,
    "quality_error": 0.0125,
    "accuracy": 0.75,
    "standard_error": 0.0125,
    "balanced_accuracy": 0.5,
    "macro_f1": 0.25,
    "auc": None,
    "log_loss": 1.5,
    "average_precision": 0.25,
    "brier": 0.5,
    "calibration_error": 0.125,
    "classes": [ClassRates("ham", 0.5, 0.25, None)],
    "reliability": [],
    "precision_recall": [],
    "p50_ms": 0.125,
    "p99_ms": 2.5,
    "unanswered": 0,
    "error": None,
}


def evaluation(unit: str = "s", classes: int = 12) -> Evaluation:
    """One with as many classes, which are all taken for the first."""
    amounts = [0.5, 2.0]
    of = "budget_ms" if unit == "s" else "budget"
    cost: dict[str, Any] = {} if unit == "s" else {"mean_cost": 0.375}
    budgets = [
        BudgetResult(
            name="polydom",
            **JUDGED,
            **{**cost, of: amount},
            expected_quality=0.7,
            expected_accuracy=0.7,
            inside=0.5,
            right_inside=0.375,
            early=0.25,
            plans=[Bought(("a", "b"), 0.625), Bought((), 0.375)],
        )
        for amount in amounts
    ]
    names: list[tuple[str, Any]] = [("prior", ()), ("largest plan", ("a", "[b]"))]
    beside = [
        BaselineResult(
            name=name,
            **JUDGED,
            **cost,
            features=features,
            inside=[0.5, 1.0],
            right_inside=[0.5, 0.75],
        )
        for name, features in names
    ]
    unknown: dict[str, Any] = {} if unit == "s" else {"mean_cost": None}
    shares: list[float | None] = [0.0, 0.75] if unit == "s" else [None, None]
    own: dict[str, Any] = {"name": "[red]$m$.py:make", "features": None, **unknown}
    beside.append(BaselineResult(**JUDGED, **own, inside=shares, right_inside=shares))
    labels = [f"[class]\x1b{k}" for k in range(classes)]
    matrix = [[5 - (k > 0)] + [0] * (classes - 1) + [k > 0] for k in range(classes)]
    pairs = [Pair(label, labels[0], 4, 0.8) for label in labels[1:]]
    pairs += [Pair(label, None, 1, 0.2) for label in labels[1:]]
    return Evaluation(
        index="my.pdx",
        version="1",
        url="http://127.0.0.1:1" if unit == "s" else None,
        test="test.jsonl",
        items=60,
        asked=60,
        complete=True,
        unreadable=0,
        unlabelled=0,
        foreign={},
        unit=unit,
        task="classes",
        measure="accuracy",
        coverage=None,
        budgets=budgets,
        beside=beside,
        confusion=Confusion(2.0, labels, [*labels, None], matrix, pairs),
    )


def printed(found: Evaluation) -> list[str]:
    console = Console(file=io.StringIO(), width=200)
    show(found, console)
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_tables_show_who_is_how_good_and_how_fast() -> None:
    lines = printed(evaluation(classes=3))
    for line in (
        "60 answers each by http://127.0.0.1:1 to 60 items of test.jsonl",
        "polydom, 0.5 ms 0.750 ± 0.013 0.700 50.0% 25.0% 0.125 2.500",
        "[red]$m$.py:make 0.750 ± 0.013 0.125 2.500",
        "prior 0.500 0.250 - 0.250",
        "prior 1.500 0.500 0.125",
        "prior ham 0.500 0.250 -",
        "right and inside the budget, of so many ms",
        "polydom 0.375 0.375",
        "[red]$m$.py:make 0.000 0.750",
        "polydom, 2 ms: 62.5% a, b; 37.5% no feature (the prior)",
        "largest plan: a, [b]",
        r"[class]\x1b1 4 0 0 1",
    ):
        assert line in lines


def test_of_many_classes_the_most_frequent_mistakes_are_shown() -> None:
    lines = printed(evaluation())
    place = lines.index("most frequent mistakes at 2 ms")
    assert lines[place + 1] == (
        r"[class]\x1b1 taken for [class]\x1b0: 4 (80.0% of its class)"
    )
    assert len(lines) == place + 11
    found = evaluation()
    assert found.confusion is not None
    found.confusion.pairs = found.confusion.pairs[-1:]
    assert printed(found)[-1] == r"[class]\x1b11 not answered: 1 (20.0% of its class)"
    found.confusion.pairs = []
    assert printed(found)[-1] == "no mistake at 2 ms"


def test_money_has_its_own_column() -> None:
    lines = printed(evaluation("usd"))
    row = "polydom, 2 usd 0.750 ± 0.013 0.700 50.0% 25.0% 0.375 0.125 2.500"
    assert row in lines
    assert "[red]$m$.py:make - -" in lines
