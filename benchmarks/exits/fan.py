"""The dynamic scheduling of Fan et al. (2002), which QWYC compares itself with."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.algorithms import changes_allowed
from polydom.models.qwyc.confidence_bound import check_rate
from polydom.models.qwyc.fit_schedule import check_decisions
from polydom.models.qwyc.ordering import OrderName, make_order
from polydom.models.qwyc.schedule import check_scores

from .kernels.fan import walk_bins

Floats = NDArray[np.float64]
Rows = NDArray[np.int64]

WIDEST = 64.0  # standard deviations; beyond it nothing stops that has a spread at all
HALVINGS = 16


@dataclass(frozen=True, slots=True, eq=False)
class FanSchedule:
    """An order, and for each position bins of the running sum with thresholds.

    QWYC, appendix C. The bin of a sum g is round(g / width); where the rows of a bin
    have mean mu and standard deviation sigma of what was still to be added, a row
    there stops positive if g + mu - spreads * sigma > threshold, and negative if
    g + mu + spreads * sigma < threshold. A sum in a bin that no fitted row fell into
    goes on.

    Attributes
    ----------
    order : (T,) int64
        Base models in the order of evaluation.
    starts : (T + 1,) int64
        Position r's bins are entries starts[r] to starts[r + 1] - 1.
    bins, means, deviations : (B,) int64, float64, float64
        Each bin's number, ascending within a position, its mu and its sigma.
    width : float
        Of a bin, > 0: the paper's knob lambda.
    spreads : float
        The paper's gamma, >= 0.
    threshold : float
        QWYC's beta.
    """

    order: Rows
    starts: Rows
    bins: Rows
    means: Floats
    deviations: Floats
    width: float
    spreads: float
    threshold: float

    def evaluate(self, scores: Floats) -> tuple[NDArray[np.bool_], Rows]:
        """Decisions (N,) and base models used (N,) for (N, T) scores."""
        scores = check_scores(scores, len(self.order))
        decisions = np.empty(len(scores), np.bool_)
        used = np.empty(len(scores), np.int64)
        middle, reach = self.threshold - self.means, self.spreads * self.deviations
        walk_bins(
            scores,
            self.order,
            self.starts,
            self.bins,
            middle - reach,
            middle + reach,
            self.width,
            self.threshold,
            decisions,
            used,
        )
        return decisions, used


def fit_fan(
    scores: Floats,
    threshold: float,
    alpha: float,
    *,
    order: OrderName | Sequence[int] | Rows = "individual-mse",
    target: Floats | None = None,
    width: float = 0.01,
    seed: int = 0,
) -> FanSchedule:
    """Fit Fan*, or Fan's bins on another order.

    Parameters
    ----------
    scores, threshold
        As for `fit_schedule`.
    alpha
        Share of these rows that may be decided otherwise, in [0, 1): `spreads` is
        the smallest, to one part in 2^16, that keeps to it.
    order, target, seed
        As for `fit_schedule`; Fan* is "individual-mse", and the order of a schedule
        that "qwyc" fitted puts the bins on top of the joint order.
    width
        Of a bin, > 0, in the unit of the scores; QWYC's best was 0.01.
    """
    check_rate(alpha, None, None, None)
    scores = check_scores(scores, "T")
    positive = check_decisions(scores, threshold, None)
    if not 0 < width < np.inf:
        raise BadInput(f"width is {width!r}; it must be finite and above 0")
    kept = make_order(order, scores, target, seed=seed)
    allowed = changes_allowed(alpha, len(scores))
    tables = tabulate(scores, kept, width)
    low, high = 0.0, WIDEST
    while high - low > WIDEST / 2**HALVINGS:
        middle = (low + high) / 2
        fan = FanSchedule(kept, *tables, width, middle, float(threshold))
        decisions, _ = fan.evaluate(scores)
        if np.count_nonzero(decisions != positive) > allowed:
            low = middle
        else:
            high = middle
    return FanSchedule(kept, *tables, width, high, float(threshold))


def tabulate(
    scores: Floats, order: Rows, width: float
) -> tuple[Rows, Rows, Floats, Floats]:
    """Tabulate starts, bins, means and deviations, as `FanSchedule` has them.

    All rows count at every position, stopped or not, as in the paper.
    """
    full, sums = scores.sum(axis=1), np.zeros(len(scores))
    parts = []
    for model in order:
        sums = sums + scores[:, model]
        bins, place = np.unique(np.rint(sums / width), return_inverse=True)
        counts = np.bincount(place)
        means = np.bincount(place, full - sums) / counts
        squares = np.bincount(place, (full - sums - means[place]) ** 2) / counts
        parts.append((bins.astype(np.int64), means, np.sqrt(squares)))
    starts = np.cumsum([0, *(len(bins) for bins, _, _ in parts)])
    bins, means, deviations = (
        np.concatenate(part) for part in zip(*parts, strict=True)
    )
    return starts, bins, means, deviations
