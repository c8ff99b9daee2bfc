"""Slow twins of learned features of texts: terms, vocabularies, scores, by dicts."""

import itertools
import math
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence

from polydom.features.ready_made.text import lowered, words
from tests.support.oracles.text import mixed

Terms = Counter[int]


def words_and_pairs(text: str, pairs: bool) -> Terms:
    """Count the hashes of words, and of pairs of neighbours."""
    hashes = [zlib.crc32(word) for word in words(lowered(text))]
    found = Counter(hashes)
    if pairs:
        for one, other in itertools.pairwise(hashes):
            found[mixed((one * 0x9E3779B1 + other) % 2**32)] += 1
    return found


def sequences(text: str, lengths: Sequence[int]) -> Terms:
    """Count the hashes of sequences of bytes, with a space around the text."""
    data = bytes(max(byte, 32) for byte in b" " + lowered(text) + b" ")
    found: Terms = Counter()
    for length in lengths:
        for start in range(len(data) - length + 1):
            value = 0
            for byte in data[start : start + length]:
                value = (value * 0x01000193 + byte) % 2**32
            found[mixed(value)] += 1
    return found


def vocabulary(texts: Sequence[Terms], most: int) -> dict[int, float]:
    """Rarity of the terms of the most texts, of those in at least two."""
    found = Counter(term for text in texts for term in text)
    often = [term for term in found if found[term] >= 2]
    often.sort(key=lambda term: (-found[term], term))
    return {
        term: 1 + math.log((1 + len(texts)) / (1 + found[term]))
        for term in often[:most]
    }


def weighed(text: Terms, rarity: Mapping[int, float]) -> dict[int, float]:
    """Counts times rarity, scaled to length 1."""
    values = {
        term: (1 + math.log(count)) * rarity[term]
        for term, count in text.items()
        if term in rarity
    }
    length = math.sqrt(sum(value**2 for value in values.values()))
    return {term: value / length for term, value in values.items()}


def score(
    text: Terms,
    rarity: Mapping[int, float],
    weights: Mapping[int, float],
    intercept: float,
) -> float:
    """Sum what each known term adds."""
    values = weighed(text, rarity)
    return intercept + sum(weights[term] * value for term, value in values.items())
