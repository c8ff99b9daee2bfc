"""Features of texts that a build learns: which terms, and what each is worth.

Each gives one score for two classes, and as many as there are classes for more. What
they cost grows with the text, not with the number of terms known.
"""

import numpy as np
from numpy.typing import NDArray

from ..feature import step
from ..term_scores import CountedTerms, Recipe, count_terms
from .text import OPENING, lowered, mixed, word_hashes, words

Hashes = NDArray[np.uint32]

LENGTHS = range(2, 6)  # of sequences, in bytes
NEXT_BYTE = np.uint32(0x01000193)
NEXT_WORD = np.uint32(0x9E3779B1)
# every white space and control character as a space
SPACED = bytes(max(code, 0x20) for code in range(256))


@step(kind="text")
def opening_terms(text: str) -> CountedTerms:
    """Count the words, and pairs of neighbours, of the first 256 characters."""
    return count_terms(with_pairs(word_hashes(words(lowered(text[:OPENING])))))


@step(needs=[word_hashes])
def word_terms(word_hashes: Hashes) -> CountedTerms:
    """Count words."""
    return count_terms(word_hashes.copy())


@step(needs=[word_hashes])
def pair_terms(word_hashes: Hashes) -> CountedTerms:
    """Count words and pairs of neighbours."""
    return count_terms(with_pairs(word_hashes))


@step(needs=[lowered])
def short_terms(lowered: bytes) -> CountedTerms:
    """Count sequences of 4 bytes, with spaces around the text."""
    return count_terms(sequences_of(lowered, range(4, 5)))


@step(needs=[lowered])
def sequence_terms(lowered: bytes) -> CountedTerms:
    """Count sequences of 2, 3, 4 and 5 bytes, with spaces around the text."""
    return count_terms(sequences_of(lowered, LENGTHS))


def with_pairs(words: Hashes) -> Hashes:
    """Hash words, which are hashes, and pairs of neighbours."""
    pairs = mixed(words[:-1] * NEXT_WORD + words[1:])
    return np.concatenate([words, pairs])


def sequences_of(data: bytes, lengths: range) -> Hashes:
    """Hash every run of bytes of some ascending lengths, with a space around all."""
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
