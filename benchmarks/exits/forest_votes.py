"""Trees that a forest's votes take, by our schedules and by the rivals since 2024.

All rows of a set are shuffled and divided 70/10/20, to train, to calibrate (no labels)
and to report on; a forest is scikit-learn's own with no option but the number of its
trees, and a tree votes for one class. Two classes: Adult's and Higgs's own, odd or even
digits, and Covertype's most common class or not.

Each method sees the votes on the same calibration rows and is judged by its whole curve
on the same test rows: for each limit the cheapest point whose *test* change is within
it, and the mean ratio of trees over all shares of test change that both curves reach.
Points are means over forests. What a table of stops does is averaged over all orders of
the trees, exactly; everything else follows the forest's own order (trees of a forest
are exchangeable) or the one that our schedule has learnt.

"polydom" is `fit_schedule` on the votes as scores of -1 and 1, more classes
`fit_margin_schedule` on a score of 1 for the class voted for: the same ensemble of hard
votes that the rivals stop. "Soft votes" is the forest as scikit-learn's own `predict`
has it, which averages shares: another ensemble, changed against its own decisions.
"Copies" are fitted on besides: calibration rows with columns swapped. "Shuffled votes"
are calibration rows over and over, their votes in other orders: what is gained from
knowing that trees are exchangeable, which is all that the sequential tests know, and
what `fit_early_exit` does by itself.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from polydom.features.errors import BadInput
from polydom.models.early_exit.fitting_rows import swap_columns
from polydom.models.qwyc.fit_schedule import fit_schedule

from ..data.tables import SETS, Codes, Rows, read_covtype, small_mnist
from .curves import (
    LIMITS,
    OURS,
    Point,
    against,
    by_method,
    low,
    margin_schedules,
    schedules,
    within_limits,
)
from .vote_tests import (
    Notion,
    VoteTest,
    beta_binomial,
    flat,
    follow,
    optimal_test,
    schwing,
    stability_scores,
    stop_at,
)

Floats = NDArray[np.float64]
Labelled = tuple[Rows, Codes]
Points = Iterator[Point]

COPIES = 15
SHARES = 0.7, 0.8  # of the rows, before calibration rows and before test rows
FORESTS = 5
VOTERS = 101  # trees of a forest whose votes are tested
FEWER = 51  # of the authors' figures with data
KNOWN = 1e-3  # the rate of these
SHUFFLES = 8
ALPHAS = tuple(
    digit * 10.0**power for power in (-4, -3, -2, -1) for digit in (1, 2, 3, 5, 7)
)[:-2]
NOTIONS: tuple[Notion, ...] = ("minimean", "minimixed", "minimax")
AHEAD = 1.0  # least sum of votes of -1 and 1 that is no tie, which answers "no"


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """What each tree of a forest says of rows that it was not grown on.

    Attributes
    ----------
    fit, copies, test : (M, T), (16 M, T) and (N, T) int64
        Class that each tree votes for: calibration rows, the same with copies of them
        that have columns swapped, and test rows.
    shares : ((M, T), (N, T)) float64
        By how much the second class's share is above the first's, of calibration and
        test rows: what the forest itself adds up, where there are two classes.
    labels : (N,) int64
        Of the test rows.
    classes : int
        K.
    """

    fit: Codes
    copies: Codes
    test: Codes
    shares: tuple[Floats, Floats]
    labels: Codes
    classes: int

    def shuffled(self, times: int) -> Codes:
        """Votes on calibration rows, so many times over, each in another order."""
        draws = np.random.default_rng(0)
        return draws.permuted(np.tile(self.fit, (times, 1)), axis=1)

    def first(self, trees: int) -> "Votes":
        """Votes of the first trees alone, which are a forest too."""
        fit, copies, test = (v[:, :trees] for v in (self.fit, self.copies, self.test))
        shares = self.shares[0][:, :trees], self.shares[1][:, :trees]
        return Votes(fit, copies, test, shares, self.labels, self.classes)


def most_common_or_not(folder: Path) -> Labelled:
    """Covertype's first 20,000 rows: class 2, the most common of all, or not."""
    X, codes = read_covtype(folder)
    return X.astype(np.float32), (codes == np.bincount(codes).argmax()).astype(np.int64)


def all_rows(name: str) -> Callable[[Path], Labelled]:
    """Make the reader of a set's training and test rows together."""

    def read(folder: Path) -> Labelled:
        X, y, Xt, yt = SETS[name](folder)
        return np.concatenate([X, Xt]), np.concatenate([y, yt])

    return read


def seven_classes(folder: Path) -> Labelled:
    """Covertype's first 20,000 rows."""
    X, codes = read_covtype(folder)
    return X.astype(np.float32), codes


def ten_digits(folder: Path) -> Labelled:
    """20,000 and 10,000 digits."""
    X, y = small_mnist(folder, "train", 20_000)
    Xt, yt = small_mnist(folder, "t10k", 10_000)
    return np.concatenate([X, Xt]), np.concatenate([y, yt])


TWO: dict[str, Callable[[Path], Labelled]] = {
    "adult": all_rows("adult"),
    "covtype20k": most_common_or_not,
    "mnist": all_rows("mnist"),
    "higgs": all_rows("higgs"),
}
MANY: dict[str, Callable[[Path], Labelled]] = {
    "covtype20k": seven_classes,
    "mnist": ten_digits,
}


def divide(X: Rows, y: Codes, seed: int) -> tuple[Labelled, Labelled, Labelled]:
    """Rows to train, to calibrate and to report on, with their classes."""
    order = np.random.default_rng(seed).permutation(len(X))
    parts = np.split(order, [int(share * len(X)) for share in SHARES])
    train, fit, test = ((X[part], y[part]) for part in parts)
    return train, fit, test


def grow(rows: Labelled, trees: int, seed: int, **options: Any) -> Any:
    """Grow a forest on one core."""
    forest = RandomForestClassifier(trees, random_state=seed, n_jobs=1, **options)
    return forest.fit(*rows)


def cast(forest: Any, X: Rows) -> tuple[Codes, Floats]:
    """(N, T) votes, and by how much the second class's share is above the first's."""
    codes = np.empty((len(X), len(forest.estimators_)), np.int64)
    shares = np.empty(codes.shape)
    for t, tree in enumerate(forest.estimators_):
        leaves = tree.tree_.predict(X)
        codes[:, t] = leaves.argmax(axis=1)
        shares[:, t] = leaves[:, 1] - leaves[:, 0]
    return codes, shares


def vote(X: Rows, y: Codes, trees: int, seed: int) -> Votes:
    """Grow a forest on a division of the rows and let it vote on the others."""
    train, (fit, _), (test, labels) = divide(X, y, seed)
    forest = grow(train, trees, seed)
    mine, fresh = cast(forest, fit), cast(forest, test)
    copies, _ = cast(forest, swap_columns(fit, copies=COPIES))
    shares = mine[1], fresh[1]
    return Votes(mine[0], copies, fresh[0], shares, labels, len(forest.classes_))


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


def rungs(votes: Floats, threshold: float, order: Codes | None = None) -> Iterator[Any]:
    """Our schedules of two classes, (N, T), or of more, (N, T, K)."""
    if votes.ndim == 2:
        return schedules(votes, threshold, order)
    return margin_schedules(votes, order=order)


def ours(votes: Votes) -> Points:
    """Our schedules, on hard votes."""
    K, own = votes.classes, np.arange(votes.fit.shape[1])
    fresh = one_hot(votes.test, K)
    rows: dict[str, tuple[Codes, Codes | None]] = {
        OURS: (votes.fit, None),
        f"polydom, {COPIES} copies": (votes.copies, None),
        "polydom, forest's order": (votes.fit, own),
        "polydom, shuffled votes": (votes.shuffled(SHUFFLES), own),
    }
    if len(own) > VOTERS:  # too many scores
        del rows[f"polydom, {COPIES} copies"]
    for method, (codes, order) in rows.items():
        made = rungs(one_hot(codes, K), AHEAD, order)
        for rung, schedule in enumerate(made):
            yield told(votes, method, rung, *schedule.evaluate(fresh))


def soft(votes: Votes) -> Points:
    """Our schedules on the shares that scikit-learn's own forest adds up."""
    fit, fresh = votes.shares
    whole = fresh.sum(axis=1) >= 0
    for rung, schedule in enumerate(schedules(fit)):
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


def sequential(votes: Votes, alphas: tuple[float, ...]) -> Points:
    """Optimal Sequential Testing, on the votes of two classes."""
    voters, share = votes.fit.shape[1], counts(votes.fit)
    for alpha in alphas:
        for notion in NOTIONS:
            test = flat_test(notion, alpha, voters)
            name = notion if notion == "minimax" else f"{notion} Flat"
            yield averaged(votes, name, alpha, test)
        test = optimal_test("minimean", alpha, share)
        yield averaged(votes, "minimean Cal", alpha, test)
    zero = optimal_test("minimean", 0.0, flat(voters))
    yield averaged(votes, "exact", 0.0, zero)


def stable(votes: Votes, alphas: tuple[float, ...]) -> Points:
    """LazyRF by tables, for two classes."""
    rules = {
        "LazyRF, over half = Schwing": schwing,
        "LazyRF, leader stays = Beta-binomial": beta_binomial,
    }
    for method, rule in rules.items():
        for alpha in alphas:
            made = stability(rule, alpha, votes.test.shape[1])
            yield averaged(votes, method, alpha, made)


@cache
def stability(
    rule: Callable[[int, float], Floats], alpha: float, voters: int
) -> VoteTest:
    """Work out a rule's stops once for all forests."""
    return follow(rule(voters, alpha))


def stable_classes(votes: Votes, alphas: tuple[float, ...]) -> Points:
    """LazyRF along the forest's order, for more classes."""
    cast: Codes = votes.test[:, :, None] == np.arange(votes.classes)
    so_far = np.cumsum(cast, axis=1)
    best = np.sort(so_far, axis=2)
    left = so_far.shape[1] - np.arange(1, so_far.shape[1] + 1)
    settled = best[:, :, -1] - best[:, :, -2] > left
    rows = np.arange(len(so_far))
    for reading, scores in stability_scores(so_far).items():
        for alpha in alphas:
            at = stop_at(np.where(settled, 1.0, scores), 1 - alpha)
            answers = so_far[rows, at].argmax(axis=1)
            yield told(votes, f"LazyRF, {reading}", alpha, answers, at + 1)


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


def points_of(votes: Votes, alphas: tuple[float, ...]) -> Points:
    """All methods' points on one forest."""
    if votes.classes > 2 or votes.fit.shape[1] > VOTERS:
        return chain(ours(votes), stable_classes(votes, alphas))
    return chain(
        ours(votes), soft(votes), sequential(votes, alphas), stable(votes, alphas)
    )


def measure(
    X: Rows,
    y: Codes,
    forests: int = FORESTS,
    trees: int = VOTERS,
    alphas: tuple[float, ...] = ALPHAS,
) -> dict[str, Any]:
    """Every point of every method's curve on one set, as means over forests.

    Beside the curves: what comes of rates that are asked for, and the rate at which
    Optimal Sequential Testing's authors have figures.
    """
    found: dict[tuple[str, Any], list[Point]] = defaultdict(list)
    fewer: dict[tuple[str, Any], list[Point]] = defaultdict(list)
    asked: dict[tuple[str, Any], list[Point]] = defaultdict(list)
    accuracies = []
    for seed in range(forests):
        votes = vote(X, y, trees, seed)
        whole = majority(votes.test, votes.classes)
        accuracies.append(float(np.mean(whole == votes.labels)))
        for point in points_of(votes, alphas):
            found[point["method"], point["knob"]].append(point)
        if votes.classes == 2 and trees <= VOTERS:
            for point in sequential(votes.first(FEWER), (KNOWN,)):
                fewer[point["method"], point["knob"]].append(point)
            for point in declared(votes):
                asked[point["method"], point["knob"]].append(point)
    return {
        "trees": trees,
        "forests": forests,
        "accuracy": float(np.mean(accuracies)),
        "points": [mean_point(points) for points in found.values()],
        "declared": [mean_point(points) for points in asked.values()],
        "known": [mean_point(points) for points in fewer.values()],
    }


def mean_point(points: list[Point]) -> Point:
    """One point's mean over forests."""
    means = {
        name: float(np.mean([point[name] for point in points]))
        for name in ("mean", "changed", "accuracy")
    }
    return {**points[0], **means}


def tables(name: str, result: dict[str, Any]) -> dict[str, list[Point]]:
    """One set's tables."""
    title = f"{name}, {result['trees']} trees, accuracy {result['accuracy']:.4f}"
    fewer = min(FEWER, result["trees"])
    methods = [method for method in by_method(result["points"]) if method != OURS]
    made = {
        f"{title}: mean trees within a test change": within_limits(
            result["points"], LIMITS
        ),
        f"{name}, {result['trees']} trees: mean trees over another's": against(
            low(result["points"]), ((OURS, method) for method in methods)
        ),
        f"{name}: the rate that is asked for, and what comes of it": result["declared"],
        f"{name}: the first {fewer} trees at {KNOWN:.1%}": result["known"],
    }
    return {title: rows for title, rows in made.items() if rows}
