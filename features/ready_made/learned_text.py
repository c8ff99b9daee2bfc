"""Features of texts that a build learns: scores by weighted terms.

A term is a word, a pair of words or a sequence of characters. A feature has one score
for two classes, and one score per class for more classes. The time grows with the
length of the text, but hardly with the number of known terms. Terms are stored as
hashes of 32 bits. With 50,000 known terms, one in 86,000 unknown terms has the hash of
a known term; that is too rare to change a text's score much.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import BadFeature
from ..feature import Feature, Step, feature, step
from .text import OPENING, lowered, mixed, word_hashes, words

Hashes = NDArray[np.uint32]
Doubles = NDArray[np.float64]
Floats = NDArray[np.float32]

KINDS = {
    "hashes": np.dtype(np.uint32),
    "rarity": np.dtype(np.float32),
    "weights": np.dtype(np.float32),
    "intercepts": np.dtype(np.float32),
}
LARGEST = float(np.finfo(np.float32).max)

LENGTHS = range(2, 6)  # lengths of sequences, in bytes
NEXT_BYTE = np.uint32(0x01000193)
NEXT_WORD = np.uint32(0x9E3779B1)
# replaces white space and control characters by spaces
SPACED = bytes(max(code, 0x20) for code in range(256))


class CountedTerms(NamedTuple):
    """The different terms of a text, as hashes, and how often each occurs."""

    hashes: Hashes  # (T,) uint32: Hashes of the terms, ascending
    # (T,) float64: 1 + the logarithm of the number of times that each term occurs
    counts: Doubles


def count_terms(hashes: Hashes) -> CountedTerms:
    """Count the terms of a text from their hashes, which may be in any order.

    The array `hashes` is sorted in place.
    """
    hashes.sort()
    first = np.empty(len(hashes) + 1, np.bool_)
    first[:1] = first[-1:] = True
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:-1])
    starts = first.nonzero()[0]
    counts = np.log(starts[1:] - starts[:-1])
    counts += 1.0
    return CountedTerms(hashes[starts[:-1]], counts)


@dataclass(frozen=True, eq=False)
class TermWeights:
    """Learned weights of V terms for K scores."""

    hashes: Hashes  # (V,) uint32: Hashes of the terms, ascending and all different
    # (V,) float32: Inverse document frequency of each term: a logarithm, greater than 0
    rarity: Floats
    # (V, K) float32: Amount that a text of this term alone adds to each score
    weights: Floats
    intercepts: Floats  # (K,) float32: Scores of a text without any known term

    def __post_init__(self) -> None:
        """Convert memory-mapped arrays to plain arrays, which are faster to index."""
        for name in KINDS:
            object.__setattr__(self, name, np.asarray(getattr(self, name)))

    def check(self) -> None:
        """Raise BadFeature if arrays do not fit together, or scores may be infinite."""
        shapes = [array.shape for array in self.arrays().values()]
        count, width = len(self.rarity), len(self.intercepts)
        kinds = [array.dtype for array in self.arrays().values()]
        if kinds != [*KINDS.values()]:
            raise BadFeature("learned terms are of another type of number")
        if shapes != [(count,), (count,), (count, width), (width,)] or not width:
            raise BadFeature("learned terms are not as many as their weights")
        if not (self.hashes[1:] > self.hashes[:-1]).all():
            raise BadFeature("learned terms are not in order, or come twice")
        if not ((self.rarity > 0) & (self.rarity <= LARGEST)).all():
            raise BadFeature("a learned term's rarity is not above 0 and finite")
        # a text's counts are scaled to length 1, so no score exceeds this
        with np.errstate(over="ignore", invalid="ignore"):
            most = np.linalg.norm(self.weights.astype(np.float64), axis=0)
            most += np.abs(self.intercepts)
        if not (most <= LARGEST).all():
            raise BadFeature("learned weights make scores that are not finite")

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name, to be stored."""
        return {name: getattr(self, name) for name in KINDS}


# Weights before learning: every text has the score 0.
NOTHING = TermWeights(
    np.empty(0, np.uint32),
    np.empty(0, np.float32),
    np.empty((0, 1), np.float32),
    np.zeros(1, np.float32),
)


@dataclass(frozen=True, eq=False)
class TermScores:
    """The function of a learned feature: it scores a text by its counted terms."""

    learned: TermWeights

    def __call__(self, terms: CountedTerms) -> Floats:
        """Return the scores (K,) float32 of a text by its known terms; all are finite.

        The value of a term is the term's entry in `terms.counts`, multiplied by the
        term's rarity. The values of all known terms of the text are scaled to norm 1. A
        score is the sum of these values, each multiplied by the term's weight, plus the
        intercept.
        """
        learned, (hashes, counts) = self.learned, terms
        if not len(learned.hashes):
            return learned.intercepts.copy()
        places = learned.hashes.searchsorted(hashes)
        known = learned.hashes.take(places, mode="clip") == hashes
        places = places[known]
        values = counts[known] * learned.rarity[places]
        length = float(values @ values) ** 0.5
        if not length:
            return learned.intercepts.copy()
        scores = values @ learned.weights[places]
        scores /= length
        scores += learned.intercepts
        made: Floats = scores.astype(np.float32)
        return made


@dataclass(frozen=True, eq=False)
class Recipe:
    """The description of a feature that a build learns from labelled texts."""

    name: str  # Name of the learned feature
    what: str  # Sentence that describes the feature
    terms: Step  # Step that counts the terms of a text
    # Most terms that are kept: the terms in the largest numbers of texts, at least 2
    most: int

    def count(self, text: str) -> CountedTerms:
        """Count the terms of a text."""
        counted: CountedTerms = _run(self.terms, text)
        return counted

    def feature(self, learned: TermWeights) -> Feature:
        """Make the feature of this recipe from learned weights."""
        return feature(TermScores(learned), needs=[self.terms], name=self.name)


def _run(step: Step, text: str) -> Any:
    """Run a step on a text, after all steps that it needs."""
    return step(*([_run(need, text) for need in step.needs] or [text]))


@step(kind="text")
def opening_terms(text: str) -> CountedTerms:
    """Count words and pairs of neighbouring words in the first 256 characters."""
    return count_terms(with_pairs(word_hashes(words(lowered(text[:OPENING])))))


@step(needs=[word_hashes])
def word_terms(word_hashes: Hashes) -> CountedTerms:
    """Count the words of a text, given their hashes."""
    return count_terms(word_hashes.copy())


@step(needs=[word_hashes])
def pair_terms(word_hashes: Hashes) -> CountedTerms:
    """Count the words and the pairs of neighbouring words, given the words' hashes."""
    return count_terms(with_pairs(word_hashes))


@step(needs=[lowered])
def short_terms(lowered: bytes) -> CountedTerms:
    """Count sequences of 4 bytes; a space is added at both ends of the text."""
    return count_terms(sequences_of(lowered, range(4, 5)))


@step(needs=[lowered])
def sequence_terms(lowered: bytes) -> CountedTerms:
    """Count sequences of 2, 3, 4 and 5 bytes; a space is added at both ends."""
    return count_terms(sequences_of(lowered, LENGTHS))


def with_pairs(words: Hashes) -> Hashes:
    """Return the hashes of words, and the hashes of all pairs of neighbouring words."""
    pairs = mixed(words[:-1] * NEXT_WORD + words[1:])
    return np.concatenate([words, pairs])


def sequences_of(data: bytes, lengths: range) -> Hashes:
    """Return the hashes of all byte sequences with these lengths, shortest first.

    A space is added at both ends of `data`.
    """
    codes = np.frombuffer(b" %b " % data.translate(SPACED), np.uint8).astype(np.uint32)
    hashes, found = codes, []
    for length in range(2, min(lengths.stop, len(codes) + 1)):
        hashes = hashes[:-1] * NEXT_BYTE
        hashes += codes[length - 1 :]
        if length >= lengths.start:
            found.append(hashes)
    return mixed(np.concatenate(found)) if found else np.empty(0, np.uint32)


RECIPES = (
    Recipe(
        "learned_opening",
        "Score by 20,000 words and pairs of words, in the first 256 characters.",
        opening_terms,
        20_000,
    ),
    Recipe("learned_words", "Score by the 20,000 commonest words.", word_terms, 20_000),
    Recipe(
        "learned_word_pairs",
        "Score by 50,000 words and pairs of neighbouring words.",
        pair_terms,
        50_000,
    ),
    Recipe(
        "learned_ngrams",
        "Score by 20,000 sequences of 4 characters.",
        short_terms,
        20_000,
    ),
    Recipe(
        "learned_all_ngrams",
        "Score by 50,000 sequences of 2 to 5 characters.",
        sequence_terms,
        50_000,
    ),
)


def recipes_by_name() -> dict[str, Recipe]:
    """Return the recipes of all features that a build can learn."""
    return {recipe.name: recipe for recipe in RECIPES}
