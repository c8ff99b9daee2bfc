"""Describe how a build's training items are distributed, so that a server can compare.

The training items are those of all divisions: with folds, all items. Learned features
score training texts out of fold, so their scores are distributed as those of new texts.
"""

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from polydom.features.ready_made.learned_text import TermWeights
from polydom.features.ready_made.unseen_words import unseen_share
from polydom.features.sizes import Size
from polydom.features.tables.column_features import Columns, KnownWords

from ..index.input_reference import (
    MOST_BINS,
    MOST_COLUMNS,
    MOST_VALUES,
    BuiltInputs,
    ColumnShares,
    Shares,
)
from .prepare import Prepared

MOST_ITEMS = 20_000  # training items that are counted; of more, a random sample
FIRST_COLUMNS = 4  # columns that are described of a feature that is a function
# Learned features whose terms include single words; the first that a build has is used
WITH_WORDS = ("learned_words", "learned_word_pairs", "learned_opening")
MOST_TEXTS = 2_000  # held-out texts whose words are looked up
Numbers = NDArray[np.float64]


def describe_inputs(data: Prepared) -> BuiltInputs:
    """Return the distributions of the training items of a build."""
    table, seed = data.table, data.project.seed
    dataset, values = table.dataset, table.values
    train = np.unique(np.concatenate([train for train, _ in data.splits]))
    rows = train
    if len(rows) > MOST_ITEMS:
        draw = np.random.default_rng(seed)
        rows = np.sort(draw.choice(rows, MOST_ITEMS, replace=False))
    extractor = table.features.extractor
    columns = []
    for position, feature in enumerate(extractor.features):
        own = extractor.columns(position)
        function, width = feature.function, own.stop - own.start
        if not isinstance(function, Columns):
            width = min(width, FIRST_COLUMNS)
        for column in range(width):
            numbers = values[:, own.start + column].astype(np.float64)
            codes = function.codes[column] if isinstance(function, Columns) else None
            words = isinstance(codes, KnownWords)
            if words:
                _forget_rare(numbers, train)
            shares = shares_of(numbers[rows], 0 if words else MOST_BINS)
            columns.append(
                ColumnShares(
                    shares.shares,
                    shares.edges,
                    shares.values,
                    feature=feature.name,
                    column=column,
                )
            )
    sizes = [] if dataset.kind == "record" else _sizes(data, rows)
    bins = 0 if dataset.numbers is None else MOST_BINS
    labels = shares_of(dataset.targets[rows].astype(np.float64), bins)
    described = BuiltInputs(len(rows), columns[:MOST_COLUMNS], sizes, labels)
    _describe_words(described, data)
    return described


def _forget_rare(codes: Numbers, train: NDArray[np.int64]) -> None:
    """Make words that occur in one training row unknown, in place.

    Of new items, about as large a share has a word that no training item has (Good and
    Turing); without this, columns of many rare words would always seem to change.
    """
    _, own, counts = np.unique(codes[train], return_inverse=True, return_counts=True)
    codes[train[counts[own] == 1]] = np.nan


def _sizes(data: Prepared, rows: NDArray[np.int64]) -> list[Shares]:
    sizes: list[Size] = [data.table.dataset.items[row].size for row in rows.tolist()]
    numbers = np.atleast_2d(np.array(sizes, np.float64).T)
    if (numbers == numbers[:, :1]).all():
        return []
    return list(map(shares_of, numbers))


def shares_of(values: Numbers, bins: int = MOST_BINS) -> Shares:
    """Return the distribution of some numbers (N,), N >= 1; NaN is a missing number.

    If they have many different values, there are up to `bins` bins of about equal
    shares, which end at one of the values. If there are few values, or if `bins` is 0,
    the commonest values have shares of their own.
    """
    known = values[~np.isnan(values)]
    missing = 1 - len(known) / len(values)
    different, counts = np.unique(known, return_counts=True)
    if len(different) > MOST_VALUES and bins:
        levels = np.arange(1, bins) / bins
        ends = np.quantile(known, levels, method="inverted_cdf")
        # the largest value, however common, is not in one bin with all others
        edges = np.unique(np.minimum(ends, different[-2]))
        places = np.searchsorted(edges, known)
        counted = np.bincount(places, minlength=len(edges) + 1)
        shares = [missing, *(counted / len(values)).tolist()]
        return Shares(shares, edges=edges.tolist())
    # ascending values of the commonest, of equally common ones the smaller
    chosen = np.sort(np.lexsort((different, -counts))[:MOST_VALUES])
    own = (counts[chosen] / len(values)).tolist()
    rest = max(1.0 - missing - sum(own), 0.0)
    return Shares([missing, *own, rest], values=different[chosen].tolist())


def _describe_words(described: BuiltInputs, data: Prepared) -> None:
    """Add the share of unseen words of held-out texts, if a feature knows words."""
    table = data.table
    names = [one.name for one in table.features.stored if one.text is UNSET]
    name = next((one for one in WITH_WORDS if one in names), None)
    if name is None:
        return
    described.vocabulary = name
    learned = table.features.learned[name]
    # with folds, features are learned from all texts
    if len(data.splits) > 1 or not isinstance(learned, TermWeights):
        return
    _, tested = data.splits[0]
    items = table.dataset.items
    texts = [items[row].payload for row in tested[:MOST_TEXTS].tolist()]
    shares = [unseen_share(learned, one) for one in texts if isinstance(one, str)]
    if found := [one for one in shares if one is not None]:
        described.unseen_words = float(np.mean(found))
