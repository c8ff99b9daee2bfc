"""Trees that a forest's votes take, by our schedules and by the rivals since 2024.

Protocol. The forests and divisions of `forest_votes`. Every method sees the votes on
the same calibration rows, without labels, and is judged on the same test rows by its
whole curve: for each limit the cheapest point whose *test* change is within it, and the
mean ratio of trees over all shares of test change that both curves reach. Points are
means over forests. What a table of stops does is averaged over all orders of the trees,
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

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data.tables import Codes, Rows
from .equal_change import by_method, cheapest, equal_change, frontier
from .forest_votes import COPIES, FEW, Votes, vote
from .increment_spreads import (
    SCALES,
    SPREADS,
    WINDOWS,
    spreads,
    stops,
    vote_increments,
)
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

VOTERS, FEWER = 101, 51  # trees of a forest; of the authors' figures with data
FORESTS = 5
SHUFFLES = 8
ALPHAS = tuple(np.geomspace(1e-4, 0.3, 18).tolist())
LOSS = 0.002  # of accuracy, within which LazyRF calls forests equivalent
MOST = 0.02  # changed: curves are compared below it
LIMITS = (0.01, 0.005, 0.002, 0.001)
NOTIONS: tuple[Notion, ...] = ("minimean", "minimixed", "minimax")
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
        for rung, schedule in rungs(one_hot(codes, K), order):
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
    _, schedule = next(rungs(one_hot(votes.fit, 2)))
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
            yield averaged(votes, method, alpha, stability(rule, alpha, votes))


def stability(
    rule: Callable[[int, float], Floats], alpha: float, votes: Votes
) -> VoteTest:
    """What comes of a rule's stops."""
    return kept_stability(rule, alpha, votes.test.shape[1])


@cache
def kept_stability(
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


def measure(
    X: Rows, y: Codes, forests: int = FORESTS, trees: int = VOTERS
) -> dict[str, Any]:
    """Every point of every method's curve on one set, as means over forests."""
    found: dict[tuple[str, Any], list[Any]] = defaultdict(list)
    fewer: dict[tuple[str, Any], list[Any]] = defaultdict(list)
    accuracies = []
    for seed in range(forests):
        votes = vote(X, y, trees, seed)
        whole = majority(votes.test, votes.classes)
        accuracies.append(float(np.mean(whole == votes.labels)))
        for point in points_of(votes):
            found[point["method"], point["knob"]].append(point)
        if votes.classes == 2 and trees > FEWER:
            for point in sequential(votes.first(FEWER), (KNOWN,)):
                fewer[point["method"], point["knob"]].append(point)
    return {
        "trees": trees,
        "forests": forests,
        "test_rows": len(votes.test),
        "fit_rows": len(votes.fit),
        "accuracy": float(np.mean(accuracies)),
        "points": [mean_point(points) for points in found.values()],
        "known": [mean_point(points) for points in fewer.values()],
    }


def mean_point(points: list[dict[str, Any]]) -> dict[str, Any]:
    """One point's mean over forests."""
    means = {
        name: float(np.mean([point[name] for point in points]))
        for name in ("mean", "changed", "accuracy")
    }
    return {**points[0], **means}


def show(name: str, result: dict[str, Any]) -> None:
    """Print one set's tables."""
    print(
        f"\n{name}: {result['forests']} forests of {result['trees']} trees, accuracy "
        f"{result['accuracy']:.4f}; {result['fit_rows']} calibration and "
        f"{result['test_rows']} test rows each"
    )
    heads = "".join(f"{limit:>16.1%}" for limit in LIMITS) + f"{f'-{LOSS} right':>16}"
    print(f"{'trees, accuracy at test change <=':36}{heads}  polydom / it")
    found = by_method(result["points"])
    for method, points in found.items():
        cells = "".join(cell(cheapest(points, limit)) for limit in LIMITS)
        right = (p for p in points if p["accuracy"] >= result["accuracy"] - LOSS)
        cells += cell(cheapest(right, 1.0))
        ratio = equal_change(low(found["polydom"]), low(points))
        told = "" if ratio is None else "{:.3f} ({:.2%} to {:.2%})".format(*ratio)
        print(f"{method:36}{cells}  {told}")
    for method in (f"P2-STOP, {scale}" for scale in SCALES):
        show_frontier(method, found[method])
    if result["known"]:
        print(f"the first {FEWER} trees, disagreement {KNOWN:.1%}: trees (rate)")
    for point in result["known"]:
        print(f"{point['method']:36}{point['mean']:8.2f} ({point['changed']:.2e})")


def show_frontier(method: str, points: list[dict[str, Any]]) -> None:
    """Print every point of a curve that no other beats."""
    changed, mean = frontier(points)
    cells = (f"{m:.1f} at {c:.2%}" for c, m in zip(changed, mean, strict=True))
    print(f"all of {method}: {', '.join(dict.fromkeys(cells))}")


def low(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Leave out what changes more than anyone would want."""
    return [point for point in points if point["changed"] <= MOST]


def cell(point: dict[str, Any] | None) -> str:
    """Trees and accuracy of a point."""
    if point is None:
        return f"{'-':>16}"
    return f"{point['mean']:9.2f} {point['accuracy']:.4f}"
