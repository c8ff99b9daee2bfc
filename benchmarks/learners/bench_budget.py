"""How far a choice under a budget is from the oracle's (OBMS), as the budget grows.

python -m benchmarks.learners.bench_budget [--trials 8] [--json] [--plot FILE.png]

Simulated classes with known risks: class i of 8 has dimension 2^i, approximation risk
0.4 / 2^(i / 2) in the nest (a shuffled one where there is no nest), penalty
sqrt(d_i / n), and an empirical risk off by noise of its standard deviation,
1 / (2 sqrt(n)). A quantum pays for 128 / d_i examples. Excess is the chosen class's
risk plus penalty, had it all of the budget, over the oracle's; beside it the line
sqrt(K log T / T) that Theorem 2 has.
"""

import math
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from polydom.models.selection.obms import (
    ModelClass,
    choose_class,
    choose_nested,
    vc_penalty,
)
from polydom.models.selection.race import Race, TrainingOutcome

from .. import report
from ..figures import figure_at

CLASSES = 8
BUDGETS = [10**k for k in range(2, 6)]


def make_problem(seed: int, nested: bool) -> tuple[dict[str, ModelClass], list[float]]:
    """Give the classes and their approximation risks."""
    risks = [0.4 / 2 ** (i / 2) for i in range(CLASSES)]
    if not nested:
        np.random.default_rng(seed).shuffle(risks)
    classes = {
        str(i): ModelClass(128 // 2**i, vc_penalty(2**i, scale=0.1))
        for i in range(CLASSES)
    }
    return classes, risks


def make_race(risks: list[float], seed: int) -> Race:
    """Arms whose empirical risk settles on the given one."""

    def arm(i: int) -> Callable[[int], TrainingOutcome]:
        draws = np.random.default_rng([seed, i]).normal(size=4096)

        def train(n: int) -> TrainingOutcome:
            noise = float(draws[n % 4096]) / (2 * math.sqrt(n))
            return TrainingOutcome(1 - risks[i], train_score=1 - risks[i] - noise)

        return train

    return Race({str(i): arm(i) for i in range(len(risks))}, carries_on=True)


def excess(
    classes: dict[str, ModelClass], risks: list[float], chosen: str, quanta: int
) -> float:
    """Penalised risk over the oracle's."""
    values = [
        risk + known.penalty(quanta * known.rows)
        for risk, known in zip(risks, classes.values(), strict=True)
    ]
    return values[int(chosen)] - min(values)


def measure(trials: int) -> list[dict[str, Any]]:
    """Mean excess of Algorithm 1 and of the coarse grid, by budget."""
    rows = []
    for quanta in BUDGETS:
        found: dict[str, list[float]] = {"unnested": [], "nested": [], "grid": []}
        for seed in range(trials):
            for name in found:
                classes, risks = make_problem(seed, nested=name != "unnested")
                race = make_race(risks, seed)
                if name == "grid":
                    chosen = choose_nested(race, classes, quanta=quanta, slack=0.5)
                else:
                    chosen = choose_class(
                        race, classes, quanta=quanta, deviation=0.5
                    ).chosen
                found[name].append(excess(classes, risks, chosen, quanta))
        line = math.sqrt(CLASSES * math.log(quanta) / quanta)
        means = {name: statistics.fmean(values) for name, values in found.items()}
        rows.append({"quanta": quanta, **means, "theory": line})
    return rows


def plot(rows: list[dict[str, Any]], path: Path) -> None:
    """Draw excess against the budget, with the theory's line."""
    quanta = [row["quanta"] for row in rows]
    with figure_at(path) as (_, axis):
        for name in ("unnested", "nested", "grid", "theory"):
            axis.plot(quanta, [row[name] for row in rows], marker=".", label=name)
        axis.set(xscale="log", xlabel="quanta", ylabel="excess penalised risk")
        axis.set_yscale("symlog", linthresh=1e-4)
        axis.set_ylim(bottom=0)
        axis.legend()


def main() -> None:
    """Run the command."""
    parser = report.options(__doc__)
    parser.add_argument("--trials", type=int, default=8)
    parser.add_argument("--plot", type=Path)
    args = parser.parse_args()
    rows = measure(args.trials)
    if args.plot:
        plot(rows, args.plot)
    report.tell({"excess risk": rows}, args.json)


if __name__ == "__main__":
    main()
