"""`learner = "auto"`: a race between learners, on all features, before the search."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models.allocation import Allocation, Race
from ..models.draws import Split, split
from ..models.measures import find_measure
from ..models.portfolio import Setting, installed, make_portfolio
from ..models.select import find_strategy, full_seconds
from ..models.trainer import Examples, chance
from ..models.worker import isolated
from .cache import Cache
from .progress import Progress

AUTO = "auto"
DEFAULT_STRATEGY = "daub-seconds"
VALIDATION = 0.3
LEAST_VALID = 2000  # rows that a race's smallest trainings are validated on

Division = tuple[NDArray[np.int64], NDArray[np.int64]]
Watch = Callable[[Race], object]


@dataclass(frozen=True, slots=True)
class Choice:
    """The learner that won, and how.

    Attributes
    ----------
    setting
        What `[learner]` would hold to name it.
    facts
        Plain data: the winner, its score, what the race cost and what training all
        would have, learning curves, failures and what learners warned of, such as not
        to have converged. Empty where there was no race.
    """

    setting: Setting
    facts: dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """What a race is run on, and where its log is kept.

    Attributes
    ----------
    values, codes
        (N, width) feature values and (N,) classes of the items.
    division
        (training rows, validation rows), none of them held out for the search, so
        that the accuracies reported later are not those the choice was made by.
    name
        Cache entry of the race's log: a race that was cut short continues.
    settings
        The learners, by name.
    watch
        Called with the race after each of its trainings.
    limit_s
        Seconds that a single training may take; trainings then run in a process of
        their own, which may crash, too, at the cost of that learner alone.
    """

    values: NDArray[np.float32]
    codes: NDArray[np.int64]
    division: Division
    seed: int
    cache: Cache
    name: str
    progress: Progress
    strategy: str = DEFAULT_STRATEGY
    settings: Mapping[str, Setting] = field(default_factory=installed)
    watch: Watch | None = None
    limit_s: float | None = None

    def choose(self) -> Choice:
        """Race the learners; what an earlier run trained is taken from its log.

        Raises
        ------
        BadInput
            If the strategy is unknown or every learner fails.
        """
        stored = self.cache.load(self.name)
        log: list[dict[str, Any]] = stored[0]["log"] if stored else []
        splits, measure = self._splits(), find_measure("accuracy")
        arms = {
            learner: Examples(
                estimator,
                splits,
                measure,
                seed=self.seed,
                scored=0,
                least_valid=LEAST_VALID,
            )
            for learner, estimator in make_portfolio(self.settings, self.seed).items()
        }
        limit_s = self.limit_s
        placing = isolated(arms, limit_s=limit_s) if limit_s else nullcontext(arms)
        with (
            placing as placed,
            self.progress.stage("choosing a learner", None) as tell,
        ):

            def keep(race: Race) -> None:
                lines = [line.to_dict() for line in race.log]
                self.cache.store(self.name, {"log": lines}, {})
                tell(len(lines))
                if self.watch is not None:
                    self.watch(race)

            race = Race(
                placed,
                limit=len(splits[0].y),
                chance=chance(splits, measure),
                past=[Allocation.from_dict(line) for line in log],
                progress=keep,
            )
            winner = find_strategy(self.strategy)(race)
        return Choice(self.settings[winner], _facts(race, winner, self.strategy))

    def _splits(self) -> tuple[Split, ...]:
        train, test = self.division
        return split(
            self.values[train].astype(np.float64),
            self.codes[train],
            validation=(self.values[test].astype(np.float64), self.codes[test]),
            seed=self.seed,
        )


def _facts(race: Race, winner: str, strategy: str) -> dict[str, Any]:
    return {
        "strategy": strategy,
        "learner": winner,
        "score": race.curves[winner][-1].score,
        "seconds": race.seconds,
        "full_s": full_seconds(race),
        "curves": {
            learner: [
                [line.amount, line.score, line.seconds] for line in race.curves[learner]
            ]
            for learner in race.active
        },
        "failed": {learner: line.error for learner, line in race.failed.items()},
        "warnings": _warnings(race),
    }


def _warnings(race: Race) -> dict[str, list[str]]:
    """Give the warnings of each learner that has not failed, each text once."""
    texts = {
        learner: dict.fromkeys(text for line in curve for text in line.warnings)
        for learner, curve in race.curves.items()
    }
    return {learner: list(found) for learner, found in texts.items() if found}
