"""A sparse table of the terms in many texts, from which weights are learned."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.ready_made.learned_text import Recipe, TermWeights

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Rows = NDArray[np.int64]

FEWEST_TEXTS = 2  # texts that a term must occur in to be learned
CHUNK = 1 << 20


class TermTable(NamedTuple):
    """The terms of N texts; each term occurs in at least two texts."""

    hashes: NDArray[np.uint32]  # (T,) uint32: All terms, ascending
    # (N + 1,) int64: Position of each text's first term; at the end the number of terms
    starts: Rows
    terms: NDArray[np.int32]  # (E,) int32: Positions in `hashes`
    # (E,) float32: 1 + the logarithm of how often the term occurs in the text
    counts: NDArray[np.float32]

    def only(self, rows: Rows) -> "TermTable":
        """Return the table of the texts at positions `rows`, which must ascend."""
        lengths = np.diff(self.starts)[rows]
        kept = np.zeros(len(self.starts) - 1, np.bool_)
        kept[rows] = True
        chosen = np.repeat(kept, np.diff(self.starts))
        starts = np.concatenate([[0], np.cumsum(lengths)])
        return TermTable(self.hashes, starts, self.terms[chosen], self.counts[chosen])


class CountedTexts(NamedTuple):
    """N texts with their numbers of distinct terms, and each term's hash and count."""

    lengths: Rows
    hashes: NDArray[np.uint32]
    counts: NDArray[np.float32]


class Vocabulary(NamedTuple):
    """The V terms that get a weight, with their rarity."""

    terms: Rows  # (V,) int64: Positions among all terms, ascending
    # (V,) float32: Smoothed inverse document frequency
    rarity: NDArray[np.float32]


def count_texts(recipe: Recipe, texts: Sequence[str]) -> CountedTexts:
    """Count the terms of each text; the recipe defines what a term is."""
    counted = [recipe.count(text) for text in texts]
    return CountedTexts(
        np.array([len(text.hashes) for text in counted], np.int64),
        np.concatenate([text.hashes for text in counted]),
        np.concatenate([text.counts for text in counted]).astype(np.float32),
    )


def make_table(parts: Sequence[CountedTexts]) -> TermTable:
    """Make a table of counted texts; leave out terms that occur in one text only."""
    lengths, every, counts = map(np.concatenate, zip(*parts, strict=True))
    hashes, found = np.unique(every, return_counts=True)
    hashes = hashes[found >= FEWEST_TEXTS]
    terms, kept = np.empty(len(every), np.int32), np.zeros(len(every), np.bool_)
    for start in range(0, len(every) if len(hashes) else 0, CHUNK):
        part = slice(start, start + CHUNK)
        terms[part] = hashes.searchsorted(every[part])
        kept[part] = hashes.take(terms[part], mode="clip") == every[part]
    starts = _starts_among(kept, np.concatenate([[0], np.cumsum(lengths)]))
    return TermTable(hashes, starts, terms[kept], counts[kept])


def choose_vocabulary(table: TermTable, most: int) -> Vocabulary:
    """Choose the terms that occur in the most texts, at most `most` terms.

    Terms in a single text are never chosen. Of equally frequent terms, those with lower
    hashes come first.
    """
    found = np.bincount(table.terms, minlength=len(table.hashes))
    often = np.flatnonzero(found >= FEWEST_TEXTS)
    first = np.argsort(-found[often], kind="stable")[:most]
    terms = np.sort(often[first])
    texts = len(table.starts) - 1
    rarity = 1 + np.log((1 + texts) / (1 + found[terms]))
    return Vocabulary(terms, rarity.astype(np.float32))


def weigh(table: TermTable, vocabulary: Vocabulary) -> "csr_array":
    """Return sparse TF-IDF rows (N, V): counts times rarity, scaled to length 1."""
    from scipy.sparse import csr_array

    places = np.full(len(table.hashes), -1, np.int32)
    places[vocabulary.terms] = np.arange(len(vocabulary.terms), dtype=np.int32)
    columns = places[table.terms]
    known = columns >= 0
    columns = columns[known]
    values = table.counts[known].astype(np.float64) * vocabulary.rarity[columns]
    starts = _starts_among(known, table.starts).astype(np.int32)
    shape = len(starts) - 1, len(vocabulary.terms)
    rows = csr_array((values, columns, starts), shape=shape)
    squares = csr_array((values * values, columns, starts), shape=shape).sum(axis=1)
    rows.data /= np.repeat(np.sqrt(squares), np.diff(starts))
    return rows


def score(rows: "csr_array", learned: TermWeights) -> NDArray[np.float64]:
    """Return the scores (N, K) of rows from `weigh`; `TermScores` scores one text."""
    scores: Any = rows @ learned.weights.astype(np.float64)
    scored: NDArray[np.float64] = scores + learned.intercepts
    return scored


def _starts_among(kept: NDArray[np.bool_], starts: Rows) -> Rows:
    """Return where each text's terms start once terms not `kept` are removed."""
    begun: Rows = starts - np.flatnonzero(~kept).searchsorted(starts)
    return begun
