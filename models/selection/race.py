"""A race between learners, and the log of all trainings.

An *arm* is a function that trains a learner and returns its score. Its argument, the
*amount*, is a number of examples or a total number of iterations. A *strategy* is a
function that asks a `Race` for trainings until it can name a winner. A strategy depends
only on the results. So an interrupted race can continue from its stored log without
repeating a training.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

from polydom.features.errors import BadInput


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """Scores, times and warnings of one training."""

    score: float  # Score on the validation rows; larger is better, finite
    train_score: float | None = None  # Score on the training rows; None if not measured
    # `fit_s` and `score_s`: seconds of training and of validating, by the arm's clock:
    # processor time where learners are compared, wall time where one is tuned
    fit_s: float = 0.0
    score_s: float = 0.0
    # Distinct warnings of the learner, such as non-convergence
    warnings: tuple[str, ...] = ()


class Arm(Protocol):
    """A function that trains one learner of a race on more and more examples."""

    def __call__(self, amount: int, /) -> TrainingOutcome:
        """Train on `amount` examples, or for `amount` iterations in total."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """One line of the log of a race: a training of a learner, its cost and result."""

    learner: str
    amount: int  # Examples of this training, or total iterations after it
    # Examples or iterations charged: `amount` if each training starts anew, the added
    # amount if trainings continue
    spent: int
    # `score` and `train_score`: scores as in `TrainingOutcome`; `score` is None after a
    # failure
    score: float | None
    train_score: float | None = None
    # `fit_s` and `score_s` of `TrainingOutcome`; if it failed, wall seconds until then
    seconds: float = 0.0
    fit_s: float = 0.0
    # The strategy's upper bound on the learner's final score; None if not computed
    bound: float | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""  # Reason of the failure; empty after a success

    def to_dict(self) -> dict[str, Any]:
        """Return this line of the log as a dict that can be written as JSON."""
        return asdict(self) | {"warnings": list(self.warnings)}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "Allocation":
        """Make a line from a result of `to_dict`; raise BadInput for any other dict."""
        try:
            return cls(**{**line, "warnings": tuple(line["warnings"])})
        except (KeyError, TypeError) as error:
            raise BadInput(f"not a line of an allocation log: {error}") from error


Curve = Sequence[Allocation]
Bound = Callable[[Curve], float]


@dataclass(eq=False)
class Race:
    """Trains learners as a strategy asks, and logs the results.

    Of equal learners, the first wins.

    Attributes
    ----------
    arms
        Function that trains each learner, by the learner's name.
    limit, least
        Largest and smallest amount (number of examples or iterations) of a training.
        Other amounts are clipped.
    carries_on
        True if an arm continues from its last amount (iterations), and is charged only
        the difference. False if each training starts anew (examples).
    best
        Score of a perfect learner. A learner's loss is this number minus its score.
    past
        Log of an interrupted race of the same learners, data and seed.
    progress
        Function called after each training.
    jobs
        Largest number of trainings that run at the same time.
    """

    arms: Mapping[str, Arm]
    limit: int | None = None
    least: int = 1
    carries_on: bool = False
    best: float = 1.0
    past: Iterable[Allocation] = ()
    progress: "Callable[[Race], None] | None" = None
    jobs: int = 1
    # All allocations, in the order of the requests
    log: list[Allocation] = field(init=False, default_factory=list)
    # Successful allocations of each learner, in the order of the requests
    curves: dict[str, list[Allocation]] = field(init=False)
    # Failed allocation of each learner that is out of the race
    failed: dict[str, Allocation] = field(init=False, default_factory=dict)
    # Examples or iterations charged to all learners together
    spent: int = field(init=False, default=0)
    # CPU seconds used so far, including those of the continued race
    seconds: float = field(init=False, default=0.0)

    def __post_init__(self) -> None:
        if not self.arms:
            raise BadInput("there are no learners to choose from; at least 1 is needed")
        self.curves = {name: [] for name in self.arms}
        self._done: dict[tuple[str, int], Allocation] = {}
        # Lines of the past log are used if the strategy asks for the same training.
        self._past = {(line.learner, line.amount): line for line in self.past}
        for name, _ in self._past:
            if name not in self.arms:
                raise BadInput(f"the log to continue names {name!r}, no learner here")

    @property
    def active(self) -> list[str]:
        """Learners without a failed training; raises BadInput if there are none."""
        active = [name for name in self.arms if name not in self.failed]
        if not active:
            first = next(iter(self.failed.values()))
            raise BadInput(
                f"every learner failed; {first.learner!r} with: {first.error}"
            )
        return active

    def train(self, name: str, amount: int, bound: Bound | None = None) -> Allocation:
        """Train a learner on an amount, and return the training's line of the log.

        If the learner was trained on this amount before, the old line is returned.
        `bound` is a function that computes an upper bound on the final score from the
        learning curve; the line stores it.
        """
        return self.train_all([(name, amount)], bound)[0]

    def train_all(
        self, requests: Sequence[tuple[str, int]], bound: Bound | None = None
    ) -> list[Allocation]:
        """Train several learners as `train` does, up to `jobs` at the same time."""
        pairs = [(name, self._possible(name, amount)) for name, amount in requests]
        new = [
            pair
            for pair in dict.fromkeys(pairs)
            if pair not in self._done
            and pair not in self._past
            and pair[0] not in self.failed
        ]
        if self.jobs == 1 or len(new) < 2:
            return [self._write(*pair, self._try, bound) for pair in pairs]
        pool = ThreadPoolExecutor(self.jobs)
        try:
            begun = {pair: pool.submit(self._try, *pair) for pair in new}
            return [
                self._write(*pair, lambda *pair: begun[pair].result(), bound)
                for pair in pairs
            ]
        finally:  # after an interrupt, do not wait for trainings
            pool.shutdown(wait=False, cancel_futures=True)

    def bound(self, name: str) -> float:
        """Return a learner's latest bound; infinity if no bound was computed."""
        bound = self.curves[name][-1].bound if self.curves[name] else None
        return math.inf if bound is None else bound

    def loss(self, name: str) -> float:
        """Return the loss of a learner after its latest training.

        The loss is infinity for a learner that is untrained or has failed.
        """
        if name in self.failed or not self.curves[name]:
            return math.inf
        score = self.curves[name][-1].score
        assert score is not None
        return self.best - score

    def leader(self, names: Iterable[str] | None = None) -> str:
        """Return the learner with the smallest loss, of `names` or, if None, of all."""
        active = self.active
        among = active if names is None else [n for n in names if n in active]
        return min(among or active, key=self.loss)

    def had(self, name: str) -> int:
        """Return the examples or iterations of a learner's last training; 0 if none."""
        return self.curves[name][-1].amount if self.curves[name] else 0

    def _possible(self, name: str, amount: int) -> int:
        if amount < 1:
            raise BadInput(f"{name!r} was to get {amount}; an amount is at least 1")
        amount = max(amount, self.least)
        if self.limit is not None:
            amount = min(amount, self.limit)
        return max(amount, self.had(name)) if self.carries_on else amount

    def _try(self, name: str, amount: int) -> Allocation:
        """Train a learner, and return a line for the log, even for a failure."""
        spent = amount - self.had(name) if self.carries_on else amount
        start = time.perf_counter()
        try:
            outcome = self.arms[name](amount)
            error = "" if math.isfinite(outcome.score) else f"score {outcome.score}"
        except Exception as exception:
            error = f"{type(exception).__name__}: {exception}"
        if error:
            wasted_s = time.perf_counter() - start
            return Allocation(name, amount, spent, None, seconds=wasted_s, error=error)
        return Allocation(
            learner=name,
            amount=amount,
            spent=spent,
            score=outcome.score,
            train_score=outcome.train_score,
            seconds=outcome.fit_s + outcome.score_s,
            fit_s=outcome.fit_s,
            warnings=outcome.warnings,
        )

    def _write(
        self,
        name: str,
        amount: int,
        train: Callable[[str, int], Allocation],
        bound: Bound | None,
    ) -> Allocation:
        """Return the line of a training; add it to the log if it is not there yet.

        A new line comes from the past log or, if that does not have it, from `train`.
        """
        done = self.failed.get(name) or self._done.get((name, amount))
        if done is not None:
            return done
        line = self._past.pop((name, amount), None) or train(name, amount)
        if line.error:
            self.failed[name] = line
        else:
            curve = self.curves[name]
            curve.append(line)
            if bound is not None:
                curve[-1] = line = replace(line, bound=bound(curve))
        self._done[name, amount] = line
        self.log.append(line)
        self.spent += line.spent
        self.seconds += line.seconds
        if self.progress is not None:
            self.progress(self)
        return line
