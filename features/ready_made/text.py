"""Ready-made features of texts, of very different cost and power.

Characters are counted as bytes of UTF-8, in compiled code and never in a loop of
Python. Long texts are processed in pieces, since regular expressions, splitting and
counting hold Python's lock until they return, which takes tenths of a second for
megabytes. A run of 65,536 characters without a space may be cut in two. Hashes are
CRC-32 or multiplicative, since Python's own hashes of strings differ from run to run.
All features are finite on every string, also on the empty string and on lone
surrogates.
"""

import re
import string
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, AnyStr

import numpy as np
from numpy.typing import NDArray

from ..feature import feature, step

Bytes = NDArray[np.uint8]
Doubles = NDArray[np.float64]

BUCKETS = 128  # columns of the larger hashed features
# Characters or bytes in a piece of a text; values that are gathered at a time.
PIECE, VALUES = 1 << 16, 1 << 13
OPENING = 256  # first characters, which stand for the whole text in a quick feature

PUNCTUATION = np.frombuffer(string.punctuation.encode(), np.uint8)
# The general punctuation of Unicode, such as curly quotes and dashes, in UTF-8.
UNICODE_PUNCTUATION = re.compile(rb"\xe2[\x80\x81][\x80-\xbf]")
SEPARATORS = bytes(
    code if chr(code).isalnum() or code >= 0x80 else 0x20 for code in range(256)
)
PATTERNS = tuple(
    map(
        re.compile,
        (
            rb"https?://|www\.",
            rb"\w@\w",
            rb"\d+",
            rb"\d{5,}",
            rb"\d[.,:/-]\d",
            rb"\d%",
            rb"\$|\xc2\xa3|\xc2\xa5|\xe2\x82\xac",
            rb"#\w",
            rb"\W@\w",
            rb"[!?]{2,}",
            rb"([a-zA-Z.])\1\1",
            rb"</?[a-zA-Z]",
        ),
    )
)


def is_in(characters: str) -> NDArray[np.bool_]:
    """Return a mask of all bytes (256,): True for the given ASCII characters."""
    return np.isin(np.arange(256), list(characters.encode()))


UPPER = is_in(string.ascii_uppercase)
LETTER = is_in(string.ascii_letters)
VOWEL = is_in("aeiouy")
CLASSES = np.array(
    [
        UPPER,
        is_in(string.ascii_lowercase),
        is_in(string.digits),
        is_in(" \t"),
        is_in("\r\n"),
        is_in(string.punctuation),
        np.arange(256) >= 0xC0,  # the first bytes of all other characters
    ],
    np.float64,
)


@step(kind="text")
def encoded(text: str) -> bytes:
    """Encode a text as UTF-8, including lone surrogates."""
    return b"".join(piece.encode("utf-8", "surrogatepass") for piece in pieces(text))


@step(kind="text")
def lowered(text: str) -> bytes:
    """Encode a text in lower case; punctuation outside ASCII becomes a space."""
    return b"".join(map(lowered_piece, pieces(text)))


def lowered_piece(text: str) -> bytes:
    """Encode a piece of a text as `lowered` does."""
    data = text.lower().encode("utf-8", "surrogatepass")
    return data if data.isascii() else UNICODE_PUNCTUATION.sub(b" ", data)


@step(needs=[encoded])
def byte_counts(encoded: bytes) -> NDArray[np.intp]:
    """Count how often each of the 256 bytes occurs."""
    return count_each(np.frombuffer(encoded, np.uint8), 256)


@step(needs=[lowered])
def words(lowered: bytes) -> list[bytes]:
    """Split a text into its words: runs of letters and digits."""
    found: list[bytes] = []
    for piece in pieces(lowered):
        found += piece.translate(SEPARATORS).split()
    return found


@step(needs=[words])
def word_hashes(words: list[bytes]) -> NDArray[np.uint32]:
    """CRC-32 of each word."""
    return gather(map(zlib.crc32, words), len(words), np.uint32)


@feature(kind="text")
def opening(text: str) -> Doubles:
    """Bag of 3-character sequences in the first 256 characters, in 64 buckets."""
    data = text[:OPENING].lower().encode("utf-8", "surrogatepass")
    return in_buckets(sequences(data, 3), 64)


@feature(needs=[byte_counts])
def text_length(byte_counts: NDArray[np.intp]) -> Doubles:
    """Logarithms of the counts of characters and bytes; shares of 7 character kinds."""
    characters = byte_counts.sum() - byte_counts[0x80:0xC0].sum()
    shares = CLASSES @ byte_counts / max(characters, 1)
    return np.array([*np.log1p([characters, byte_counts.sum()]), *shares])


@feature(needs=[byte_counts])
def punctuation(byte_counts: NDArray[np.intp]) -> Doubles:
    """Square roots of the shares of the 32 punctuation characters of ASCII."""
    shares: Doubles = byte_counts[PUNCTUATION] / max(byte_counts.sum(), 1)
    return np.sqrt(shares)


@feature(needs=[encoded])
def casing(encoded: bytes) -> Doubles:
    """Shares that tell how letters are capitalised; only letters of ASCII count.

    The columns are: share of letters that are capitals; share of words that begin with
    a capital; share of words that begin with two capitals; share of letters that are
    capitals after a small letter; share of characters that are letters.
    """
    data = np.frombuffer(b" " + encoded + b" ", np.uint8)
    counts = np.zeros(6)
    for start in range(0, len(encoded), PIECE):
        counts += count_cases(data[start : start + PIECE + 2])
    letters, uppers, begun, first, two, within = counts
    return np.array(
        [
            uppers / max(letters, 1),
            first / max(begun, 1),
            two / max(begun, 1),
            within / max(letters, 1),
            letters / len(data),
        ]
    )


def count_cases(data: Bytes) -> Doubles:
    """Count letters and capitals in `data`, except in its first and its last byte.

    The first and the last byte only show where words begin. The counts are: letters,
    capitals, words, words that begin with a capital, words that begin with two
    capitals, and capitals after a small letter.
    """
    letter, upper = LETTER[data], UPPER[data]
    here, capital = letter[1:-1], upper[1:-1]
    start = here & ~letter[:-2]
    return np.array(
        [
            here.sum(),
            capital.sum(),
            start.sum(),
            (start & capital).sum(),
            (start & capital & upper[2:]).sum(),
            (capital & letter[:-2] & ~upper[:-2]).sum(),
        ],
        np.float64,
    )


@feature(needs=[encoded])
def urls_numbers(encoded: bytes) -> Doubles:
    """Logarithms of the numbers of occurrences of 12 patterns.

    The patterns are links, mail addresses, numbers, long numbers, dates or decimals,
    percentages, currencies, hashtags, mentions, exclamations, repeated characters,
    tags.
    """
    counts = np.zeros(len(PATTERNS))
    for piece in pieces(encoded):
        data = b" " + piece
        counts += [sum(1 for _ in found.finditer(data)) for found in PATTERNS]
    return np.log1p(counts)


@feature(needs=[encoded])
def compression(encoded: bytes) -> list[float]:
    """Compressed size divided by size, at the fastest and at the best level of zlib."""
    length = len(encoded) + 16
    return [len(zlib.compress(encoded, level)) / length for level in (1, 9)]


@feature(needs=[words])
def type_token(words: list[bytes]) -> Doubles:
    """Richness of the vocabulary, and lengths of the words.

    The columns are: logarithm of the number of words; number of different words,
    divided by the number of words, and by the square root of the number of words
    (Guiraud); share of words used once; shares of the most frequent word and of the
    five most frequent words; entropy in bits; mean and standard deviation of the words'
    lengths in bytes; share of words of over 6 bytes.
    """
    total, each = max(len(words), 1), Counter[bytes]()
    for start in range(0, len(words), VALUES):
        each.update(words[start : start + VALUES])
    counts = np.sort(gather(each.values(), len(each), np.float64))[::-1]
    lengths = gather(map(len, words), len(words), np.float64)
    shares = counts / total
    return np.array(
        [
            np.log1p(len(words)),
            len(counts) / total,
            len(counts) / np.sqrt(total),
            np.sum(counts == 1) / total,
            shares[:1].sum(),
            shares[:5].sum(),
            -(shares @ np.log2(shares)),
            lengths.sum() / total,
            lengths.std() if words else 0.0,
            np.sum(lengths > 6) / total,
        ]
    )


@feature(needs=[lowered, words])
def readability(lowered: bytes, words: list[bytes]) -> Doubles:
    """Difficulty of reading a text, estimated by counting.

    The columns are: Flesch's reading ease, Flesch-Kincaid grade, automated readability
    index and Coleman-Liau index, each divided by 100 and limited to [-2, 2]; then the
    logarithms of words per sentence, of syllables (runs of vowels) per word, of letters
    per word, and of the number of sentences.
    """
    data = np.frombuffer(b" " + lowered, np.uint8)
    vowel, letter = VOWEL[data], LETTER[data]
    ends = (data == 0x2E) | (data == 0x21) | (data == 0x3F)
    sentences = max(int(np.sum(ends[1:] & ~ends[:-1])), 1)
    total = max(len(words), 1)
    per_sentence = total / sentences
    syllables = np.sum(vowel[1:] & ~vowel[:-1]) / total
    letters = letter.sum() / total
    grades = np.array(
        [
            206.835 - 1.015 * per_sentence - 84.6 * syllables,
            0.39 * per_sentence + 11.8 * syllables - 15.59,
            4.71 * letters + 0.5 * per_sentence - 21.43,
            5.88 * letters - 29.6 / per_sentence - 15.8,
        ]
    )
    counts = np.log1p([per_sentence, syllables, letters, sentences])
    return np.concatenate([np.clip(grades / 100, -2, 2), counts])


@feature(needs=[word_hashes])
def hashed_words(word_hashes: NDArray[np.uint32]) -> Doubles:
    """Bag of words in 128 buckets: logarithms of counts, scaled to norm 1 at most."""
    return in_buckets(word_hashes, BUCKETS)


@feature(needs=[word_hashes])
def hashed_vocabulary(word_hashes: NDArray[np.uint32]) -> Doubles:
    """Bag of words in 1,024 buckets, as quick to compute as `hashed_words`."""
    return in_buckets(word_hashes, 1024)


@feature(needs=[word_hashes])
def hashed_word_pairs(word_hashes: NDArray[np.uint32]) -> Doubles:
    """Bag of pairs of neighbouring words in 128 buckets, scaled as `hashed_words`."""
    pairs = word_hashes[:-1] * np.uint32(0x9E3779B1) + word_hashes[1:]
    return in_buckets(mixed(pairs), BUCKETS)


@feature(needs=[lowered])
def hashed_ngrams(lowered: bytes) -> Doubles:
    """Bags of sequences of 3 and 5 characters, 128 buckets each; of norm 1 at most."""
    return np.concatenate(
        [in_buckets(sequences(lowered, length), BUCKETS) for length in (3, 5)]
    )


def sequences(data: bytes, length: int) -> NDArray[np.uint32]:
    """Return a hash of every sequence of `length` bytes in `data`."""
    codes = np.frombuffer(data, np.uint8).astype(np.uint32)
    count = max(len(codes) - length + 1, 0)
    hashes = np.zeros(count, np.uint32)
    for offset in range(length):
        hashes *= np.uint32(0x01000193)
        hashes += codes[offset : offset + count]
    return mixed(hashes)


def mixed(hashes: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Mix all bits of hashes into the high bits, by Knuth's multiplicative hashing."""
    hashes = (hashes ^ hashes >> np.uint32(15)) * np.uint32(0x85EBCA6B)
    return (hashes ^ hashes >> np.uint32(13)) * np.uint32(0xC2B2AE35)


def in_buckets(hashes: NDArray[np.uint32], count: int) -> Doubles:
    """Count hashes in `count` buckets; return the logarithms of the counts.

    The high bits of a hash choose its bucket. If the norm of the logarithms is above 1,
    they are scaled to norm 1 at most.
    """
    shift = np.uint32(33 - count.bit_length())
    weights = np.log1p(count_each(hashes >> shift, count))
    return weights / max(float(np.linalg.norm(weights)), 1.0)


def pieces(text: AnyStr) -> Iterator[AnyStr]:
    """Cut a text, or its bytes, into pieces of up to `PIECE` characters.

    A piece ends after a space or a line end; if `PIECE` characters have neither, it
    ends after them. An empty text is one empty piece; joined, the pieces are the text.
    """
    space, line_end = (" ", "\n") if isinstance(text, str) else (b" ", b"\n")
    start = 0
    while len(text) - start > PIECE:
        full = start + PIECE
        last = max(text.rfind(space, start, full), text.rfind(line_end, start, full))
        end = full if last < 0 else last + 1
        yield text[start:end]
        start = end
    yield text[start:] if start else text


def gather(values: Iterable[Any], count: int, kind: type[np.generic]) -> NDArray[Any]:
    """Collect `count` values in an array of `kind`, pausing for other threads."""
    left, array = iter(values), np.empty(count, kind)
    for start in range(0, count, VALUES):
        some = min(VALUES, count - start)
        array[start : start + some] = np.fromiter(islice(left, some), kind, some)
    return array


def count_each(codes: NDArray[Any], count: int) -> NDArray[np.intp]:
    """Count how often each of the numbers from 0 to `count` - 1 occurs in `codes`."""
    counts = np.zeros(count, np.intp)
    for start in range(0, len(codes), PIECE):
        counts += np.bincount(codes[start : start + PIECE], minlength=count)
    return counts


FEATURES = (
    opening,
    text_length,
    punctuation,
    casing,
    urls_numbers,
    compression,
    type_token,
    readability,
    hashed_words,
    hashed_vocabulary,
    hashed_word_pairs,
    hashed_ngrams,
)
