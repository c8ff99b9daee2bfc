"""Slow twins of features of texts."""

import math
import string
from collections.abc import Sequence


def bag_of_hashes(hashes: Sequence[int], bits: int) -> list[float]:
    """Logarithms of how many hashes share their high bits, scaled to length 1."""
    weights = [0.0] * (1 << bits)
    for value in hashes:
        weights[value >> (32 - bits)] += 1
    weights = [math.log(1 + weight) for weight in weights]
    length = max(math.sqrt(sum(weight**2 for weight in weights)), 1.0)
    return [weight / length for weight in weights]


def mixed(value: int) -> int:
    """Two rounds of shift and multiply on 32 bits."""
    value = ((value ^ value >> 15) * 0x85EBCA6B) % 2**32
    return ((value ^ value >> 13) * 0xC2B2AE35) % 2**32


def hashes_of_runs(data: bytes, length: int) -> list[int]:
    """Hash every run of `length` bytes on its own."""
    found = []
    for start in range(len(data) - length + 1):
        value = 0
        for byte in data[start : start + length]:
            value = (value * 0x01000193 + byte) % 2**32
        found.append(mixed(value))
    return found


def casing(text: str) -> list[float]:
    """How ASCII letters are capitalised, letter by letter."""
    upper = [c in string.ascii_uppercase for c in text]
    letter = [c in string.ascii_letters for c in text]
    starts = [k for k in range(len(text)) if letter[k] and not (k and letter[k - 1])]
    inner = [k for k in range(1, len(text)) if upper[k] and letter[k - 1]]
    capital = [k for k in starts if upper[k]]
    second = [k for k in capital if k + 1 < len(text) and upper[k + 1]]
    letters, words = max(sum(letter), 1), max(len(starts), 1)
    return [
        sum(upper) / letters,
        len(capital) / words,
        len(second) / words,
        sum(not upper[k - 1] for k in inner) / letters,
        sum(letter) / (len(text.encode("utf-8", "surrogatepass")) + 2),
    ]


def type_token(words: Sequence[bytes]) -> list[float]:
    """How rich a vocabulary is, word by word."""
    total = max(len(words), 1)
    counts = sorted((words.count(word) for word in set(words)), reverse=True)
    mean = sum(map(len, words)) / total
    return [
        math.log(1 + len(words)),
        len(counts) / total,
        len(counts) / math.sqrt(total),
        counts.count(1) / total,
        sum(counts[:1]) / total,
        sum(counts[:5]) / total,
        -sum(count / total * math.log2(count / total) for count in counts),
        mean,
        math.sqrt(sum((len(word) - mean) ** 2 for word in words) / total),
        sum(len(word) > 6 for word in words) / total,
    ]
