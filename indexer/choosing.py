"""`learner = "auto"`: a race between learners on all features, before the search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models.allocation import Race
from ..models.portfolio import SERVABLE, Setting, make_portfolio
from ..models.select import Selection, select
from .cache import Cache
from .progress import Progress

AUTO = "auto"
DEFAULT_STRATEGY = "daub-seconds"
VALIDATION = 0.3

Division = tuple[NDArray[np.int64], NDArray[np.int64]]


@dataclass(frozen=True, slots=True)
class Choice:
    """The learner that won, and how.

    Attributes
    ----------
    setting
        What `[learner]` would hold to name it.
    facts
        Plain data: the winner, its score, what the race cost and what training all
        would have, learning curves and failures.
    """

    setting: Setting
    facts: dict[str, Any]


def choose_learner(
    values: NDArray[np.float32],
    codes: NDArray[np.int64],
    division: Division,
    *,
    seed: int,
    cache: Cache,
    name: str,
    progress: Progress,
    strategy: str = DEFAULT_STRATEGY,
    settings: Mapping[str, Setting] = SERVABLE,
) -> Choice:
    """Race the servable learners on all features; continue a race that was cut short.

    Parameters
    ----------
    values, codes
        (N, width) feature values and (N,) classes of the items.
    division
        (training rows, validation rows), none of them held out for the search, so
        that the accuracies reported later are not those the choice was made by.
    name
        Cache entry of the race's log.

    Raises
    ------
    BadInput
        If the strategy is unknown or every learner fails.
    """
    train, test = division
    stored = cache.load(name)
    log: list[dict[str, Any]] = stored[0]["log"] if stored else []
    with progress.stage("choosing a learner", None) as tell:

        def keep(race: Race) -> None:
            lines = [line.to_dict() for line in race.log]
            cache.store(name, {"log": lines}, {})
            tell(len(lines))

        selection = select(
            make_portfolio(settings, seed),
            values[train].astype(np.float64),
            codes[train],
            strategy=strategy,
            validation=(values[test].astype(np.float64), codes[test]),
            seed=seed,
            log=log,
            progress=keep,
        )
    return Choice(settings[selection.name], _facts(selection, strategy))


def _facts(selection: Selection, strategy: str) -> dict[str, Any]:
    curves: dict[str, Sequence[Sequence[float | None]]] = {
        learner: [[line.amount, line.score, line.seconds] for line in lines]
        for learner, lines in selection.curves.items()
    }
    return {
        "strategy": strategy,
        "learner": selection.name,
        "score": selection.score,
        "seconds": selection.seconds,
        "full_s": selection.full_s,
        "curves": curves,
        "failed": dict(selection.failed),
    }
