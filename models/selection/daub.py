"""DAUB: give data to the learner with the best upper bound on its final accuracy."""

import math
from collections.abc import Sequence

from polydom.features.errors import BadInput

from .race import Curve, Race

GRANULARITY, RATIO = 500, 1.5  # the paper's b and r


def daub(
    race: Race,
    *,
    granularity: int | None = None,
    ratio: float = RATIO,
    training_bound: bool = True,
) -> str:
    """Return the learner that DAUB chooses (Algorithm 1), trained on all N examples.

    Every learner is first trained on b, b r and b r² examples, where b is `granularity`
    and r is `ratio`. If b is not given, it is 500 as in the paper, or N / r² if there
    are fewer than 500 r² examples. Then, until a learner was trained on all N, the
    learner with the largest bound is trained on r times as many examples as before;
    among equal bounds, the first. For the bound, a line is fitted to a learner's last
    three validation scores, and extended to N; with `training_bound`, the bound is at
    most the training score. The paper's listing has two signs swapped where it corrects
    a falling curve; this function follows the paper's text, "meet in the middle".

    Raises BadInput if r <= 1, b < 1, b r² > N, or every learner fails.
    """
    limit = need_limit(race)
    if not ratio > 1:
        raise BadInput(f"ratio is {ratio!r}; it must be greater than 1")
    if granularity is None:
        granularity = max(min(GRANULARITY, int(limit / ratio**2)), 1)
    if granularity < 1 or granularity * ratio**2 > limit:
        raise BadInput(
            f"granularity is {granularity} and ratio {ratio:g}; granularity * ratio^2 "
            f"must be at least 1 and at most the {limit} examples there are"
        )

    def bound(curve: Curve) -> float:
        return line_bound(curve, limit, training_bound=training_bound)

    for power in range(3):
        amount = whole(granularity * ratio**power)
        race.train_all([(name, amount) for name in race.active], bound)
    while not (done := [name for name in race.active if race.had(name) == limit]):
        name = max(race.active, key=lambda name: race.bound(name))
        # At least one more example, as a ratio near 1 would never end.
        race.train(name, max(whole(ratio * race.had(name)), race.had(name) + 1), bound)
    return race.leader(done)


def train_all(race: Race) -> str:
    """Train every learner on all examples, and return the one with the best score."""
    limit = need_limit(race)
    race.train_all([(name, limit) for name in race.active])
    return race.leader()


def line_bound(curve: Curve, limit: int, *, training_bound: bool = True) -> float:
    """Return an upper bound on the score at N = `limit` examples (DAUB, UpdateBound).

    After the latest training, on n examples, the bound is f + (N - n) f'. f is the
    latest score, and f' the least-squares slope of the last three scores over their
    numbers of examples; both use the scores that `monotone` returns. With
    `training_bound`, the bound is at most the training score.
    """
    amounts = [line.amount for line in curve][-3:]
    scores = monotone([line.score for line in curve if line.score is not None])[-3:]
    bound = scores[-1] + (limit - amounts[-1]) * slope(amounts, scores)
    train_score = curve[-1].train_score
    if training_bound and train_score is not None:
        return min(train_score, bound)
    return bound


def monotone(scores: Sequence[float]) -> list[float]:
    """Return the scores with each falling pair of neighbours replaced by their mean."""
    mended: list[float] = []
    for score in scores:
        if mended and score < mended[-1]:
            score = mended[-1] = (mended[-1] + score) / 2
        mended.append(score)
    return mended


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the least-squares slope of y over x; 0 for a single point."""
    x_mean, y_mean = sum(x) / len(x), sum(y) / len(y)
    spread = sum((value - x_mean) ** 2 for value in x)
    joint = sum((a - x_mean) * (b - y_mean) for a, b in zip(x, y, strict=True))
    return joint / spread if spread else 0.0


def whole(amount: float) -> int:
    """Round an amount up to a whole number.

    An excess that is only a rounding error is rounded down.
    """
    return math.ceil(amount - 1e-9 * amount)


def need_limit(race: Race) -> int:
    """Return N, the largest number of examples; BadInput if the race has no limit."""
    if race.limit is None:
        raise BadInput(
            "the race has no limit; this strategy needs to know the most examples"
        )
    return race.limit
