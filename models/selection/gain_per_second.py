"""A race by measured seconds: who may be expected to win most per second comes next.

DAUB counts examples and assumes that cost grows at least linearly with them. But
learners differ more than a hundredfold in what a training costs, and many cost nearly
as much on 50 rows as on 5,000. Here cheap learners are trained on everything at once,
which shows how errors fall on these data; dear ones only if they are likely to win.

The rule
--------
A learner that has had n of N examples with score s has the log error e = log(1 - s),
where 1 stands for the best score there is. Its own slope says next to nothing about
what the rest will bring, but what the others' log errors fell by between n and N does.

*Fall.* Its mean is that of the k learners that have had N. Its variance is theirs, with
`FEW` more learners added that differ as powers of n do whose exponents have the
deviation `spread`::

    variance = (sum of (fall_j - mean)^2 + FEW (spread log(N / n))^2) / (k + FEW - 1)

*Gain.* Were it logistic (some learners fall much more than most), with m the mean of a
learner's log error at N, d its scale and B the least error of any learner, the log
error is expected to come below log B by d log(1 + exp z), and the error below B by::

    G = B (1 - exp(-d log(1 + exp z))),    z = (log B - m) / d

*Next.* The largest G per second of its next training comes next, of those with
G > worth T / S, where T is what its training on all N will take (`cost_at`) and S what
it took to begin. Until `FEW` learners have had N, the cheapest training comes next. A
measure without end, such as the squared error, is counted in its median at the start.

*Step.* A learner's next training takes at most `GROWTH` times as long as its last, by
the line through its last two, and has at most `FAR` times the examples, unless three
trainings show how its cost grows. So one flat stretch is not taken for a flat curve.

*End.* All of it, with what the leader still needs to have all N, takes at most the
share `SAFE` of what halving by 3 would by the costs seen so far: all learners on
N / 3^r examples, the third of them with the least expected errors at N on three times
as many, and so on. But `SHORT_S`, and `STAY` times what it took to begin, are always
allowed, so that a race in which beginning is dear does not end there. The leader is
then trained on N and, if it still leads, is the answer.

*Variants.* Of learners of one family only the first begins. The others wait until
nobody else is worth training; until then each counts as what its first was before N.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from polydom.features.errors import BadInput

from .daub import need_limit
from .race import Allocation, Curve, Race

BEGIN = 50  # examples of first trainings: boosting needs more than 40 for its first cut
FEW = 5  # learners that have had N before any is judged by them: a mean of fewer strays
GROWTH = 4  # so that a learner's trainings together cost at most 4/3 of its last
FAR = 8  # times the examples seen: further, two points of a cost curve mislead
THIRD = 3  # of the halving that no race is to be slower than
# Of its seconds: they are extrapolated, and the last training may take longer.
SAFE = 0.9
SHORT_S = 1.0  # a race that nobody minds
STAY = 3  # times the seconds to begin: who began on 50 examples has shown little
LEAST_ERROR = 1e-4  # no validation set tells less from 0, and logarithms are finite

# Examples in all, and the seconds from nothing to them.
Points = Sequence[tuple[int, float]]
Fall = tuple[float, float]  # of a log error on the way to N: mean and deviation


def gain_per_second(race: Race, *, worth: float = 0.00075, spread: float = 0.07) -> str:
    """Choose a learner by what each may be expected to win per second.

    The rule is at the top of this module.

    Parameters
    ----------
    race
        With `limit` set to N.
    worth
        What seconds as many as it took to begin must be expected to win, in units of
        the score (of its median at the start, where it does not end at 1), >= 0; 0
        counts no seconds.
    spread
        Deviation of the powers of n that learners' errors fall by, > 0.

    Returns
    -------
    str
        A learner that was trained on all N examples.

    Raises
    ------
    BadInput
        If a parameter is out of range or every learner fails.
    """
    limit = need_limit(race)
    if not (worth >= 0 and 0 < spread < math.inf):  # and no NaN
        raise BadInput(f"worth {worth}, spread {spread}; they must be >= 0 and > 0")
    first = min(BEGIN, max(limit // 2, 1))
    race.train_all([(name, first) for name in race.unbegun()])
    rule = _Rule(race, limit, worth, spread, race.seconds, _unit(race))
    while True:
        if new := race.unbegun():  # all that began of a family have failed
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
    """A training that may be worth its seconds."""

    name: str
    amount: int
    gain: float
    seconds: float

    @property
    def rate(self) -> tuple[float, float]:
        """Gain per second, and what is cheaper first where gains are unknown."""
        rate = self.gain / self.seconds if self.seconds > 0 else math.inf
        return rate, -self.seconds


@dataclass(frozen=True, slots=True)
class _Rule:
    """Who may still win, at what price."""

    race: Race
    limit: int
    worth: float
    spread: float
    begin_s: float
    unit: float

    def steps(self, *, begun: bool) -> list[_Step]:
        """List the next trainings that are worth their seconds.

        Of learners that have begun, or of those that wait.
        """
        unspent_s, least = self.unspent_s(), self._least_error()
        falls: dict[int, Fall | None] = {}
        steps = []
        for name in self.race.active:
            if bool(self.race.curves[name]) != begun or not self._open(name):
                continue
            step, full_s = self._step(name, least, falls)
            price_s = self.worth * self.unit * full_s
            worthwhile = step.gain * self.begin_s > price_s or self.begin_s == 0
            if step.gain > 0 and worthwhile and step.seconds <= unspent_s:
                steps.append(step)
        return steps

    def unspent_s(self) -> float:
        """Return the seconds that may go to others than the leader."""
        leader = self.race.leader()
        own_s = 0.0 if self.race.had(leader) == self.limit else self._full_s(leader)
        least_s = max(STAY * self.begin_s + own_s, SHORT_S)
        allowed_s = max(SAFE * self._halving_s(), least_s)
        return allowed_s - self.race.seconds - own_s

    def _halving_s(self) -> float:
        """Estimate what halving by 3 would take, were expected errors its order.

        Not the standing: who has had N stands above the dear, which have had little.
        """
        falls: dict[int, Fall | None] = {}
        arms = sorted(self.race.active, key=lambda name: self._expected(name, falls))
        rounds = 1 + math.floor(math.log(len(arms), THIRD) + 1e-9)
        total_s = 0.0
        for left in reversed(range(rounds)):
            amount = max(self.limit // THIRD**left, 1)
            total_s += sum(cost_at(self.points(name), amount) for name in arms)
            arms = arms[: math.ceil(len(arms) / THIRD)]
        return total_s

    def _expected(self, name: str, falls: dict[int, Fall | None]) -> float:
        """Return the log error that is expected at N, as far as falls are known."""
        line = self.race.curves[self.race.like(name)][-1]
        if line.amount == self.limit:
            return self._log_error(line)
        fall = self._known_fall(line.amount, falls)
        return self._log_error(line) - (fall[0] if fall else 0.0)

    def left_s(self, steps: Sequence[_Step]) -> float:
        """Estimate the seconds to go, were every such step taken to the end."""
        full_s = {step.name: self._full_s(step.name) for step in steps}
        leader = self.race.leader()
        own_s = 0.0 if self.race.had(leader) == self.limit else self._full_s(leader)
        others_s = sum(full_s.values()) - full_s.get(leader, 0.0)
        return own_s + min(others_s, max(self.unspent_s(), 0.0))

    def points(self, name: str) -> Points:
        """Return what a learner's trainings cost, its first's where it has none."""
        return measured(self.race, self.race.like(name))

    def _open(self, name: str) -> bool:
        curve = self.race.curves[self.race.like(name)]
        return curve[0].amount < self.limit and self.race.had(name) < self.limit

    def _full_s(self, name: str) -> float:
        return cost_at(self.points(name), self.limit)

    def _step(
        self,
        name: str,
        least: float,
        falls: dict[int, Fall | None],
    ) -> tuple[_Step, float]:
        """Return a learner's next training, and the seconds it needs for N."""
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
        fall = self._known_fall(before.amount, falls)
        gain = expected_gain(self._log_error(before), fall, least)
        return _Step(name, amount, gain, seconds), cost_at(points, self.limit)

    def _least_error(self) -> float:
        return max(self.race.loss(self.race.leader()), LEAST_ERROR * self.unit)

    def _known_fall(self, amount: int, falls: dict[int, Fall | None]) -> Fall | None:
        if amount not in falls:
            falls[amount] = self._fall(amount)
        return falls[amount]

    def _fall(self, amount: int) -> Fall | None:
        """Return mean and deviation of falls from `amount` to N, None if unknown."""
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
        """Read a curve between its points: straight on log-log axes."""
        right = next(k for k, line in enumerate(curve) if line.amount >= amount)
        if curve[right].amount == amount:
            return self._log_error(curve[right])
        before, after = curve[right - 1], curve[right]
        share = math.log(amount / before.amount) / math.log(
            after.amount / before.amount
        )
        return self._log_error(before) * (1 - share) + self._log_error(after) * share


def _unit(race: Race) -> float:
    """Return what scores are counted in: 1 for those that end at 1."""
    losses = [race.loss(name) for name in race.active if race.curves[name]]
    return 1.0 if race.best > 0 or not losses else median(losses) or 1.0


def expected_gain(log_error: float, fall: Fall | None, least: float) -> float:
    """Return by how much an error is expected to come below `least`: G.

    Parameters
    ----------
    log_error
        Of the learner now.
    fall
        Mean and deviation, > 0, of what it will fall by; None for unknown, which
        may win anything.
    least
        The error to come below, > 0.
    """
    if fall is None:
        return math.inf
    mean, scale = log_error - fall[0], fall[1] * math.sqrt(3) / math.pi
    below = (math.log(least) - mean) / scale
    soft = below if below > 30 else math.log1p(math.exp(below))
    return least * -math.expm1(-scale * soft)


def measured(race: Race, name: str) -> Points:
    """Return what a learner's trainings cost, from nothing to each amount."""
    points, total_s = [], 0.0
    for line in race.curves[name]:
        total_s = total_s + line.seconds if race.carries_on else line.seconds
        points.append((line.amount, total_s))
    return points


def next_amount(points: Points, limit: int) -> int:
    """Return the examples of a learner's next training, of `limit` in all.

    At most `GROWTH` times as dear as its last; but twice the examples are always
    allowed, and at most `FAR` times while it has had fewer than three trainings. From
    more than half of N it goes to N.
    """
    n, seconds = points[-1]
    slope = _slope(points)
    payable = n + (GROWTH - 1) * seconds / slope if slope > 0 else math.inf
    top = limit if len(points) > 2 else min(FAR * n, limit)
    amount = int(min(max(payable, 2 * n), top))
    return limit if top == limit and 2 * amount > limit else amount


def cost_at(points: Points, amount: int) -> float:
    """Tell the seconds from nothing to `amount` examples: read, or extrapolated.

    Between two trainings by the line through them, and so beyond the last two. Beyond a
    single one as the square root of n, half-way between a cost that does not grow and
    one in proportion. Before the first they are as many as for it.
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
