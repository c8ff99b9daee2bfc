"""How far a choice of model class under a budget is from the oracle's (OBMS).

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
from typing import Any

import numpy as np

from polydom.models.selection.obms import (
    ModelClass,
    choose_class,
    choose_nested,
    vc_penalty,
)
from polydom.models.selection.race import Race, TrainingOutcome

CLASSES, TRIALS = 8, 16
BUDGETS = [10**k for k in range(2, 6)]  # quanta


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


def measure(quick: bool) -> list[dict[str, Any]]:
    """Mean excess of Algorithm 1 and of the coarse grid, by budget."""
    rows = []
    for quanta in BUDGETS[: 2 if quick else None]:
        found: dict[str, list[float]] = {"unnested": [], "nested": [], "grid": []}
        for seed in range(1 if quick else TRIALS):
            for name in found:
                classes, risks = make_problem(seed, nested=name != "unnested")
                race = make_race(risks, seed)
                if name == "grid":
                    chosen = choose_nested(race, classes, quanta=quanta, slack=0.5)
                else:
                    chosen = choose_class(race, classes, quanta=quanta, deviation=0.5)
                found[name].append(excess(classes, risks, chosen, quanta))
        line = math.sqrt(CLASSES * math.log(quanta) / quanta)
        means = {name: statistics.fmean(values) for name, values in found.items()}
        rows.append({"quanta": quanta, **means, "theory": line})
    return rows
