"""The tables and lines that `polydom evaluate` prints."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import UnsetType

from polydom.features.figures import show_accuracy, show_number
from polydom.indexer.index.quality import name_quality

from ...evaluation.results import (
    BaselineResult,
    BudgetResult,
    Confusion,
    EarlyResult,
    Evaluation,
    Result,
)
from .terminal import print_line, print_table

if TYPE_CHECKING:
    from rich.console import Console

PLANS = 3  # most feature sets shown for each budget
CLASSES = 10  # most classes for which a confusion matrix is shown
PAIRS = 10  # most mistakes shown if there are more classes


def show(found: Evaluation, console: "Console") -> None:
    """Print all results of an evaluation."""
    where = f" by {found.url}" if found.url else ""
    head = (
        f"{found.asked:,} answers each{where} to {found.items:,} items of {found.test}"
    )
    print_line(console, head, wrap=False)
    unit = "ms" if found.unit == "s" else found.unit
    quality = name_quality(found.measure)
    _show_qualities(found, f"{quality} and time", unit, console)
    _show_fetches(found, unit, console)
    inside = f"right and inside the budget, of so many {unit}"
    if found.task == "classes":
        _show_measures(found, unit, console)
        if found.early is not None:
            _show_early(found.early, unit, console)
    else:
        inside = f"{quality} where the mean answers for what is late, of so many {unit}"
    _show_within(found, inside, console)
    _show_plans(found, unit, console)
    if found.confusion is not None:
        _show_confusion(found.confusion, unit, console)


def _columns(found: Evaluation) -> dict[str, Callable[[Result], str]]:
    """Map the title of each quality column to a function that formats its cells."""
    quality = name_quality(found.measure)
    if found.measure == "accuracy":
        return {quality: _accuracy, "expected": _expected}
    if found.task == "classes":
        return {quality: _quality, "expected": _expected, "accuracy": _accuracy}
    columns: dict[str, Callable[[Result], str]] = {
        quality: _quality,
        "expected": _expected,
    }
    if found.measure != "r2":
        columns["R2"] = lambda one: _shown(one.r2)
    columns["mean error"] = lambda one: _with_error(
        one.mae, one.standard_error, show_number, "{:.2g}".format
    )
    columns["RMSE"] = lambda one: _shown(one.rmse, show_number)
    promise = f" (of {found.coverage:.1%})" if found.coverage else ""
    columns[f"in interval{promise}"] = lambda one: _shown(one.covered, "{:.1%}".format)
    return columns


def _show_qualities(
    found: Evaluation, title: str, unit: str, console: "Console"
) -> None:
    counts_time = found.unit == "s"
    columns = _columns(found)
    cost = [] if counts_time else [f"mean {unit}"]
    rows = []
    everyone: list[BudgetResult | BaselineResult] = [*found.budgets, *found.beside]
    for one in everyone:
        shares = ["", ""]
        if isinstance(one, BudgetResult):
            shares = [f"{one.inside:.1%}", f"{one.early:.1%}"]
        rows.append(
            [
                _named(one, unit),
                *(write(one) for write in columns.values()),
                *shares,
                *([] if counts_time else [_number(one.mean_cost)]),
                f"{one.p50_ms:.3f}",
                f"{one.p99_ms:.3f}",
            ]
        )
    heads = ["", *columns, "inside", "early", *cost, "p50 ms", "p99 ms"]
    print_table(console, heads, rows, title=f"\n{title}")


def _show_fetches(found: Evaluation, unit: str, console: "Console") -> None:
    """Print for each budget how often fetches came, and what they cost."""
    fetched = [(own, own.fetches) for own in found.budgets if own.fetches]
    if not fetched:
        return
    rows = [
        [
            _named(own, unit),
            *(f"{one.came:.1%} of {one.sent:.1%}" for one in fetches or []),
            _shown(own.mean_wait_ms, "{:.3f}".format),
            _shown(own.mean_price, "{:.3g}".format),
        ]
        for own, fetches in fetched
    ]
    names = [one.name for one in fetched[0][1] or []]
    title = "fetches that came, of those sent, as shares of all answers"
    if found.simulated_fetches:
        title += " (simulated)"
    heads = ["", *names, "mean wait ms", "mean price"]
    print_table(console, heads, rows, title=f"\n{title}")


def _show_measures(found: Evaluation, unit: str, console: "Console") -> None:
    """Print measures of classes and of scores, and how each of few classes is found."""
    everyone = (*found.budgets, *found.beside)
    rows = []
    for one in everyone:
        numbers = (one.balanced_accuracy, one.macro_f1, one.auc, one.average_precision)
        rows.append([_named(one, unit), *map(_shown, numbers)])
    heads = ["", "balanced accuracy", "macro F1", "AUC", "average precision"]
    print_table(console, heads, rows, title="\nother measures")
    rows = []
    for one in everyone:
        shares = (one.log_loss, one.brier, one.calibration_error)
        rows.append([_named(one, unit), *map(_shown, shares)])
    heads = ["", "log loss", "Brier", "calibration error"]
    print_table(console, heads, rows, title="\nscores as probabilities")
    _show_classes(found, unit, console)


def _show_classes(found: Evaluation, unit: str, console: "Console") -> None:
    """Print precision, recall and F1 of each class, if there are few."""
    rows = []
    for one in (*found.budgets, *found.beside):
        if isinstance(one.classes, UnsetType) or len(one.classes) > CLASSES:
            return
        for place, each in enumerate(one.classes):
            name = "" if place else _named(one, unit)
            numbers = (each.precision, each.recall, each.f1)
            rows.append([name, each.label, *map(_shown, numbers)])
    heads = ["", "class", "precision", "recall", "F1"]
    print_table(console, heads, rows, title="\neach class")


def _show_early(found: EarlyResult, unit: str, console: "Console") -> None:
    """Print how good scores of early answers are, beside those of whole answers."""
    rows = []
    for name, one in (("early", found.early), ("with --exact", found.whole)):
        numbers = (one.auc, one.log_loss, one.brier, one.calibration_error)
        rows.append([name, *map(_shown, numbers)])
    heads = ["", "AUC", "log loss", "Brier", "calibration error"]
    title = (
        f"\nscores of the {found.items:,} early answers at {found.amount:g} {unit}, "
        "and of whole answers to these items"
    )
    print_table(console, heads, rows, title=title)


def _show_within(found: Evaluation, title: str, console: "Console") -> None:
    """Print each predictor's quality within each budget.

    A late answer counts as wrong or, if answers are numbers, as the prior's number.
    """
    field = "right_inside" if found.task == "classes" else "quality_inside"
    own = [_shown(getattr(one, field)) for one in found.budgets]
    others = [[o.name, *map(_shown, getattr(o, field))] for o in found.beside]
    heads = ["", *(f"{own.amount:g}" for own in found.budgets)]
    print_table(console, heads, [["polydom", *own], *others], title=f"\n{title}")


def _named(one: Result, unit: str) -> str:
    """Return the name of a result's row, with the budget if the result has one."""
    return (
        f"{one.name}, {one.amount:g} {unit}"
        if isinstance(one, BudgetResult)
        else one.name
    )


def _quality(one: Result) -> str:
    return _with_error(one.quality, one.quality_error, show_accuracy, show_accuracy)


def _expected(one: Result) -> str:
    return _shown(one.expected_quality) if isinstance(one, BudgetResult) else ""


def _accuracy(one: Result) -> str:
    return _with_error(one.accuracy, one.standard_error, show_accuracy, show_accuracy)


def _with_error(
    number: float | UnsetType | None,
    error: float | None,
    show: Callable[[float], str],
    show_error: Callable[[float], str],
) -> str:
    doubt = "" if error is None else f" ± {show_error(error)}"
    return _shown(number, show) + doubt


def _shown(
    number: float | UnsetType | None, show: Callable[[float], str] = show_accuracy
) -> str:
    return show(number) if isinstance(number, float) else "-"


def _number(number: object) -> str:
    return f"{number:.6g}" if isinstance(number, float) else "-"


def _show_plans(found: Evaluation, unit: str, console: "Console") -> None:
    lines = ["", "features that answered"]
    for own in found.budgets:
        shown = [f"{one.share:.1%} {_listed(one.features, found)}" for one in own.plans]
        more = ["..."] if len(shown) > PLANS else []
        lines.append(f"  {_named(own, unit)}: {'; '.join(shown[:PLANS] + more)}")
    for other in found.beside:
        if other.features:
            lines.append(f"  {_named(other, unit)}: {_listed(other.features, found)}")
    for line in lines:
        print_line(console, line, wrap=False)


def _listed(features: Sequence[str], found: Evaluation) -> str:
    return ", ".join(features) or "no feature (the prior)"


def _show_confusion(found: Confusion, unit: str, console: "Console") -> None:
    """Print the confusion matrix or, for many classes, the most frequent mistakes."""
    at = f"{found.amount:g} {unit}"
    if not found.pairs:
        console.print()
        print_line(console, f"no mistake at {at}")
        return
    if len(found.labels) <= CLASSES and len(found.answers) <= CLASSES + 1:
        answers = ["no answer" if a is None else a for a in found.answers]
        rows = [
            [label, *(f"{count:,}" for count in row)]
            for label, row in zip(found.labels, found.matrix, strict=True)
        ]
        title = f"\nanswers at {at}, a row for each class"
        print_table(console, ["", *answers], rows, title=title)
        return
    console.print()
    print_line(console, f"most frequent mistakes at {at}")
    for pair in found.pairs[:PAIRS]:
        answer = "not answered" if pair.answer is None else f"taken for {pair.answer}"
        share = f"{pair.share:.1%} of its class"
        line = f"  {pair.label} {answer}: {pair.count:,} ({share})"
        print_line(console, line, wrap=False)
