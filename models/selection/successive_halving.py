"""Successive Halving: train all arms a little, keep the better half, repeat."""

import math

from polydom.features.errors import BadInput

from .race import Race


def uniform(race: Race, *, budget: int) -> str:
    """Train each of n arms with budget / n pulls; return the best (SH, baseline).

    A pull is one example or one iteration.
    """
    arms = race.active
    pulls = budget // len(arms)
    need_pulls(pulls, budget, len(arms))
    race.train_all([(name, pulls) for name in arms])
    return race.leader()


def successive_halving(race: Race, *, budget: int) -> str:
    """Return the arm that Successive Halving chooses on a fixed budget (SH, Figure 3).

    `budget`, the paper's B, is a number of pulls: of examples or iterations. It is
    divided equally among ceil(log2 n) rounds. In each round, the remaining arms share
    the round's part equally, and the better half of them, rounded down, continues. At
    most 2n + 1 losses are observed. Raises BadInput if the first round would have less
    than one pull per arm, or every arm fails.

    Theorem 1: the chosen arm has the lowest limit of its loss if `budget` exceeds 2
    ceil(log2 n) max_i i (1 + g^-1((v_i - v_1) / 2)), i = 2 ... n. Here v_i is the i-th
    lowest limit, and g(t) bounds how far any loss is from its limit after t pulls.
    """
    arms = race.active
    rounds = halvings(len(arms))
    need_pulls(budget // (len(arms) * rounds), budget, len(arms) * rounds)
    pulls = 0  # pulls of each arm in total, as an arm continues from its earlier pulls
    for _ in range(rounds):
        pulls += budget // (len(arms) * rounds)
        race.train_all([(name, pulls) for name in arms])
        arms = sorted(arms, key=race.loss)[: max(len(arms) // 2, 1)]
    return race.leader(arms)


def doubling(race: Race, *, budget: int) -> str:
    """Run `successive_halving` again and again, with a budget that doubles each time.

    Returns the arm that the last run chose. All runs together take at most `budget`
    pulls. Each run continues the trainings of the run before, so all runs together take
    at most twice the pulls of the last run (SH, section 3). Unlike in the paper, the
    budget of the first run is just large enough for one pull per arm in its first
    round. Raises BadInput if `budget` is smaller than that.
    """
    arms = len(race.active)
    now = arms * halvings(arms)
    need_pulls(budget // now, budget, now)
    chosen = ""
    while race.spent + now <= budget:
        before = race.spent
        chosen = successive_halving(race, budget=now)
        now *= 2
        if race.spent == before:
            break  # every arm is at its limit
    return chosen


def halvings(arms: int) -> int:
    """Return ceil(log2(arms)), the rounds until one arm is left, but at least 1."""
    return max(math.ceil(math.log2(arms)), 1)


def need_pulls(pulls: int, budget: int, needed: int) -> None:
    """Raise BadInput if each arm would get less than one pull.

    `needed` is the smallest budget that would be sufficient; the message names it.
    """
    if pulls < 1:
        raise BadInput(
            f"a budget of {budget} is below one pull per arm; {needed} are needed"
        )
