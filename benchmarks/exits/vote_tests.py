"""When to stop asking voters: Optimal Sequential Testing, Schwing et al., LazyRF.

N voters are asked in random order; j of the first i said "yes". A test stops in state
(i, j) with some probability and answers "yes" iff j > i/2, as all votes do with
n > N/2: a tie is "no".

Optimal Sequential Testing (Kalman, Moscovich, arXiv 2606.15237): the optima are the
paper's, exactly; they meet what its authors stored to four decimals. How they are found
is ours: one backward induction with a price of disagreement, in the place of a linear
programme in exact fractions. `schwing` is the rule of Schwing et al. (2011), as they
compare themselves with it.

LazyRF (Mathematics 14(13):2343, 2026) stops by "a Bayesian vote-stability score for the
current leading class", of which no more could be read: the three scores here are **our
readings of it**, "over half", "leader stays" and "first against second".
"""

from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc, gammaln
from scipy.stats import betabinom

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Notion = Literal["minimean", "minimixed", "minimax"]

PRICES = 1e-9, 1e12  # of a changed answer, in trees: where the search begins
HALVINGS = 38  # of its logarithm; more would part states that are each other's mirror


@dataclass(frozen=True, slots=True, eq=False)
class VoteTest:
    """A test of N votes: when to stop, and what comes of it for each n.

    Attributes
    ----------
    stops : (N + 1, N + 1) float64
        Chance to stop in state (i, j), in [0, 1]; certain for i = N.
    trees, disagreements : (N + 1,) float64
        Mean votes asked, and the chance of another answer than all N votes give, where
        n of them are "yes"; over the order of the voters.
    """

    stops: Floats
    trees: Floats
    disagreements: Floats


@cache
def chances(voters: int) -> Floats:
    """Chance of state (i, j) when n of N are "yes": (N + 1, N + 1, N + 1), by n, i, j.

    C(n, j) C(N - n, i - j) / C(N, i).
    """
    n, i, j = np.ogrid[: voters + 1, : voters + 1, : voters + 1]
    possible = (j <= n) & (i - j <= voters - n) & (j <= i)
    logs = choose(n, j) + choose(voters - n, i - j) - choose(voters, i)
    return np.where(possible, np.exp(np.where(possible, logs, 0.0)), 0.0)


def choose(of: NDArray[np.int64] | int, taken: NDArray[np.int64]) -> Floats:
    """Logarithm of the binomial coefficient; anything where there is none."""
    parts = (np.maximum(part, 0) + 1 for part in (of, taken, of - taken))
    whole, left, right = (gammaln(part) for part in parts)
    logs: Floats = whole - left - right
    return logs


def disagrees(voters: int) -> NDArray[np.bool_]:
    """Whether stopping in (i, j) answers otherwise than n votes: by n, i, j."""
    n, i, j = np.ogrid[: voters + 1, : voters + 1, : voters + 1]
    differ: NDArray[np.bool_] = (2 * j > i) != (2 * n > voters)
    return differ


def follow(stops: Floats) -> VoteTest:
    """Work out what comes of stopping with these chances."""
    voters = len(stops) - 1
    h, ends = chances(voters), survival(stops) * stops
    asked = np.arange(voters + 1)[:, None]
    trees = np.einsum("nij,ij->n", h, ends * asked)
    changed = np.einsum("nij,ij->n", h * disagrees(voters), ends)
    return VoteTest(stops, trees, changed)


def cheapest(trees: Floats, wrong: Floats, price: float) -> Floats:
    """Stops (N + 1, N + 1), each 0 or 1, that cost least when an error costs `price`.

    `trees` and `wrong`, by (i, j), weigh a tree and a wrong stop there. An infinite
    price forbids wrong stops.
    """
    voters = len(trees) - 1
    errors = np.zeros_like(trees)
    errors[wrong > 0] = price * wrong[wrong > 0]
    stop = np.arange(voters + 1)[:, None] * trees + errors
    stops, j = np.ones_like(trees), np.arange(voters + 1)
    later = stop[voters]
    for i in reversed(range(voters)):
        states = slice(i + 1)
        go = (i + 1 - j[states]) * later[states] + j[1 : i + 2] * later[1 : i + 2]
        go /= i + 1
        stops[i, states] = stop[i, states] <= go
        later = np.minimum(stop[i, states], go)
    return stops


def optimal_test(
    notion: Notion, alpha: float, share: Floats, *, deterministic: bool = False
) -> VoteTest:
    """Make the test of fewest trees that changes at most `alpha` of the answers.

    Parameters
    ----------
    notion
        "minimean": mean trees and mean disagreement over `share`. "minimixed": mean
        trees over it, the disagreement of the worst n. "minimax": the worst n's trees
        and the worst n's disagreement; of `share` it only takes N. The worst n are the
        two in the middle, weighed alike: right where no tie stops, as with any alpha
        below a few percent.
    alpha
        Disagreement allowed, in [0, 1).
    share
        (N + 1,) how often n of N votes are "yes", >= 0, any sum above 0: counts on
        calibration rows ("Cal"), or alike for all n ("Flat").
    deterministic
        Keep to the one of two neighbouring tests that changes less, for a few more
        trees; otherwise the optimum of the linear programme, which draws between them.

    Raises
    ------
    ValueError
        For "minimixed" unless `share` is the same for n and N - n: else the two in the
        middle would not weigh alike.
    """
    voters = len(share) - 1
    share = share / share.sum()
    if notion == "minimixed" and not np.allclose(share, share[::-1]):
        raise ValueError("share must be the same for n and N - n for minimixed")
    hard = np.zeros(voters + 1)
    hard[[voters // 2, voters // 2 + 1]] = 0.5
    trees_of = hard if notion == "minimax" else share
    errors_of = share if notion == "minimean" else hard
    h = chances(voters)
    trees = np.einsum("n,nij->ij", trees_of, h)
    wrong = np.einsum("n,nij->ij", errors_of, h * disagrees(voters))

    def stop(price: float) -> tuple[Floats, float]:
        stops = cheapest(trees, wrong, price)
        return stops, float((wrong * survival(stops) * stops).sum())

    bold, most = stop(PRICES[0])
    if most <= alpha:
        return follow(bold)
    if alpha == 0:
        return follow(stop(np.inf)[0])
    careful, least = stop(PRICES[1])
    low, high = np.log(PRICES)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        made, rate = stop(float(np.exp(middle)))
        if rate > alpha:
            low, bold, most = middle, made, rate
        else:
            high, careful, least = middle, made, rate
    if deterministic:
        return follow(careful)
    return mixed(careful, bold, (alpha - least) / (most - least))


def mixed(first: Floats, second: Floats, weight: float) -> VoteTest:
    """Draw the second stops with probability `weight`, before the first vote.

    Said as one test, whose `stops` draw in its states.
    """
    alive = (1 - weight) * survival(first), weight * survival(second)
    ends, reached = alive[0] * first + alive[1] * second, alive[0] + alive[1]
    stops = np.divide(ends, reached, out=np.ones_like(ends), where=reached > 0)
    return follow(stops)


def survival(stops: Floats) -> Floats:
    """How likely each state is, over how likely it is where nothing stops."""
    voters = len(stops) - 1
    going, reached = 1 - stops, np.zeros_like(stops)
    j = np.arange(voters + 1)
    reached[0, 0] = 1.0
    for i in range(voters):
        go = reached[i, : i + 1] * going[i, : i + 1]
        reached[i + 1, : i + 1] = (i + 1 - j[: i + 1]) * go
        reached[i + 1, 1 : i + 2] += j[1 : i + 2] * go
        reached[i + 1] /= i + 1
    return reached


def flat(voters: int) -> Floats:
    """Every number of "yes" alike: (N + 1,)."""
    return np.full(voters + 1, 1 / (voters + 1))


def over_half(asked: Codes, leading: Codes) -> Floats:
    """Chance that over half of endless voters are for the leader, prior uniform.

    Of `asked` votes `leading` were; the posterior is Beta(leading + 1, others + 1).
    """
    chance: Floats = betaincc(leading + 1, asked - leading + 1, 0.5)
    return chance


def leader_stays(asked: Codes, leading: Codes, voters: int) -> Floats:
    """Chance that the leader has over half of all N votes in the end.

    The votes to come are Beta-binomial: exchangeable, n uniform on 0 ... N before the
    first.
    """
    missing = voters // 2 - leading  # at most so many more, and it is not over half
    chance: Floats = betabinom.sf(
        missing, voters - asked, leading + 1, asked - leading + 1
    )
    return chance


def first_against_second(first: Codes, second: Codes) -> Floats:
    """Chance that the leader is likelier than the next class: Dirichlet(votes + 1)."""
    chance: Floats = betaincc(first + 1, second + 1, 0.5)
    return chance


def schwing(voters: int, alpha: float) -> Floats:
    """Stops (N + 1, N + 1), as of a `VoteTest`, where a side is over half surely.

    Stop iff P(p > 1/2), the posterior Beta(j + 1, i - j + 1), is below `alpha` or above
    1 - alpha, or one side has over half of all votes already. With two classes it is
    LazyRF's "over half", and "first against second".
    """
    i, j = states(voters)
    yes = over_half(i, j)
    settled = 2 * np.maximum(j, i - j) > voters
    return stopped(voters, (yes < alpha) | (yes > 1 - alpha) | settled)


def beta_binomial(voters: int, alpha: float) -> Floats:
    """Stops (N + 1, N + 1) where one answer is right with chance above 1 - alpha.

    Two classes' "leader stays".
    """
    i, j = states(voters)
    yes = leader_stays(i, j, voters)
    return stopped(voters, (yes < alpha) | (yes > 1 - alpha))


def states(voters: int) -> tuple[Codes, Codes]:
    """Votes asked i and "yes" j of them, both (N + 1, N + 1), j at most i."""
    i, j = np.mgrid[: voters + 1, : voters + 1]
    return i, np.minimum(i, j)


def stopped(voters: int, where: NDArray[np.bool_]) -> Floats:
    """Stops as chances: certain at the last vote, and in states that are none."""
    stops = where.astype(np.float64)
    stops[voters] = 1.0
    stops[np.triu_indices(voters + 1, 1)] = 1.0
    return stops


def stability_scores(counts: Codes) -> dict[str, Floats]:
    """All three scores of LazyRF, (N, T) each, for (N, T, K) votes so far by class."""
    ascending = np.sort(counts, axis=2)
    first, second = ascending[:, :, -1], ascending[:, :, -2]
    voters = counts.shape[1]
    asked = np.arange(1, voters + 1)
    table = leader_stays(*states(voters), voters)
    return {
        "over half": over_half(asked, first),
        "leader stays": table[asked, first],
        "first against second": first_against_second(first, second),
    }


def stop_at(scores: Floats, least: float) -> Codes:
    """(N,) position of the first score (N, T) of at least `least`, else the last."""
    over = scores >= least
    over[:, -1] = True
    places: Codes = over.argmax(axis=1)
    return places
