"""`learner = "auto"`: a race between learners, on all features, before the search."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..models.allocation import Allocation, Race
from ..models.portfolio import Setting, installed, make_portfolio
from ..models.select import Running, select
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
        learners = make_portfolio(self.settings, self.seed)
        train, test = self.division
        with self.progress.stage("choosing a learner", None) as tell:

            def keep(race: Race) -> None:
                lines = [line.to_dict() for line in race.log]
                self.cache.store(self.name, {"log": lines}, {})
                tell(len(lines))
                if self.watch is not None:
                    self.watch(race)

            chosen = select(
                learners,
                self.values[train].astype(np.float64),
                self.codes[train],
                strategy=self.strategy,
                validation=(self.values[test].astype(np.float64), self.codes[test]),
                least_valid=LEAST_VALID,
                refit=False,
                seed=self.seed,
                running=Running(
                    log=stored[0]["log"] if stored else (),
                    progress=keep,
                    limit_s=self.limit_s,
                ),
            )
        facts = {
            "strategy": self.strategy,
            "learner": chosen.name,
            "score": chosen.score,
            "seconds": chosen.seconds,
            "full_s": chosen.full_s,
            "curves": {
                learner: [[line.amount, line.score, line.seconds] for line in curve]
                for learner, curve in chosen.curves.items()
            },
            "failed": dict(chosen.failed),
            "warnings": _warnings(learners, chosen.log),
        }
        return Choice(self.settings[chosen.name], facts)


def _warnings(
    learners: Iterable[str], log: Sequence[Allocation]
) -> dict[str, list[str]]:
    """Return what learners warned of, each text once, without those that did not."""
    texts = {
        learner: dict.fromkeys(
            text for line in log if line.learner == learner for text in line.warnings
        )
        for learner in learners
    }
    return {learner: list(found) for learner, found in texts.items() if found}
