"""What a contest found, for people: tables and lines."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import UnsetType

from polydom.features.errors import printable
from polydom.features.figures import show_accuracy, show_number
from polydom.indexer.index.quality import WITHOUT_FEATURES, name_quality

from .facts import AtBudget, Confusion, Evaluation, Judged

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

PLANS = 3  # feature sets of a budget that are shown
CLASSES = 10  # classes of a confusion that is shown as a matrix
PAIRS = 10  # mistakes that are shown


def show(found: Evaluation, console: "Console") -> None:
    """Print all of it."""
    where = f" by {found.url}" if found.url else ""
    head = (
        f"{found.asked:,} answers each{where} to {found.items:,} items of {found.test}"
    )
    console.print(printable(head), markup=False, highlight=False, soft_wrap=True)
    unit = "ms" if found.unit == "s" else found.unit
    quality = name_quality(found.measure)
    _print(console, f"{quality} and time", _qualities(found, unit))
    inside = f"right and inside the budget, of so many {unit}"
    if found.task == "classes":
        _print(console, "other measures", _measures(found, unit))
    else:
        inside = f"{quality} where the mean answers for what is late, of so many {unit}"
    _print(console, inside, _within(found, unit))
    _show_plans(found, unit, console)
    if found.confusion is not None:
        _show_confusion(found.confusion, unit, console)


def _columns(found: Evaluation) -> dict[str, Callable[[Judged], str]]:
    """Say how good one is, in columns: the index's own measure leads."""
    quality = name_quality(found.measure)
    if found.measure == "accuracy":
        return {quality: _accuracy, "expected": _expected}
    if found.task == "classes":
        return {quality: _quality, "expected": _expected, "accuracy": _accuracy}
    columns: dict[str, Callable[[Judged], str]] = {
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


def _qualities(found: Evaluation, unit: str) -> "Table":
    """Tabulate how good and how fast all are, the index within each budget first."""
    counts_time = found.unit == "s"
    cost = [] if counts_time else [f"mean {unit}"]
    columns = _columns(found)
    table = _table(*columns, "inside", "early")
    for name in (*cost, "p50 ms", "p99 ms"):
        table.add_column(name, justify="right", no_wrap=True)
    for own in found.budgets:
        costs = [] if counts_time else [_number(own.mean_cost)]
        table.add_row(
            _plain(_named(own, unit)),
            *(write(own) for write in columns.values()),
            f"{own.inside:.1%}",
            f"{own.early:.1%}",
            *costs,
            *_times(own),
        )
    for other in found.beside:
        costs = [] if counts_time else [_number(other.mean_cost)]
        good = [write(other) for write in columns.values()]
        cells = [*good, "", "", *costs, *_times(other)]
        table.add_row(_plain(_named(other, unit)), *cells)
    return table


def _measures(found: Evaluation, unit: str) -> "Table":
    """Tabulate the measures beside accuracy."""
    table = _table("balanced accuracy", "macro F1", "AUC", "log loss")
    for one in (*found.budgets, *found.beside):
        numbers = (one.balanced_accuracy, one.macro_f1, one.auc, one.log_loss)
        table.add_row(_plain(_named(one, unit)), *map(_shown, numbers))
    return table


def _within(found: Evaluation, unit: str) -> "Table":
    """Tabulate how good all are inside each budget, by the same rule for all."""
    table = _table(*(f"{own.amount:g}" for own in found.budgets))
    field = "right_inside" if found.task == "classes" else "quality_inside"
    own = [_shown(getattr(one, field)) for one in found.budgets]
    table.add_row("polydom", *own)
    for other in found.beside:
        table.add_row(_plain(other.name), *map(_shown, getattr(other, field)))
    return table


def _print(console: "Console", title: str, table: "Table") -> None:
    """Print a title of any length above a table."""
    console.print(f"\n{_plain(title)}", style="italic", highlight=False)
    console.print(table)


def _table(*names: str) -> "Table":
    from rich.table import Table

    table = Table(box=None)
    table.add_column("")
    for name in names:
        table.add_column(_plain(name), justify="right", no_wrap=True)
    return table


def _plain(text: str) -> str:
    """Keep what others wrote from being read as markup, or by a terminal."""
    from rich.markup import escape

    return escape(printable(text))


def _named(one: Judged, unit: str) -> str:
    """Name a row: the index by its budget."""
    return (
        f"{one.name}, {one.amount:g} {unit}" if isinstance(one, AtBudget) else one.name
    )


def _quality(one: Judged) -> str:
    return _with_error(one.quality, one.quality_error, show_accuracy, show_accuracy)


def _expected(one: Judged) -> str:
    return _shown(one.expected_quality) if isinstance(one, AtBudget) else ""


def _accuracy(one: Judged) -> str:
    return _with_error(one.accuracy, one.standard_error, show_accuracy, show_accuracy)


def _with_error(
    number: float | UnsetType | None,
    error: float | None,
    show: Callable[[float], str],
    show_error: Callable[[float], str],
) -> str:
    doubt = "" if error is None else f" ± {show_error(error)}"
    return _shown(number, show) + doubt


def _times(one: Judged) -> tuple[str, str]:
    return f"{one.p50_ms:.3f}", f"{one.p99_ms:.3f}"


def _shown(
    number: float | UnsetType | None, show: Callable[[float], str] = show_accuracy
) -> str:
    return show(number) if isinstance(number, float) else "-"


def _number(number: object) -> str:
    return f"{number:.6g}" if isinstance(number, float) else "-"


def _show_plans(found: Evaluation, unit: str, console: "Console") -> None:
    """Say what each budget bought, and what the others are made of."""
    lines = ["", "features that answered"]
    for own in found.budgets:
        shown = [f"{one.share:.1%} {_listed(one.features, found)}" for one in own.plans]
        more = ["..."] if len(shown) > PLANS else []
        lines.append(f"  {_named(own, unit)}: {'; '.join(shown[:PLANS] + more)}")
    for other in found.beside:
        if other.features:
            lines.append(f"  {_named(other, unit)}: {_listed(other.features, found)}")
    for line in lines:
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)


def _listed(features: Sequence[str], found: Evaluation) -> str:
    return ", ".join(features) or f"no feature ({WITHOUT_FEATURES[found.task]})"


def _show_confusion(found: Confusion, unit: str, console: "Console") -> None:
    """Print the matrix of few classes, and the most frequent mistakes of many."""
    at = f"{found.amount:g} {unit}"
    if not found.pairs:
        console.print(f"\nno mistake at {at}", markup=False, highlight=False)
        return
    if len(found.labels) <= CLASSES and len(found.answers) <= CLASSES + 1:
        answers = ["no answer" if a is None else a for a in found.answers]
        table = _table(*answers)
        for label, row in zip(found.labels, found.matrix, strict=True):
            table.add_row(_plain(label), *(f"{count:,}" for count in row))
        _print(console, f"answers at {at}, a row for each class", table)
        return
    console.print(f"\nmost frequent mistakes at {at}", markup=False, highlight=False)
    for pair in found.pairs[:PAIRS]:
        answer = "not answered" if pair.answer is None else f"taken for {pair.answer}"
        share = f"{pair.share:.1%} of its class"
        line = printable(f"  {pair.label} {answer}: {pair.count:,} ({share})")
        console.print(line, markup=False, highlight=False, soft_wrap=True)
