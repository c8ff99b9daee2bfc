"""Slow twins of tests of votes: a linear programme, all arrangements, exact chances."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog


def likelihood(voters: int, n: int, i: int, j: int) -> float:
    """Chance that j of i votes are "yes" where n of all are."""
    if j > n or i - j > voters - n:
        return 0.0
    return comb(n, j) * comb(voters - n, i - j) / comb(voters, i)


def lp_optimum(notion: str, alpha: float, share: Sequence[float]) -> float:
    """Fewest trees by Kalman and Moscovich's programme, all n constrained."""
    voters = len(share) - 1
    states = [(i, j) for i in range(voters + 1) for j in range(i + 1)]
    place = {state: k for k, state in enumerate(states)}
    size = 2 * len(states) + 1  # stop, go on, and the worst n's trees

    def row(entries: dict[int, float]) -> NDArray[np.float64]:
        made = np.zeros(size)
        for k, value in entries.items():
            made[k] += value
        return made

    flow, reached = [], []
    for (i, j), k in place.items():
        entries = {k: 1.0, len(states) + k: 1.0}
        if j < i:
            entries[len(states) + place[i - 1, j]] = -(i - j) / i
        if j > 0:
            entries[len(states) + place[i - 1, j - 1]] = -j / i
        flow.append(row(entries))
        reached.append(1.0 if i == 0 else 0.0)
        if i == voters or 2 * max(j, i - j) > voters:
            flow.append(row({len(states) + k: 1.0}))
            reached.append(0.0)
    trees, errors = [], []
    for n in range(voters + 1):
        h = {k: likelihood(voters, n, *state) for state, k in place.items()}
        trees.append(row({k: i * h[k] for (i, _), k in place.items()}))
        wrong = {
            k: h[k] for (i, j), k in place.items() if (2 * j > i) != (2 * n > voters)
        }
        errors.append(row(wrong))
    weights = np.array(share) / sum(share)
    mean = notion == "minimean"
    limits = [weights @ np.array(errors)] if mean else errors
    bounds = [alpha] * len(limits)
    goal = weights @ np.array(trees)
    if notion == "minimax":
        goal = row({size - 1: 1.0})
        limits = [*limits, *(t - goal for t in trees)]
        bounds += [0.0] * len(trees)
    done = linprog(goal, np.array(limits), bounds, np.array(flow), reached)
    return float(done.fun)


def outcome_by_arrangements(stops: NDArray[np.float64], n: int) -> tuple[float, float]:
    """(mean trees, chance of another answer) over all arrangements of n "yes"."""
    voters = len(stops) - 1
    trees = changed = 0.0
    arrangements = list(combinations(range(voters), n))
    for yes in arrangements:
        alive, j = 1.0, 0
        for i in range(voters + 1):
            ends = alive * stops[i, j]
            trees += ends * i
            changed += ends * ((2 * j > i) != (2 * n > voters))
            alive -= ends
            j += i in yes
    return trees / len(arrangements), changed / len(arrangements)


def chance_over_half(i: int, j: int) -> Fraction:
    """P(p > 1/2) for Beta(j + 1, i - j + 1): at most j heads of i + 1 fair coins."""
    return Fraction(sum(comb(i + 1, k) for k in range(j + 1)), 2 ** (i + 1))


def chance_leader_stays(voters: int, i: int, j: int) -> Fraction:
    """Chance that n > N/2 given j of i, each n as likely as any before."""
    ways = [comb(n, j) * comb(voters - n, i - j) for n in range(voters + 1)]
    return Fraction(sum(ways[voters // 2 + 1 :]), sum(ways))
