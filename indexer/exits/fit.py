"""Fitting a plan's exits: `fit_exits`."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput
from polydom.models.qwyc.confidence_bound import check_rate, fit_to_rate
from polydom.models.qwyc.optimal_stopping import Stopping
from polydom.models.qwyc.running_sums import Walk

from .checkpoints import Answers, CheckpointExits

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


class CheckpointMargins:
    """Items on their way past the checkpoints, as `Stopping` follows them.

    The number of an item is minus its margin, in about the standard deviation of that
    checkpoint's margins: low is sure, wrongly where the last one answers otherwise.
    """

    border: float | None = None

    def __init__(self, answers: Answers) -> None:
        self.answers = answers
        spread = answers.margins.std(axis=0)
        # powers of two, by which margins are divided without rounding
        self.scale = np.exp2(np.round(np.log2(np.where(spread > 0, spread, 1.0))))
        self.final = -answers.margins[:, -1] / self.scale[-1]

    def walk(self) -> Walk:
        """Start as in `RunningSums`."""
        margins, choices = self.answers.margins, self.answers.choices

        def past(r: int, rows: Rows) -> tuple[Floats, Flags]:
            wrong: Flags = choices[rows, r] != choices[rows, -1]
            return -margins[rows, r] / self.scale[r], wrong

        return Walk(len(margins), margins.shape[1], past)


def fit_exits(
    answers: Answers,
    costs: Sequence[float] | Floats,
    alpha: float,
    *,
    confidence: float | None = None,
    calibration: Answers | None = None,
    groups: Rows | None = None,
) -> CheckpointExits:
    """Find the margins at which a plan's checkpoints answer, at the least mean cost.

    Parameters
    ----------
    answers
        Of items that no model was trained on; labels are not needed.
    costs
        (K + 1,) what it takes to come to each checkpoint from the one before and to
        answer there, >= 0.
    alpha
        Share of decisions that may be other than the last checkpoint's, in [0, 1): on
        these items, or with `confidence` on fresh ones.
    confidence, calibration, groups
        As for `fit_schedule`: with answers for items used for nothing else.

    Raises
    ------
    BadInput
        If an argument is outside its range or there are too few calibration items.
    """
    check_rate(alpha, confidence, calibration, groups)
    prices = np.ascontiguousarray(costs, np.float64)
    count = answers.margins.shape[1]
    if prices.shape != (count,) or not (np.isfinite(prices) & (prices >= 0)).all():
        raise BadInput(f"costs must be {count} finite numbers, none below 0")
    if not prices[1:].any():
        return CheckpointExits(np.full(count, np.inf))
    margins = CheckpointMargins(answers)
    # free steps still have to end somewhere when prices are compared
    floor = prices.max() * 1e-9
    stopping = Stopping(margins, costs=np.maximum(prices, floor), both=False)

    def exits(lower: Floats, _: Floats) -> CheckpointExits:
        return CheckpointExits(-lower * margins.scale)

    return fit_to_rate(stopping, exits, alpha, confidence, (calibration,), groups)
