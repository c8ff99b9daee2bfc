"""A race by measured seconds: the best expected gain per second trains next.

A learner with score s after a training on n of N examples has the error 1 - s, if 1 is
the best possible score, and the log error e = log(1 - s). The learner's own earlier
errors hardly help to predict its error at N. It is predicted from the falls of other
learners' log errors between n and N.

*Fall.* fall_j is the log error of learner j at n minus its log error at N. The expected
fall is the mean over the k learners that were trained on N. Its variance also counts
`FEW` imaginary learners. The error of an imaginary learner is a power of n, and the
exponents have the standard deviation `spread`::

    variance = (sum of (fall_j - mean)^2 + FEW (spread log(N / n))^2) / (k + FEW - 1)

*Gain.* The log error at N is assumed to have a logistic distribution, as some learners
fall much more than most. Its mean m is e minus the expected fall, and its scale d
follows from the variance. Let B be the smallest error of any learner. Then the expected
amount by which the learner's error at N is below B is::

    G = B (1 - exp(-d log(1 + exp z))),    z = (log B - m) / d

*Next.* A learner may train if G > worth T / S. T is the time of its training on all N
(`cost_at`), and S is the total time of the first trainings. Of these learners, the one
with the largest G per second of its next training is trained. Until `FEW` learners (or
half of all, if fewer) were trained on N, G is unknown, and the learner with the
cheapest next training is trained. If scores are unbounded, errors are measured in units
of the median loss at the start.

*Step.* A learner's next training takes at most `GROWTH` times the seconds of its last.
The number of examples grows at most by the factor `FAR`, until three trainings show how
the cost grows.

*End.* The whole race, including the leader's training on N, takes at most the share
`SAFE` of the time that halving by 3 would take at the costs seen so far. In halving by
3, all learners train on N / 3^r examples, then the third of them with the smallest
expected errors at N trains on three times as many, and so on. A race may always take
`SHORT_S` seconds, or `STAY` times the seconds of the first trainings. At the end the
leader trains on N. If it still leads, the race returns it.

*Variants.* At the start only the first learner of each family is trained. The others
wait until no trained learner is worth another training. Until a learner is trained, the
results of its family's first trained learner are its estimates.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from polydom.features.errors import BadInput

from .daub import need_limit
from .race import Allocation, Curve, Race

BEGIN = 50  # examples of first trainings: boosting needs more than 40 for a first split
FEW = 5  # falls are known once this many learners have had N; the mean of fewer is poor
GROWTH = 4  # with it, all trainings of a learner cost at most 4/3 of the last training
FAR = 8  # largest growth in examples: two points of a cost curve mislead further away
THIRD = 3  # factor of the halving whose time limits a race
SAFE = 0.9  # below 1, as the limit is extrapolated and a last training may take longer
SHORT_S = 1.0  # a race this short, in CPU seconds, needs no limit
STAY = 3  # a race may take this many times its first trainings, which say little
LEAST_ERROR = 1e-4  # smaller errors do not show in validation; keeps logarithms finite

Points = Sequence[tuple[int, float]]  # numbers of examples, and CPU seconds to train
Fall = tuple[float, float]  # mean and deviation of a log error's fall from n to N
Falls = Mapping[int, Fall | None]  # falls by n; None if too few learners have had N


def gain_per_second(race: Race, *, worth: float = 0.00075, spread: float = 0.07) -> str:
    """Return the learner with the best score, trained on all N examples.

    The learner with the largest expected gain per second trains next, as described at
    the top of this module. `worth` >= 0 is the gain in score that is worth the total
    seconds of the first trainings. `spread` > 0 is the standard deviation, between
    learners, of the exponent with which the error falls as examples grow. Raises
    BadInput if every learner fails.
    """
    limit = need_limit(race)
    if not (worth >= 0 and 0 < spread < math.inf):  # refuses NaN, too
        raise BadInput(f"worth {worth}, spread {spread}; they must be >= 0 and > 0")
    first = min(BEGIN, max(limit // 2, 1))
    race.train_all([(name, first) for name in race.unbegun()])
    rule = _Rule(race, limit, worth, spread, race.seconds, _unit(race))
    while True:
        if new := race.unbegun():  # all trained learners of some family have failed
            race.train_all([(name, first) for name in new])
            continue
        steps = rule.steps(begun=True)
        leader = race.leader()
        finished = race.had(leader) == limit
        if not steps and finished:
            steps = rule.steps(begun=False)
        race.left_s = rule.left_s(steps)
        if steps:
            best = max(steps, key=lambda step: step.rate)
            race.train(best.name, best.amount)
        elif not finished:
            race.train(leader, next_amount(rule.points(leader), limit))
        else:
            return leader


@dataclass(frozen=True, slots=True)
class _Step:
    name: str
    amount: int
    gain: float
    seconds: float

    @property
    def rate(self) -> tuple[float, float]:
        """Sort key of steps: the gain per second, then the cheaper step."""
        rate = self.gain / self.seconds if self.seconds > 0 else math.inf
        return rate, -self.seconds


@dataclass(frozen=True, slots=True)
class _Rule:
    """The module's rules for one race: which learners may train, and at what cost."""

    race: Race
    limit: int
    worth: float
    spread: float
    begin_s: float
    unit: float

    def steps(self, *, begun: bool) -> list[_Step]:
        """Return the possible next trainings whose gain is worth their seconds.

        If `begun`, these are trainings of learners that have been trained before, else
        first trainings.
        """
        unspent_s, least, falls = self.unspent_s(), self._least_error(), self._falls()
        steps = []
        for name in self.race.active:
            if bool(self.race.curves[name]) != begun or not self._open(name):
                continue
            step, full_s = self._step(name, least, falls)
            needed = self.worth * self.unit * full_s
            worthwhile = step.gain * self.begin_s > needed or self.begin_s == 0
            if step.gain > 0 and worthwhile and step.seconds <= unspent_s:
                steps.append(step)
        return steps

    def unspent_s(self) -> float:
        """Return the seconds left after those that the leader needs to train on N."""
        leader = self.race.leader()
        own_s = 0.0 if self.race.had(leader) == self.limit else self._full_s(leader)
        least_s = max(STAY * self.begin_s + own_s, SHORT_S)
        allowed_s = max(SAFE * self._halving_s(), least_s)
        return allowed_s - self.race.seconds - own_s

    def _halving_s(self) -> float:
        """Estimate the seconds of halving by 3, at the costs seen so far."""
        falls = self._falls()
        arms = sorted(self.race.active, key=lambda name: self._expected(name, falls))
        rounds = 1 + math.floor(math.log(len(arms), THIRD) + 1e-9)
        total_s = 0.0
        for left in reversed(range(rounds)):
            amount = max(self.limit // THIRD**left, 1)
            total_s += sum(cost_at(self.points(name), amount) for name in arms)
            arms = arms[: math.ceil(len(arms) / THIRD)]
        return total_s

    def _expected(self, name: str, falls: Falls) -> float:
        """Return a learner's expected log error at N: the latest minus the fall."""
        line = self.race.curves[self.race.like(name)][-1]
        if line.amount == self.limit:
            return self._log_error(line)
        fall = falls[line.amount]
        return self._log_error(line) - (fall[0] if fall else 0.0)

    def left_s(self, steps: Sequence[_Step]) -> float:
        """Estimate the remaining seconds if all learners of `steps` train on all N."""
        full_s = {step.name: self._full_s(step.name) for step in steps}
        leader = self.race.leader()
        own_s = 0.0 if self.race.had(leader) == self.limit else self._full_s(leader)
        others_s = sum(full_s.values()) - full_s.get(leader, 0.0)
        return own_s + min(others_s, max(self.unspent_s(), 0.0))

    def points(self, name: str) -> Points:
        """Return (examples, CPU seconds) of each training of a learner.

        For an untrained learner, these are the trainings of a learner of its family.
        """
        return measured(self.race, self.race.like(name))

    def _open(self, name: str) -> bool:
        curve = self.race.curves[self.race.like(name)]
        return curve[0].amount < self.limit and self.race.had(name) < self.limit

    def _full_s(self, name: str) -> float:
        return cost_at(self.points(name), self.limit)

    def _step(self, name: str, least: float, falls: Falls) -> tuple[_Step, float]:
        """Return a learner's next training, and the seconds to train it on all N."""
        points = self.points(name)
        curve = self.race.curves[self.race.like(name)]
        before = [line for line in curve if line.amount < self.limit][-1]
        if self.race.curves[name]:
            amount = next_amount(points, self.limit)
            seconds = cost_at(points, amount)
        else:
            amount = before.amount
            seconds = next(s for n, s in points if n == amount)
        if self.race.carries_on and self.race.curves[name]:
            seconds -= points[-1][1]
        fall = falls[before.amount]
        gain = expected_gain(self._log_error(before), fall, least)
        return _Step(name, amount, gain, seconds), cost_at(points, self.limit)

    def _least_error(self) -> float:
        return max(self.race.loss(self.race.leader()), LEAST_ERROR * self.unit)

    def _falls(self) -> Falls:
        curves = self.race.curves.values()
        amounts = {line.amount for curve in curves for line in curve}
        return {n: self._fall(n) for n in amounts if n < self.limit}

    def _fall(self, amount: int) -> Fall | None:
        """Return (mean, deviation) of the falls of log errors from `amount` to N.

        Returns None if too few learners have been trained on N.
        """
        curves = [
            curve
            for name, curve in self.race.curves.items()
            if name not in self.race.failed
            and self.race.had(name) == self.limit
            and curve[0].amount <= amount
        ]
        if len(curves) < min(FEW, (len(self.race.arms) + 1) // 2):
            return None
        falls = [
            self._log_error_at(curve, amount) - self._log_error(curve[-1])
            for curve in curves
        ]
        mean = sum(falls) / len(falls)
        squares = sum((fall - mean) ** 2 for fall in falls)
        prior = FEW * (self.spread * math.log(self.limit / amount)) ** 2
        return mean, math.sqrt((squares + prior) / (len(falls) + FEW - 1))

    def _log_error(self, line: Allocation) -> float:
        assert line.score is not None
        return math.log(max(self.race.best - line.score, LEAST_ERROR * self.unit))

    def _log_error_at(self, curve: Curve, amount: int) -> float:
        """Return the log error of a learning curve at `amount` examples.

        Between two trainings, it is interpolated linearly on log-log axes.
        """
        right = next(k for k, line in enumerate(curve) if line.amount >= amount)
        if curve[right].amount == amount:
            return self._log_error(curve[right])
        before, after = curve[right - 1], curve[right]
        share = math.log(amount / before.amount) / math.log(
            after.amount / before.amount
        )
        return self._log_error(before) * (1 - share) + self._log_error(after) * share


def _unit(race: Race) -> float:
    """Return the unit of errors: 1 if scores are bounded, else the median loss."""
    losses = [race.loss(name) for name in race.active if race.curves[name]]
    return 1.0 if race.best > 0 or not losses else median(losses) or 1.0


def expected_gain(log_error: float, fall: Fall | None, least: float) -> float:
    """Return the expected amount by which the error at N is below `least`.

    This is G in the module docstring, with `least` = B. It is infinite if `fall` is
    None.
    """
    if fall is None:
        return math.inf
    mean, scale = log_error - fall[0], fall[1] * math.sqrt(3) / math.pi
    below = (math.log(least) - mean) / scale
    soft = below if below > 30 else math.log1p(math.exp(below))
    return least * -math.expm1(-scale * soft)


def measured(race: Race, name: str) -> Points:
    """Return each training of a learner as (amount, CPU seconds from scratch)."""
    points, total_s = [], 0.0
    for line in race.curves[name]:
        total_s = total_s + line.seconds if race.carries_on else line.seconds
        points.append((line.amount, total_s))
    return points


def next_amount(points: Points, limit: int) -> int:
    """Return the number of examples of the next training: at least twice the last.

    It is at most `limit`, that is N.
    """
    n, seconds = points[-1]
    slope = _slope(points)
    payable = n + (GROWTH - 1) * seconds / slope if slope > 0 else math.inf
    top = limit if len(points) > 2 else min(FAR * n, limit)
    amount = int(min(max(payable, 2 * n), top))
    return limit if top == limit and 2 * amount > limit else amount


def cost_at(points: Points, amount: int) -> float:
    """Estimate the CPU seconds to train a learner from scratch on `amount` examples.

    The estimate is linear between two trainings, and beyond the last along the line
    through the last two. Beyond a single training, it grows with the square root of the
    number of examples; below the first training it is constant.
    """
    n, seconds = points[-1]
    if amount <= n:
        amounts, times = zip(*points, strict=True)
        return float(np.interp(amount, amounts, times))
    if len(points) == 1:
        return seconds * math.sqrt(amount / n)
    return seconds + _slope(points) * (amount - n)


def _slope(points: Points) -> float:
    (n0, s0), (n1, s1) = points[-2] if len(points) > 1 else (0, 0.0), points[-1]
    return max((s1 - s0) / (n1 - n0), 0.0)
