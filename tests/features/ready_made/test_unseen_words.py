"""Words that a learned feature does not know are told from those that it knows."""

import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.ready_made.learned_text import NOTHING, TermWeights
from polydom.features.ready_made.unseen_words import FIRST, unseen_share

KNOWN = ("ham", "eggs", "and")


def weights_of(words: tuple[str, ...]) -> TermWeights:
    hashes = np.unique([zlib.crc32(word.encode()) for word in words]).astype(np.uint32)
    count = len(hashes)
    ones = np.ones(count, np.float32)
    return TermWeights(hashes, ones, np.ones((count, 1), np.float32), ones[:1])


@given(words=st.lists(st.sampled_from([*KNOWN, "spam", "bacon"]), max_size=20))
def test_the_share_is_that_of_each_word_by_itself(words: list[str]) -> None:
    found = unseen_share(weights_of(KNOWN), " ".join(words))
    if not words:
        assert found is None
    else:
        unseen = sum(word not in KNOWN for word in words)
        assert found == pytest.approx(unseen / len(words))


def test_only_whole_words_at_the_beginning_are_looked_up() -> None:
    weights = weights_of(KNOWN)
    assert unseen_share(weights, "ham " * FIRST + "spam " * FIRST) == 0.0
    assert unseen_share(weights, "HAM, Eggs!") == 0.0
    assert unseen_share(weights, "ham" + "x" * FIRST) is None
    assert unseen_share(weights, "...") is None
    assert unseen_share(NOTHING, "ham") is None
