"""Quality, and the share of answers in time, against the budget: as a picture."""

from pathlib import Path
from typing import Any

from polydom.features.errors import printable
from polydom.indexer.commands.picture_file import import_figure
from polydom.indexer.index.quality import name_quality

from .facts import Beside, Evaluation, Judged

MARKS = "osD^vP*Xhd"
INDEX = "polydom, within the budget"
OWN, OTHERS = "C0", [f"C{number}" for number in range(1, 10)]


def draw(found: Evaluation, path: Path) -> None:
    """Draw to a file; errors as `refuse_picture`."""
    figure = import_figure()(figsize=(7.5, 6), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    _draw_quality(above, found)
    _draw_inside(below, found)
    unit = "ms" if found.unit == "s" else found.unit
    below.set(xscale="log", xlabel=_plain(f"budget of one item, {unit}"))
    amounts = [own.amount for own in found.budgets]
    below.set_xticks(amounts, [f"{amount:g}" for amount in amounts])
    below.minorticks_off()
    for panel in (above, below):
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def _draw_quality(panel: Any, found: Evaluation) -> None:
    """Draw the index's curve, and others at their own median time or mean cost.

    Accuracy stands in where quality is not known of every answer.
    """
    everybody: list[Judged] = [*found.budgets, *found.beside]
    by = "quality" if all(one.quality is not None for one in everybody) else "accuracy"
    measure = found.measure if by == "quality" else by

    def error(one: Judged) -> float:
        return (one.quality_error if by == "quality" else one.standard_error) or 0.0

    panel.errorbar(
        [own.amount for own in found.budgets],
        [getattr(own, by) for own in found.budgets],
        [error(own) for own in found.budgets],
        color=OWN,
        marker="o",
        linewidth=2,
        capsize=3,
        label=INDEX,
        zorder=3,
    )
    for place, other in enumerate(found.beside):
        style = _style(place)
        own = _own_cost(found, other)
        if other.features == () or own is None:
            colour = "0.4" if other.features == () else style["color"]
            line = {"color": colour, "linestyle": ":", "zorder": 1}
            panel.axhline(getattr(other, by), label=_plain(other.name), **line)
            continue
        what = "median time" if found.unit == "s" else "mean cost"
        panel.errorbar(
            [own],
            [getattr(other, by)],
            [error(other)],
            linestyle="",
            capsize=3,
            label=_plain(f"{other.name}, at its own {what}"),
            **style,
        )
    panel.set(ylabel=name_quality(measure))
    shown = dict(zip(*reversed(panel.get_legend_handles_labels()), strict=True))
    first = {INDEX: shown.pop(INDEX)} | shown
    panel.legend(first.values(), first.keys(), fontsize=8, framealpha=0.9)


def _draw_inside(panel: Any, found: Evaluation) -> None:
    """Draw who is in time, of those who may not be."""
    amounts = [own.amount for own in found.budgets]
    shares = [own.inside for own in found.budgets]
    panel.plot(amounts, shares, color=OWN, marker="o", linewidth=2, zorder=3)
    for place, other in enumerate(found.beside):
        if other.features != () and None not in other.inside:
            style = _style(place)
            panel.plot(amounts, other.inside, linestyle="--", markersize=4, **style)
    panel.set(ylim=(-0.03, 1.05), ylabel="share inside the budget")
    panel.yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")


def _plain(text: str) -> str:
    """Keep what others wrote from being read as mathematics."""
    return printable(text).replace("$", r"\$")


def _own_cost(found: Evaluation, other: Beside) -> float | None:
    if found.unit == "s":
        return other.p50_ms
    return other.mean_cost if isinstance(other.mean_cost, float) else None


def _style(place: int) -> dict[str, Any]:
    colour = OTHERS[place % len(OTHERS)]
    return {"color": colour, "marker": MARKS[(place + 1) % len(MARKS)]}
