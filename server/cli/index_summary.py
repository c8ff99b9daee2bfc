"""What an index is good for, in plain words; `report` holds the details."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from polydom.features.figures import show_accuracy, show_cost, show_number
from polydom.features.items import SIZE_NAMES
from polydom.features.sizes import Size
from polydom.features.wording import listed
from polydom.indexer.index.column_facts import ColumnFacts, column_lines
from polydom.indexer.index.facts import (
    mean_coefficients,
    sizes_between,
    skyline_facts,
)
from polydom.indexer.index.index import Index
from polydom.indexer.index.quality import name_quality

from .budget_table import show_budgets
from .index_report import (
    best_of,
    busy_words,
    doubt_of,
    escaped,
    rounded,
    tested_items,
    where_words,
)

if TYPE_CHECKING:
    from rich.console import Console

TABLED = 3  # sizes: a small, a middling and a large item
SHOWN = 5  # of what was left out, or what learners remarked


def show_summary(index: Index, facts: dict[str, Any], console: "Console") -> None:
    """Print what was read, how good it is, what budgets buy, what went wrong."""
    facts = escaped(facts)
    built = facts.get("build", {})
    whole = _print(console, _read_lines(facts, built))
    sizes = sizes_between(*index.sizes, TABLED)
    means = mean_coefficients(index)
    skylines = [skyline_facts(index, means, size) for size in sizes]
    console.print()
    show_budgets(escaped(skylines), [_size_words(index, s) for s in sizes], console)
    if whole:
        _print(console, _later_lines(facts, built))


def summary_lines(facts: dict[str, Any]) -> list[str]:
    """Write what was read, how good it is and what went wrong, without the table.

    Of a build that lacks some of its facts, the lines before those.
    """
    built, lines = facts.get("build", {}), list[str]()
    try:
        for some in (_read_lines, _later_lines):
            lines.extend(some(facts, built))
    except KeyError:
        pass
    return [*lines, *column_lines(columns_of(built))]


def _print(console: "Console", lines: Iterator[str]) -> bool:
    """Print lines; of a build that lacks one's facts, those before it."""
    try:
        for line in lines:
            console.print(line, highlight=False)
    except KeyError:  # made by hand, or by an older release
        console.print("this index says no more of its build")
        return False
    return True


def _size_words(index: Index, size: Size) -> str:
    """Write a size above what it counts, such as characters."""
    if index.package is None:
        return rounded(size)
    return f"{rounded(size)}\n{' x '.join(SIZE_NAMES[index.package.kind][index.pairs])}"


def _read_lines(facts: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """Write what was read and how good answers are with a large budget."""
    if not built:
        return
    labels, skipped = facts["labels"], built["skipped"]
    out = f"; {len(skipped):,} left out" if skipped else ""
    few = f": {', '.join(labels)}" if len(labels) <= SHOWN else ""
    labelled = f"in {len(labels)} classes{few}"
    if facts["task"] == "regression":
        labelled = _numbers_words(built)
    yield f"data: {built['items']:,} {facts['kind']}s {labelled}{out}"
    exits = built.get("exits") or {}
    if exits.get("plans") and exits["confidence"] is not None:
        yield f"  {exits['calibrated']:,} more were kept to check early answers on"
    for name, why in skipped[:SHOWN]:
        yield f"  left out {name}: {why}"
    if len(skipped) > SHOWN:
        yield f"  ... and {len(skipped) - SHOWN:,} more"
    for warning in built.get("warnings", []):
        yield f"  mind: {warning}"
    names = facts["features"]
    yield (
        f"{len(names)} features to choose from: {listed(names)}; models by "
        f"{built['learner']['name']}"
    )
    yield from _quality_lines(facts, built)


def columns_of(built: dict[str, Any]) -> list[ColumnFacts]:
    """Read what a build understood of columns; nothing in older files."""
    return msgspec.convert(built.get("columns", []), list[ColumnFacts])


def _numbers_words(built: dict[str, Any]) -> str:
    """Say what numbers the labels are."""
    numbers = built.get("numbers")
    if not numbers:
        return "labelled with numbers"
    mean, deviation = map(show_number, (numbers["mean"], numbers["deviation"]))
    return f"labelled with numbers: {mean} on average, standard deviation {deviation}"


def _quality_lines(facts: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """Write what quality a large budget reaches, and how sure that is."""
    found, measure = best_of(facts), facts["measure"]
    best = found["quality"]
    words, after = _sure_words(found, measure, built)
    yield (
        f"{name_quality(measure)} with a large budget: {words}, measured on "
        f"{tested_items(built)}{after}"
    )
    observed = max(built.get("observed", [best]))
    if show_accuracy(observed) != show_accuracy(best):
        was = f"{show_accuracy(observed)} of them were right"
        if measure != "accuracy":
            was = f"on them it was {show_accuracy(observed)}"
        yield (
            f"  {was}; "
            f"{show_accuracy(observed - best)} of that is taken for luck, since it is "
            "the best of many tries"
        )


def _sure_words(
    found: dict[str, Any], measure: str, built: dict[str, Any]
) -> tuple[str, str]:
    """Write how good the best is, and how sure that is; and what else is to be said."""
    best, accuracy, after = show_accuracy(found["quality"]), found["accuracy"], ""
    if accuracy is None:
        numbers = built.get("numbers")
        error = show_number(numbers["mae"][found["row"]]) if numbers else ""
        return best + (f", typical error ±{error}" if error else ""), ""
    sure = f" ± {doubt_of(accuracy, built['tested'])} (standard error)"
    if accuracy >= 1:
        wrong = -math.expm1(math.log(0.05) / built["tested"])  # as likely as 1 in 20
        sure, after = "", f"; none was wrong, though {wrong:.1%} of fresh ones may be"
    if measure == "accuracy":
        return best + sure, after
    return f"{best}, accuracy {show_accuracy(accuracy)}{sure}", after


def _later_lines(facts: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """Write how the table is to be read, and what went less well than it might."""
    if not built:
        return
    timed = built.get("unit", "s") == "s"
    if timed:
        yield (
            f"times are those that {built['quantile']:.0%} of items keep to, on "
            f"{where_words(built.get('measured'))}, without HTTP"
        )
    yield from _search_lines(facts, built)
    if exits := built.get("exits"):
        yield _exit_line(exits)
    if timed and (measured := built.get("measured")) and measured["busy"]:
        yield f"warning: {busy_words(measured)}"
    remarks = built["remarks"]
    for remark, count in [*remarks.items()][:SHOWN]:
        yield f"note: in {count:,} trainings: {remark}"
    if len(remarks) > SHOWN:
        yield f"note: ... and {len(remarks) - SHOWN:,} more such remarks"


def _search_lines(facts: dict[str, Any], built: dict[str, Any]) -> Iterator[str]:
    """Write how many feature sets were tried, and what that means for the others."""
    good = "accurate" if facts["measure"] == "accuracy" else "good"
    search = built["search"]
    line = (
        f"tried: models of {search['expanded']:,} of the {search['sets']:,} ways to "
        "combine the features"
    )
    if search["expanded"] == search["sets"] or "sequences" in search:
        yield line
    elif search["complete"]:
        alpha = search["alpha"]
        better = f"more than {alpha:g} times as {good}" if alpha > 1 else "better"
        yield f"{line}; none of the others is expected to be {better} at its cost"
    else:
        yield f"{line}, the most promising first"
        cure, limit = "budget_s", "the time for that was up"
        if built.get("testing", {}).get("trainings") is not None:
            cure, limit = "trainings", "the number of trainings was reached"
        worth = ""
        if math.isfinite(search["alpha"]):
            worth = (
                f"; all that is proven is that no other is over {search['alpha']:.3g} "
                f"times as {good} at its cost"
            )
        yield (
            f"warning: {limit}{worth}. To try more, raise search.{cure} in "
            "PROJECT.toml and build again: what is done is kept"
        )
    if budgets := built.get("testing", {}).get("budgets"):
        low, high = (show_cost(one, built["unit"]) for one in budgets)
        yield f"only what is best for budgets of {low} to {high} was kept"


def _exit_line(exits: dict[str, Any]) -> str:
    """Write in a sentence whether answers come early, and at what price."""
    if exits.get("lacking"):
        return (
            "answers never come early, before all is computed: there are too few items "
            "to promise that this changes hardly any"
        )
    plans = exits.get("plans", [])
    followed = any(plan.get("schedule") for plan in plans)
    if not (followed or any(plan["early"] for plan in plans)):
        return "answers never come early, before all is computed: it would save little"
    saved = sum(plan["saved"] for plan in plans) / len(plans)
    how = f", which saves {saved:.0%} of the features' time on average" if saved else ""
    sure = "of the items measured"
    if exits["confidence"] is not None:
        sure = f"with {exits['confidence']:.0%} confidence"
    return (
        f"where it is sure early, it answers before all is computed{how}; at most "
        f"{exits['alpha']:.2%} of answers change by that, {sure}"
    )
