"""Stopping once the leading class is likely to stay: LazyRF, Schwing et al., and kin.

`schwing` is the rule of Schwing et al. (2011), as Optimal Sequential Testing compares
itself with it. LazyRF (Mathematics 14(13):2343, 2026) stops by "a Bayesian
vote-stability score for the current leading class", of which no more could be read: the
three scores here are **our readings of it**, "over half", "leader stays" and "first
against second".
"""

import numpy as np
from numpy.typing import NDArray
from scipy.special import betaincc
from scipy.stats import betabinom

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]


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
