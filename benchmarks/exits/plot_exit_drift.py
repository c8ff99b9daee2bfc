"""Figures of bench_exit_drift: rates along each stream, and answers to an alarm."""

from pathlib import Path
from typing import Any

from ..figures import figure_at

PROMISED, NEVER = 0.01, 4e5  # answers that are shown at most
COLORS = {0.01: "C1", 0.05: "C2", 1.0: "C3"}


def draw_all(results: list[dict[str, Any]], folder: Path) -> None:
    """Write two figures."""
    draw_streams(results, folder / "drift-streams.png")
    draw_mixed(results, folder / "drift-alarms.png")


def draw_streams(results: list[dict[str, Any]], path: Path) -> None:
    """Draw the share of changed answers along each stream, and its alarms."""
    count = len(results)
    shape: dict[str, Any] = {"figsize": (8, 2.7 * count), "squeeze": False}
    with figure_at(path, count, **shape) as (_, panels):
        for panel, result in zip(panels[:, 0], results, strict=True):
            count = result["answers"]
            width = count / len(result["blocks"]) / 1e3
            edges = [width * k for k in range(len(result["blocks"]) + 1)]
            rates = [100 * rate for rate in result["blocks"]]
            panel.stairs(rates, edges, linewidth=1.6, label="changed, block by block")
            panel.axhline(100 * PROMISED, color="k", linestyle="--", label="promised")
            panel.axhline(
                100 * result["still"]["changed"],
                color="0.6",
                label="changed, rows shuffled first",
            )
            for share, alarm in result["alarms"].items():
                if alarm["p50"] is not None:
                    late = count if alarm["p95"] is None else alarm["p95"]
                    color, label = COLORS[share], f"alarm, {share:.0%} audited"
                    panel.axvspan(
                        alarm["p5"] / 1e3, late / 1e3, color=color, alpha=0.15
                    )
                    panel.axvline(alarm["p50"] / 1e3, color=color, label=label)
            panel.set(
                title=result["stream"],
                xlabel="answers, thousands",
                ylabel="changed answers, %",
                xlim=(0, count / 1e3),
                ylim=(0, None),
            )
            panel.grid(alpha=0.3)
            panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def draw_mixed(results: list[dict[str, Any]], path: Path) -> None:
    """Draw answers to the alarm against the share of changed ones."""
    with figure_at(path, figsize=(8, 4)) as (_, panel):
        for marker, result in zip("os^", results, strict=False):
            for share in result["mixed"][0]["alarms"]:
                color = COLORS[share]
                points = [
                    (100 * row["changed"], row["alarms"][share])
                    for row in result["mixed"]
                    if row["alarms"][share]["p50"] is not None
                ]
                if not points:
                    continue
                panel.errorbar(
                    [rate for rate, _ in points],
                    [alarm["p50"] for _, alarm in points],
                    yerr=[
                        [alarm["p50"] - alarm["p5"] for _, alarm in points],
                        [(alarm["p95"] or NEVER) - alarm["p50"] for _, alarm in points],
                    ],
                    fmt=f"{marker}-",
                    color=color,
                    capsize=2,
                    linewidth=1,
                    label=f"{result['stream']}, {share:.0%} audited",
                )
        panel.axvline(100 * PROMISED, color="k", linestyle="--", label="promised")
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="changed answers, % (more and more rows shifted)",
            ylabel="answers to the alarm: median, 5 to 95 %",
            ylim=(None, 1.2 * NEVER),
        )
        ticks = (0.5, 1, 2, 5, 10)
        panel.set_xticks(ticks, [str(tick) for tick in ticks])
        panel.minorticks_off()
        panel.grid(alpha=0.3)
        panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))
