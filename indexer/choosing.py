"""`learner = "auto"`: races between learners before the search.

One on all features, or with `per_level = true` one for every band of lattice levels.
"""

from collections.abc import Callable, Mapping, Sequence
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
from .levels import bands
from .progress import Progress
from .training import columns_of

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
        What `[learner]` would hold to name it; where there is one for each level, what
        it held to ask for that.
    facts
        Plain data: the winner, its score, what the race cost and what training all
        would have, learning curves, failures and what learners warned of, such as not
        to have converged; where there is a race for each band of levels, `levels` lists
        these of each, with its first and last level.
    levels
        The learners of sets with 1, 2 ... m features; empty where one is for all.
    """

    setting: Setting
    facts: dict[str, Any]
    levels: tuple[Setting, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Contest:
    """What races are run on, and where their logs are kept.

    Attributes
    ----------
    values, codes
        (N, width) feature values and (N,) classes of the items.
    division
        (training rows, validation rows), none of them held out for the search, so
        that the accuracies reported later are not those the choice was made by.
    name
        Cache entry of the races' logs: a race that was cut short continues.
    settings
        The learners, by name.
    watch
        Called with a race after each of its trainings.
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

    def one(self) -> Choice:
        """Race the learners on all features.

        Raises
        ------
        BadInput
            If the strategy is unknown or every learner fails.
        """
        every = np.arange(self.values.shape[1], dtype=np.int32)
        facts = self._race(self.name, "choosing a learner", [every])
        return Choice(self.settings[facts["learner"]], facts)

    def per_level(self, starts: Sequence[int]) -> Choice:
        """Race them once for each band of levels, on sets of so many features.

        A learner's score is its mean over the band's sets. `starts` holds each
        feature's first column and, at its end, the width. Raises as `one` does.
        """
        levels: list[Setting] = []
        races = []
        for band in bands(len(starts) - 1, self.seed):
            facts = self._race(
                f"{self.name}/{band.low}",
                f"choosing for {band.low}-{band.high}",
                [columns_of(starts, mask) for mask in band.sets],
            )
            races.append(
                {"low": band.low, "high": band.high, "sets": list(band.sets), **facts}
            )
            winner = self.settings[facts["learner"]]
            levels += [winner] * (band.high - band.low + 1)
        told = {
            "strategy": self.strategy,
            "seconds": sum(race["seconds"] for race in races),
            "full_s": sum(race["full_s"] for race in races),
            "levels": races,
        }
        return Choice({"name": AUTO, "per_level": True}, told, tuple(levels))

    def _race(
        self, name: str, stage: str, parts: Sequence[NDArray[np.int32]]
    ) -> dict[str, Any]:
        """Run one race on some columns, or on several choices of them; give its facts.

        What an earlier run trained is taken from its log.
        """
        stored = self.cache.load(name)
        log: list[dict[str, Any]] = stored[0]["log"] if stored else []
        splits = [self._split(columns) for columns in parts]
        measure = find_measure("accuracy")
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
        with placing as placed, self.progress.stage(stage, None) as tell:

            def keep(race: Race) -> None:
                lines = [line.to_dict() for line in race.log]
                self.cache.store(name, {"log": lines}, {})
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
        return _facts(race, winner, self.strategy)

    def _split(self, columns: NDArray[np.int32]) -> Split:
        train, test = self.division
        values = self.values[:, columns]
        (part,) = split(
            values[train].astype(np.float64),
            self.codes[train],
            validation=(values[test].astype(np.float64), self.codes[test]),
            seed=self.seed,
        )
        return part


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
