"""A race between learners, and the log of everything that was allocated to them.

A *learner* takes part as an arm: something that can be brought to an amount (examples
to train on, or iterations in total) and then says how good it has become. A *strategy*
is a function that gives amounts to arms through a `Race` until it can name a winner.
The strategies are pure functions of what the race answers, so a stored log, given
back, brings an interrupted race to where it stood without training anything again.
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
    """What one training showed.

    Attributes
    ----------
    score
        On the validation rows; larger is better, finite.
    train_score
        On the rows trained on; None where it was not measured.
    fit_s, score_s
        CPU seconds of training and of validating.
    warnings
        What the learner complained of (non-convergence, for one), each once.
    """

    score: float
    train_score: float | None = None
    fit_s: float = 0.0
    score_s: float = 0.0
    warnings: tuple[str, ...] = ()


class Arm(Protocol):
    """A learner that can be brought to an amount, again and again."""

    def __call__(self, amount: int, /) -> TrainingOutcome:
        """Bring the learner to `amount` examples or iterations in all, and validate."""


@dataclass(frozen=True, slots=True)
class Allocation:
    """One line of the log: who got how much, what it cost and what it showed.

    Attributes
    ----------
    amount
        Examples, or iterations in all, the learner now has had in one training.
    spent
        Examples or iterations this allocation was charged: all of `amount` where
        the learner starts anew each time, the difference where it carries on.
    score, train_score
        As in `TrainingOutcome`; `score` is None where training failed.
    seconds
        CPU seconds of training and validating; wall seconds until it failed.
    bound
        The strategy's upper bound on the learner's final score, where it has one.
    error
        Why training failed; empty where it did not.
    """

    learner: str
    amount: int
    spent: int
    score: float | None
    train_score: float | None = None
    seconds: float = 0.0
    fit_s: float = 0.0
    bound: float | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the line as plain data, fit for JSON."""
        return asdict(self) | {"warnings": list(self.warnings)}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "Allocation":
        """Read what `to_dict` gave; BadInput if it is nothing of the kind."""
        try:
            return cls(**{**line, "warnings": tuple(line["warnings"])})
        except (KeyError, TypeError) as error:
            raise BadInput(f"not a line of an allocation log: {error}") from error


Curve = Sequence[Allocation]
Bound = Callable[[Curve], float]


@dataclass(eq=False)
class Race:
    """Gives amounts to arms and writes down what came of it.

    Parameters
    ----------
    arms
        The learners by name, in the order in which ties are broken.
    limit
        The most that one arm can be given (the N of DAUB); None where any amount will
        do. Requests above it are cut to it.
    least
        The least that an arm is given: as many examples as there are classes, or some
        learners fail. Requests below it are raised to it.
    carries_on
        Whether an arm continues from its last amount (iterations), and is charged the
        difference, or starts anew (examples).
    best
        The best score there is; a loss is `best` minus the score.
    families
        Which family a learner is of: learners of one are alike in what they cost and
        how they learn, so that the first can stand for those not yet trained. Who is
        not in it is a family of its own.
    past
        The log of an interrupted race of the same learners, data and seed.
    progress
        Called with the race after each allocation.
    jobs
        Trainings that may run at once, where a strategy asks for several.

    Attributes
    ----------
    log
        Every allocation, in the order asked for.
    curves
        The successful allocations of each learner, in the order asked for.
    failed
        The allocation that put each failed learner out.
    spent
        Examples or iterations given so far, to all learners together.
    seconds
        CPU seconds used so far, those of a continued race included.
    left_s
        CPU seconds the strategy may still need, by its own estimate; None if unknown.
    """

    arms: Mapping[str, Arm]
    limit: int | None = None
    least: int = 1
    carries_on: bool = False
    best: float = 1.0
    families: Mapping[str, str] = field(default_factory=dict)
    past: Iterable[Allocation] = ()
    progress: "Callable[[Race], None] | None" = None
    jobs: int = 1
    log: list[Allocation] = field(init=False, default_factory=list)
    curves: dict[str, list[Allocation]] = field(init=False)
    failed: dict[str, Allocation] = field(init=False, default_factory=dict)
    spent: int = field(init=False, default=0)
    seconds: float = field(init=False, default=0.0)
    left_s: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if not self.arms:
            raise BadInput("there are no learners to choose from; at least 1 is needed")
        self.curves = {name: [] for name in self.arms}
        self._done: dict[tuple[str, int], Allocation] = {}
        self._past = {(line.learner, line.amount): line for line in self.past}
        for name, _ in self._past:
            if name not in self.arms:
                raise BadInput(f"the log to continue names {name!r}, no learner here")

    @property
    def active(self) -> list[str]:
        """The learners that have not failed; BadInput once there are none."""
        active = [name for name in self.arms if name not in self.failed]
        if not active:
            first = next(iter(self.failed.values()))
            raise BadInput(
                f"every learner failed; {first.learner!r} with: {first.error}"
            )
        return active

    def train(self, name: str, amount: int, bound: Bound | None = None) -> Allocation:
        """Bring a learner to an amount; what it has already had costs nothing again.

        An arm that carries on cannot go back: less than it has had returns its latest
        allocation. `bound` computes, from the learner's curve with the new allocation
        at its end, what the log then shows as its bound.
        """
        return self.train_all([(name, amount)], bound)[0]

    def train_all(
        self, requests: Sequence[tuple[str, int]], bound: Bound | None = None
    ) -> list[Allocation]:
        """Do as `train` does for several learners, `jobs` of them at once."""
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
        finally:  # who interrupts does not wait for trainings
            pool.shutdown(wait=False, cancel_futures=True)

    def bound(self, name: str) -> float:
        """Return the latest bound logged for a learner, infinite before the first."""
        bound = self.curves[name][-1].bound if self.curves[name] else None
        return math.inf if bound is None else bound

    def loss(self, name: str) -> float:
        """Return a learner's latest loss, infinite if it has none."""
        if name in self.failed or not self.curves[name]:
            return math.inf
        score = self.curves[name][-1].score
        assert score is not None
        return self.best - score

    def leader(self, names: Iterable[str] | None = None) -> str:
        """Return the learner with the least latest loss; of equals, the first.

        Of all that have not failed, or of those among `names` if there are any.
        """
        active = self.active
        among = active if names is None else [n for n in names if n in active]
        return min(among or active, key=self.loss)

    def unbegun(self) -> list[str]:
        """Return the first learner of each family none of whom has been trained."""
        active = self.active
        begun = {self._family(name) for name in active if self.curves[name]}
        firsts: dict[str, str] = {}
        for name in active:
            firsts.setdefault(self._family(name), name)
        return [name for family, name in firsts.items() if family not in begun]

    def like(self, name: str) -> str:
        """Return who stands for a learner: itself once trained, else one of its family.

        Itself, too, where nobody of its family has been trained.
        """
        alike = [
            other
            for other in self.active
            if self.curves[other] and self._family(other) == self._family(name)
        ]
        return name if self.curves[name] or not alike else alike[0]

    def had(self, name: str) -> int:
        """Return the amount of a learner's latest allocation, 0 before the first."""
        return self.curves[name][-1].amount if self.curves[name] else 0

    def _family(self, name: str) -> str:
        return self.families.get(name, name)

    def _possible(self, name: str, amount: int) -> int:
        if amount < 1:
            raise BadInput(f"{name!r} was to get {amount}; an amount is at least 1")
        amount = max(amount, self.least)
        if self.limit is not None:
            amount = min(amount, self.limit)
        return max(amount, self.had(name)) if self.carries_on else amount

    def _try(self, name: str, amount: int) -> Allocation:
        """Train, and return what came of it; a failure is in `error`.

        The one place where a learner's failure is caught, whatever it is: third-party
        code may raise anything, and it is to cost only that learner.
        """
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
        """Log one request: from the past if it is there, else by training."""
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
