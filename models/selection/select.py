"""Choose a learner: the small interface over races, strategies and measures."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .arms import ExamplesArm, IterationsArm, last_step
from .daub import daub, need_limit, train_all
from .gain_per_second import cost_at, gain_per_second, measured
from .isolation import isolated
from .race import Allocation, Race
from .splits import Split, split
from .successive_halving import doubling, halvings, successive_halving, uniform
from .validation_scores import Score, find_score

Strategy = Callable[[Race], str]


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """What a race between learners came to.

    Attributes
    ----------
    name
        The chosen learner.
    model
        Its fitted estimator: on the training rows of the division, or on all rows
        where k folds were used. None where it was not asked for, and where that
        training failed; see `error`.
    score
        Its validation score; larger is better.
    amount
        Examples, or iterations, the chosen learner was trained on.
    log
        Every allocation in order; `[line.to_dict() for line in log]` is plain data.
    curves
        Each learner's allocations, learning curve and bounds in one; no failed ones.
    failed
        Why a learner is out, by name.
    seconds
        CPU seconds of the race.
    full_s
        CPU seconds that training every learner once on everything would take: measured
        where the race did it, extrapolated where not.
    error
        Why there is no model; empty where there is one.
    """

    name: str
    model: Any
    score: float
    amount: int
    log: tuple[Allocation, ...]
    curves: Mapping[str, tuple[Allocation, ...]]
    failed: Mapping[str, str]
    seconds: float
    full_s: float
    error: str = ""


def usual_budget(race: Race) -> int:
    """Return N ceil(log2 n), a budget with which halving's last arms come to N."""
    arms = len(race.active)
    return max(need_limit(race), arms) * halvings(arms)


STRATEGIES: Mapping[str, Strategy] = {
    "gain-per-second": gain_per_second,
    "daub": daub,
    "all": train_all,
    "uniform": lambda race: uniform(race, budget=usual_budget(race)),
    "halving": lambda race: successive_halving(race, budget=usual_budget(race)),
    "doubling": lambda race: doubling(race, budget=usual_budget(race)),
}
FROM_ONE = ("doubling",)
MANY = 10  # classes of learners that make a portfolio, of which some suffice to begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How a race is run; nothing in it decides who wins.

    Attributes
    ----------
    log
        The log of an interrupted selection with the same arguments, as plain data;
        nothing in it is trained again.
    progress
        Called with the race after every allocation: `race.log[-1]` is the newest line,
        `race.left_s` an estimate of the seconds to go. What it raises interrupts.
    jobs
        Worker processes. With more than 1, trainings a strategy asks for at once run
        side by side; with 1 and no `limit_s`, everything runs in this process. So does
        a learner that cannot be pickled, unless there is a `limit_s`.
    limit_s
        Wall seconds a single training may take before it is stopped and its learner
        out; trainings then run in a process of their own, and a learner that cannot be
        pickled is out. The winner's last training has so long, too: one that fails
        costs the model, not the result.

    Raises
    ------
    BadInput
        If `jobs` or `limit_s` is not above 0.
    """

    log: Iterable[Mapping[str, Any]] = ()
    progress: Callable[[Race], None] | None = None
    jobs: int = 1
    limit_s: float | None = None

    def __post_init__(self) -> None:
        if self.jobs < 1 or not (self.limit_s is None or self.limit_s > 0):
            raise BadInput(
                f"jobs is {self.jobs} and limit_s {self.limit_s}; both must be "
                "greater than 0"
            )


IN_THIS_PROCESS = Running()


def select(
    learners: Mapping[str, Any],
    X: NDArray[Any],
    y: NDArray[Any],
    *,
    strategy: str | Strategy = "gain-per-second",
    measure: str | Score = "accuracy",
    validation: float | int | tuple[NDArray[Any], NDArray[Any]] = 0.3,
    scored: int | None = 0,
    least_valid: int | None = None,
    refit: bool = True,
    seed: int = 0,
    running: Running = IN_THIS_PROCESS,
) -> Selection:
    """Choose a near-optimal learner for a fraction of the cost of training them all.

    Parameters
    ----------
    learners
        Unfitted scikit-learn estimators by name; ties go to the one named first. Of
        ten classes or more, the first of each begins, and stands for its others.
    X, y
        (N, D) rows and (N,) targets.
    strategy
        What allocates examples: a name in `STRATEGIES`, or any function of a race, such
        as one of those with its parameters filled in (`partial(daub, ratio=2.0)`).
    measure
        A name in `scores.SCORES`, or a score of one's own. Targets are numbers by
        "r2" (1 - squared error / that of the mean, not below 0), "mae" (1 - absolute
        error / that of the median, not below 0) and "squared_error", classes by all
        others.
    validation
        A share to hold out, a number of folds, or (X, y) to validate on.
    scored
        How many rows trained on give the training score, which DAUB's published bound
        uses: None for all of them, 0 for no training score.
    least_valid
        Validate a training on n examples on the first max(least_valid, 4 n) validation
        rows, drawn fairly; None for always all. 2,000 makes the first trainings of a
        race much cheaper.
    refit
        Whether the winner's fitted estimator is wanted.
    seed
        Of the division, the draws and the learners. With the same seed and learners,
        strategies that count examples repeat themselves exactly; `gain_per_second`
        does so as far as the measured seconds do, or the log of an earlier run does.
    running
        Where trainings run, for how long, and what they continue.

    Raises
    ------
    BadInput
        If there are no learners, the strategy is unknown or needs iterations, y holds
        one class, the validation rows hold a class the training rows do not, a
        parameter is out of range, the log is another selection's, or every learner
        fails.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.dummy import DummyClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> select({"dummy": DummyClassifier(), "bayes": GaussianNB()}, X, y).name
    'bayes'
    """
    allocate = find_strategy(strategy)
    found = find_score(measure)
    splits = split(X, y, validation=validation, labels=found.labels, seed=seed)
    every = Split(X, y, X[:0], y[:0]) if len(splits) > 1 else None
    arms = {
        name: ExamplesArm(
            learner,
            splits,
            found,
            seed=seed,
            scored=scored,
            least_valid=least_valid,
            every=every,
        )
        for name, learner in learners.items()
    }
    limit = min(len(part.y) for part in splits)
    least = max(len(np.unique(part.y)) for part in splits) if found.labels else 1
    race = partial(Race, limit=limit, least=least, best=found.best)
    return _run(race, arms, allocate, running, refit=refit)


def select_by_iterations(
    learners: Mapping[str, Any],
    X: NDArray[Any],
    y: NDArray[Any],
    iterations: int,
    *,
    strategy: str | Strategy = "gain-per-second",
    measure: str | Score = "accuracy",
    validation: float | tuple[NDArray[Any], NDArray[Any]] = 0.3,
    batch: int | None = None,
    scored: int | None = 0,
    seed: int = 0,
    running: Running = IN_THIS_PROCESS,
) -> Selection:
    """Choose among learners that carry on: iterations on all rows are what is given.

    Parameters
    ----------
    learners
        Estimators with `partial_fit` (an iteration is one batch), or with `warm_start`
        and `n_estimators` or `max_iter` (an iteration is one of those).
    iterations
        The most that a learner may get.
    batch
        Rows per iteration of a learner with `partial_fit`; None for all of them.
    X, y, strategy, measure, validation, scored, seed, running
        As for `select`; without folds.

    Raises
    ------
    BadInput
        As for `select`, and if a learner cannot carry on.
    """
    allocate = find_strategy(strategy, iterations=True)
    found = find_score(measure)
    splits = split(X, y, validation=validation, labels=found.labels, seed=seed)
    if len(splits) > 1 or iterations < 1:
        raise BadInput(
            f"{iterations} iterations on {len(splits)} division(s); at least 1 "
            "iteration and a single division are needed"
        )
    arms = {
        name: IterationsArm(learner, splits[0], found, batch, seed, scored)
        for name, learner in learners.items()
    }
    race = partial(Race, limit=iterations, carries_on=True, best=found.best)
    return _run(race, arms, allocate, running)


def _run(
    start: Callable[..., Race],
    arms: Mapping[str, Any],
    allocate: Strategy,
    running: Running,
    *,
    refit: bool = True,
) -> Selection:
    """Run a race where it is to run: in this process, or in processes of their own."""
    in_processes = running.jobs > 1 or running.limit_s is not None
    placing = (
        isolated(arms, jobs=running.jobs, limit_s=running.limit_s)
        if in_processes
        else nullcontext(arms)
    )
    with placing as placed:
        race = start(
            placed,
            families=_families(arms),
            past=[Allocation.from_dict(line) for line in running.log],
            progress=running.progress,
            jobs=running.jobs,
        )
        name = allocate(race)
        model, error = None, ""
        if refit:
            model, error = _fitted(placed[name], race.had(name))
    latest = race.curves[name][-1]
    assert latest.score is not None
    return Selection(
        name=name,
        model=model,
        score=latest.score,
        amount=latest.amount,
        log=tuple(race.log),
        curves={
            name: tuple(race.curves[name]) for name in race.active if race.curves[name]
        },
        failed={name: line.error for name, line in race.failed.items()},
        seconds=race.seconds,
        full_s=_full_seconds(race),
        error=error,
    )


def _families(arms: Mapping[str, Any]) -> Mapping[str, str]:
    """Learners of one class are a family, in a portfolio of many classes.

    A few classes in many settings are a search for settings: these are not alike.
    """
    classes = {
        name: type(last_step(arm.learner)).__name__ for name, arm in arms.items()
    }
    return classes if len(set(classes.values())) >= MANY else {}


def _fitted(arm: Any, amount: int) -> tuple[Any, str]:
    """Return the winner's model, or None and why not: the race is not lost by it."""
    try:
        return arm.model(amount), ""
    except Exception as error:  # the learner's own, whatever it is
        return None, f"{type(error).__name__}: {error}"


def find_strategy(name: str | Strategy, *, iterations: bool = False) -> Strategy:
    """Return a strategy by its name; a function is one itself.

    Raises
    ------
    BadInput
        If there is none of that name (it lists those there are), or it begins with one
        pull and examples are to be given.
    """
    if not isinstance(name, str):
        return name
    if name not in STRATEGIES:
        raise BadInput(f"no strategy {name!r}; known: {', '.join(STRATEGIES)}")
    if name in FROM_ONE and not iterations:
        raise BadInput(
            f"strategy {name!r} begins with a single pull, and nothing can be learnt "
            "from one example; it is for iterations"
        )
    return STRATEGIES[name]


def _full_seconds(race: Race) -> float:
    """Estimate the CPU seconds of giving every learner the race's limit, once.

    One that was never trained counts as one of its family.
    """
    assert race.limit is not None
    points = [measured(race, race.like(name)) for name in race.active]
    return sum(cost_at(one, race.limit) for one in points if one)
