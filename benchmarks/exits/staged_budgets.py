"""Accuracy against budget, with exits and without: what may a plan be let in by?

    guaranteed    no row may take more than the budget: at the last checkpoint within
                  it, that checkpoint's model answers
    mean          rows may take as much as the budget on average

Plans are the first features in the order of their gain per cost; of those that are let
in, the most accurate on held-out rows, answered as it would be, is taken. Under a
guarantee a plan without exits is let in by the 0.99 quantile of its cost; one with
exits by the 0.99 quantile of what rows take that exit; "any" lets in every plan, as
any-time look-ups do. Figures are means over divisions, with the standard error of the
difference to the plans without exits.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.building.exits.checkpoints import Answers, fit_exits

from .staged_exits import DIVISIONS, Row, between_models, learners, load, prefixes
from .staged_sets import Part, Problem

ALPHA = 0.005
SHARES = (0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0)  # of the dearest plan's cost

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


class Side(NamedTuple):
    """Rows (N,) of one part along a plan of K features."""

    costs: Floats  # (N, K) of coming to each checkpoint
    choices: Codes  # (N, K)
    at: Codes  # (N,) where each stops
    truth: Codes  # (N,)
    prior: int  # what is answered before the first checkpoint

    def taken(self, limit: float) -> tuple[float, Floats]:
        """Accuracy and costs (N,) if no row may take more than `limit`."""
        within = (self.costs <= limit).sum(axis=1) - 1
        at, rows = np.minimum(self.at, within), np.arange(len(self.at))
        reached = at >= 0
        answers = np.where(reached, self.choices[rows, at], self.prior)
        costs = np.where(reached, self.costs[rows, at], 0.0)
        return float(np.mean(answers == self.truth)), costs


class Plan(NamedTuple):
    """A plan's held-out and fresh rows."""

    held: Side
    fresh: Side
    exits: bool


def plans(problem: Problem, learner: Any) -> Iterator[Plan]:
    """Every number of features, with exits and without."""
    order = problem.by_gain
    held, fresh, costs, taken = between_models(prefixes(problem, learner, order), order)
    prior = int(np.bincount(problem.train.y).argmax())

    def side(part: Part, answers: Answers, thresholds: Floats) -> Side:
        count = len(thresholds)
        stops = answers.margins[:, :count] > thresholds
        stops[:, -1] = True
        paid = part.paid @ taken[:count].T
        choices = answers.choices[:, :count]
        return Side(paid, choices, stops.argmax(axis=1), part.y, prior)

    for count in range(1, len(order) + 1):
        first = Answers(held.margins[:, :count], held.choices[:, :count])
        exits = fit_exits(first, costs[:count], ALPHA)
        for rule in (exits.without_stops(), exits):
            yield Plan(
                side(problem.held, held, rule.thresholds),
                side(problem.fresh, fresh, rule.thresholds),
                rule is exits,
            )


def budgets(every: Sequence[Plan], budget: float) -> dict[str, tuple[float, float]]:
    """Accuracy and mean cost of each rule on fresh rows."""
    budget *= 1 + 1e-9  # sums of dollars are rounded

    def slowest(plan: Plan) -> float:
        return float(np.quantile(plan.held.taken(np.inf)[1], 0.99))

    def mean(plan: Plan) -> float:
        return float(plan.held.taken(np.inf)[1].mean())

    def best(exits: bool, price: Any, limit: float) -> tuple[float, float]:
        let_in = [plan for plan in every if plan.exits == exits]
        let_in = [plan for plan in let_in if price(plan) <= budget]
        if not let_in:
            fresh = every[0].fresh
            return float(np.mean(fresh.truth == fresh.prior)), 0.0
        chosen = max(let_in, key=lambda plan: plan.held.taken(limit)[0])
        accuracy, costs = chosen.fresh.taken(limit)
        return accuracy, float(costs.mean())

    def any_price(_: Plan) -> float:
        return 0.0

    return {
        "guaranteed": best(False, slowest, budget),
        "guaranteed, exits": best(True, slowest, budget),
        "guaranteed, any": best(False, any_price, budget),
        "guaranteed, any, exits": best(True, any_price, budget),
        "mean": best(False, mean, np.inf),
        "mean, exits": best(True, mean, np.inf),
    }


def run(name: str, cache: Path) -> list[Row]:
    """Every budget on one set, with the first of its learners."""
    title, learner = next(iter(learners(name).items()))
    problems = [load(name, seed, cache) for seed in range(DIVISIONS[name])]
    divisions = [list(plans(problem, learner)) for problem in problems]
    last = divisions[0][-2]  # the dearest without exits
    most = float(np.quantile(last.held.taken(np.inf)[1], 0.99))
    rows = []
    for share in SHARES:
        found = [budgets(every, share * most) for every in divisions]
        for rule in found[0]:
            accuracy, cost = np.array([one[rule] for one in found]).T
            plain = np.array([one[rule.split(",")[0]][0] for one in found])
            ahead = accuracy - plain
            error = ahead.std(ddof=1) / len(ahead) ** 0.5 if len(ahead) > 1 else None
            rows.append(
                {
                    "set": name,
                    "learner": title,
                    "budget": share * most,
                    "rule": rule,
                    "accuracy": float(accuracy.mean()),
                    "ahead": float(ahead.mean()),
                    "error": error,
                    "mean_cost": float(cost.mean()),
                }
            )
    return rows
