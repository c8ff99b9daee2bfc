"""The rivals of Successive Halving, with the same interface.

Each takes a race whose arms carry on and a budget of pulls, and names an arm. Where an
algorithm was made for stochastic losses, an arm's latest loss stands for its mean: in
a stochastic problem the arms report running means (SH, section 2). Confidence widths
assume losses in [0, 1]. What each observes is in SH, Table 1; an observation is a line
of the race's log.
"""

import math

import numpy as np

from polydom.models.selection.race import Race
from polydom.models.selection.successive_halving import need_pulls


def successive_rejects(race: Race, *, budget: int) -> str:
    """Drop the worst arm after each of n - 1 phases (Audibert and Bubeck, 2010).

    In phase k the remaining arms are brought to ceil((B - n) / (log'(n) (n + 1 - k)))
    pulls, log'(n) = 1/2 + sum of 1/i for i = 2..n. Observes (n + 1) n / 2 - 1 losses.
    """
    arms = race.active
    count = len(arms)
    need_pulls(budget // (count + 1), budget, count + 1)
    if count == 1:
        race.train(arms[0], budget)
    spread = 0.5 + sum(1 / i for i in range(2, count + 1))
    for phase in range(1, count):
        pulls = math.ceil((budget - count) / (spread * (count + 1 - phase)))
        race.train_all([(name, pulls) for name in arms])
        arms = sorted(arms, key=race.loss)[: count - phase]
    return race.leader(arms)


def successive_elimination(race: Race, *, budget: int, delta: float = 0.05) -> str:
    """Drop arms whose loss is surely not the least (Even-Dar et al., 2006).

    All remaining arms are brought to 1, 2, 4 ... pulls; an arm goes when its loss
    exceeds the least by two confidence widths. Observes at most n log2(2 B) losses.
    """
    arms = race.active
    count, pulls = len(arms), 1
    need_pulls(budget // count, budget, count)
    while True:
        race.train_all([(name, pulls) for name in arms])
        least = race.loss(race.leader(arms))
        margin = 2 * confidence(pulls, count, delta)
        arms = [name for name in arms if race.loss(name) <= least + margin]
        if len(arms) == 1 or race.spent + pulls * len(arms) > budget:
            return race.leader(arms)
        if not can_be_pulled(race, arms):
            return race.leader(arms)
        pulls *= 2


def lucb(race: Race, *, budget: int, delta: float = 0.05, slack: float = 0.0) -> str:
    """Pull the leader and its likeliest rival (LUCB, Kalyanakrishnan et al., 2012).

    Stops when no rival's lower bound is below the leader's upper bound less `slack`.
    Observes a loss with every pull.
    """
    pull_each_once(race, budget)
    count = len(race.active)

    def width(name: str) -> float:
        inner = 1.25 * count * race.spent**4 / delta
        return math.sqrt(math.log(inner) / (2 * race.had(name)))

    while race.spent + 2 <= budget and len(race.active) > 1:
        leader = race.leader()
        others = [name for name in race.active if name != leader]
        rival = min(others, key=lambda name: race.loss(name) - width(name))
        gap = race.loss(leader) + width(leader) - (race.loss(rival) - width(rival))
        pair = can_be_pulled(race, [leader, rival])
        if gap < slack or not pair:
            break
        race.train_all([(name, race.had(name) + 1) for name in pair])
    return race.leader()


def lil_ucb(
    race: Race,
    *,
    budget: int,
    delta: float = 0.05,
    beta: float = 1.0,
    epsilon: float = 0.01,
) -> str:
    """Pull the arm with the least lower bound (lil'UCB, Jamieson et al., 2014).

    The width follows the law of the iterated logarithm, with variance 1/4; stops when
    one arm has ((2 + beta) / beta)^2 times the pulls of all others together. Observes
    a loss with every pull. Two is added inside the inner logarithm, as its authors'
    own experiments do, to have a width at the first pull.
    """
    pull_each_once(race, budget)
    scale = (1 + beta) * (1 + math.sqrt(epsilon)) * math.sqrt((1 + epsilon) / 2)
    enough = ((2 + beta) / beta) ** 2

    def lowest(name: str) -> float:
        pulls = race.had(name)
        inner = math.log((1 + epsilon) * pulls + 2)
        return race.loss(name) - scale * math.sqrt(math.log(inner / delta) / pulls)

    while race.spent < budget and (arms := can_be_pulled(race, race.active)):
        most = max(race.had(name) for name in race.active)
        if most >= 1 + enough * (race.spent - most):
            break
        name = min(arms, key=lowest)
        race.train(name, race.had(name) + 1)
    return race.leader()


def exp3(race: Race, *, budget: int, seed: int = 0) -> str:
    """Pull arms at random, by exponential weights of their gains (Auer et al., 2002).

    The gain is 1 - loss, cut to [0, 1]; the share of exploration is the one that
    minimises the regret bound for `budget`. Observes a loss with every pull.
    """
    names = race.active
    count = len(names)
    need_pulls(budget // count, budget, count)
    rng = np.random.default_rng(seed)
    share = min(1.0, math.sqrt(count * math.log(count) / ((math.e - 1) * budget)))
    log_weights = np.zeros(count)
    while race.spent < budget and can_be_pulled(race, race.active):
        weights = np.exp(log_weights - log_weights.max())
        chances = (1 - share) * weights / weights.sum() + share / count
        drawn = int(rng.choice(count, p=chances))
        name = names[drawn]
        if name in race.failed or not can_be_pulled(race, [name]):
            log_weights[drawn] = -math.inf
            continue
        race.train(name, race.had(name) + 1)
        gain = min(max(1 - race.loss(name), 0.0), 1.0)
        log_weights[drawn] += share * gain / chances[drawn] / count
    return race.leader()


def confidence(pulls: int, arms: int, delta: float) -> float:
    """Return how far a mean of losses in [0, 1] may be off, for all arms and pulls."""
    return math.sqrt(math.log(4 * arms * pulls**2 / delta) / (2 * pulls))


def can_be_pulled(race: Race, arms: list[str]) -> list[str]:
    """Name those of the arms that have neither failed nor reached the limit."""
    active = [name for name in arms if name not in race.failed]
    return [n for n in active if race.limit is None or race.had(n) < race.limit]


def pull_each_once(race: Race, budget: int) -> None:
    """Begin with one pull per arm; BadInput if the budget does not reach."""
    need_pulls(budget // len(race.active), budget, len(race.active))
    race.train_all([(name, 1) for name in race.active])
