"""Feature sets whose qualities are known beforehand, in place of trained ones."""

from collections.abc import Callable, Generator, Sequence
from typing import Self

from polydom.indexer.building.training.train_sets import Spent, Trainer


class KnownSets(Trainer):
    """What a search asks for training, with an accuracy and seconds for every set.

    Attributes
    ----------
    asked
        The sets that were asked for, in order.
    """

    def __init__(
        self,
        accuracy: Callable[[int], float],
        seconds: Callable[[int], float] = lambda mask: 1e-6,
        rows: int = 100,
        on_few: Callable[[int], float] | None = None,
    ) -> None:
        self.accuracy = accuracy
        self.seconds_of = seconds
        self.workers = 1
        self.spent = Spent()
        self.count = rows
        self.asked: list[int] = []
        self.on_few = on_few or accuracy
        self.sample: Self | None = None

    @property
    def rows(self) -> int:
        return self.count

    def seconds(self, mask: int) -> float:
        return self.seconds_of(mask)

    def qualities(self, masks: Sequence[int]) -> Generator[float]:
        for mask in masks:
            if mask not in self.asked:
                self.spent.seconds += self.seconds(mask)
            self.asked.append(mask)
            yield self.accuracy(mask)

    def expected_s(self, mask: int) -> float:
        return self.seconds(mask)

    def on_sample(self, count: int) -> Self:
        share = count / self.rows
        self.sample = type(self)(
            self.on_few, lambda mask: share * self.seconds(mask), count
        )
        self.sample.spent = self.spent
        return self.sample
