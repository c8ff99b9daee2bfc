"""Races between arms whose losses are known beforehand."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from polydom.models.selection.race import Race, TrainingOutcome

Loss = Callable[[int], float]


def race(losses: list[Loss], limit: int | None = None) -> Race:
    def arm(loss: Loss) -> Callable[[int], TrainingOutcome]:
        return lambda pulls: TrainingOutcome(1 - loss(pulls))

    arms = {str(i): arm(loss) for i, loss in enumerate(losses)}
    return Race(arms, limit=limit, carries_on=True)


def table_race(table: NDArray[np.float64]) -> Race:
    return race([lambda pulls, row=row: float(row[pulls]) for row in table])  # type: ignore[misc]


def converging(limit: float, sign: int, scale: float) -> Loss:
    """A loss within scale / pulls of its limit, as far off it as that allows."""
    return lambda pulls: limit + sign * scale / pulls
