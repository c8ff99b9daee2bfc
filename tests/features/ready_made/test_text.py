"""Text features: finite on every string, the same on every run, and as documented."""

import itertools
import math
import string
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.features.ready_made import text as module
from polydom.features.ready_made.learned_text import NOTHING, RECIPES, CountedTerms
from polydom.features.ready_made.text import count_each, gather, pieces
from tests.support.oracles.text import (
    bag_of_hashes,
    casing,
    hashes_of_runs,
    mixed,
    type_token,
)

EXTRACTOR = Extractor.probe(module.FEATURES, text_item("Some words."))
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=200)
ASCII = st.text(st.sampled_from(string.printable), max_size=200)

SPAM = "WINNER!! Call 09061701461 or visit www.example.com, only $5.99 (50% off) #win"

ZOO = {
    "nothing": "",
    "one character": "a",
    "only spaces": " \n\t ",
    "only punctuation": "?!?!...",
    "a lone surrogate": "\ud800 x",
    "a null": "a\0b",
    "Chinese": "\N{CJK UNIFIED IDEOGRAPH-4F60}\N{CJK UNIFIED IDEOGRAPH-597D}",
    "emoji": "\N{GRINNING FACE}\N{ZERO WIDTH JOINER}\N{DOG FACE}",
    "curly quotes": "\N{LEFT DOUBLE QUOTATION MARK}Hi\N{EM DASH}you",
    "one long word": "a" * 10_000,
    "a message": SPAM,
}


def compute(name: str, text: str) -> NDArray[np.float32]:
    (position,) = (k for k, made in enumerate(EXTRACTOR.features) if made.name == name)
    row = np.empty(EXTRACTOR.width, np.float32)
    EXTRACTOR.begin(text_item(text), row).compute(position)
    return row[EXTRACTOR.columns(position)]


def words_of(text: str) -> list[bytes]:
    return list(module.words(module.lowered(text)))


@pytest.mark.parametrize("name", ZOO)
def test_every_feature_keeps_its_promises_on(name: str) -> None:
    EXTRACTOR.check(text_item(ZOO[name]), name)


@given(ANY_TEXT)
def test_every_feature_keeps_its_promises_on_any_text(text: str) -> None:
    EXTRACTOR.check(text_item(text))


def test_there_are_more_than_eight_features() -> None:
    assert len(module.FEATURES) > 8


@pytest.mark.parametrize(
    "filler",
    ["a", "1", "!", "@", "<", "#", "/", ".", "http", "a.", "1.", "a@", " ", "\n", "A"],
)
def test_no_feature_is_slow_on_a_text_made_to_be(filler: str) -> None:
    # A pattern that tries again from every character would take minutes.
    EXTRACTOR.extract(text_item(filler * (200_000 // len(filler))))


def test_text_length_counts_characters_and_bytes() -> None:
    columns = compute("text_length", "na\N{LATIN SMALL LETTER I WITH DIAERESIS}ve")
    assert columns[:2] == pytest.approx(np.log1p([5, 6]))


def test_text_length_shares_characters_among_classes() -> None:
    columns = compute("text_length", "Ab1 \n!\N{EURO SIGN}c")
    assert columns[2:] == pytest.approx([1 / 8, 2 / 8, *[1 / 8] * 5])


def test_punctuation_counts_each_mark() -> None:
    columns = compute("punctuation", "a!!b?")
    assert columns[string.punctuation.index("!")] == pytest.approx(math.sqrt(2 / 5))
    assert columns[string.punctuation.index("?")] == pytest.approx(math.sqrt(1 / 5))
    assert np.count_nonzero(columns) == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Hello there you", [1 / 13, 1 / 3, 0, 0]),
        ("HELLO there", [5 / 10, 1 / 2, 1 / 2, 0]),
        ("iPhone camelCase", [2 / 15, 0, 0, 2 / 15]),
        ("A", [1, 1, 0, 0]),
    ],
)
def test_casing_tells_shouting_from_names(text: str, expected: list[float]) -> None:
    assert compute("casing", text)[:4] == pytest.approx(expected)


@given(ASCII | ANY_TEXT)
def test_casing_agrees_with_going_letter_by_letter(text: str) -> None:
    assert compute("casing", text) == pytest.approx(casing(text), rel=1e-5)


def test_urls_numbers_counts_each_pattern() -> None:
    expected = [1, 0, 4, 1, 1, 1, 1, 1, 0, 1, 1, 0]
    counts = np.expm1(compute("urls_numbers", SPAM))
    assert counts == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("http://a", 0),
        ("me@example.org", 1),
        ("7", 2),
        ("12345", 3),
        ("12:30", 4),
        ("5%", 5),
        ("\N{POUND SIGN}", 6),
        ("\N{EURO SIGN}", 6),
        ("#tag", 7),
        ("@someone", 8),
        ("what?!", 9),
        ("nooo", 10),
        ("<b>", 11),
    ],
)
def test_urls_numbers_knows(text: str, pattern: int) -> None:
    assert compute("urls_numbers", text)[pattern] > 0


def test_compression_tells_repetition_from_noise() -> None:
    noise = "".join(np.random.default_rng(0).choice(list(string.printable), 2000))
    assert compute("compression", "ab" * 1000).max() < 0.1
    assert compute("compression", noise).min() > 0.7


def test_words_are_split_at_all_punctuation() -> None:
    text = "Don't \N{LEFT DOUBLE QUOTATION MARK}stop\N{EM DASH}na\xefve\n2nd."
    assert words_of(text) == [
        b"don",
        b"t",
        b"stop",
        "na\xefve".encode(),
        b"2nd",
    ]


@given(ASCII)
def test_type_token_agrees_with_going_word_by_word(text: str) -> None:
    expected = type_token(words_of(text))
    assert compute("type_token", text) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_readability_gives_flesch_s_reading_ease() -> None:
    # Two sentences, 8 words, 14 runs of vowels (y is one), 33 letters.
    text = "The cat sat here. Nobody ever saw another!"
    columns = compute("readability", text)
    assert columns[4:] == pytest.approx(np.log1p([4, 14 / 8, 33 / 8, 2]), rel=1e-4)
    ease = 206.835 - 1.015 * 4 - 84.6 * 14 / 8
    assert columns[0] == pytest.approx(ease / 100, rel=1e-4)


def test_readability_finds_long_sentences_harder() -> None:
    short = "It is so. We go on. He is in."
    long = (
        "Notwithstanding considerable organisational difficulties everybody continued"
    )
    assert compute("readability", short)[0] > compute("readability", long)[0]
    assert compute("readability", short)[1] < compute("readability", long)[1]


@given(ASCII | ANY_TEXT)
def test_hashed_words_agrees_with_hashing_word_by_word(text: str) -> None:
    hashes = [zlib.crc32(word) for word in words_of(text)]
    for name, bits in (("hashed_words", 7), ("hashed_vocabulary", 10)):
        expected = bag_of_hashes(hashes, bits)
        assert compute(name, text) == pytest.approx(expected, rel=1e-5)


@given(ASCII | ANY_TEXT)
def test_hashed_word_pairs_agrees_with_hashing_pair_by_pair(text: str) -> None:
    hashes = [zlib.crc32(word) for word in words_of(text)]
    pairs = [
        mixed((first * 0x9E3779B1 + second) % 2**32)
        for first, second in itertools.pairwise(hashes)
    ]
    expected = bag_of_hashes(pairs, 7)
    assert compute("hashed_word_pairs", text) == pytest.approx(expected, rel=1e-5)


@given(ASCII | ANY_TEXT)
def test_hashed_ngrams_agrees_with_hashing_one_by_one(text: str) -> None:
    data = module.lowered(text)
    expected = [
        weight
        for length in (3, 5)
        for weight in bag_of_hashes(hashes_of_runs(data, length), 7)
    ]
    assert compute("hashed_ngrams", text) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "occupied"),
    [
        ("hashed_words", [7, 30, 54, 70]),
        ("hashed_word_pairs", [10, 13, 70]),
        ("opening", [0, 2, 6, 8, 19, 29, 32, 39, 42, 43, 46, 53, 56, 58, 59]),
    ],
)
def test_hashes_are_the_same_on_every_machine(name: str, occupied: list[int]) -> None:
    columns = compute(name, "the quick brown fox")
    assert np.flatnonzero(columns).tolist() == occupied


@pytest.mark.parametrize("name", ["hashed_words", "hashed_ngrams", "hashed_vocabulary"])
def test_hashes_spread_over_their_buckets(name: str) -> None:
    many = " ".join(f"word{number}" for number in range(5000))
    assert np.count_nonzero(compute(name, many)) > 0.9 * len(compute(name, many))


def test_opening_looks_at_the_first_256_characters_only() -> None:
    text = "abc " * 64
    assert compute("opening", text).tolist() == compute("opening", text + "z").tolist()
    assert compute("opening", text).tolist() != compute("opening", "z" + text).tolist()


SHORT = 24


# Capital sigmas end words in another letter; patterns look at what is beside.
WORDS = st.text(
    st.sampled_from("aZ1\u03a3\u03c3\u0307\u0130\u200d\u2019\u4f60@.!#$€/<-%\ud800"),
    max_size=6,
)
TEXTS = st.lists(
    st.tuples(WORDS, st.sampled_from([" ", "\n", "  ", ". ", " @"])), max_size=40
).map(lambda parts: "".join(map("".join, parts)))


def in_pieces(work: Callable[[], Any]) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "PIECE", SHORT)
        patch.setattr(module, "VALUES", 3)
        return work()


def cut(whole: Any) -> list[Any]:
    return list(pieces(whole))


@given(TEXTS)
def test_every_feature_is_the_same_in_pieces(words: str) -> None:
    item = text_item(words)
    whole = EXTRACTOR.extract(item)
    np.testing.assert_array_equal(in_pieces(lambda: EXTRACTOR.extract(item)), whole)
    for recipe in RECIPES:
        assert recipe.feature(NOTHING).needs
        one = recipe.count(words)
        other: CountedTerms = in_pieces(partial(recipe.count, words))
        np.testing.assert_array_equal(one.hashes, other.hashes)
        np.testing.assert_array_equal(one.counts, other.counts)


@given(st.text(st.sampled_from("a \nb"), max_size=200))
def test_pieces_are_the_text_and_end_behind_spaces(words: str) -> None:
    for given_text in (words, words.encode()):
        found: list[Any] = in_pieces(partial(cut, given_text))
        assert type(given_text)().join(found) == given_text
        assert len(found) >= 1
        assert max(map(len, found)) <= SHORT
        for piece in found[:-1]:
            last = piece[-1:] if isinstance(piece, str) else piece[-1:].decode()
            assert last in " \n" or (len(piece) == SHORT and len(piece.split()) == 1)


@given(st.lists(st.integers(0, 9), max_size=100))
def test_what_is_gathered_and_counted_is_all_there_is(codes: list[int]) -> None:
    array = in_pieces(lambda: gather(iter(codes), len(codes), np.int64))
    assert array.tolist() == codes
    counts = in_pieces(lambda: count_each(array, 10))
    assert counts.tolist() == [codes.count(k) for k in range(10)]
