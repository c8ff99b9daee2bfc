"""DAUB by measured seconds: what a training costs and can still win is extrapolated.

DAUB counts examples and assumes that cost grows at least linearly with them. Histogram
boosting costs nearly as much on 500 rows as on 15,000, and a ladder of refits then
costs more than it saves. Here a training has to be worth its seconds, and of those that
are, the one that may win most per second comes next.

The rule
--------
Let a learner have had n of N examples, with score s and log error e(n) = log(1 - s),
where 1 stands for the best score there is. Let T(n) be the seconds of its training on n
examples, extrapolated where not measured (`cost_at`), m the best score of any learner
plus `delta`, and S the seconds of the race so far.

*Bound.* Its score at N is at most::

    B = 1 - exp(e(n) - min(own, peers))
    own   = log(N / n) * the fall of its e per log n, by its last three points
    peers = peer_factor * the largest e_j(n) - e_j(N) of any j that has had N

The first holds for errors of the form a n^-b + c. It needs two points of the learner's
curve, the second `peers_needed` learners that have had N.

*Gain.* What it is expected to win over m, were its score at N anywhere between s and B
with equal chances: bounds are seldom reached, so one that is just better is worth
little::

    G = (B - m)^2 / (2 (B - s))        if B > m, else 0

A learner is *asleep* while s is about that of answering without looking. Curves may
rise late, as on parities, so it has no bound, and is taken to wake in one case of two
and then to come anywhere between m and 1::

    G = (1 - m) / 4

*Price.* It is a *rival* if G exceeds what the seconds to get to N are worth: `worth`
for a race that would take twice as long by it, and in proportion::

    G > worth * T(N) / max(S, short_s)

*Next.* The rival with the largest G / T(n') gets n' examples, the most with::

    T(n') <= growth * T(n)

So a learner's trainings cost a geometric series whatever the shape of its cost curve,
and one that is hardly dearer on N examples goes there at once. While all are asleep
the cheapest training comes next. Without rivals the leader is trained on N and, if it
then still leads, is the answer. Curves need not keep to any of this, so `look_share` of
the seconds goes to the cheapest trainings that the bounds rule out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from polydom.features.errors import BadInput

from .daub import need_limit, slope, train_all, whole
from .race import Allocation, Curve, Race


@dataclass(frozen=True, slots=True)
class Constants:
    """What the rule takes for granted, beside the parameters of `daub_by_seconds`.

    Reasoned are `least_error`, `short_s` and `worth_racing`; the others were tried on
    the recordings of `bench_selection`, whose results are therefore not fresh.
    """

    # Examples of the first training: a share of N, within limits.
    first_share: float = 1 / 1000
    first_least: int = 50
    first_most: int = 500
    # Below it every learner gets all: first trainings cost nearly what full ones do.
    worth_racing: int = 2000
    # Less counts as it: no validation set tells it from 0, and logarithms are finite.
    least_error: float = 1e-4
    # Least growth of the examples from one training to the next, as DAUB's r.
    shortest_step: float = 1.5
    # A training on more than this share of N teaches what one on N would.
    nearly_all: float = 0.6
    # Learners that have had N before they say what any other can gain.
    peers_needed: int = 8
    # Of n, in the seconds of a learner trained once.
    first_cost_power: float = 0.7
    # Nobody minds a race of so many seconds twice as long.
    short_s: float = 1.0
    # Share of the way from chance to the best score where nothing is learnt yet.
    asleep: float = 0.05


CONSTANTS = Constants()


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

    The rule is at the top of this module.

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
        no race at all where N is below 2,000.
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
    if granularity is None and limit < CONSTANTS.worth_racing:
        return train_all(race)
    first = first_amount(limit) if granularity is None else granularity
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


def first_amount(limit: int) -> int:
    """Examples of the first training, of `limit` in all."""
    share = whole(limit * CONSTANTS.first_share)
    return min(max(share, CONSTANTS.first_least), CONSTANTS.first_most, limit)


@dataclass(frozen=True, slots=True)
class _Hunt:
    """Who may still win, at what price, and who comes next."""

    race: Race
    limit: int
    worth: float
    delta: float
    growth: float
    peer_factor: float

    def rivals(self) -> list[str]:
        """List the learners that may still win by what is asked of them."""
        best = self._best_score()
        return [
            name
            for name in self._unfinished()
            if self.gain(name, best) > self.price(name)
        ]

    def gain(self, name: str, best: float) -> float:
        """Return what a learner is expected to win over `best` + delta: G."""
        curve = self.race.curves[name]
        score = curve[-1].score
        assert score is not None
        rise = self.bound(curve) - score
        behind = best + self.delta - score
        if self.asleep(score):
            return max(rise - behind, 0.0) / 4
        return (rise - behind) ** 2 / (2 * rise) if rise > behind else 0.0

    def price(self, name: str) -> float:
        """Return the gain that makes a learner worth its seconds on N."""
        spent_s = max(self.race.seconds, CONSTANTS.short_s)
        return self.worth * full_cost_s(self.race.curves[name], self.limit) / spent_s

    def gain_per_second(self, name: str) -> float:
        """Return what may be won per second: equal gains while all are asleep."""
        best, cost_s = self._best_score(), self._next_cost_s(name)
        gain = 1.0 if self.asleep(best) else self.gain(name, best)
        return gain / cost_s if cost_s else math.inf

    def next_amount(self, name: str) -> int:
        """Return the examples of a learner's next training: n', or N if near it."""
        curve = self.race.curves[name]
        had, payable_s = curve[-1].amount, self.growth * curve[-1].seconds
        low, high = min(had + 1, self.limit), self.limit
        while low < high:
            middle = (low + high + 1) // 2
            if cost_at(curve, middle) <= payable_s:
                low = middle
            else:
                high = middle - 1
        amount = max(low, whole(had * CONSTANTS.shortest_step))
        return amount if amount < CONSTANTS.nearly_all * self.limit else self.limit

    def cheapest(self, allowed_s: float) -> str:
        """Return the learner with the cheapest next training, "" if it is too dear."""
        looks = [(self._next_cost_s(name), name) for name in self._unfinished()]
        cost_s, name = min(looks, default=(math.inf, ""))
        return name if cost_s <= allowed_s else ""

    def left_s(self, rivals: Sequence[str]) -> float:
        """Estimate the seconds to go, were each rival and the leader fully trained."""
        names = {self.race.leader(), *rivals}
        curves = [self.race.curves[name] for name in names]
        return sum(
            cost_at(curve, self.limit)
            for curve in curves
            if curve[-1].amount < self.limit
        )

    def _unfinished(self) -> list[str]:
        race = self.race
        return [name for name in race.active if race.had(name) < self.limit]

    def _best_score(self) -> float:
        return self.race.best - self.race.loss(self.race.leader())

    def _next_cost_s(self, name: str) -> float:
        return cost_at(self.race.curves[name], self.next_amount(name))

    def bound(self, curve: Curve) -> float:
        """Bound the score at N: B; the score itself once it is known."""
        had, score = curve[-1].amount, curve[-1].score
        assert score is not None
        if had >= self.limit:
            return score
        if self.asleep(score):
            return self.race.best
        fall = self.peer_factor * self._peer_fall(had)
        if len(curve) > 1:
            logs = [math.log(line.amount) for line in curve[-3:]]
            rate = slope(logs, [-self._log_error(line) for line in curve[-3:]])
            fall = min(fall, max(rate, 0.0) * math.log(self.limit / had))
        return self.race.best - math.exp(self._log_error(curve[-1]) - fall)

    def asleep(self, score: float) -> bool:
        """Whether a score is about that of answering without looking."""
        chance, best = self.race.chance, self.race.best
        if chance is None:
            return False
        return score - chance < CONSTANTS.asleep * (best - chance)

    def _peer_fall(self, amount: int) -> float:
        """Return the largest fall of log error from `amount` to N seen so far."""
        falls = [
            self._log_error_at(curve, amount) - self._log_error(curve[-1])
            for name, curve in self.race.curves.items()
            if name not in self.race.failed
            and self.race.had(name) == self.limit
            and curve[0].amount <= amount
        ]
        if len(falls) < CONSTANTS.peers_needed:
            return math.inf
        return max(max(falls), 0.0)

    def _log_error(self, line: Allocation) -> float:
        assert line.score is not None
        return math.log(max(self.race.best - line.score, CONSTANTS.least_error))

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


def full_cost_s(curve: Curve, limit: int) -> float:
    """Extrapolate the seconds of a training on all of `limit` examples."""
    if len(curve) > 1:
        return cost_at(curve, limit)
    share = limit / curve[-1].amount
    return curve[-1].seconds * math.pow(share, CONSTANTS.first_cost_power)


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
