"""DAUB by measured seconds: what a training costs and can still win is extrapolated.

DAUB counts examples and assumes that cost grows at least linearly with them. Today's
learners break that: histogram boosting costs nearly as much on 500 rows as on 15,000,
an ensemble has a price before its first row, and the ladder of refits then costs more
than it saves. Here a training has to be worth its seconds, and of those that are, the
one that may win most per second comes next.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..features.errors import BadInput
from .allocation import Allocation, Curve, Race
from .daub import need_limit, slope, train_all, whole

FIRST_SHARE, FIRST_LEAST, FIRST_MOST = 1 / 1000, 50, 500  # of N; examples
WORTH_RACING = 2000  # examples; below, first trainings cost nearly what full ones do
LEAST_ERROR = 1e-4  # below any validation set's resolution; keeps logarithms finite
NEARLY_ALL = 0.6  # a rung above this share of N teaches what N itself would
SHORTEST_STEP = 1.5  # times the last examples; less would teach too little
PEERS = 8  # finished curves needed before they say what any curve can gain
FIRST_COST_POWER = 0.7  # of n; small trainings cost more than their share
SHORT_S = 1.0  # nobody minds a race of so many seconds twice as long
ASLEEP = 0.05  # of the way from chance to perfect; below, nothing has been learnt yet


def daub_by_seconds(
    race: Race,
    *,
    worth: float = 0.015,
    delta: float = 0.0,
    granularity: int | None = None,
    growth: float = 4.0,
    peer_factor: float = 1.3,
    look_share: float = 0.03,
) -> str:
    """Choose a learner by bounds on its final score and by measured seconds.

    Every learner is trained once on `granularity` examples. From then on, a learner's
    *gain* is what it may be expected to win over the best score seen plus `delta`, were
    its score at N anywhere between its last one and its bound with equal chances. It is
    a *rival* if its gain exceeds what the seconds to get to N are worth: were the race
    to take twice as long for it, `worth`, and in proportion. Less than a
    second counts as one. The rival with the largest
    gain per second is trained next, on as many examples as `growth` times its last cost
    should pay for: so a learner's trainings cost a geometric series whatever the shape
    of its cost curve, and one that is hardly dearer on N examples goes there at once.
    Without rivals, the leader is trained on all N and, if it then still leads, is the
    answer.

    The bound is the lesser of two: the learner's own last fall of log error over log
    n, carried on to N, which bounds errors of the form a n^-b + c; and `peer_factor`
    times the steepest fall of log error from n to N among the learners that have been
    trained on N, once there are eight. A learner that is still about as good as chance
    has no bound, since curves may rise late, as on parities: its gain is a quarter of
    all that is left to win, as if it woke in one case of two and then came anywhere
    between the best and perfection. While all are asleep the cheapest training comes
    next. Curves need not keep to any of this, so a share of the seconds goes to the
    cheapest trainings that the bounds rule out.

    Parameters
    ----------
    race
        With `limit` set to N. Its `chance`, where it has one, says who is asleep.
    worth
        What a doubling of the seconds must be expected to win, in units of the score,
        >= 0; 0 counts no seconds.
    delta
        By how much any rival's bound must exceed the best score, >= 0.
    granularity
        Examples of the first training; None for N / 1000, but 50 to 500, and for
        training every learner on everything where N is below 2,000: a race then
        costs as much.
    growth
        How much dearer a learner's next training may be than its last, > 1.
    peer_factor
        How much more than any finished learner another may gain, > 0.
    look_share
        Share of all seconds that may go to trainings the bounds rule out, >= 0.

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
    shares = worth >= 0 and delta >= 0 and look_share >= 0  # and no NaN among them
    if not (shares and growth > 1 and peer_factor > 0):
        raise BadInput(
            f"worth {worth}, delta {delta}, growth {growth}, peer_factor "
            f"{peer_factor}, look_share {look_share}; they must be >= 0, >= 0, > 1, "
            "> 0 and >= 0"
        )
    if granularity is None and limit < WORTH_RACING:
        return train_all(race)
    first = granularity
    if first is None:
        share = whole(limit * FIRST_SHARE)
        first = min(max(share, FIRST_LEAST), FIRST_MOST, limit)
    if not 1 <= first <= limit:
        raise BadInput(f"granularity is {first}; it must be in 1..{limit}")

    hunt = _Hunt(race, limit, worth, delta, growth, peer_factor)
    race.train_all([(name, first) for name in race.active], hunt.bound)
    looks_s = 0.0
    while True:
        rivals = hunt.rivals()
        race.left_s = hunt.left_s(rivals)
        if rivals:
            name = max(rivals, key=hunt.gain_per_second)
            race.train(name, hunt.next_amount(name), hunt.bound)
        elif race.had(leader := race.leader()) < limit:
            race.train(leader, limit, hunt.bound)
        elif name := hunt.cheapest(look_share * race.seconds - looks_s):
            looks_s += race.train(name, hunt.next_amount(name), hunt.bound).seconds
        else:
            return leader


@dataclass(frozen=True, slots=True)
class _Hunt:
    """The rules of `daub_by_seconds`, read off the curves of the race so far."""

    race: Race
    limit: int
    worth: float
    delta: float
    growth: float
    peer_factor: float

    def rivals(self) -> list[str]:
        """Name the learners that may still win by what is asked of them."""
        best = self.best_score()
        return [
            name
            for name in self.unfinished()
            if self.gain(name, best) > self.price(name)
        ]

    def gain(self, name: str, best: float) -> float:
        """Return what a learner is expected to win over `best` + delta.

        The mean, over scores at N from its last one up to its bound, of what they are
        better: bounds are seldom reached, so one that is just better is worth little.
        """
        curve = self.race.curves[name]
        score = curve[-1].score
        assert score is not None
        rise, behind = self.bound(curve) - score, best + self.delta - score
        if self.asleep(score):
            return max(rise - behind, 0.0) / 4  # its score says nothing yet
        return (rise - behind) ** 2 / (2 * rise) if rise > behind else 0.0

    def price(self, name: str) -> float:
        """Return the gain that makes a learner worth its seconds on N."""
        spent_s = max(self.race.seconds, SHORT_S)
        return self.worth * self.full_cost_s(name) / spent_s

    def full_cost_s(self, name: str) -> float:
        curve = self.race.curves[name]
        if len(curve) > 1:
            return cost_at(curve, self.limit)
        share = self.limit / curve[-1].amount
        return curve[-1].seconds * math.pow(share, FIRST_COST_POWER)

    def cheapest(self, allowed_s: float) -> str:
        """Name the learner with the cheapest next training, if it is cheap enough."""
        looks = [(self.next_cost_s(name), name) for name in self.unfinished()]
        cost_s, name = min(looks, default=(math.inf, ""))
        return name if cost_s <= allowed_s else ""

    def unfinished(self) -> list[str]:
        race = self.race
        return [name for name in race.active if race.had(name) < self.limit]

    def best_score(self) -> float:
        return self.race.best - self.race.loss(self.race.leader())

    def gain_per_second(self, name: str) -> float:
        """Return what may be won per second: equal gains while all are asleep."""
        best, cost_s = self.best_score(), self.next_cost_s(name)
        gain = 1.0
        if not self.asleep(best):
            gain = self.gain(name, best)
        return gain / cost_s if cost_s else math.inf

    def next_cost_s(self, name: str) -> float:
        return cost_at(self.race.curves[name], self.next_amount(name))

    def next_amount(self, name: str) -> int:
        """Give the most examples that `growth` times the last cost should pay for."""
        curve = self.race.curves[name]
        had, payable_s = curve[-1].amount, self.growth * curve[-1].seconds
        low, high = min(had + 1, self.limit), self.limit
        while low < high:
            middle = (low + high + 1) // 2
            if cost_at(curve, middle) <= payable_s:
                low = middle
            else:
                high = middle - 1
        amount = max(low, whole(had * SHORTEST_STEP))
        return amount if amount < NEARLY_ALL * self.limit else self.limit

    def asleep(self, score: float) -> bool:
        """Say whether a score is about that of answering without looking."""
        chance, best = self.race.chance, self.race.best
        return chance is not None and score - chance < ASLEEP * (best - chance)

    def bound(self, curve: Curve) -> float:
        """Bound the final score by the learner's own slope and by its peers' gains."""
        had, score = curve[-1].amount, curve[-1].score
        assert score is not None
        if had >= self.limit:
            return score
        if self.asleep(score):
            return self.race.best
        fall = self.peer_factor * self.peer_fall(had)
        if len(curve) > 1:
            logs = [math.log(line.amount) for line in curve[-3:]]
            rate = slope(logs, [-self.log_error(line) for line in curve[-3:]])
            fall = min(fall, max(rate, 0.0) * math.log(self.limit / had))
        return self.race.best - math.exp(self.log_error(curve[-1]) - fall)

    def peer_fall(self, amount: int) -> float:
        """Return the steepest fall of log error from `amount` to N seen so far."""
        falls = [
            self.log_error_at(curve, amount) - self.log_error(curve[-1])
            for name, curve in self.race.curves.items()
            if name not in self.race.failed
            and self.race.had(name) == self.limit
            and curve[0].amount <= amount
        ]
        return max(max(falls), 0.0) if len(falls) >= PEERS else math.inf

    def log_error(self, line: Allocation) -> float:
        assert line.score is not None
        return math.log(max(self.race.best - line.score, LEAST_ERROR))

    def log_error_at(self, curve: Curve, amount: int) -> float:
        """Read a curve between its points: straight on log-log axes."""
        right = next(k for k, line in enumerate(curve) if line.amount >= amount)
        if curve[right].amount == amount:
            return self.log_error(curve[right])
        before, after = curve[right - 1], curve[right]
        share = math.log(amount / before.amount) / math.log(
            after.amount / before.amount
        )
        return self.log_error(before) * (1 - share) + self.log_error(after) * share

    def left_s(self, rivals: Sequence[str]) -> float:
        """Estimate the seconds to go, were each rival and the leader fully trained."""
        names = {self.race.leader(), *rivals}
        curves = [self.race.curves[name] for name in names]
        return sum(
            cost_at(curve, self.limit)
            for curve in curves
            if curve[-1].amount < self.limit
        )


def cost_at(curve: Curve, amount: int) -> float:
    """Extrapolate the seconds a training on `amount` examples will take.

    Linear through one point and the origin, or through two; three give the marginal
    cost per example a power of n, between n^-1 and n^1. A marginal cost never falls
    below a tenth of the mean cost per example.
    """
    points = [(line.amount, line.seconds) for line in curve[-3:]]
    n, seconds = points[-1]
    if len(points) == 1:
        return seconds * amount / n
    middle, marginal = _marginal(points[-2], points[-1])
    power = 0.0
    if len(points) == 3:
        earlier, cheaper = _marginal(points[0], points[1])
        if marginal > 0 and cheaper > 0:
            power = math.log(marginal / cheaper) / math.log(middle / earlier)
            power = min(max(power, -1.0), 1.0)
    at_n = marginal * math.pow(n / middle, power) * n
    ratio = amount / n
    if power == -1.0:
        return seconds + at_n * math.log(ratio)
    return seconds + at_n * (math.pow(ratio, power + 1) - 1) / (power + 1)


def _marginal(
    before: tuple[int, float], after: tuple[int, float]
) -> tuple[float, float]:
    """Half-way examples between two points, and the seconds per example there."""
    (n0, s0), (n1, s1) = before, after
    return (n0 + n1) / 2, max((s1 - s0) / (n1 - n0), 0.1 * s1 / n1)
