"""Figures of bench_qwyc, like the paper's: trees against changes, accuracy, and use."""

from pathlib import Path
from typing import Any

METHODS = (
    ("polydom", "polydom"),
    ("qwyc*", "QWYC*"),
    ("fan*", "Fan*"),
    ("natural", "boosting order, Algorithm 2"),
    ("individual mse", "individual MSE, Algorithm 2"),
    ("greedy mse", "greedy MSE, Algorithm 2"),
    ("random", "random order, Algorithm 2 (5 seeds)"),
    ("lightgbm early stop", "LightGBM's early stop"),
    ("fewer trees", "fewer trees"),
)
SHOWN = 0.005  # changed decisions of the histograms, at most


def by_method(points: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Points of each method, in order of first appearance."""
    found: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        found.setdefault(point["method"], []).append(point)
    return found


def draw_all(results: dict[str, dict[str, Any]], folder: Path) -> None:
    """Write three figures of each data set."""
    import matplotlib

    matplotlib.use("agg")
    folder.mkdir(parents=True, exist_ok=True)
    for name, result in results.items():
        found = by_method(result["points"])
        draw_curves(name, found, "changed", folder / f"{name}-changed.png")
        draw_curves(name, found, "accuracy", folder / f"{name}-accuracy.png")
        draw_use(name, found, folder / f"{name}-used.png")


def draw_curves(
    name: str, found: dict[str, list[dict[str, Any]]], what: str, path: Path
) -> None:
    """Draw a percentage against mean trees, a line per method."""
    from matplotlib import pyplot

    figure, panel = pyplot.subplots(figsize=(9, 4.5))
    for number, (start, label) in enumerate(METHODS):
        lines = [v for method, v in found.items() if method.startswith(start)]
        for k, points in enumerate(lines):
            ordered = sorted(points, key=lambda p: float(p["mean"]))
            panel.plot(
                [p["mean"] for p in ordered],
                [100 * p[what] for p in ordered],
                marker=".",
                linewidth=0.7 if start == "random" else 1.3,
                color=f"C{number}",
                label="_" if k else label,
            )
    panel.set(title=name, xlabel="mean trees", xscale="log")
    ticks = (10, 20, 50, 100, 200, 500)
    panel.set_xticks(ticks, [str(tick) for tick in ticks])
    panel.minorticks_off()
    panel.set_xlim(8, 550)
    if what == "changed":
        panel.set(ylabel="changed decisions on test rows, %", ylim=(0, 2.5))
    else:
        whole = 100 * found["fewer trees"][-1]["accuracy"]
        panel.set(ylabel="accuracy on test rows, %", ylim=(whole - 2.5, whole + 0.5))
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def draw_use(name: str, found: dict[str, list[dict[str, Any]]], path: Path) -> None:
    """Draw how many trees rows take (the paper's appendix D.4)."""
    from matplotlib import pyplot

    shown = []
    for start, label in METHODS:
        kept = [
            p for p in found.get(start, []) if "used" in p and p["changed"] <= 2 * SHOWN
        ]
        if kept:
            shown.append((label, min(kept, key=lambda p: abs(p["changed"] - SHOWN))))
    figure, panels = pyplot.subplots(
        1, len(shown), figsize=(2.6 * len(shown), 2.8), sharey=True, squeeze=False
    )
    for panel, (label, point) in zip(panels[0], shown, strict=True):
        counts = point["used"]
        width = 500 / len(counts)
        shares = [100 * count / sum(counts) for count in counts]
        panel.bar([width * (k + 0.5) for k in range(len(counts))], shares, width * 0.9)
        title = f"{label}\nmean {point['mean']:.0f}, changed {point['changed']:.2%}"
        panel.set_title(title, fontsize=7)
        panel.set(xlabel="trees", xlim=(0, 500), yscale="log", ylim=(0.01, 100))
        panel.set_xticks((0, 200, 400))
        panel.set_yticks((0.01, 0.1, 1, 10, 100), ("0.01", "0.1", "1", "10", "100"))
    panels[0][0].set_ylabel("test rows, %")
    figure.suptitle(name)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
