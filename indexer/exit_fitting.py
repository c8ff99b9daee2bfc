"""Fitting a plan's exits: `fit_exits`."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput
from .calibrate import calibrate, spread_of, widened
from .exits import Answers, Exits
from .fitting import RUNGS, check_confidence
from .quit import errors_allowed
from .stopping import Stopping

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


class CheckpointTrack:
    """Items on their way past the checkpoints, as `Stopping` follows them.

    The number of an item is minus its lead, in about the standard deviation of that
    checkpoint's leads, so that checkpoints can be compared.
    """

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        spread = answers.leads.std(axis=0)
        # powers of two, by which leads are divided without rounding
        self.scale = np.exp2(np.round(np.log2(np.where(spread > 0, spread, 1.0))))
        self.final = -answers.leads[:, -1] / self.scale[-1]

    def restart(self) -> None:
        """As in Track; nothing is kept from one checkpoint to the next."""

    def step(self, r: int, rows: Rows) -> tuple[Floats, Flags]:
        """As in Track: low is sure, which is wrong where the last one differs."""
        choices = self.answers.choices
        wrong: Flags = choices[rows, r] != choices[rows, -1]
        return -self.answers.leads[rows, r] / self.scale[r], wrong


def fit_exits(
    answers: Answers,
    costs: Sequence[float] | Floats,
    alpha: float,
    *,
    confidence: float | None = None,
    calibration: Answers | None = None,
    groups: Rows | None = None,
) -> Exits:
    """Say at which leads a plan's checkpoints answer.

    Minimises the mean cost while at most `alpha` of the decisions are other than the
    last checkpoint's.

    Parameters
    ----------
    answers
        Of items that no model was trained on; labels are not needed.
    costs
        (K + 1,) what it takes to come to each checkpoint from the one before and to
        answer there, >= 0.
    alpha
        Share of decisions that may change, in [0, 1): on these items, or with
        `confidence` on fresh ones.
    confidence, calibration, groups
        As for `fit_schedule`: with answers for items used for nothing else.

    Raises
    ------
    BadInput
        If an argument is outside its range or there are too few calibration items.
    """
    if not 0 <= alpha < 1:
        raise BadInput(f"alpha is {alpha!r}; it must be in [0, 1)")
    prices = np.ascontiguousarray(costs, np.float64)
    count = answers.leads.shape[1]
    if prices.shape != (count,) or not (np.isfinite(prices) & (prices >= 0)).all():
        raise BadInput(f"costs must be {count} finite numbers, none below 0")
    if not prices[1:].any():
        return Exits(np.full(count, np.inf))
    fitter = ExitFitter(answers, prices)
    check_confidence(calibration, confidence, alpha, groups)
    if confidence is None or calibration is None:
        return fitter.within(alpha)
    return calibrate(fitter.ladder(), calibration, alpha, confidence, groups)


class ExitFitter:
    """Margins by optimal stopping."""

    def __init__(self, answers: Answers, costs: Floats) -> None:
        self.track = CheckpointTrack(answers)
        # free steps still have to end somewhere when prices are compared
        floor = costs.max() * 1e-9
        self.stopping = Stopping(self.track, costs=np.maximum(costs, floor), both=False)

    def within(self, alpha: float) -> Exits:
        """Cheapest exits that change at most a share `alpha` of the decisions."""
        allowed = errors_allowed(alpha, self.stopping.rows)
        return self.exits(self.stopping.cheapest(allowed))

    def ladder(self) -> Iterator[Exits]:
        """Yield exits from the most careful price to the boldest."""
        careful, *bolder = self.stopping.prices(RUNGS)
        first = self.exits(self.stopping.cuts(careful))
        spread = spread_of(self.track, len(self.track.scale)) * self.track.scale
        yield from widened(first, spread)
        for price in bolder:
            yield self.exits(self.stopping.cuts(price))

    def exits(self, cuts: Rows) -> Exits:
        """Give the exits that draw these cuts."""
        lower, _ = self.stopping.thresholds(cuts)
        return Exits(-lower * self.track.scale)
