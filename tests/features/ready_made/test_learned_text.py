"""Terms of texts: as slow twins find them, on every string."""

import pickle
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadFeature
from polydom.features.extract import Extractor
from polydom.features.fingerprint import fingerprint
from polydom.features.items import text_item
from polydom.features.ready_made.learned_text import (
    NOTHING,
    RECIPES,
    TermScores,
    TermWeights,
    count_terms,
    recipes_by_name,
)
from polydom.features.ready_made.text import OPENING
from tests.support.indexes.learned import learn
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


# few different ones, so that they repeat and are met again
HASHES = st.lists(st.sampled_from([0, 1, 5, 2**31, 2**32 - 2, 2**32 - 1]), max_size=20)


def weights_of(hashes: list[int], width: int = 1) -> TermWeights:
    draw, known = np.random.default_rng(0), sorted(set(hashes))
    return TermWeights(
        np.array(known, np.uint32),
        draw.uniform(1, 9, len(known)).astype(np.float32),
        draw.normal(size=(len(known), width)).astype(np.float32),
        draw.normal(size=width).astype(np.float32),
    )


@given(HASHES, HASHES)
def test_scores_agree_with_adding_term_by_term(
    text: list[int], known: list[int]
) -> None:
    learned = weights_of(known, width=3)
    learned.check()
    found = TermScores(learned)(count_terms(np.array(text, np.uint32)))
    assert found.dtype == np.float32
    own = learned.hashes.tolist()
    rarity = dict(zip(own, learned.rarity.tolist(), strict=True))
    for k in range(3):
        weights = dict(zip(own, learned.weights[:, k].tolist(), strict=True))
        slow = oracle.score(
            Counter(text), rarity, weights, float(learned.intercepts[k])
        )
        assert found[k] == pytest.approx(slow, rel=1e-5, abs=1e-5)


def test_a_text_without_a_known_term_has_the_intercepts_for_itself() -> None:
    learned = weights_of([7, 8], width=2)
    score = TermScores(learned)
    for hashes in ([], [6, 9]):
        found = score(count_terms(np.array(hashes, np.uint32)))
        assert found.tolist() == learned.intercepts.tolist()
        found[:] = 0
        assert learned.intercepts.any()
    assert TermScores(NOTHING)(count_terms(np.array([6], np.uint32))).tolist() == [0]


def test_the_largest_weights_that_are_allowed_give_finite_scores() -> None:
    learned = weights_of([1, 2])
    most = np.full((2, 1), np.finfo(np.float32).max / 2, np.float32)
    learned = replace(learned, weights=most)
    learned.check()
    found = TermScores(learned)(count_terms(np.array([1, 2, 2], np.uint32)))
    assert np.isfinite(found).all()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("hashes", np.array([2, 1], np.uint32), "not in order"),
        ("hashes", np.array([2, 2], np.uint32), "come twice"),
        ("hashes", np.array([1], np.uint32), "not as many"),
        ("hashes", np.array([1, 2], np.int32), "another type"),
        ("rarity", np.array([1, 0], np.float32), "rarity"),
        ("rarity", np.array([1, np.nan], np.float32), "rarity"),
        ("rarity", np.array([1, np.inf], np.float32), "rarity"),
        ("weights", np.array([[1], [np.nan]], np.float32), "not finite"),
        ("weights", np.array([[3e38], [3e38]], np.float32), "not finite"),
        ("weights", np.array([1, 2], np.float32), "not as many"),
        ("weights", np.empty((2, 0), np.float32), "not as many"),
        ("intercepts", np.array([np.inf], np.float32), "not finite"),
        ("intercepts", np.empty(0, np.float32), "not as many"),
    ],
)
def test_damaged_arrays_are_refused(name: str, value: object, message: str) -> None:
    learned = replace(weights_of([1, 2]), **{name: value})  # type: ignore[arg-type]
    with pytest.raises(BadFeature, match=message):
        learned.check()
