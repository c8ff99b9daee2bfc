"""Where a plan may stop while its features are still being computed: three ways.

    models      a model for each number of features, with exits between them: what
                `[exits]` does
    slices      the plan's own ensemble, its base models ordered with what features
                cost, stopped by a schedule; a linear model's are its features' blocks
    both        models and slices at each feature, one after the other, at one price

All come to the features in one order, by what trees gain from them per cost; "own
order" is the one that the schedule's fit chooses. The plan is the first features with
the most accurate model. Models are trained on two thirds of the build's rows, exits
and schedules fitted on the third, and fresh rows are reported on. Figures are means
over divisions into these.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.building.exits.checkpoints import Answers, fit_exits
from polydom.models import compile
from polydom.models.early_exit.ensemble import Ensemble
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.linear.linear import Linear
from polydom.models.qwyc.fit_schedule import fit_margin_schedule, fit_schedule
from polydom.models.scoring.stopping_rule import margins_of
from polydom.models.selection.learners import make_learner

from .staged_sets import (
    Part,
    Problem,
    adult,
    boosting,
    reviews,
    scenes,
    thyroid,
    tumours,
)

ALPHAS = (0.0, 0.001, 0.002, 0.005, 0.01, 0.02)
CHANGES = (0.002, 0.005, 0.01, 0.02)  # at which costs are compared
DIVISIONS = {"thyroid": 5, "adult": 1, "scenes": 4, "films": 10, "tumours": 1}

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
Flags = NDArray[np.bool_]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Trained:
    """The model of some of a problem's features, seen as a sum of T base models."""

    problem: Problem
    features: tuple[int, ...]
    ensemble: Ensemble
    by_feature: bool  # its base models are the blocks of one feature's terms

    @property
    def size(self) -> int:
        """T."""
        return len(self.features) if self.by_feature else self.ensemble.size

    @property
    def starts(self) -> list[int]:
        """First column of each feature."""
        widths = [len(self.problem.columns[k]) for k in self.features]
        return [0, *np.cumsum(widths[:-1]).tolist()]

    def uses(self) -> Flags:
        """(T, K) which of its K features each base model reads."""
        if self.by_feature:
            return np.eye(self.size, dtype=bool)
        width = sum(len(self.problem.columns[k]) for k in self.features)
        uses: Flags = np.logical_or.reduceat(
            self.ensemble.uses(width), self.starts, axis=1
        )
        return uses

    def last_read(self) -> Codes:
        """(T,) place, 0 ... K - 1, of the last feature that each base model reads."""
        places: Codes = (self.uses() * np.arange(len(self.features))).max(axis=1)
        return places

    def answers(self, part: Part) -> tuple[Floats, Codes]:
        """Margins (N,) and choices (N,)."""
        X = self.problem.read(part, self.features)
        return margins_of(self.ensemble.predict_scores(X)), self.ensemble.predict(X)

    def scores(self, part: Part) -> Floats:
        """What each base model adds: (N, T), or (N, T, K) for K > 2 classes."""
        scores = self.ensemble.base_scores(self.problem.read(part, self.features))
        if self.by_feature:
            scores = np.add.reduceat(scores, self.starts, axis=1)
        return scores

    def partly(self, scores: Floats, known: int) -> tuple[Floats, Codes]:
        """Margins (N,) and choices (N,) of sums that need the first features only."""
        sums = scores[:, self.last_read() < known].sum(axis=1)
        if self.ensemble.binary:
            above = sums - self.ensemble.threshold
            return np.abs(above), (above >= 0).astype(np.int64)
        sums = sums + self.ensemble.bias
        return margins_of(sums), sums.argmax(axis=1)


def train(problem: Problem, learner: Any, features: Sequence[int]) -> Trained:
    """Fit a learner to the training rows' columns of these features."""
    from sklearn.base import clone

    X = problem.read(problem.train, features)
    ensemble = compile(clone(learner).fit(X, problem.train.y))
    linear = isinstance(ensemble.classifier.scorer, Linear)
    return Trained(problem, tuple(features), ensemble, linear)


def prefixes(problem: Problem, learner: Any, order: Sequence[int]) -> list[Trained]:
    """A model for each number of features."""
    return [train(problem, learner, order[: k + 1]) for k in range(len(order))]


def answers_of(models: Sequence[Trained], part: Part) -> Answers:
    """What each of some models answers."""
    margins, choices = zip(*(model.answers(part) for model in models), strict=True)
    return Answers(np.stack(margins, axis=1), np.stack(choices, axis=1))


class Outcome(NamedTuple):
    """Choices (N,) of fresh rows, and the steps (N, S) that each took."""

    rule: str
    alpha: float | None
    choices: Codes
    taken: Flags


class Positions(NamedTuple):
    """Where a row may stop: what is answered there, what it takes to come there."""

    held: Answers
    fresh: Answers
    costs: Floats  # (P,)
    taken: Flags  # (P, S) steps

    def outcomes(self, rule: str) -> Iterator[Outcome]:
        """Stop by margins fitted on held-out rows."""
        for alpha in ALPHAS:
            exits = fit_exits(self.held, self.costs, alpha)
            choices, at = exits.evaluate(self.fresh)
            yield Outcome(rule, alpha, choices, self.taken[at])


def between_models(models: Sequence[Trained], features: Sequence[int]) -> Positions:
    """Positions after each of the plan's features in this order, each with a model."""
    problem = models[-1].problem
    taken = problem.along(features)
    checks = problem.own * np.array([model.size for model in models])
    return Positions(
        answers_of(models, problem.held),
        answers_of(models, problem.fresh),
        np.diff(taken @ problem.costs, prepend=0) + checks,
        taken,
    )


def at_both(models: Sequence[Trained]) -> Positions:
    """Two positions after each feature but the last: the slices' sum, and the model."""
    last, each = models[-1], between_models(models, models[-1].features)
    pairs = np.repeat(np.arange(len(models)), 2)[:-1]
    own, checks = last.problem.own, np.array([model.size for model in models])
    added = np.bincount(last.last_read(), minlength=len(models))
    costs = (each.costs + own * (added - checks))[pairs]
    costs[1::2] = own * checks[:-1]

    def both(part: Part, answers: Answers) -> Answers:
        margins, choices = answers.margins[:, pairs], answers.choices[:, pairs]
        scores = last.scores(part)
        for k in range(len(models) - 1):
            margins[:, 2 * k], choices[:, 2 * k] = last.partly(scores, k + 1)
        return Answers(margins, choices)

    held, fresh = last.problem.held, last.problem.fresh
    parts = both(held, each.held), both(fresh, each.fresh)
    return Positions(*parts, costs, each.taken[pairs])


@dataclass(frozen=True, slots=True, eq=False)
class Slices:
    """The schedules of one model, which know what features cost."""

    model: Trained
    held: Floats
    fresh: Floats
    uses: Flags  # (T, S) steps

    @classmethod
    def of(cls, model: Trained) -> "Slices":
        """Evaluate all base models."""
        problem = model.problem
        needs = problem.needs[list(model.features)]
        uses = (model.uses().astype(int) @ needs.astype(int)) > 0
        return cls(model, model.scores(problem.held), model.scores(problem.fresh), uses)

    def schedule(self, alpha: float, order: Codes | None) -> Any:
        """Fit one, in this order or its own."""
        problem, ensemble = self.model.problem, self.model.ensemble
        options: Row = {
            "order": order,
            "costs": np.full(self.model.size, problem.own),
            "feature_costs": problem.costs,
            "uses": self.uses,
        }
        if ensemble.binary:
            threshold = ensemble.threshold
            return fit_schedule(self.held, threshold, alpha, threads=1, **options)
        bias = ensemble.bias
        return fit_margin_schedule(self.held, alpha, bias=bias, **options)

    def outcomes(self, rule: str, order: Codes) -> Iterator[Outcome]:
        """Stop between base models in this order."""
        taken = np.logical_or.accumulate(self.uses[order])
        for alpha in ALPHAS:
            choices, used = self.schedule(alpha, order).evaluate(self.fresh)
            yield Outcome(rule, alpha, choices.astype(np.int64), taken[used - 1])


def reordered(model: Trained, order: Codes) -> list[int]:
    """A model's features as its base models, in this order, first read them."""
    read = model.uses()[order]
    first = np.where(read.any(axis=0), read.argmax(axis=0), len(read))
    return [model.features[k] for k in np.argsort(first, kind="stable")]


def contenders(problem: Problem, learner: Any) -> Iterator[Outcome]:
    """All ways of one division; the whole plan comes first."""
    models = prefixes(problem, learner, problem.by_gain)
    choices = answers_of(models, problem.held).choices
    best = int((choices == problem.held.y[:, None]).mean(axis=0).argmax())
    models, whole = models[: best + 1], models[best]
    every = problem.along(whole.features)[-1]
    _, chosen = whole.answers(problem.fresh)
    yield Outcome("whole", None, chosen, np.tile(every, (len(chosen), 1)))
    yield from between_models(models, whole.features).outcomes("models")
    yield from at_both(models).outcomes("both")
    slices = Slices.of(whole)
    yield from slices.outcomes("slices", np.argsort(whole.last_read(), kind="stable"))
    own = slices.schedule(0.0, None).order
    yield from slices.outcomes("slices, own order", own)
    features = reordered(whole, own)
    again = [*prefixes(problem, learner, features[:-1]), whole]
    yield from between_models(again, features).outcomes("models, own order")


def learners(name: str) -> dict[str, Any]:
    """Learners of one set, whose base models read few features, or many."""
    trees = {"LightGBM, 50 rounds": boosting(50)}
    stumps = {"stumps, 200 rounds": boosting(200, num_leaves=2)}
    pairs = {"100 lattices of 2": lattices(100, 2)}
    logistic = {"logistic": make_learner("logistic", 0)}
    if name == "thyroid":
        return {**trees, **stumps, **forest(100), **pairs, **logistic}
    if name == "adult":
        eights = {"50 lattices of 8": lattices(50, 8)}
        return {**trees, **stumps, **eights, **pairs, **logistic}
    if name == "tumours":
        return {"LightGBM, 5 rounds": boosting(5)}
    if name == "scenes":
        return {"LDA": make_learner("lda", 0), **forest(60)}
    sparing = make_learner({"name": "logistic", "C": 0.01}, 0)
    return {"logistic": sparing, **trees, **stumps}


def lattices(count: int, inputs: int) -> Any:
    """Lattices, trained in fewer passes than by default."""
    return LatticeEnsembleClassifier(
        count, inputs, interpolation="simplex", epochs=5, random_state=0
    )


def forest(trees: int) -> Row:
    """A forest that is not grown to single rows."""
    spec = {"name": "forest", "n_estimators": trees, "max_depth": 10}
    return {f"forest, {trees} trees": make_learner(spec, 0)}


def load(name: str, seed: int, cache: Path) -> Problem:
    """One division of a set."""
    if name == "scenes":
        return scenes(seed, cache)
    sets = {"thyroid": thyroid, "adult": adult, "films": reviews, "tumours": tumours}
    return sets[name](seed)


def run(name: str, cache: Path) -> list[Row]:
    """Every contender on one set, by learner and rule; means over divisions."""
    problems = [load(name, seed, cache) for seed in range(DIVISIONS[name])]
    rows = []
    for title, learner in learners(name).items():
        divisions = [told(problem, learner) for problem in problems]
        whole = float(np.mean([rows[0]["mean_cost"] for rows in divisions]))
        for same in zip(*divisions, strict=True):
            keys = ("accuracy", "changed", "mean_cost")
            means = {key: float(np.mean([row[key] for row in same])) for key in keys}
            share = means["mean_cost"] / whole
            given = {"set": name, "learner": title}
            rows.append({**given, **same[0], **means, "of_whole": share})
    return rows


def told(problem: Problem, learner: Any) -> list[Row]:
    """What each rule answers for the fresh rows of one division, and what it pays."""
    fresh, outcomes = problem.fresh, list(contenders(problem, learner))
    return [
        {
            "rule": outcome.rule,
            "alpha": outcome.alpha,
            "accuracy": float(np.mean(outcome.choices == fresh.y)),
            "changed": float(np.mean(outcome.choices != outcomes[0].choices)),
            "mean_cost": float((fresh.paid * outcome.taken).sum(axis=1).mean()),
        }
        for outcome in outcomes
    ]


def at_equal_change(rows: Sequence[Row]) -> list[Row]:
    """Shares of the whole plan's cost where rules change as many decisions.

    Between two points of a rule, and from the whole plan on, a straight line is drawn;
    beyond its last, a rule takes as much as there.
    """
    curves: dict[tuple[str, ...], list[tuple[float, float]]] = {}
    for row in rows:
        if row["alpha"] is not None:
            key = row["set"], row["learner"], row["rule"]
            point = row["changed"], row["of_whole"]
            curves.setdefault(key, [(0.0, 1.0)]).append(point)
    found = []
    for (name, learner, rule), points in curves.items():
        changed, share = np.array(sorted(points)).T
        least = np.minimum.accumulate(share)
        shares = {
            f"at {change:.1%}": float(np.interp(change, changed, least))
            for change in CHANGES
        }
        found.append({"set": name, "learner": learner, "rule": rule, **shares})
    return found
