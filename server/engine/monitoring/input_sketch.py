"""Compare the items that a server answers with the training items of the build."""

from collections import deque
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.extract import Extractor
from polydom.features.items import SIZE_NAMES, Item, ReadRecord
from polydom.features.ready_made.learned_text import TermScores
from polydom.features.ready_made.unseen_words import unseen_share
from polydom.features.sizes import Size
from polydom.indexer.index.input_reference import (
    MOST_VALUES,
    BuiltInputs,
    Shares,
    inputs_of,
)
from polydom.indexer.index.package import Package

from ..request import Outcome
from .described_columns import Described, describe_column, with_distinct_names
from .stability import chance_level, stability_index

# At most one item in GAP_S seconds is sampled, so that a sketch takes at most half a
# hundredth of the time.
GAP_S = 2e-3
WORDS_GAP_S = 0.02  # the same for texts whose words are looked up, which takes longer
# Items are counted in two halves. The newer half becomes the older one after at least
# HALF_S seconds and HALF_ITEMS sampled items.
HALF_S, HALF_ITEMS = 300.0, 1000
AT_ONCE = 64  # sampled items that are counted together
# A column is compared if its feature was computed for at least this share of the items.
# Plans choose by size and by early exits for which items they compute a feature, so
# that others would seem to have changed.
COMPLETE = 0.99
LEAST = 100  # items from which a column is compared
ALL = -1  # mask of all features
BINS = MOST_VALUES + 2
MASKS = 1024  # masks of features whose columns are remembered
Floats = NDArray[np.float64]
Row = NDArray[np.float32]


class Shift(NamedTuple):
    """How the present items differ from the build's in one number."""

    name: str  # Name of the column, or of a number of the size
    # Words that the values 0, 1, ... stand for; None for numbers
    words: tuple[str, ...] | None
    items: int  # Number of present items
    # Population stability index less `chance`, at least 0; None if there are too few
    # items, or if the number is not known of enough of them
    psi: float | None
    chance: float  # Level that the index exceeds by chance in 5 % of all cases
    built: list[float]  # Shares of the build's items by bin, as in `Shares`
    now: list[float]  # Shares of the present items
    # Ends of the bins, or values with bins of their own: as in `Shares`
    edges: list[float]
    values: list[float]


class InputSketch:
    """Counts a sample of the answered items by the bins of the build's distributions.

    `next_s` is the time from which the next answer is sampled. Threads may share the
    object. `extractor` and `labels` are those of the index, and `pair` is True if its
    sizes are two numbers. The other parameters are explained at the constants.
    """

    def __init__(
        self,
        inputs: BuiltInputs,
        extractor: Extractor,
        labels: Sequence[str],
        *,
        pair: bool = False,
        gap_s: float = GAP_S,
        half_s: float = HALF_S,
        half_items: int = HALF_ITEMS,
    ) -> None:
        self.inputs = inputs
        self.next_s = -np.inf
        self._gap_s, self._half_s, self._half_items = gap_s, half_s, half_items
        sizes = inputs.sizes if len(inputs.sizes) == 1 + pair else []
        self._sizes = len(sizes)
        self._codes = {label: float(code) for code, label in enumerate(labels)}
        known = {one.name: place for place, one in enumerate(extractor.features)}
        features = [known[one.feature] for one in inputs.columns]
        self._bits = [1 << feature for feature in features]
        self._places = np.array(
            [
                extractor.columns(feature).start + one.column
                for feature, one in zip(features, inputs.columns, strict=True)
            ],
            np.int64,
        )
        self._absent: dict[int, NDArray[np.bool_]] = {}
        described = [
            describe_column(extractor, feature, one.column)
            for feature, one in zip(features, inputs.columns, strict=True)
        ]
        described += map(Described, SIZE_NAMES[extractor.kind][pair][: len(sizes)])
        self._columns = with_distinct_names(described)
        self._shares: list[Shares] = [*inputs.columns, *sizes]
        self._answers = inputs.labels or Shares([0.0, 1.0])
        self._answer = Described("", tuple(labels) or None)
        self._bins = _Bins([*self._shares, self._answers], inputs.items)
        self._vocabulary = None
        if inputs.vocabulary is not None and inputs.vocabulary in known:
            function = extractor.features[known[inputs.vocabulary]].function
            if isinstance(function, TermScores):
                self._vocabulary = function.learned
        self._next_words_s = -np.inf
        self._waiting: deque[tuple[Row, int, Size, str | float]] = deque()
        self._unseen: list[float] = []
        self._lock = Lock()
        self._halves = [_Half(self._bins.zeros()), _Half(self._bins.zeros())]

    @classmethod
    def of(cls, package: Package, extractor: Extractor, pair: bool) -> Self | None:
        """Make the object for an index; None if it has no distributions."""
        inputs = inputs_of(package.meta)
        if inputs is None:
            return None
        return cls(inputs, extractor, package.labels, pair=pair)

    def offer(self, item: Item, outcome: Outcome) -> None:
        """Take an answered item into the sample, if it is due."""
        if outcome.finished_s < self.next_s:
            return
        payload, row, computed = item.payload, outcome.values, outcome.computed
        if type(payload) is ReadRecord:
            row, computed = payload.row, ALL
        if row is None:
            return
        answer = outcome.label if outcome.value is None else outcome.value
        assert answer is not None
        self.add(row, computed, item.size, answer, outcome.finished_s)
        due = self._vocabulary is not None and outcome.finished_s >= self._next_words_s
        if due and isinstance(payload, str):
            self.read_words(payload, outcome.finished_s)

    def add(
        self,
        row: Row,
        computed: int,
        size: Size,
        answer: str | float,
        now_s: float,
    ) -> None:
        """Take an item into the sample.

        `row` is the full row of the features, of which those in the mask `computed` are
        computed. `answer` is the class or the number that was answered at `now_s`.
        """
        self.next_s = now_s + self._gap_s
        self._waiting.append((row[self._places], computed, size, answer))
        if len(self._waiting) >= AT_ONCE:
            with self._lock:
                self._count(now_s)

    def read_words(self, text: str, now_s: float) -> None:
        """Look up the first words of a text among the learned terms."""
        self._next_words_s = now_s + WORDS_GAP_S
        if self._vocabulary is not None:
            share = unseen_share(self._vocabulary, text)
            if share is not None:
                self._unseen.append(share)

    def _count(self, now_s: float) -> None:
        """Count the waiting items; the caller holds the lock."""
        taken = [self._waiting.popleft() for _ in range(len(self._waiting))]
        newer = self._halves[1]
        unseen, self._unseen = self._unseen, []
        newer.unseen += sum(unseen)
        newer.texts += len(unseen)
        if not taken:
            return
        columns, sizes = len(self._places), self._sizes
        rows = np.empty((len(taken), columns + sizes + 1))
        given, masks, numbers, answers = zip(*taken, strict=True)
        values = np.array(given)
        for out, computed in zip(values, masks, strict=True):
            if computed != ALL:  # then the row has numbers that nobody has set
                out[self._absent_in(computed)] = np.inf
        rows[:, :columns] = values
        if sizes:
            rows[:, columns:-1] = np.reshape(numbers, (-1, sizes))
        rows[:, -1] = [
            self._codes.get(one, -1.0) if isinstance(one, str) else one
            for one in answers
        ]
        if newer.items >= self._half_items and now_s - newer.began_s >= self._half_s:
            newer = _Half(self._bins.zeros())
            self._halves = [self._halves[1], newer]
        if not newer.items:
            newer.began_s = now_s
        newer.items += len(taken)
        self._bins.count(rows, newer.counts)

    def _absent_in(self, computed: int) -> NDArray[np.bool_]:
        """Return a mask of the columns that are not computed."""
        absent = self._absent.get(computed)
        if absent is None:
            if len(self._absent) >= MASKS:
                self._absent.clear()
            absent = np.array([not bit & computed for bit in self._bits], np.bool_)
            self._absent[computed] = absent
        return absent

    def sampled(self, now_s: float) -> int:
        """Return the number of sampled items in the window."""
        return self._window(now_s)[0]

    def _window(self, now_s: float) -> tuple[int, Floats, float, int]:
        """Return the items in both halves, their counts, and sums of unseen words."""
        with self._lock:
            self._count(now_s)
            older, newer = self._halves
            items, texts = older.items + newer.items, older.texts + newer.texts
            counts = (older.counts + newer.counts).astype(np.float64)
            return items, counts, older.unseen + newer.unseen, texts

    def shifts(self, now_s: float) -> list[Shift]:
        """Return the shifts of all columns and sizes, the largest first."""
        items, counts, _, _ = self._window(now_s)
        expected = self._bins.expected
        psi, chance = stability_index(expected, counts), chance_level(expected, counts)
        known = counts.sum(axis=1)
        found = []
        for k, (one, shares) in enumerate(
            zip(self._columns, self._shares, strict=True)
        ):
            compared = known[k] >= max(LEAST, COMPLETE * items)
            found.append(
                Shift(
                    one.name,
                    one.words,
                    int(known[k]),
                    max(float(psi[k] - chance[k]), 0.0) if compared else None,
                    float(chance[k]) if known[k] else 0.0,
                    *_told(one, shares, counts[k]),
                )
            )
        return sorted(found, key=lambda one: -(one.psi or 0.0))

    def answers(self, now_s: float) -> Shift:
        """Return the shares of present answers beside those of the build's labels.

        They are not compared, because a model need not answer as often with a class as
        the class occurs.
        """
        _, counts, _, _ = self._window(now_s)
        own = counts[-1]
        told = _told(self._answer, self._answers, own)
        return Shift("", self._answer.words, int(own.sum()), None, 0.0, *told)

    def unseen_words(self, now_s: float) -> float | None:
        """Return the mean share of unseen words in present texts; None if unknown."""
        _, _, unseen, texts = self._window(now_s)
        return unseen / texts if texts else None


def _told(
    column: Described, shares: Shares, counts: Floats
) -> tuple[list[float], list[float], list[float], list[float]]:
    """Return the fields `built`, `now`, `edges` and `values` of a `Shift`."""
    own = counts[: len(shares.shares)]
    now = (own / max(own.sum(), 1.0)).tolist()
    ends = column.shown(shares.edges), column.shown(shares.values)
    return shares.shares, now, *ends


class _Half:
    """What was counted of one half of the window."""

    def __init__(self, counts: NDArray[np.int64]) -> None:
        self.counts = counts
        self.items = self.texts = 0
        self.unseen = 0.0
        self.began_s = -np.inf


class _Bins:
    """The bins of N numbers as arrays, to count many rows at once."""

    def __init__(self, shares: Sequence[Shares], items: int) -> None:
        count = len(shares)
        self.expected = np.zeros((count, BINS))
        self._ends = np.full((count, MOST_VALUES), np.inf)
        self._others = np.zeros(count, np.int64)  # bin of values not among the known
        self._exact = np.array([not one.edges for one in shares])
        for k, one in enumerate(shares):
            ends = one.edges or one.values
            self._ends[k, : len(ends)] = ends
            self._others[k] = len(ends)
            self.expected[k, : len(one.shares)] = one.shares
        self.expected *= items
        self._first = np.arange(count) * BINS

    def zeros(self) -> NDArray[np.int64]:
        """Return counts of no items, (N, BINS)."""
        return np.zeros((len(self._ends), BINS), np.int64)

    def count(self, rows: Floats, counts: NDArray[np.int64]) -> None:
        """Add rows (n, N) to `counts`: NaN is a missing number, infinity is none."""
        places = (rows[:, :, np.newaxis] > self._ends).sum(axis=2)
        near = np.minimum(places, MOST_VALUES - 1)
        ends = self._ends[np.arange(rows.shape[1]), near]
        places = np.where(self._exact & (ends != rows), self._others, places)
        bins = np.where(np.isnan(rows), 0, 1 + places) + self._first
        known = bins[~np.isposinf(rows)]
        counts += np.bincount(known, minlength=counts.size).reshape(counts.shape)
