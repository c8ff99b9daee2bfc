"""Tuning of a learner's settings by Successive Halving, until the time is up.

The first training is that of the learner's own setting, as it would be without tuning.
Then brackets of Successive Halving (SH, Figure 3) follow, each of `ARMS` settings that
are drawn at random, the first with the own setting among them. A pull is an iteration
of the learner or, for a learner without iterations, a training row. The best score
wins, at whatever number of iterations it was reached; of a learner without iterations,
only trainings on all rows count.

Settings depend on the seed alone. The clock only ends the rounds: the seconds are those
of the log, so a repetition from the log ends at the same training.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass

import numpy as np

from polydom.features.errors import BadInput

from .arms import Clock, ExamplesArm, last_step
from .isolation import isolated
from .learners import Task, make_learner
from .portfolio import Setting
from .race import Allocation, Race, TrainingOutcome
from .settings_space import Space, draw_setting, space_of
from .splits import Split
from .successive_halving import halvings, successive_halving
from .validation_scores import Score

ARMS = 16  # settings of a bracket
BRACKETS = 64  # brackets at most: a thousand settings
OWN = "own setting"


class TimeUp(Exception):
    """Raised after the training that used up the time of tuning."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """The result of tuning: the best setting, and all trainings."""

    name: str  # What was drawn of the best setting, as a text
    setting: Setting
    score: float
    seconds: float  # Seconds of all trainings, divided by those that ran at a time
    by_iterations: bool  # True if amounts are iterations, False if they are rows
    log: tuple[Allocation, ...]


@dataclass(eq=False)
class SettingArm:
    """An arm that trains one setting for some iterations, or on some of the rows.

    Each training begins anew: with twice the amount in each round, all trainings of an
    arm cost at most twice the last.
    """

    setting: Setting
    iterations: str | None
    splits: Sequence[Split]
    measure: Score
    task: Task
    seed: int
    now: Clock = time.monotonic

    def __call__(self, amount: int) -> TrainingOutcome:
        """Train on every fold; return the mean scores and the total seconds."""
        rows = amount if self.iterations is None else _rows(self.splits)
        learner = make_learner(self.at(amount), self.seed, self.task)
        arm = ExamplesArm(
            learner,
            self.splits,
            self.measure,
            self.seed,
            scored=0,
            keeps=False,
            now=self.now,
        )
        return arm(rows)

    def at(self, amount: int) -> Setting:
        """Return the setting with its number of iterations."""
        if self.iterations is None:
            return self.setting
        return {**self.setting, self.iterations: amount}


def tune(
    setting: Setting,
    splits: Sequence[Split],
    measure: Score,
    *,
    task: Task,
    seed: int,
    tune_s: float,
    fixed: bool = True,
    past: Iterable[Allocation] = (),
    progress: Callable[[Race, float], object] = lambda race, spent_s: None,
    jobs: int = 1,
    now: Clock = time.monotonic,
) -> Tuned:
    """Return the best setting that is found in `tune_s` seconds.

    These are the wall seconds of all trainings, divided by `jobs`, the number of
    trainings at a time. Parameters of `setting` stay as they are if `fixed` is true;
    `space_of` has the others. `past` is the log of an earlier call with the same
    arguments, `tune_s` apart. Its trainings count with the seconds that they took.
    `progress` gets the race and the seconds spent, after each training. `now` is a
    clock, in seconds. Raises BadProject if nothing can be tuned, and BadInput if every
    training fails.
    """
    space = space_of(setting if fixed else {"name": setting["name"]})
    counted, most = space.iterations or (None, _rows(splits))
    classes = len(np.unique(splits[0].y)) if measure.labels else 1
    brackets = [
        {
            name: SettingArm(one, counted, splits, measure, task, seed, now)
            for name, one in bracket.items()
        }
        for bracket in _draw_brackets(setting, space, seed)
    ]
    arms = {name: arm for bracket in brackets for name, arm in bracket.items()}
    known, log, spent_s = list(past), list[Allocation](), 0.0

    def watch(race: Race) -> None:
        nonlocal spent_s
        log.append(race.log[-1])
        spent_s += race.log[-1].seconds / jobs
        progress(race, spent_s)
        if spent_s >= tune_s:
            raise TimeUp

    placing = isolated(arms, jobs=jobs) if jobs > 1 else nullcontext(arms)
    with placing as placed, suppress(TimeUp):
        for number, bracket in enumerate(brackets):
            race = Race(
                {name: placed[name] for name in bracket},
                limit=most,
                least=1 if counted else classes,
                carries_on=counted is not None,
                best=measure.best,
                past=[line for line in known if line.learner in bracket],
                progress=watch,
                jobs=jobs,
            )
            if number == 0:
                race.train(OWN, _own_amount(setting, counted, most, task))
            successive_halving(race, budget=_budget(len(bracket), most))
    whole = most if counted is None else 0
    return _best(log, arms, least=whole, spent_s=spent_s)


def _draw_brackets(
    setting: Setting, space: Space, seed: int
) -> list[dict[str, Setting]]:
    """Draw the settings of all brackets; the own setting is the first of all."""
    rng = np.random.default_rng([seed, 7])
    brackets: list[dict[str, Setting]] = []
    for bracket in range(BRACKETS):
        drawn = {} if bracket else {OWN: setting}
        while len(drawn) < ARMS:
            text, one = draw_setting(setting, space, rng)
            drawn[f"{bracket * ARMS + len(drawn)}: {text}"] = one
        brackets.append(drawn)
    return brackets


def _rows(splits: Sequence[Split]) -> int:
    return min(len(part.y) for part in splits)


def _own_amount(setting: Setting, counted: str | None, most: int, task: Task) -> int:
    """Return the iterations of the learner's own setting, or all rows."""
    if counted is None:
        return most
    own = last_step(make_learner(setting, 0, task)).get_params()[counted]
    return min(int(own), most)


def _budget(arms: int, most: int) -> int:
    """Return the pulls of a bracket whose last arms get `most` pulls each.

    In each of R rounds, B / R pulls are shared by the arms that are left.
    """
    rounds = halvings(arms)
    shares = sum(arms // max(arms >> done, 1) for done in range(rounds))
    return math.ceil(most / shares) * arms * rounds


def _best(
    log: Sequence[Allocation],
    arms: Mapping[str, SettingArm],
    *,
    least: int,
    spent_s: float,
) -> Tuned:
    """Return the training with the best score, of those of at least `least` pulls."""
    found = [(line.score, line) for line in log if line.score is not None]
    found = [(score, line) for score, line in found if line.amount >= least]
    if not found:
        first = next(line for line in log if line.error)
        raise BadInput(f"every setting failed; {first.learner!r} with: {first.error}")
    score, best = max(found, key=lambda pair: pair[0])  # of equals the first
    setting = arms[best.learner].at(best.amount)
    counted = arms[best.learner].iterations is not None
    return Tuned(best.learner, setting, score, spent_s, counted, tuple(log))
