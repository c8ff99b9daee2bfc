"""Figures of bench_qwyc, like the paper's: trees against changes, accuracy, and use."""

from pathlib import Path
from typing import Any

from ..figures import figure_at
from .equal_change import Points, by_method

STYLES: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("polydom", "polydom", {"color": "C3", "linewidth": 2.2}),
    ("qwyc*", "QWYC*", {"color": "C0"}),
    ("fan*", "Fan*", {"color": "C2"}),
    ("natural", "boosting order, Algorithm 2", {"color": "C1"}),
    ("individual mse", "individual MSE, Algorithm 2", {"color": "C4"}),
    ("greedy mse", "greedy MSE, Algorithm 2", {"color": "C5"}),
    ("random", "random orders, Algorithm 2", {"color": "0.6", "linewidth": 0.7}),
    ("lightgbm early stop", "LightGBM's early stop", {"color": "C9"}),
    ("fewer trees", "fewer trees, same rate", {"color": "k", "linestyle": ":"}),
    (
        "fewer trees, best rate",
        "fewer trees, best rate",
        {"color": "k", "linestyle": "--"},
    ),
)
SHOWN = 0.005  # changed decisions of the histograms, about
ACROSS = 4  # histograms in a row


def lines_of(found: dict[str, Points], method: str) -> list[Points]:
    """Curves drawn alike: all of the random orders, else one, or none."""
    if method == "random":
        return [v for name, v in found.items() if name.startswith("random ")]
    return [found[method]] if method in found else []


def draw_all(results: dict[str, dict[str, Any]], folder: Path) -> None:
    """Write three figures of each data set."""
    for name, result in results.items():
        found = by_method(result["points"])
        whole = 100 * result["accuracy"]
        draw_curves(name, found, "changed", None, folder / f"{name}-changed.png")
        draw_curves(name, found, "accuracy", whole, folder / f"{name}-accuracy.png")
        draw_use(name, found, folder / f"{name}-used.png")


def draw_curves(
    name: str, found: dict[str, Points], what: str, whole: float | None, path: Path
) -> None:
    """Draw a percentage against mean trees, a line per method; `whole`: all trees'."""
    with figure_at(path, figsize=(9, 4.8)) as (_, panel):
        for method, label, style in STYLES:
            for k, points in enumerate(lines_of(found, method)):
                ordered = sorted(points, key=lambda p: float(p["mean"]))
                panel.plot(
                    [p["mean"] for p in ordered],
                    [100 * p[what] for p in ordered],
                    marker=".",
                    markersize=5,
                    label="_" if k else label,
                    **({"linewidth": 1.3} | style),
                )
        panel.set(title=name, xlabel="mean trees", xscale="log")
        ticks = (5, 10, 20, 50, 100, 200, 500)
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.minorticks_off()
        panel.set_xlim(4, 550)
        if whole is None:
            panel.set(ylabel="changed decisions on test rows, %", ylim=(0, 3))
        else:
            panel.axhline(whole, color="0.4", linewidth=0.8, label="all 500 trees")
            panel.set(ylabel="accuracy on test rows, %", ylim=(whole - 3, whole + 0.5))
        panel.grid(alpha=0.3)
        panel.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))


def draw_use(name: str, found: dict[str, Points], path: Path) -> None:
    """Draw how many trees rows take (the paper's appendix D.4)."""
    shown = []
    for method, label, _ in STYLES:
        kept = [
            point
            for points in lines_of(found, method)[:1]
            for point in points
            if "used" in point and point["changed"] <= 2 * SHOWN
        ]
        if kept:
            shown.append((label, min(kept, key=lambda p: abs(p["changed"] - SHOWN))))
    if not shown:
        return
    down = -(-len(shown) // ACROSS)
    shape = {"figsize": (3 * ACROSS, 2.7 * down), "sharey": True, "squeeze": False}
    with figure_at(path, down, ACROSS, **shape) as (figure, panels):
        for panel in panels.flat[len(shown) :]:
            panel.set_axis_off()
        for panel, (label, point) in zip(panels.flat, shown, strict=False):
            counts = point["used"]
            width = 500 / len(counts)
            shares = [100 * count / sum(counts) for count in counts]
            panel.bar(
                [width * (k + 0.5) for k in range(len(counts))], shares, width * 0.9
            )
            title = f"{label}\nmean {point['mean']:.0f}, changed {point['changed']:.2%}"
            panel.set_title(title, fontsize=9)
            panel.set(xlabel="trees", xlim=(0, 500), yscale="log", ylim=(0.01, 100))
            panel.set_xticks((0, 100, 200, 300, 400, 500))
            panel.set_yticks((0.01, 0.1, 1, 10, 100), ("0.01", "0.1", "1", "10", "100"))
            panel.minorticks_off()
        for row in panels:
            row[0].set_ylabel("test rows, %")
        figure.suptitle(name)
