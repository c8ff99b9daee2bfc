"""Measures against their definitions, and what items add against nudged weights."""

from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import metrics

from polydom.features.errors import BadProject
from polydom.indexer.building.project_tables.quality import Measure
from polydom.indexer.building.training.quality import (
    MEASURES,
    Answers,
    Metric,
    residual_interval,
)
from polydom.indexer.index.quality import OF_CLASSES, OF_NUMBERS
from polydom.models import measures
from polydom.models.scoring.model import Rows
from polydom.models.scoring.prior import Prior

Floats = NDArray[np.float64]
COSTS = np.array([[0.0, 1.0, 5.0], [2.0, 0.0, 1.0], [0.5, 3.0, 0.0]])


def drawn(
    measure: str, seed: int, classes: int = 3, count: int = 60
) -> tuple[Metric, Answers, NDArray[np.int64] | Floats, Floats]:
    """Draw answers that are right more often than not, with ties among scores."""
    rng = np.random.default_rng(seed)
    weights = rng.choice([0.5, 1.0, 2.5], count)
    if measure in OF_NUMBERS:
        numbers = rng.normal(size=count)
        return (
            Metric(measure, 0),
            Answers(numbers + rng.normal(size=count) / 2),
            numbers,
            weights,
        )
    codes = np.append(np.arange(classes), rng.integers(classes, size=count - classes))
    raw = np.round(rng.normal(size=(count, classes)) + 1.5 * np.eye(classes)[codes], 1)
    shares = np.exp(raw) / np.exp(raw).sum(axis=1, keepdims=True)
    costs = COSTS[:classes, :classes]
    return (
        Metric(measure, classes, costs),
        Answers(raw.argmax(axis=1), shares),
        codes,
        weights,
    )


def defined(measure: str, answers: Answers, targets: object, weights: Floats) -> float:
    """Compute a measure as others define it."""
    chosen, scores = answers.chosen, answers.scores
    match measure:
        case "accuracy" | "balanced_accuracy" | "macro_f1":
            return float(getattr(measures, measure)(targets, chosen, weights))
        case "auc" | "average_precision":
            return float(getattr(measures, measure)(targets, scores, weights))
        case "log_loss":
            return float(np.exp(-measures.log_loss(targets, scores, weights)))  # type: ignore[arg-type]
        case "cost":
            matrix = metrics.confusion_matrix(targets, chosen, sample_weight=weights)
            costs = COSTS[: len(matrix), : len(matrix)]
            return float(1 - (matrix * costs).sum() / weights.sum() / costs.max())
        case "precision_at" | "recall_at" | "f_beta":
            score = {
                "precision_at": metrics.precision_score,
                "recall_at": metrics.recall_score,
                "f_beta": metrics.f1_score,
            }[measure]
            own: Any = np.asarray(targets) == 1
            return float(score(own, chosen == 1, sample_weight=weights))
        case "r2":
            return float(metrics.r2_score(targets, chosen, sample_weight=weights))
    error = metrics.mean_absolute_error(targets, chosen, sample_weight=weights)
    around = min(np.average(abs(targets - c), weights=weights) for c in targets)  # type: ignore[attr-defined]
    return float(1 - error / around)


def test_every_measure_that_a_project_may_name_is_judged_and_has_words() -> None:
    assert {*get_args(Measure)} == {*MEASURES} == OF_CLASSES.keys() | OF_NUMBERS.keys()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("measure", MEASURES)
def test_quality_is_the_measure_and_the_mean_of_its_parts(
    measure: str, classes: int, seed: int
) -> None:
    metric, answers, targets, weights = drawn(measure, seed, classes)
    found = metric.evaluate(answers, targets, weights)
    assert found.quality == pytest.approx(defined(measure, answers, targets, weights))
    assert np.average(found.parts, weights=weights) == pytest.approx(found.quality)
    assert 0 <= found.quality <= 1


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("measure", MEASURES)
def test_an_item_that_counts_more_changes_quality_by_what_it_adds(
    measure: str, classes: int
) -> None:
    metric, answers, targets, weights = drawn(measure, 7, classes, 30)
    found = metric.evaluate(answers, targets, weights)
    for item in range(30):
        step = 1e-6 * weights.sum()
        ends = [
            metric.evaluate(answers, targets, weights + sign * step * np.eye(30)[item])
            for sign in (-0.5, 0.5)
        ]
        slope = (ends[1].quality - ends[0].quality) / 1e-6
        expected = found.parts[item] - found.quality
        assert slope == pytest.approx(expected, abs=2e-3), item


@pytest.mark.parametrize("measure", sorted(MEASURES.keys() - {*OF_NUMBERS}))
def test_edges_of_classes(measure: str) -> None:
    metric = Metric(measure, 3, COSTS)
    sure = Answers(np.array([1]), np.array([[0.0, 1.0, 0.0]]))
    one = metric.evaluate(sure, np.array([1]), np.ones(1))
    assert one.quality == (0.5 if measure == "auc" else 1)  # nothing to tell apart
    assert one.parts.tolist() == [one.quality]
    wrong = metric.evaluate(sure, np.array([2]), np.ones(1))
    assert 0 <= wrong.quality <= 1
    # a class without an item, and one that is only answered
    answers = Answers(np.array([0, 2]), np.array([[1.0, 0, 0], [0.25, 0, 0.75]]))
    found = metric.evaluate(answers, np.array([0, 0]), np.ones(2))
    assert np.isfinite(found.parts).all()
    assert 0 <= found.quality <= 1


@pytest.mark.parametrize("measure", sorted(OF_NUMBERS))
def test_edges_of_numbers(measure: str) -> None:
    metric = Metric(measure, 0)

    def quality(chosen: list[float], targets: list[float]) -> float:
        given = Answers(np.array(chosen)), np.array(targets), np.ones(len(targets))
        found = metric.evaluate(*given)
        assert np.average(found.parts) == pytest.approx(found.quality)
        return found.quality

    assert quality([3.0], [3.0]) == 0  # nothing to explain
    assert quality([1.0, 2.0], [1.0, 2.0]) == 1
    assert quality([9.0, -9.0], [1.0, 2.0]) == 0  # worse than the mean
    assert quality([1.5, 1.5], [1.0, 2.0]) == 0
    assert 0 < quality([1.2, 2.0], [1.0, 2.0]) < 1


def test_answers_of_a_class_never_trained_get_the_least_score() -> None:
    model = Prior.fit(np.array([0, 0, 2]))
    answers = Metric("auc", 3).answers(model, np.zeros((2, 1), np.float32))
    assert answers.scores is not None
    np.testing.assert_allclose(answers.scores, [[2 / 3, 0, 1 / 3]] * 2)
    assert answers.chosen.tolist() == [0, 0]


def test_log_loss_needs_probabilities() -> None:
    class Margins(Prior):
        def predict_scores(self, X: Rows) -> Floats:
            return np.tile([-1.0, 1.0], (len(X), 1))

    model = Margins(np.array([0, 1]), np.array([0.5, 0.5]))
    with pytest.raises(BadProject, match="needs probabilities"):
        Metric("log_loss", 2).answers(model, np.zeros((1, 1), np.float32))


@pytest.mark.parametrize("count", [1, 5, 19, 200])
def test_intervals_hold_what_they_promise_of_fresh_residuals(count: int) -> None:
    rng = np.random.default_rng(count)
    inside = []
    for _ in range(400):
        residuals = rng.gumbel(size=count + 1)
        low, high = residual_interval(residuals[:-1], 0.9)
        inside.append(low <= residuals[-1] <= high)
    promised = min(0.9, (count - 1) / (count + 1))
    assert np.mean(inside) >= promised - 4 * (0.25 / 400) ** 0.5
    low, high = residual_interval(np.arange(200.0), 0.9)
    assert (low, high) == (9.0, 190.0)
