"""Choose among learners by a race: `select` and `select_by_iterations`."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .arms import ExamplesArm, FoldsArm, IterationsArm
from .daub import daub, need_limit, train_all
from .isolation import isolated
from .knockout import knockout, plan_rounds
from .obms import dimension_of, obms
from .race import Allocation, Race
from .splits import Split, Validation, split
from .successive_halving import doubling, halvings, successive_halving, uniform
from .validation_scores import Score, find_score

Strategy = Callable[..., str]  # of a Race


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """The result of a race between learners.

    Attributes
    ----------
    name
        Chosen learner.
    model
        Fitted estimator of the chosen learner. It was fitted on the training rows of
        the split or, if `validation` is a number of folds, on all rows. None if `refit`
        is False or the fit failed (see `error`).
    score
        Latest validation score of the chosen learner; larger is better.
    amount
        Number of examples, or of iterations, of the chosen learner's last training. In
        a knockout with folds, examples of all folds together.
    log
        All trainings in order. `[line.to_dict() for line in log]` can be written as
        JSON.
    curves
        Trainings of each learner that has not failed: its learning curve, with bounds.
    failed
        Reason of each failure, by learner.
    seconds
        CPU seconds of the race.
    error
        Reason why fitting `model` failed; else empty.
    """

    name: str
    model: Any
    score: float
    amount: int
    log: tuple[Allocation, ...]
    curves: Mapping[str, tuple[Allocation, ...]]
    failed: Mapping[str, str]
    seconds: float
    error: str = ""


def halving_budget(race: Race) -> int:
    """Return N ceil(log2 n) for n learners and N examples or iterations.

    With this budget, Successive Halving trains the last remaining learners on all N.
    """
    arms = len(race.active)
    return max(need_limit(race), arms) * halvings(arms)


STRATEGIES: Mapping[str, Strategy] = {
    "knockout": knockout,
    "daub": daub,
    "obms": obms,
    "all": train_all,
    "uniform": lambda race: uniform(race, budget=halving_budget(race)),
    "halving": lambda race: successive_halving(race, budget=halving_budget(race)),
    "doubling": lambda race: doubling(race, budget=halving_budget(race)),
}
FROM_ONE = ("doubling",)  # strategies that begin with one pull, for iterations only
OF_EXAMPLES = ("obms",)  # strategies for examples only


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """How to run a race: processes, log and time limit.

    Only `limit_s` can change the result of a race. Raises BadInput if `jobs` or
    `limit_s` is not above 0.

    Attributes
    ----------
    log
        Log of an interrupted selection with the same arguments, as dicts
        (`Allocation.to_dict`). Its trainings are not repeated.
    progress
        Function called with the race after each training: `race.log[-1]` is the newest
        line. An exception that the function raises ends the race.
    jobs
        Number of worker processes. With more than 1, trainings that a strategy requests
        together run in parallel. With 1 and no `limit_s`, all trainings run in this
        process. Without `limit_s`, a learner that cannot be pickled also trains in this
        process.
    limit_s
        Maximum wall seconds of one training. A training that takes longer is killed,
        and its learner is out of the race, as is a learner that cannot be pickled. If
        the final fit of the winner takes longer, the result has no model.
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
    strategy: str | Strategy = "knockout",
    measure: str | Score = "accuracy",
    validation: Validation = 0.3,
    scored: int | None = 0,
    least_valid: int | None = None,
    refit: bool = True,
    seed: int = 0,
    weights: NDArray[np.float64] | None = None,
    counts: NDArray[np.float64] | None = None,
    running: Running = IN_THIS_PROCESS,
) -> Selection:
    """Choose a good learner at a fraction of the cost of training all learners.

    Parameters
    ----------
    learners
        Unfitted scikit-learn estimators by name; of equal learners, the first wins.
    X, y
        (N, D) rows and (N,) targets.
    strategy
        Rule that decides which learner is trained next, and on how many examples: a
        name in `STRATEGIES`, or any function of a race, such as a strategy with other
        parameters (`partial(daub, ratio=2.0)`).
    measure
        Name in `validation_scores.SCORES`, or a `Score`. Targets are numbers for "r2"
        (1 - squared error / squared error of the mean, at least 0), "mae" (1 - absolute
        error / absolute error of the median, at least 0) and "squared_error". For all
        other names, targets are classes.
    validation
        Share of the rows to hold out, number of folds, validation rows (X, y), or a
        list of pairs: the training rows and the validation rows of each fold, as
        positions in X. A knockout trains on one fold first, and on the other folds at
        the end; all other strategies train on all folds each time.
    scored
        Number of training rows on which the training score is computed: None for all
        rows, 0 for no training score. OBMS and DAUB's published bound use training
        scores; DAUB without them is without this bound.
    least_valid
        A training on n examples is validated on the first max(least_valid, 4 n)
        validation rows, in random order; None for all rows. 2,000 makes the first
        trainings of a race much cheaper.
    refit
        True to return the winner's fitted estimator.
    seed
        Seed of the split, the order of rows and the learners. The same seed, rows and
        learners give the same result each time. Only "obms" looks at measured seconds.
    weights, counts
        (N,) weights of the rows: `weights` for fitting the learners that take any, and
        `counts` for validation scores. None if all rows count alike.
    running
        Processes, time limit and log of the race.

    Raises
    ------
    BadInput
        If there are no learners, the strategy is unknown or needs iterations, y holds
        one class, the validation rows hold a class that the training rows lack, a
        parameter is out of range, the log is of another selection, or every learner
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
    allocate, found = find_strategy(strategy), find_score(measure)
    splits = split(
        X,
        y,
        validation=validation,
        labels=found.labels,
        seed=seed,
        weights=weights,
        counts=counts,
    )
    every = Split(X, y, X[:0], y[:0], weights) if len(splits) > 1 else None
    rule = getattr(allocate, "func", allocate)  # without the parameters of a partial
    in_turn = rule is knockout
    limit, columns = min(len(part.y) for part in splits), splits[0].X.shape[1]
    classes = max(len(np.unique(part.y)) for part in splits) if found.labels else 1
    folds = len(splits) if in_turn else 1
    if in_turn:
        rounds = plan_rounds(limit, columns, classes if classes > 2 else 1, folds)
        allocate = partial(allocate, rounds=rounds)
    elif rule is obms:
        sized = {
            n: dimension_of(learners[n], limit, columns, classes) for n in learners
        }
        allocate = partial(allocate, dimensions=sized)
    arm = partial(
        ExamplesArm,
        measure=found,
        seed=seed,
        scored=scored,
        least_valid=least_valid,
        every=every,
        keeps=refit,
    )
    arms: dict[str, Any] = {
        name: FoldsArm([arm(learner, [part]) for part in splits], limit)
        if in_turn
        else arm(learner, splits)
        for name, learner in learners.items()
    }
    race = partial(Race, limit=limit * folds, least=classes, best=found.best)
    return _run(race, arms, allocate, running, refit=refit)


def select_by_iterations(
    learners: Mapping[str, Any],
    X: NDArray[Any],
    y: NDArray[Any],
    iterations: int,
    *,
    strategy: str | Strategy = "knockout",
    measure: str | Score = "accuracy",
    validation: float | tuple[NDArray[Any], NDArray[Any]] = 0.3,
    batch: int | None = None,
    scored: int | None = 0,
    seed: int = 0,
    running: Running = IN_THIS_PROCESS,
) -> Selection:
    """Choose a learner by training on all rows with a growing number of iterations.

    Parameters
    ----------
    learners
        Unfitted estimators by name, with `partial_fit` (an iteration trains one batch),
        or with `warm_start` and `n_estimators` or `max_iter` (an iteration raises that
        parameter by one).
    iterations
        Largest number of iterations of a learner.
    batch
        Number of rows per iteration of a learner with `partial_fit`; None for all rows.
    X, y, strategy, measure, scored, seed, running
        As for `select`.
    validation
        As for `select`, but not a number of folds.

    Raises
    ------
    BadInput
        As for `select`, and if a learner cannot be trained by iterations.
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
    in_processes = running.jobs > 1 or running.limit_s is not None
    placing = (
        isolated(arms, jobs=running.jobs, limit_s=running.limit_s)
        if in_processes
        else nullcontext(arms)
    )
    with placing as placed:
        race = start(
            placed,
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
        error=error,
    )


def _fitted(arm: Any, amount: int) -> tuple[Any, str]:
    try:
        return arm.model(amount), ""
    except Exception as error:  # a learner may raise any exception
        return None, f"{type(error).__name__}: {error}"


def find_strategy(name: str | Strategy, *, iterations: bool = False) -> Strategy:
    """Return the strategy of a name; a function is returned unchanged.

    Raises BadInput if the name is unknown, or if the strategy only works with
    iterations and `iterations` is False, or the other way round.
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
    if name in OF_EXAMPLES and iterations:
        raise BadInput(f"strategy {name!r} divides examples; it is not for iterations")
    return STRATEGIES[name]
