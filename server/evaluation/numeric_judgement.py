"""What a contest says of answers that are numbers, as plain data."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import measures

from .contenders import Contender
from .contest import Contest, Reply
from .judgement import Flags, Judge

Floats = NDArray[np.float64]


class NumericJudge(Judge):
    """Reads the rounds of a contest whose labels are numbers.

    Who has no answer, or is late, gets away with the prior's, as behind a timeout.

    Parameters
    ----------
    contest, contenders, unit
        As for `Judge`.
    measure
        What quality is: "r2" or "mae".
    prior
        The number that answers where nothing else does.
    """

    within = "quality_inside"

    def __init__(
        self,
        contest: Contest,
        contenders: Sequence[Contender],
        unit: str,
        measure: str,
        prior: float,
    ) -> None:
        super().__init__(contest, contenders, unit)
        self._labels = np.array([float(one.item.label) for one in contest.rounds])
        self._measure = measures.r2 if measure == "r2" else measures.d2_absolute
        self._prior = prior

    def _judged(self, place: int) -> dict[str, Any]:
        """Fields of `Judged`."""
        replies, own = self._replies(place), self._labels
        given = self._given(replies)
        return {
            **self._timed(place),
            **self._measured(partial(self._measure, own, given)),
            "standard_error": self._standard_error(np.abs(own - given)),
            "r2": measures.r2(own, given),
            "mae": measures.mae(own, given),
            "rmse": float(np.sqrt(np.mean((own - given) ** 2))),
            "covered": self._covered(replies),
        }

    def _within(self, place: int, inside: Flags) -> float:
        """Say how good answers are, of which only those inside the budget count."""
        given = np.where(inside, self._given(self._replies(place)), self._prior)
        return self._measure(self._labels, given)

    def _given(self, replies: Sequence[Reply]) -> Floats:
        """Give the numbers answered (N,), the prior's where there was none."""
        values = [None if one.answer is None else one.answer.value for one in replies]
        return np.array(
            [value if isinstance(value, float) else self._prior for value in values]
        )

    def _covered(self, replies: Sequence[Reply]) -> float | None:
        """Share of labels in their answers' intervals; None without such."""
        lies = []
        for one, label in zip(replies, self._labels.tolist(), strict=True):
            interval = None if one.answer is None else one.answer.interval
            if isinstance(interval, tuple):
                lies.append(interval[0] <= label <= interval[1])
        return float(np.mean(lies)) if lies else None
