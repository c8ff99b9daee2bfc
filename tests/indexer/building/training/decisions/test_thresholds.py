"""Thresholds chosen on held-out items, compared with all cuts tried one by one."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, norm

from polydom.indexer.building.training.decisions.fit_decisions import threshold_of
from polydom.indexer.building.training.decisions.thresholds import (
    Cut,
    Goal,
    choose_cut,
    found_by,
)
from polydom.indexer.building.training.quality import Answers, Metric

ITEMS = st.lists(
    st.tuples(st.integers(0, 6), st.booleans(), st.sampled_from([0.5, 1.0, 2.0])),
    min_size=1,
    max_size=30,
)


def columns(items: list[tuple[int, bool, float]]) -> tuple[Any, Any, Any]:
    scores, own, weights = (np.array(column) for column in zip(*items, strict=True))
    return scores / 6, own, weights / weights.mean()


def tried(scores: Any, own: Any, weights: Any) -> list[tuple[Any, float, float]]:
    """Return (chosen items, hits, found) of every cut, the highest first."""
    cuts = [scores >= score for score in sorted({*scores.tolist()}, reverse=True)]
    return [(cut, weights[cut & own].sum(), weights[cut].sum()) for cut in cuts]


@given(ITEMS, st.sampled_from([0.3, 0.5, 0.8]), st.sampled_from([0.0, 0.8]))
def test_a_recall_has_the_highest_cut_that_reaches_it(
    items: Any, least: float, confidence: float
) -> None:
    scores, own, weights = columns(items)
    cut = choose_cut(Goal("precision_at", least, confidence), scores, own, weights)
    total = weights[own].sum()
    for chosen, hits, _ in tried(scores, own, weights):
        share = hits / (total + 1)
        if confidence and hits:
            share = beta.ppf(1 - confidence, hits, max(total - hits, 0) + 1)
        if share >= least and total:
            assert cut.reached
            np.testing.assert_array_equal(scores >= cut.score, chosen)
            return
    assert not cut.reached
    assert own[scores >= cut.score].sum() == own.sum()


@given(ITEMS, st.sampled_from([0.3, 0.5, 0.9]))
def test_a_precision_has_the_most_hits_of_all_cuts_that_reach_it(
    items: Any, least: float
) -> None:
    scores, own, weights = columns(items)
    cut = choose_cut(Goal("recall_at", least), scores, own, weights)
    passing = [
        hits
        for _, hits, found in tried(scores, own, weights)
        if hits / (found + 1) >= least
    ]
    assert cut.reached == bool(passing)
    found = weights[own & (scores >= cut.score)].sum()
    assert found == pytest.approx(max(passing, default=0.0))
    if not passing:
        assert cut.score == np.inf


@given(ITEMS, st.sampled_from([0.5, 1.0, 2.0]))
def test_f_beta_and_cost_have_the_best_of_all_cuts(items: Any, weight: float) -> None:
    scores, own, weights = columns(items)
    total = weights[own].sum()

    def value(name: str, hits: float, found: float) -> float:
        if name == "cost":
            return 3 * hits - (found - hits)
        return float((1 + weight**2) * hits / (found + weight**2 * total))

    for name in ("f_beta", "cost"):
        goal = Goal(name, beta=weight, miss=3.0, alarm=1.0)
        above = scores >= choose_cut(goal, scores, own, weights).score
        cuts = tried(scores, own, weights)
        best = max(value(name, hits, found) for _, hits, found in cuts)
        reached = value(name, weights[own & above].sum(), weights[above].sum())
        assert reached == pytest.approx(max(best, 0.0))


def test_a_precision_by_luck_is_not_enough() -> None:
    own = np.array([True] * 3 + [False, True] * 20)
    scores, weights = np.linspace(1, 0, 43), np.ones(43)
    by_luck = choose_cut(Goal("recall_at", 0.75), scores, own, weights)
    assert by_luck.reached
    assert (scores >= by_luck.score).sum() == 3
    assert choose_cut(Goal("recall_at", 0.75, 0.95), scores, own, weights) == Cut(
        np.inf, reached=False
    )
    surely = choose_cut(
        Goal("recall_at", 0.75, 0.95),
        np.repeat(scores, 40),
        *(np.repeat(column, 40) for column in (own, weights)),
    )
    assert surely.reached


def test_a_recall_with_confidence_is_kept_on_fresh_items() -> None:
    draw, goal, broken = np.random.default_rng(1), Goal("precision_at", 0.8, 0.95), 0
    for _ in range(200):
        own = draw.random(400) < 0.2
        scores = draw.normal(size=400) + 2.0 * own
        cut = choose_cut(goal, scores, own, np.ones(400))
        broken += norm.sf(cut.score - 2.0) < goal.least
    assert 0 < broken <= 17  # 10 are expected; more have a chance of one in a hundred


def test_a_recall_is_reached_in_the_mean_with_little_more() -> None:
    draw, goal, recalls = np.random.default_rng(2), Goal("precision_at", 0.8), []
    own = np.arange(400) < 36
    for _ in range(400):
        scores = draw.normal(size=400) + 2.0 * own
        cut = choose_cut(goal, scores, own, np.ones(400))
        recalls.append(norm.sf(cut.score - 2.0))
    # 30 of 37 are the fewest that are four fifths, .811; the cut is below the 30th
    assert 0.8 <= np.mean(recalls) < 0.83


@given(ITEMS, st.integers(0, 6))
def test_what_a_cut_finds_has_intervals_around_its_shares(
    items: Any, score: int
) -> None:
    scores, own, weights = columns(items)
    above, found = scores >= score / 6, found_by(score / 6, scores, own, weights)
    for one, among, others in (
        (found.recall, own, above),
        (found.precision, above, own),
    ):
        count = weights[among].sum()
        assert (one is None) == (count == 0)
        if one is not None:
            hits = weights[among & others].sum()
            assert one.share == pytest.approx(hits / count)
            assert 0 <= one.low <= one.share <= one.high <= 1
            # at the ends so many hits or more (fewer) have a chance of 2.5 %
            if one.low > 0:
                assert beta.cdf(one.low, hits, count - hits + 1) == pytest.approx(0.025)
            if one.high < 1:
                assert beta.sf(one.high, hits + 1, count - hits) == pytest.approx(0.025)
    assert found.facts()["items"] == pytest.approx(weights[own].sum())


def test_without_items_of_the_class_nothing_is_chosen_or_all() -> None:
    own, scores, weights = np.zeros(9, np.bool_), np.arange(9.0), np.ones(9)
    found = choose_cut(Goal("precision_at", 0.8), scores, own, weights)
    assert found == Cut(-np.inf, reached=False)
    found = choose_cut(Goal("recall_at", 0.8), scores, own, weights)
    assert found == Cut(np.inf, reached=False)
    assert choose_cut(Goal("cost"), scores, own, weights).score == np.inf
    one = choose_cut(Goal("f_beta"), scores[:1], ~own[:1], weights[:1])
    assert one == Cut(-np.inf)


@pytest.mark.parametrize(
    ("score", "positive", "expected"),
    [
        (0.25, 1, 0.25),
        (-np.inf, 1, 0.0),
        (np.inf, 1, 1.0),
        (0.25, 0, np.nextafter(0.75, 1)),
        (-np.inf, 0, 1.0),
        (np.inf, 0, 5e-324),
    ],
)
def test_a_cut_of_either_class_is_a_threshold_of_the_second(
    score: float, positive: int, expected: float
) -> None:
    assert threshold_of(Cut(score), positive) == expected


def test_a_metric_decides_by_its_best_threshold_for_the_class_it_is_about() -> None:
    scores = np.array([[0.9, 0.1], [0.6, 0.4], [0.7, 0.3], [0.2, 0.8]])
    answers, targets = Answers(np.array([0, 0, 0, 1]), scores), np.array([0, 1, 1, 1])
    weights = np.ones(4)
    metric = Metric("precision_at", 2, goal=Goal("precision_at", 0.7))
    decided = metric.decided(answers, targets, weights)
    assert decided.chosen.tolist() == [0, 1, 1, 1]
    assert metric.evaluate(decided, targets, weights).quality == 1.0
    first = Metric("recall_at", 2, goal=Goal("recall_at", 0.5), positive=0)
    assert first.decided(answers, targets, weights).chosen.tolist() == [0, 1, 1, 1]
    assert Metric("accuracy", 2).decided(answers, targets, weights) is answers
