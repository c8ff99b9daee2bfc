"""The tables that `polydom evaluate` prints about recorded answers."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from msgspec import UnsetType

from polydom.features.figures import show_accuracy
from polydom.indexer.index.quality import name_quality

from ...evaluation.results import AnsweredEvaluation, AnsweredGroup
from .terminal import print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console


def show_answered(found: AnsweredEvaluation, console: "Console") -> None:
    """Print how good recorded answers were: all, by version, reason and features."""
    head = (
        f"{found.all.answers:,} of {found.recorded:,} answers recorded in "
        f"{found.record} have labels in {found.labels}"
    )
    print_line(console, head, wrap=False)
    columns: dict[str, Callable[[AnsweredGroup], str]] = {
        "answers": lambda one: f"{one.answers:,}",
        "share": lambda one: f"{one.share:.1%}",
        name_quality(found.measure): lambda one: _with_error(
            one.quality, one.quality_error
        ),
        "expected": lambda one: show_accuracy(one.expected_quality),
        "in time": lambda one: f"{one.in_time:.1%}",
    }
    if found.task == "classes":
        if found.measure != "accuracy":
            columns["accuracy"] = lambda one: _shown(one.accuracy)
        columns["right in time"] = lambda one: _shown(one.right_in_time)
    columns["p50 ms"] = lambda one: f"{one.p50_ms:.3f}"
    columns["p99 ms"] = lambda one: f"{one.p99_ms:.3f}"
    tables = {
        "what was answered, by version": [found.all, *found.by_version],
        "by reason": found.by_reason,
        "by the features that answered": found.by_plan,
    }
    nothing = {"by reason": "no reason", "by the features that answered": "no feature"}
    for title, groups in tables.items():
        rows = [
            [
                one.name or nothing[title],
                *(write(one) for write in columns.values()),
            ]
            for one in groups
        ]
        print_table(console, ["", *columns], rows, title=f"\n{title}")


def _with_error(number: float | None, error: float | None) -> str:
    doubt = "" if error is None else f" ± {show_accuracy(error)}"
    return _shown(number) + doubt


def _shown(number: float | UnsetType | None) -> str:
    return show_accuracy(number) if isinstance(number, float) else "-"
