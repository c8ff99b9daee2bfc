"""How good scores of early answers are, beside those of whole plans."""

from typing import Any

import numpy as np
import pytest

from polydom.indexer.building.exits.exit_facts import compare_forecasts, measure
from polydom.models.measures import brier, calibration_error, log_loss
from tests.support.indexes.stopping_records import draw_rows, label_rows, make_index

ROWS = draw_rows(400, 5)


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("scheduled", [False, True])
def test_forecasts_are_those_of_each_early_answer(
    classes: int, scheduled: bool
) -> None:
    package: Any = make_index(classes).package
    codes, models = label_rows(ROWS, classes), package.models
    at = np.random.default_rng(0).integers(1, 3, len(ROWS))
    evaluator = package.early_exits[2] if scheduled else None
    found = compare_forecasts(codes, ROWS, models, at, evaluator, classes)
    assert found is not None
    own, early, whole = [], [], []
    for row, code, place in zip(ROWS, codes, at, strict=True):
        if place < 2:
            scores = models[1].answer(row)[1]
        elif evaluator is None or (one := evaluator.answer(row)).used == evaluator.size:
            continue
        else:
            scores = one.scores
        own.append(code)
        early.append(scores)
        whole.append(models[2].answer(row)[1])
    assert found["items"] == len(own)
    assert (len(own) > np.sum(at < 2)) == scheduled
    for side, scores in (("early", early), ("whole", whole)):
        expected = measure(np.array(own), np.array(scores))
        assert found[side] == pytest.approx(expected)


def test_measures_are_those_of_their_names() -> None:
    codes, scores = np.array([0, 1, 1]), np.array([[0.75, 0.25], [0.5, 0.5], [0, 1]])
    assert measure(codes, scores) == {
        "log_loss": log_loss(codes, scores),
        "error": calibration_error(codes, scores),
        "brier": brier(codes, scores),
    }


def test_a_class_that_a_model_never_saw_has_the_score_0() -> None:
    package: Any = make_index(2).package
    codes, at = label_rows(ROWS, 2) + 1, np.ones(len(ROWS), np.int64)
    found = compare_forecasts(codes, ROWS, package.models, at, None, 3)
    assert found is not None
    assert found["early"]["log_loss"] > 5  # the classes are others


def test_without_early_answers_there_is_nothing_to_compare() -> None:
    package: Any = make_index(2).package
    codes, last = label_rows(ROWS, 2), np.full(len(ROWS), 2)
    assert compare_forecasts(codes, ROWS, package.models, last, None, 2) is None
