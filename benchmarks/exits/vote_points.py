"""Points of each method's curve on the votes of one forest.

Each sees the votes on the same calibration rows, without labels, and is judged on the
same test rows. What a table of stops does is averaged over all orders of the trees,
exactly; everything else follows the forest's own order (trees of a forest are
exchangeable) or the one that our schedule has learnt.

"polydom" is `fit_schedule` on the votes as scores of -1 and 1, more classes
`fit_margin_schedule` on a score of 1 for the class voted for: the same ensemble of hard
votes that the rivals stop. "soft votes" is the forest as scikit-learn's own `predict`
has it, which averages shares: another ensemble, changed against its own decisions.
"Copies" are fitted on besides: calibration rows with columns swapped. "Shuffled votes"
are calibration rows over and over, their votes in other orders: what is gained from
knowing that trees are exchangeable, which is all that the sequential tests know.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.fit import fit_schedule

from ..data.tables import Codes
from .forest_votes import COPIES, FEW, Votes
from .increment_spreads import (
    SCALES,
    SPREADS,
    WINDOWS,
    spreads,
    stops,
    vote_increments,
)
from .rival_curves import LIMITS
from .schedule_rungs import rungs
from .sequential_tests import Notion, VoteTest, flat, follow, optimal_test, walk
from .vote_stability import (
    beta_binomial,
    schwing,
    stability_scores,
    stop_at,
)

Floats = NDArray[np.float64]
Points = Iterator[dict[str, Any]]

VOTERS = 101  # trees of a forest whose votes are tested
SHUFFLES = 8
ALPHAS = tuple(
    digit * 10.0**power for power in (-4, -3, -2, -1) for digit in (1, 2, 3, 5, 7)
)[:-2]
NOTIONS: tuple[Notion, ...] = ("minimean", "minimixed", "minimax")
AHEAD = 1.0  # least sum of votes of -1 and 1 that is no tie, which answers "no"
KNOWN = 1e-3  # the rate of the authors' figures with data


def told(votes: Votes, method: str, knob: Any, answers: Any, used: Any) -> Any:
    """One point of a method's curve on test rows."""
    whole = majority(votes.test, votes.classes)
    return {
        "method": method,
        "knob": knob,
        "mean": float(np.mean(used)),
        "changed": float(np.mean(answers != whole)),
        "accuracy": float(np.mean(answers == votes.labels)),
    }


def majority(codes: Codes, classes: int) -> Codes:
    """(N,) the class with most votes, the first of equal ones."""
    counts = np.stack([(codes == k).sum(axis=1) for k in range(classes)], axis=1)
    most: Codes = counts.argmax(axis=1)
    return most


def one_hot(codes: Codes, classes: int) -> Floats:
    """Votes as scores: (N, T) of -1 and 1 for two classes, (N, T, K) of 0 and 1."""
    votes: Floats = (codes[:, :, None] == np.arange(classes)).astype(np.float64)
    return votes[:, :, 1] - votes[:, :, 0] if classes == 2 else votes


def ours(votes: Votes) -> Points:
    """Our schedules, on hard votes."""
    K, own = votes.classes, np.arange(votes.fit.shape[1])
    fresh = one_hot(votes.test, K)
    rows: dict[str, tuple[Codes, Codes | None]] = {
        "polydom": (votes.fit, None),
        f"polydom, {FEW} copies": (votes.with_copies(FEW), None),
        f"polydom, {COPIES} copies": (votes.copies, None),
        "polydom, forest's order": (votes.fit, own),
        "polydom, shuffled votes": (votes.shuffled(SHUFFLES), own),
    }
    if len(own) > VOTERS:  # too many scores
        del rows[f"polydom, {COPIES} copies"]
    for method, (codes, order) in rows.items():
        for rung, schedule in rungs(one_hot(codes, K), order, AHEAD):
            yield told(votes, method, rung, *schedule.evaluate(fresh))


def soft(votes: Votes) -> Points:
    """Our schedules on the shares that scikit-learn's own forest adds up."""
    fit, fresh = votes.shares
    whole = fresh.sum(axis=1) >= 0
    for rung, schedule in rungs(fit):
        answers, used = schedule.evaluate(fresh)
        point = told(votes, "polydom, soft votes", rung, answers, used)
        yield {**point, "changed": float(np.mean(answers != whole))}


def averaged(votes: Votes, method: str, alpha: float, test: VoteTest) -> Any:
    """A test's point on test rows, averaged over all orders of the trees."""
    n = votes.test.sum(axis=1)
    whole, changed = 2 * n > votes.test.shape[1], test.disagreements[n]
    right = np.where(whole == votes.labels, 1 - changed, changed)
    return {
        "method": method,
        "knob": alpha,
        "mean": float(test.trees[n].mean()),
        "changed": float(changed.mean()),
        "accuracy": float(right.mean()),
    }


@cache
def flat_test(notion: Notion, alpha: float, voters: int) -> VoteTest:
    """Make the test of no calibration rows."""
    return optimal_test(notion, alpha, flat(voters))


def counts(codes: Codes) -> Floats:
    """How often each number of "yes" occurs: (N + 1,)."""
    found = np.bincount(codes.sum(axis=1), minlength=codes.shape[1] + 1)
    return found.astype(np.float64)


def sequential(votes: Votes, alphas: tuple[float, ...] = ALPHAS) -> Points:
    """Optimal Sequential Testing and its neighbours, on the votes of two classes."""
    voters = votes.fit.shape[1]
    shares = {
        "Cal": counts(votes.fit),
        f"Cal, {COPIES} copies": counts(votes.copies),
    }
    for alpha in alphas:
        for notion in NOTIONS:
            test = flat_test(notion, alpha, voters)
            name = notion if notion == "minimax" else f"{notion} Flat"
            yield averaged(votes, name, alpha, test)
        for name, share in shares.items():
            test = optimal_test("minimean", alpha, share)
            yield averaged(votes, f"minimean {name}", alpha, test)
    zero = optimal_test("minimean", 0.0, flat(voters))
    yield averaged(votes, "exact", 0.0, zero)


def along_our_order(votes: Votes) -> Points:
    """Optimal tests followed along the order that our schedule has learnt.

    Which breaks what they promise: votes are no longer exchangeable.
    """
    _, schedule = next(rungs(one_hot(votes.fit, 2), threshold=AHEAD))
    for alpha in ALPHAS:
        test = optimal_test("minimean", alpha, counts(votes.fit), deterministic=True)
        answers, used = walk(test.stops, votes.test[:, schedule.order])
        yield told(votes, "minimean Cal, our order", alpha, answers, used)


def stable(votes: Votes) -> Points:
    """LazyRF by tables, for two classes."""
    rules = {
        "LazyRF, over half (Schwing)": schwing,
        "LazyRF, leader stays": beta_binomial,
    }
    for method, rule in rules.items():
        for alpha in ALPHAS:
            made = stability(rule, alpha, votes.test.shape[1])
            yield averaged(votes, method, alpha, made)


@cache
def stability(
    rule: Callable[[int, float], Floats], alpha: float, voters: int
) -> VoteTest:
    """Work out a rule's stops once for all forests."""
    return follow(rule(voters, alpha))


def stable_classes(votes: Votes) -> Points:
    """LazyRF along the forest's order, for more classes."""
    so_far = np.cumsum(one_hot_counts(votes), axis=1)
    best = np.sort(so_far, axis=2)
    left = so_far.shape[1] - np.arange(1, so_far.shape[1] + 1)
    settled = best[:, :, -1] - best[:, :, -2] > left
    rows = np.arange(len(so_far))
    for reading, scores in stability_scores(so_far).items():
        for alpha in ALPHAS:
            at = stop_at(np.where(settled, 1.0, scores), 1 - alpha)
            answers = so_far[rows, at].argmax(axis=1)
            yield told(votes, f"LazyRF, {reading}", alpha, answers, at + 1)


def one_hot_counts(votes: Votes) -> Codes:
    """Test votes as counts of one each: (N, T, K)."""
    made: Codes = (votes.test[:, :, None] == np.arange(votes.classes)).astype(np.int64)
    return made


def spread_stops(votes: Votes) -> Points:
    """P2-STOP along the forest's order."""
    so_far = np.cumsum(one_hot_counts(votes), axis=1)
    increments, margins = vote_increments(so_far)
    rows = np.arange(len(so_far))
    for window in WINDOWS:
        ranges = spreads(increments, window)
        for scale in SCALES:
            for spread in SPREADS:
                used = stops(ranges, margins, scale, spread)
                answers = so_far[rows, used - 1].argmax(axis=1)
                knob = window, spread
                yield told(votes, f"P2-STOP, {scale}", knob, answers, used)


def declared(votes: Votes) -> Points:
    """What comes of a rate that is asked for, on two classes: rows are not judged by.

    Half of the calibration rows fit where a confidence is asked, the others calibrate.
    """
    scores, fresh = one_hot(votes.fit, 2), one_hot(votes.test, 2)
    half = len(scores) // 2
    sure = {"confidence": 0.95, "calibration": scores[half:]}
    fits: dict[str, tuple[Floats, dict[str, Any]]] = {
        "fit_schedule": (scores, {}),
        "fit_schedule, 95 % sure": (scores[:half], sure),
        "fit_schedule, shuffled votes": (
            one_hot(votes.shuffled(SHUFFLES), 2),
            {"order": np.arange(scores.shape[1])},
        ),
    }
    for alpha in LIMITS:
        for method, (rows, how) in fits.items():
            with suppress(BadInput):  # too few rows for so small a rate
                schedule = fit_schedule(rows, AHEAD, alpha, threads=1, **how)
                yield told(votes, method, alpha, *schedule.evaluate(fresh))
        test = optimal_test("minimean", alpha, counts(votes.fit))
        yield averaged(votes, "minimean Cal", alpha, test)


def points_of(votes: Votes) -> Points:
    """All methods' points on one forest."""
    if votes.classes > 2 or votes.fit.shape[1] > VOTERS:
        return chain(ours(votes), stable_classes(votes), spread_stops(votes))
    return chain(
        ours(votes),
        soft(votes),
        sequential(votes),
        along_our_order(votes),
        stable(votes),
        spread_stops(votes),
    )
