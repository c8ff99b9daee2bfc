"""Staged boosting against exits between models, where features cost something.

Every contender is LightGBM, and all come to the columns in the same order: by the gain
of one model of all columns per dollar. Columns of which one is computed from the
others come together. Thyroid records cost what their tests do, Adult's columns one
dollar each.

    plain       a model of all columns; a schedule that orders its rounds, columns
                paid where first read
    models      a model for each number of stages, with exits between them: what
                `[exits]` does
    staged      `train_staged`, as many rounds in all as "plain", as many in each
                stage; a schedule that keeps their order, or one that fits it
    CEGB        on thyroid: LightGBM's own penalties for the tests of a row's paths

Exits and schedules are fitted on the training rows, answered by five models each of
which has not seen the fifth that it answers; figures are means over `SEEDS` such
divisions. All shares of changed decisions are shown; without one, every row pays for
the whole.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.exits.checkpoints import Answers
from polydom.indexer.exits.fit import fit_exits
from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.qwyc.fit import fit_schedule
from polydom.models.qwyc.fit_multiclass import fit_margin_schedule

from ..data.kept_items import FTI_TESTS, thyroid_costs, thyroid_names
from ..data.tables import load_adult
from ..places import DATA
from .cegb import cegb, table
from .staged_boosting import train_staged

ALPHAS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02)
ROUNDS, FOLDS, SEEDS = 50, 5, 5
OWN_COST = 1e-3  # dollars a round, so that fewer rounds are better at equal tests

Rows = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class Problem:
    """Rows whose F tests cost something; a column needs one test or more."""

    X: Rows
    y: Codes
    Xt: Rows
    yt: Codes
    costs: NDArray[np.float64]  # (F,)
    needs: Flags  # (d, F)
    groups: tuple[tuple[int, ...], ...]  # columns that are bought together

    def tests(self, uses: Flags) -> Flags:
        """(T, F) tests for base models that read columns `uses` (T, d)."""
        needed: Flags = (uses.astype(int) @ self.needs.astype(int)) > 0
        return needed

    def stages(self) -> list[list[int]]:
        """Groups by gain per dollar; those of no gain last, together."""
        ensemble = booster().fit(self.X, self.y)
        gains = ensemble.booster_.feature_importance("gain")
        worth = [
            gains[list(group)].sum() / self.costs[self.needs[list(group)].any(0)].sum()
            for group in self.groups
        ]
        order = np.argsort(-np.array(worth), kind="stable")
        return [list(self.groups[k]) for k in order if worth[k] > 0]


def booster(rounds: int = ROUNDS) -> Any:
    """The learner of every contender."""
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_estimators=rounds, n_jobs=1, verbose=-1)


def thyroid(together: bool = False) -> Problem:
    """Dollars of Turney's tests; who has FTI has the tests it is computed from.

    The sixteen questions at a dollar each come one by one, or together.
    """
    names, costs = thyroid_names(), thyroid_costs()
    (X, y), (Xt, yt) = (table(names, part) for part in ("train", "test"))
    tests = [name for name in names if name != "FTI"]
    asked = [FTI_TESTS if name == "FTI" else (name,) for name in names]
    needs = np.array([[test in own for test in tests] for own in asked])
    cheap = [k for k, name in enumerate(names) if costs[name] <= 1]
    last = [names.index(name) for name in (*FTI_TESTS, "FTI")]
    rest = set(range(len(names))) - {*cheap, *last}
    first = [tuple(cheap)] if together else [(k,) for k in cheap]
    groups = (*first, *((k,) for k in sorted(rest)), tuple(last))
    prices = np.array([costs[test] for test in tests])
    return Problem(X, y, Xt, yt, prices, needs, groups)


def adult() -> Problem:
    """A dollar for each of 14 columns."""
    rows, y, fresh, yt = load_adult(DATA)
    X, Xt = rows.astype(np.float64), fresh.astype(np.float64)
    singles = tuple((k,) for k in range(14))
    return Problem(X, y, Xt, yt, np.ones(14), np.eye(14, dtype=bool), singles)


SETS: dict[str, Callable[[], Problem]] = {
    "thyroid": thyroid,
    "thyroid, questions together": partial(thyroid, together=True),
    "adult": adult,
}


def folds(count: int, seed: int) -> Iterator[tuple[Codes, Codes]]:
    """Rows to train on, and rows to answer."""
    fold = np.random.default_rng(seed).permutation(count) % FOLDS
    for k in range(FOLDS):
        yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)


def sums_by_round(ensemble: Ensemble, X: Rows) -> Rows:
    """Base scores (N, T, K) with what they start from in the first; 1 for two classes.

    Models of two folds start from different odds, and a schedule has one threshold.
    """
    scores = ensemble.base_scores(X)
    if not ensemble.binary:
        scores[:, 0] += ensemble.bias
        return scores
    scores[:, 0] -= ensemble.threshold
    return scores[:, :, None]


def measure(
    problem: Problem,
    name: str,
    stages: list[list[int]],
    rounds: list[int],
    seed: int,
    in_order: bool = False,
) -> Iterator[dict[str, Any]]:
    """A boosted ensemble, in stages or in one, stopped by schedules of its rounds."""

    def train(rows: Codes) -> Any:
        return train_staged(booster(), problem.X[rows], problem.y[rows], stages, rounds)

    N, T = len(problem.y), sum(rounds)
    made = train(np.arange(N))
    fresh = sums_by_round(made.ensemble, problem.Xt)
    scores = np.zeros((N, T, fresh.shape[2]))
    may = made.ensemble.uses(problem.X.shape[1])
    for rows, left in folds(N, seed):
        fold = train(rows)
        scores[left, : fold.ensemble.size] = sums_by_round(
            fold.ensemble, problem.X[left]
        )
        may |= fold.ensemble.uses(problem.X.shape[1])
    options: dict[str, Any] = {
        "costs": np.full(T, OWN_COST),
        "feature_costs": problem.costs,
        "uses": problem.tests(may),
    }
    reads = problem.tests(made.ensemble.uses(problem.X.shape[1]))
    whole = decide(fresh.sum(axis=1))
    cost = float(problem.costs[reads.any(axis=0)].sum())
    yield line(problem, name, None, whole, whole, np.full(len(whole), cost))
    kept: Any = np.arange(T) if in_order else None
    for alpha in ALPHAS:
        schedule: Any
        if scores.shape[2] == 1:
            schedule = fit_schedule(scores[:, :, 0], 0.0, alpha, order=kept, **options)
            chosen, used = schedule.evaluate(fresh[:, :, 0])
        else:
            schedule = fit_margin_schedule(scores, alpha, order=kept, **options)
            chosen, used = schedule.evaluate(fresh)
        kept = schedule.order  # it does not depend on alpha
        paid = np.logical_or.accumulate(reads[schedule.order]) @ problem.costs
        yield line(problem, name, alpha, chosen, whole, paid[used - 1])


def exits(
    problem: Problem, stages: list[list[int]], seed: int
) -> Iterator[dict[str, Any]]:
    """A model for each number of stages, and exits between them."""
    N = len(problem.y)
    prefixes = list(accumulate(stages))

    def answers(rows: Codes, X: Rows) -> tuple[Rows, Codes]:
        shares = [
            booster()
            .fit(problem.X[rows][:, columns], problem.y[rows])
            .predict_proba(X[:, columns])
            for columns in prefixes
        ]
        ranked = np.sort(shares, axis=2)
        margins = (ranked[:, :, -1] - ranked[:, :, -2]).T
        return margins, np.argmax(shares, axis=2).T

    margins, choices = np.zeros((N, len(stages))), np.zeros((N, len(stages)), np.int64)
    for rows, left in folds(N, seed):
        margins[left], choices[left] = answers(rows, problem.X[left])
    sure, chosen = answers(np.arange(N), problem.Xt)
    needed = [problem.needs[columns].any(axis=0) for columns in prefixes]
    paid = np.array(needed) @ problem.costs
    whole = chosen[:, -1]
    yield line(problem, "models", None, whole, whole, np.full(len(whole), paid[-1]))
    for alpha in ALPHAS:
        found = fit_exits(Answers(margins, choices), np.diff(paid, prepend=0), alpha)
        stops = sure > found.thresholds
        stops[:, -1] = True
        at = stops.argmax(axis=1)
        early = chosen[np.arange(len(at)), at]
        yield line(problem, "models", alpha, early, whole, paid[at])


def decide(sums: Rows) -> Codes:
    """Class of each row of sums (N, K), or of one sum for two classes."""
    if sums.shape[1] == 1:
        return (sums[:, 0] >= 0).astype(np.int64)
    chosen: Codes = sums.argmax(axis=1)
    return chosen


def line(
    problem: Problem,
    name: str,
    alpha: float | None,
    chosen: Any,
    whole: Any,
    paid: NDArray[np.float64],
) -> dict[str, Any]:
    """What one rule answers for the test rows, and what it pays."""
    return {
        "rule": name,
        "alpha": alpha,
        "accuracy": float(np.mean(chosen == problem.yt)),
        "changed": float(np.mean(chosen != whole)),
        "mean_cost": float(np.mean(paid)),
    }


def average(rows: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    """Means of one rule's lines, and how far apart its costs are."""
    means = {
        key: float(np.mean([row[key] for row in rows]))
        for key in ("accuracy", "changed", "mean_cost")
    }
    spread = float(np.ptp([row["mean_cost"] for row in rows]))
    return {**rows[0], **means, "cost_range": spread}


def run(name: str) -> list[dict[str, Any]]:
    """Every contender on one set."""
    problem = SETS[name]()
    stages = problem.stages()
    S = len(stages)
    all_at_once = [list(chain(*stages))]
    parts = [len(part) for part in np.array_split(np.arange(ROUNDS), S)]
    by_seed = [
        [
            *measure(problem, "plain", all_at_once, [ROUNDS], seed),
            *exits(problem, stages, seed),
            *measure(problem, "staged", stages, parts, seed, in_order=True),
            *measure(problem, "staged, order fitted", stages, parts, seed),
        ]
        for seed in range(SEEDS)
    ]
    rows = [average(same) for same in zip(*by_seed, strict=True)]
    if name == "thyroid":
        rows += [{**row, "rule": "CEGB"} for row in cegb()]
    return [{**row, "set": name, "stages": S} for row in rows]
