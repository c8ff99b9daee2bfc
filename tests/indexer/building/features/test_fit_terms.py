"""Weights of terms: as slow twins and scikit-learn on dense rows have them."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

from polydom.features.ready_made.learned_text import recipes_by_name
from polydom.indexer.building.features.fit_terms import (
    PASSES,
    SMOOTHING,
    Fitting,
    TrainingTexts,
    fit_terms,
    least_loss,
    score_part,
    standardised,
)
from polydom.indexer.building.features.term_table import choose_vocabulary, score, weigh
from tests.support.indexes.learned import table_of
from tests.support.oracles import terms as oracle

NAME = "learned_words"
WORDS = ["a", "b", "c", "d", "e", "f", "g", "h", "win", "now", "free", "you", "call"]
TEXTS = st.lists(
    st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), min_size=1, max_size=12
)


def drawn(count: int, seed: int = 0) -> list[str]:
    draw = np.random.default_rng(seed)
    return [" ".join(draw.choice(WORDS, draw.integers(0, 12))) for _ in range(count)]


def counted(texts: list[str]) -> list[oracle.Terms]:
    return [oracle.words_and_pairs(text, pairs=False) for text in texts]


@given(TEXTS, st.integers(0, 9))
def test_rows_agree_with_weighing_term_by_term(texts: list[str], most: int) -> None:
    table = table_of(NAME, texts)
    chosen = choose_vocabulary(table, most)
    expected = oracle.vocabulary(counted(texts), most)
    known = table.hashes[chosen.terms].tolist()
    assert known == sorted(expected)
    assert chosen.rarity == pytest.approx([expected[term] for term in known])
    rows = weigh(table, chosen).toarray()
    for row, text in zip(rows, counted(texts), strict=True):
        own = oracle.weighed(text, expected)
        assert row == pytest.approx([own.get(term, 0) for term in known], abs=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_weights_are_those_of_scikit_learn_on_dense_rows(classes: int) -> None:
    texts = drawn(60)
    codes = np.arange(60) % classes
    learned = fit_terms(table_of(NAME, texts), codes, Fitting(classes, 99, 5.0, 7))
    rarity = oracle.vocabulary(counted(texts), 99)
    rows = np.array(
        [
            [oracle.weighed(text, rarity).get(term, 0) for term in sorted(rarity)]
            for text in counted(texts)
        ]
    )
    wanted = [1] if classes == 2 else range(classes)
    for k, code in enumerate(wanted):
        model = LogisticRegression(
            C=5.0, solver="liblinear", dual=True, max_iter=PASSES, random_state=7
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(rows, codes == code)
        assert learned.weights[:, k] == pytest.approx(model.coef_[0], abs=1e-3)
        assert learned.intercepts[k] == pytest.approx(model.intercept_[0], abs=1e-3)


def test_bayes_decides_as_scikit_learn_s() -> None:
    texts, codes = drawn(90), np.arange(90) % 3
    table = table_of(NAME, texts)
    learned = fit_terms(table, codes, Fitting(3, 99, None, 0))
    rows = weigh(table, choose_vocabulary(table, 99))
    found = score(rows, learned)
    model = MultinomialNB(alpha=SMOOTHING).fit(rows, codes)
    expected = model.predict_joint_log_proba(rows)
    centred = expected - expected.mean(axis=1, keepdims=True)
    assert found == pytest.approx(centred, abs=1e-4)


@pytest.mark.parametrize("strength", [10.0, None])
@pytest.mark.parametrize("missing", [0, 2])
def test_a_class_that_no_text_is_of_has_finite_scores(
    strength: float | None, missing: int
) -> None:
    codes = np.where(np.arange(30) % 3 == missing, 1, np.arange(30) % 3)
    learned = fit_terms(table_of(NAME, drawn(30)), codes, Fitting(3, 9, strength, 0))
    learned.check()
    assert learned.intercepts.argmin() == missing


@pytest.mark.parametrize("texts", [["a", "b", "c"], ["", "", ""]])
def test_texts_without_a_common_term_teach_how_often_classes_come(
    texts: list[str],
) -> None:
    codes = np.array([0, 1, 1])
    learned = fit_terms(table_of(NAME, texts), codes, Fitting(2, 9, 1.0, 0))
    learned.check()
    assert learned.weights.shape == (0, 1)
    assert learned.intercepts[0] > 0


def test_scores_of_a_part_come_from_the_others_and_their_own_code() -> None:
    texts, codes = drawn(40), np.arange(40) % 2
    parts = np.arange(40) % 4
    table = table_of(NAME, texts)
    strengths, fitting = [1.0, 100.0], Fitting(2, 99, None, 0)
    arrays = TrainingTexts(table, codes, parts).arrays()
    found = score_part(arrays, 2, fitting, strengths)
    others = [text for text, part in zip(texts, parts, strict=True) if part != 2]
    recipe, own = recipes_by_name()[NAME], codes[parts != 2]
    for scores, strength in zip(found, strengths, strict=True):
        chosen = fitting._replace(strength=strength)
        compute = recipe.feature(
            fit_terms(table_of(NAME, others), own, chosen)
        ).function
        expected = [compute(recipe.count(text)) for text in texts[2::4]]
        assert scores == pytest.approx(np.array(expected), abs=1e-5)


def test_least_loss_is_of_the_scores_that_tell_most() -> None:
    codes, parts = np.array([0, 1, 0, 1]), np.array([0, 0, 1, 1])
    texts = TrainingTexts(table_of(NAME, ["a"] * 4), codes, parts)
    right, wrong = np.array([[-2.0], [2.0]]), np.array([[1.0], [-1.0]])
    assert least_loss(texts, [0, 1], [[wrong, right], [wrong, right]], 2) == 1
    assert least_loss(texts, [0, 1], [[right, wrong], [right, wrong]], 2) == 0


def test_numbers_are_fitted_as_by_ridge_regression_on_dense_rows() -> None:
    texts, strength = drawn(80), 0.5
    numbers = standardised(
        np.array([text.count("a") + len(text) / 9 for text in texts])
    )
    assert numbers.mean() == pytest.approx(0)
    assert numbers.std() == pytest.approx(1)
    table = table_of(NAME, texts)
    learned = fit_terms(table, numbers, Fitting(0, 99, strength, 7))
    rows = weigh(table, choose_vocabulary(table, 99)).toarray()
    X = np.column_stack([rows, np.ones(len(rows))])
    penalty = np.eye(X.shape[1]) / (2 * strength)
    expected = X @ np.linalg.solve(X.T @ X + penalty, X.T @ numbers)
    found = rows @ learned.weights[:, 0] + learned.intercepts[0]
    assert found == pytest.approx(expected, abs=0.02)
    assert standardised(np.ones(3)).tolist() == [0, 0, 0]


def test_least_loss_of_numbers_is_of_the_least_squared_error() -> None:
    table, parts = table_of(NAME, drawn(4)), np.array([0, 0, 1, 1])
    numbers = np.array([-1.0, 0.5, 2.0, -1.5])
    texts = TrainingTexts(table, numbers, parts)
    near, far = numbers[:, None] + 0.1, numbers[:, None] * 3
    tried = [[far[parts == part], near[parts == part]] for part in (0, 1)]
    assert least_loss(texts, [0, 1], tried, 0) == 1


def test_numbers_of_texts_without_terms_are_their_mean() -> None:
    learned = fit_terms(
        table_of(NAME, ["", ""]), np.array([1.0, 3.0]), Fitting(0, 9, 1, 0)
    )
    assert learned.weights.shape == (0, 1)
    assert learned.intercepts.tolist() == [2.0]
