"""Choice of a threshold of one class's scores on held-out items.

A cut is the least score at which an item counts as of the class. Items with equal
scores are on the same side of every cut; between two scores, a cut is in the middle.

A goal without a confidence is reached in the mean: fresh items reach it on average over
all held-out items that could have been drawn. For a recall this holds for any model and
any class (conformal risk control: Angelopoulos et al., 2024), as the next item of the
class is equally likely to have any rank among the known ones.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import beta as beta_distribution

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SURE = 0.95  # confidence of the intervals that are told
LEVELS_PER_DOUBLING = 2  # cuts at which a precision is tested, in each doubling


class Goal(NamedTuple):
    """What a threshold is chosen for.

    `name` is "precision_at" (the best precision with a recall of at least `least`),
    "recall_at" (the best recall with a precision of at least `least`), "f_beta" or
    "cost".
    """

    name: str
    least: float = 0.0
    # Confidence that fresh items reach `least`; 0 if they are to reach it in the mean
    confidence: float = 0.0
    beta: float = 1.0  # Weight of recall against precision for "f_beta"
    # Costs of an item: of missing the class, and of naming it wrongly; a right answer
    # costs what it costs, which is subtracted from both
    miss: float = 1.0
    alarm: float = 1.0


class Cut(NamedTuple):
    """A chosen cut; if it is not `reached`, no cut reaches the goal's least share."""

    score: float  # In [-inf, inf]; infinite if all items, or none, are of the class
    reached: bool = True


class Share(NamedTuple):
    """A share of held-out items, and the ends of its interval of `SURE`."""

    share: float
    low: float
    high: float


class Found(NamedTuple):
    """What a cut finds among held-out items."""

    items: float  # Weight of the items of the class
    recall: Share | None  # None without such items
    precision: Share | None  # None if no item is above the cut

    def facts(self) -> dict[str, Any]:
        """Return plain data for `polydom inspect`."""
        return {
            name: one._asdict() if isinstance(one, Share) else one
            for name, one in self._asdict().items()
        }


class Steps(NamedTuple):
    """Cumulated counts at all L possible cuts, from the highest score down."""

    scores: Floats  # (L,): Distinct scores, descending
    hits: Floats  # (L,): Weight of the items of the class with at least this score
    found: Floats  # (L,): Weight of all items with at least this score
    total: float  # Weight of all items of the class


def choose_cut(goal: Goal, scores: Floats, own: Flags, weights: Floats) -> Cut:
    """Choose the cut that serves a goal best on N > 0 held-out items.

    `scores` (N,) are the scores of the class, `own` (N,) is True for its items, and
    `weights` (N,) have the mean 1. Of equally good cuts, the one with the fewest items
    above it is chosen.
    """
    steps = _steps_of(scores, own, weights)
    at, reached = CHOICES[goal.name](goal, steps)
    if at < 0:
        return Cut(np.inf, reached)
    if at == len(steps.scores) - 1:
        return Cut(-np.inf, reached)
    above, below = steps.scores[at], steps.scores[at + 1]
    middle = below + (above - below) / 2
    return Cut(float(middle if below < middle else above), reached)


def found_by(score: float, scores: Floats, own: Flags, weights: Floats) -> Found:
    """Return what a cut at `score` finds; the arrays are those of `choose_cut`."""
    above = scores >= score
    total, found = float(weights[own].sum()), float(weights[above].sum())
    hits = float(weights[own & above].sum())
    return Found(total, _share_of(hits, total), _share_of(hits, found))


def _share_of(hits: float, count: float) -> Share | None:
    """Return the share of `hits` in `count` with its interval (Clopper, Pearson)."""
    if not count > 0:
        return None
    misses, doubt = max(count - hits, 0.0), (1 - SURE) / 2
    low = float(beta_distribution.ppf(doubt, hits, misses + 1)) if hits else 0.0
    high = float(beta_distribution.ppf(1 - doubt, hits + 1, misses)) if misses else 1.0
    return Share(min(hits / count, 1.0), low, high)


def _steps_of(scores: Floats, own: Flags, weights: Floats) -> Steps:
    order = np.argsort(-scores, kind="stable")
    ranked, weighed = scores[order], weights[order]
    last = np.append(np.flatnonzero(ranked[1:] != ranked[:-1]), len(ranked) - 1)
    hits, found = np.cumsum(own[order] * weighed), np.cumsum(weighed)
    return Steps(ranked[last], hits[last], found[last], float(hits[-1]))


def _for_recall(goal: Goal, steps: Steps) -> tuple[int, bool]:
    """Return the highest cut that has the recall, or else the one of all hits.

    Recall only grows as the cut falls, so one exact binomial bound (Clopper and
    Pearson, 1934) holds at the cut that is found.
    """
    if not steps.total > 0:
        return len(steps.scores) - 1, False
    enough = _least_share(steps.hits, steps.total, goal.confidence) >= goal.least
    all_hit = int(np.searchsorted(steps.hits, steps.total * (1 - 1e-12)))
    return (int(enough.argmax()), True) if enough.any() else (all_hit, False)


def _for_precision(goal: Goal, steps: Steps) -> tuple[int, bool]:
    """Return the lowest cut that has the precision, or -1 if none has.

    With a confidence, precision is tested at a few cuts, each with its part of the
    doubt (Bonferroni), so that the best of many lucky cuts does not pass.
    """
    tested = np.arange(len(steps.scores))
    confidence = goal.confidence
    if confidence:
        most = max(1, int(np.log2(steps.found[-1]) * LEVELS_PER_DOUBLING))
        levels = 2.0 ** (np.arange(1, most + 1) / LEVELS_PER_DOUBLING)
        at = np.searchsorted(steps.found, levels)
        tested = np.unique(np.minimum(at, len(steps.scores) - 1))
        confidence = 1 - (1 - confidence) / len(tested)
    hits, found = steps.hits[tested], steps.found[tested]
    passes = _least_share(hits, found, confidence) >= goal.least
    if not passes.any():
        return -1, False
    best = np.flatnonzero(passes & (hits == hits[passes].max()))[0]
    return int(tested[best]), True


def _for_f_beta(goal: Goal, steps: Steps) -> tuple[int, bool]:
    return int(f_beta(steps.hits, steps.found, steps.total, goal.beta).argmax()), True


def _for_cost(goal: Goal, steps: Steps) -> tuple[int, bool]:
    saved = goal.miss * steps.hits - goal.alarm * (steps.found - steps.hits)
    best = int(saved.argmax())
    return (best if saved[best] > 0 else -1), True


CHOICES: Mapping[str, Callable[[Goal, Steps], tuple[int, bool]]] = {
    "precision_at": _for_recall,
    "recall_at": _for_precision,
    "f_beta": _for_f_beta,
    "cost": _for_cost,
}


def f_beta(hits: Floats, found: Floats, total: float, beta: float) -> Floats:
    """Return F-beta: (1 + beta^2) hits / (found + beta^2 total), 0 without items."""
    both = found + beta**2 * total
    scores: Floats = np.divide((1 + beta**2) * hits, both, where=both > 0, out=0 * both)
    return scores


def _least_share(hits: Floats, count: Floats | float, confidence: float) -> Floats:
    """Return the share of `hits` in `count` that is sure, or that holds in the mean.

    It is a lower bound with a confidence. Without one, an additional item counts that
    is no hit.
    """
    if not confidence:
        mean: Floats = hits / (count + 1)
        return mean
    misses = np.maximum(count - hits, 0.0)
    bound: Floats = np.where(
        hits > 0, beta_distribution.ppf(1 - confidence, hits, misses + 1), 0.0
    )
    return bound
