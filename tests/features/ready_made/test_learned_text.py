"""Terms of texts: as slow twins find them, on every string."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.extract import Extractor
from polydom.features.fingerprint import fingerprint
from polydom.features.items import text_item
from polydom.features.ready_made.learned_text import RECIPES, recipes_by_name
from polydom.features.ready_made.text import OPENING
from polydom.features.term_scores import NOTHING, TermWeights
from tests.support.learned import learn
from tests.support.oracles import terms as oracle

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=60)
WORDY = st.lists(st.sampled_from(["a", "a b", "To be.", "\n", "\ud800", "é"])).map(
    " ".join
)
TEXTS = ["win a prize now", "see you now", "win it now!", "see it, you"]


@given(WORDY | ANY_TEXT)
def test_terms_are_those_that_a_slow_twin_counts(text: str) -> None:
    expected = {
        "learned_opening": oracle.words_and_pairs(text[:OPENING], pairs=True),
        "learned_words": oracle.words_and_pairs(text, pairs=False),
        "learned_word_pairs": oracle.words_and_pairs(text, pairs=True),
        "learned_ngrams": oracle.sequences(text, [4]),
        "learned_all_ngrams": oracle.sequences(text, [2, 3, 4, 5]),
    }
    for recipe in RECIPES:
        found = recipe.count(text)
        own = sorted(expected[recipe.name].items())
        assert found.hashes.tolist() == [term for term, _ in own]
        counts = np.array([count for _, count in own], np.float64)
        assert found.counts == pytest.approx(1 + np.log(counts))


@pytest.mark.parametrize(
    "text",
    ["", "a", "?!", "\ud800 x", "a\0b", "win now" * 150_000, "x" * 1_000_000],
    ids=lambda text: f"{text[:9]!r}",
)
def test_learned_features_keep_their_promises_on(text: str) -> None:
    features = [
        recipe.feature(learn(recipe.name, TEXTS, [1, 0, 1, 0])) for recipe in RECIPES
    ]
    extractor = Extractor(features, [1] * len(features))
    extractor.check(text_item(text))
    assert np.isfinite(extractor.extract(text_item(text))).all()


def test_a_fingerprint_tells_what_was_learned() -> None:
    recipe = recipes_by_name()["learned_words"]
    one, other = (
        learn(recipe.name, TEXTS, codes) for codes in ([1, 0, 1, 0], [0, 1] * 2)
    )
    # as from another process: with types of numbers that are equal, not the same
    parts = {k: pickle.loads(pickle.dumps(v)) for k, v in one.arrays().items()}
    alike = [TermWeights(**parts), pickle.loads(pickle.dumps(one))]
    prints = [fingerprint(recipe.feature(w)) for w in (one, *alike, other, NOTHING)]
    assert prints[0] == prints[1] == prints[2]
    assert len(set(prints)) == 3
