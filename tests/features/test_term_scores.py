"""Scores by terms: as a slow twin has them, finite, and refused where damaged."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadFeature
from polydom.features.term_scores import (
    NOTHING,
    TermScores,
    TermWeights,
    count_terms,
)
from tests.support.oracles import terms as oracle

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
