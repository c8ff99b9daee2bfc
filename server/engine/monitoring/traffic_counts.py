"""Count what a model answers, and what the items lack that it answers."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from polydom.features.items import Gaps

MOST = 100  # names of classes or columns that are counted one by one
OTHERS = "(other)"  # stands for all further names
# Patterns of empty columns that are counted before they are resolved into columns
PATTERNS = 4096
NAMES = ("labels", "missing", "unknown")


class TrafficCounts:
    """Counts answers by class, and items by what they lack.

    `labels` counts answers by class; it stays empty if answers are numbers. `outside`
    counts items whose size is beyond the sizes that costs were measured for. Only one
    thread may use an object.

    `labels` gives the classes of the index, `columns` the columns that its features
    read, and `words` those of them that hold words or dates. `named` returns the names
    of the columns in a mask, as `ColumnNeeds.named` does.
    """

    def __init__(
        self,
        labels: Sequence[str] = (),
        columns: Iterable[str] = (),
        words: Iterable[str] = (),
        named: Callable[[int], Iterable[str]] = lambda _: (),
    ) -> None:
        # Names that begin with 0 are exported from the start
        self.labels = Counter(dict.fromkeys(labels, 0))
        self._missing = Counter(dict.fromkeys(columns, 0))
        self._unknown = Counter(dict.fromkeys(words, 0))
        self._patterns: Counter[int] = Counter()  # items by mask of empty columns
        self._named = named
        self.outside = 0

    def lacks(self, gaps: Gaps) -> None:
        """Count an item's empty columns, and its columns with an unknown word."""
        if gaps.empty:
            self._patterns[gaps.empty] += 1
            if len(self._patterns) > PATTERNS:
                self._resolve()
        if gaps.unknown:
            self._unknown.update(gaps.unknown)

    def take(self, other: "TrafficCounts") -> None:
        """Move all counts of another object, of the same index, to this one."""
        other._resolve()
        for own, counter in zip(self._counters(), other._counters(), strict=True):
            own.update(counter)
            counter.clear()
        self.outside, other.outside = self.outside + other.outside, 0

    def like(self) -> "TrafficCounts":
        """Return an object of the same index that has counted nothing."""
        return TrafficCounts(named=self._named)

    def counts(self) -> Counter[tuple[str, str]]:
        """Return all counts until now, by name and class or column.

        The names are "labels", "missing", "unknown" and "outside". After `MOST` classes
        or columns, further ones are added up under `OTHERS`.
        """
        self._resolve()
        total = Counter({("outside", ""): self.outside})
        for name, counter in zip(NAMES, self._counters(), strict=True):
            for place, (label, count) in enumerate(counter.items()):
                total[name, label if place < MOST else OTHERS] += count
        return total

    def _counters(self) -> tuple[Counter[str], ...]:
        return self.labels, self._missing, self._unknown

    def _resolve(self) -> None:
        for mask, count in self._patterns.items():
            for name in self._named(mask):
                self._missing[name] += count
        self._patterns.clear()
