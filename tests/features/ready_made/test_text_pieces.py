"""A long text in pieces is the same text, and has the same features."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.extract import Extractor
from polydom.features.items import text_item
from polydom.features.ready_made import text, text_pieces
from polydom.features.ready_made.learned_text import RECIPES
from polydom.features.ready_made.text_pieces import count_each, gather, pieces
from polydom.features.term_scores import NOTHING, CountedTerms

PIECE = 24
EXTRACTOR = Extractor.probe(text.FEATURES, text_item("Some words."))

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
        for module in (text, text_pieces):
            patch.setattr(module, "PIECE", PIECE)
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
        assert max(map(len, found)) <= PIECE
        for piece in found[:-1]:
            last = piece[-1:] if isinstance(piece, str) else piece[-1:].decode()
            assert last in " \n" or (len(piece) == PIECE and len(piece.split()) == 1)


@given(st.lists(st.integers(0, 9), max_size=100))
def test_what_is_gathered_and_counted_is_all_there_is(codes: list[int]) -> None:
    array = in_pieces(lambda: gather(iter(codes), len(codes), np.int64))
    assert array.tolist() == codes
    counts = in_pieces(lambda: count_each(array, 10))
    assert counts.tolist() == [codes.count(k) for k in range(10)]
