"""What README says of the headline: a table for each set, and a figure."""

from pathlib import Path
from typing import Any

from .. import report
from ..figures import figure_at
from .indexes.image_sets import DEFAULT

Row = dict[str, Any]
Found = dict[str, dict[str, Any]]  # what was measured, by the name of the set

BEGIN, END = "<!-- headline -->", "<!-- end: headline -->"
# what README calls each set, and who answers
TITLES = {
    "digits": "10 digits, turned, 9,216 to 589,824 pixels",
    "scenes": "15 kinds of scenes, 11,165 to 485,760 pixels",
    "few": "some small digits",
}
POLYDOM = "polydom"
WITHOUT = "without-network"
PLAIN = {
    "whole-128": "the whole network at 128 pixels, FastAPI",
    "whole-224": "the whole network at 224 pixels, FastAPI",
    "cascade": "128, then 224 where unsure, FastAPI",
}
FIXED = {
    "all-features": "all features, fixed",
    "best-set": "the best set, fixed",
    "cheapest-set": "the cheapest set, fixed",
}
OTHERS = {WITHOUT: "polydom without the network", **PLAIN, **FIXED}
LINES = {POLYDOM: "**polydom**", **OTHERS, "in time": "polydom's answers in time"}


def block(found: Found) -> str:
    """What README says between its marks."""
    lines = [BEGIN, ""]
    for name, facts in found.items():
        rows = facts["budgets"]
        lines += report.markdown_lines(
            {TITLES[name]: line, **{budget(row): told(row[key]) for row in rows}}
            for key, line in LINES.items()
            if key in rows[0]
        )
        option = "" if name == DEFAULT else f" --data {name}"
        lines += [
            "",
            f"Right and in time by the client's clock, over HTTP; {facts['images']} "
            f"images that no build has seen; {takes(facts)}.",
            f"`python -m benchmarks headline{option}`, {facts['date']}, "
            f"{facts['machine'].split(', Python')[0]}, load before "
            f"{facts['load']:.1f}.",
            "",
        ]
    return "\n".join([*lines, END])


def takes(facts: dict[str, Any]) -> str:
    """What everything takes, in words: the network alone, or all features."""
    if "network ms" in facts:
        of_sides = " and ".join(
            f"{times['p50']:.1f} ms at {side} pixels"
            for side, times in facts["network ms"].items()
        )
        return f"the network alone takes {of_sides}"
    median_ms = facts["median ms"]["all-features"]
    return f"all {facts['features']} features take {median_ms:.1f} ms in the median"


def promise(found: Found) -> str:
    """How many answers were inside budgets of a millisecond and more, in words."""
    rows = [row for facts in found.values() for row in facts["budgets"]]
    shares = [row["by the server"] for row in rows if row["budget ms"] >= 1]
    return f"{100 * sum(shares) / len(shares):.1f} % of answers from 1 ms on"


def budget(row: Row) -> str:
    """What the column of a budget is called."""
    return f"{row['budget ms']:g} ms"


def told(share: float) -> float:
    """A share to a thousandth; 1 only where it is."""
    return share if share == 1 else min(round(share, 3), 0.999)


def write(document: Path, found: Found) -> None:
    """Put the tables between a document's marks."""
    text = document.read_text("utf-8")
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{document} has no {BEGIN} and {END}")
    document.write_text(before + block(found) + after, "utf-8")


def draw(picture: Path, found: Found) -> None:
    """Draw right answers in time against the budget, and answers in time."""
    count = len(found)
    size = 2.5 + 5 * count, 4.8
    with figure_at(picture, 1, count, figsize=size, squeeze=False, sharey=True) as (
        figure,
        (panels,),
    ):
        for panel, (name, facts) in zip(panels, found.items(), strict=True):
            draw_set(panel, facts["budgets"])
            panel.set_title(TITLES[name], fontsize="medium")
        panels[0].set_ylabel("share right and in time")
        handles = {
            handle.get_label(): handle
            for panel in panels
            for handle in panel.get_legend_handles_labels()[0]
        }
        figure.legend(
            handles=[*handles.values()], loc="outside lower center", ncols=1 + count
        )


def draw_set(panel: Any, rows: list[Row]) -> None:
    """Draw a line for each who answers."""
    budgets_ms = [row["budget ms"] for row in rows]
    styles = {
        POLYDOM: ("polydom", "o-"),
        "in time": ("polydom's answers in time", ":"),
        **{kind: (label, "s-") for kind, label in OTHERS.items()},
    }
    for number, (key, (label, style)) in enumerate(styles.items()):
        if key not in rows[0]:
            continue
        own = key in (POLYDOM, "in time")
        panel.plot(
            budgets_ms,
            [row[key] for row in rows],
            style,
            label=label,
            color="C0" if own else f"C{number}",
            linewidth=2.5 if own else 1.5,
            markersize=6 if own else 4,
        )
    panel.set_xscale("log")
    panel.set_xticks(budgets_ms, [f"{budget:g}" for budget in budgets_ms])
    panel.minorticks_off()
    panel.set(xlabel="budget, ms", ylim=(0, 1.02))
    panel.grid(alpha=0.3)
