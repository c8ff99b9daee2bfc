"""Recorded trainings, played back: any strategy over them, in no time and repeatably.

A recording holds what each learner scored, and the CPU seconds it took, on a ladder of
sizes: 50 and N / 243 ... N / 9, N / 3, N. Between two of them scores are straight over
log n and seconds straight over log n on a log scale; below the smallest both are those
of the smallest. A strategy that validates on fewer rows sees scores with the noise of
so few, and pays for so few.
"""

import math
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from polydom.models.selection.race import Race, TrainingOutcome

STEPS, FACTOR = 5, 3  # N / 3^5 is the lowest of these rungs
ALIKE = 0.7  # of a score's own deviation: the same rows validate all learners
FEW = 50  # a rung too, as races by seconds begin there: curves bend most below N / 243
LEAST = 10  # rows of the lowest rung: of fewer, some learners see a single class


def ladder(race: Race) -> str:
    """Train every learner on every rung, the lowest first: what is to be recorded."""
    assert race.limit is not None
    rungs = {race.limit // FACTOR**step for step in range(STEPS + 1)}
    for amount in sorted(rungs | {min(FEW, race.limit)}):
        if amount < LEAST:
            continue
        race.train_all([(name, amount) for name in race.active])
    return race.leader()


@dataclass(frozen=True, slots=True)
class Point:
    """One recorded training."""

    amount: int
    score: float
    fit_s: float
    score_s: float
    train_score: float | None


@dataclass(frozen=True, slots=True)
class Recording:
    """The curves of all learners, by ascending amount, and why some have none."""

    curves: Mapping[str, tuple[Point, ...]]
    failed: Mapping[str, str]
    validated: int

    @classmethod
    def read(
        cls, lines: Iterable[Mapping[str, Any]], validated: int, scored: int
    ) -> "Recording":
        """Read the log that `ladder` left, validated on so many rows.

        Where a training was scored on up to `scored` of its own rows too, the seconds
        of that are left out.
        """
        curves: dict[str, list[Point]] = {}
        failed: dict[str, str] = {}
        for line in lines:
            if line["error"]:
                failed[line["learner"]] = line["error"]
                continue
            fit_s, score_s = line["fit_s"], line["seconds"] - line["fit_s"]
            if line["train_score"] is not None:
                score_s *= validated / (validated + min(line["amount"], scored))
            point = Point(
                line["amount"], line["score"], fit_s, score_s, line["train_score"]
            )
            curves.setdefault(line["learner"], []).append(point)
        whole = {
            name: tuple(sorted(points, key=lambda point: point.amount))
            for name, points in curves.items()
            if name not in failed
        }
        return cls(whole, failed, validated)

    @property
    def with_training_scores(self) -> bool:
        """Whether every training has its training score."""
        every = [point for points in self.curves.values() for point in points]
        return all(point.train_score is not None for point in every)

    @property
    def limit(self) -> int:
        """The N of the recording."""
        return max(points[-1].amount for points in self.curves.values())

    @property
    def seconds(self) -> float:
        """CPU seconds of training every learner on all N, once."""
        last = [points[-1] for points in self.curves.values()]
        return sum(point.fit_s + point.score_s for point in last)

    def final(self, name: str) -> float:
        """A learner's score on all N."""
        return self.curves[name][-1].score

    def only(self, names: Collection[str]) -> "Recording":
        """Keep those learners alone."""
        curves = {k: points for k, points in self.curves.items() if k in names}
        failed = {k: v for k, v in self.failed.items() if k in names}
        return Recording(curves, failed, self.validated)

    def race(self, checked: Callable[[int, int], int], seed: int) -> Race:
        """A race among what was recorded; learners of one class are a family.

        A training on n of N rows is validated on `checked(n, validated)` of them; the
        seed is that of the noise.
        """
        arms: dict[str, Callable[[int], TrainingOutcome]] = {
            name: _noisy(
                _arm(points), self.limit, self.validated, checked, (seed, name)
            )
            for name, points in self.curves.items()
        }
        arms |= {name: _failing(why) for name, why in self.failed.items()}
        families = {name: name.partition(",")[0] for name in arms}
        return Race(arms, limit=self.limit, families=families)


def _arm(points: tuple[Point, ...]) -> Callable[[int], TrainingOutcome]:
    def train(amount: int) -> TrainingOutcome:
        above = next(point for point in points if point.amount >= amount)
        below = [point for point in points if point.amount < amount]
        if not below:
            return TrainingOutcome(
                above.score, above.train_score, above.fit_s, above.score_s
            )
        before = below[-1]
        share = math.log(amount / before.amount) / math.log(
            above.amount / before.amount
        )
        score = before.score * (1 - share) + above.score * share
        train_score = None
        if before.train_score is not None and above.train_score is not None:
            train_score = before.train_score * (1 - share) + above.train_score * share
        return TrainingOutcome(
            score,
            train_score,
            _between(before.fit_s, above.fit_s, share),
            _between(before.score_s, above.score_s, share),
        )

    return train


def _noisy(
    arm: Callable[[int], TrainingOutcome],
    limit: int,
    validated: int,
    checked: Callable[[int, int], int],
    seeds: tuple[int, str],
) -> Callable[[int], TrainingOutcome]:
    seed, code = seeds[0], zlib.crc32(seeds[1].encode())

    def train(amount: int) -> TrainingOutcome:
        full = arm(amount)
        rows = validated
        if amount < limit:
            rows = min(max(checked(amount, validated), 1), validated)
        variance = full.score * (1 - full.score) * (1 / rows - 1 / validated)
        drawn = np.random.default_rng([seed, code, rows]).normal()
        score = full.score + ALIKE * math.sqrt(max(variance, 0.0)) * drawn
        score_s = full.score_s * rows / validated
        score = min(max(score, 0.0), 1.0)
        return TrainingOutcome(score, full.train_score, full.fit_s, score_s)

    return train


def _between(low_s: float, high_s: float, share: float) -> float:
    """Straight on a log scale; a clock may have shown 0."""
    return float(max(low_s, 1e-6) ** (1 - share) * max(high_s, 1e-6) ** share)


def _failing(why: str) -> Callable[[int], TrainingOutcome]:
    def train(amount: int) -> TrainingOutcome:
        raise RuntimeError(why)

    return train
