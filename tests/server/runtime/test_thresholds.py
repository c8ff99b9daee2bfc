"""Thresholds of an index, and of a request that brings its own."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from msgspec import UNSET

from polydom.features.errors import BadInput
from polydom.indexer.index.index import Index
from polydom.models.scoring.calibration import make_line
from polydom.models.scoring.classifier import Classifier
from polydom.server.engine.planning.planner import Planner
from polydom.server.runtime.translator import AtOnce, Translator
from polydom.server.schema.wire import Answer, Terms
from polydom.server.settings import Settings
from tests.server.runtime.test_record_answerer import make_numbers
from tests.support.indexes import records, stopping_records

PERSON = records.PEOPLE[0]


def with_heads(meta: dict[str, Any], **changed: Any) -> Index:
    """Return the index of people, with other heads in its models."""
    index = records.make_index()
    package = index.package
    assert package is not None
    models = tuple(
        replace(model, head=replace(model.head, **changed))
        if isinstance(model, Classifier)
        else model
        for model in package.models
    )
    own = replace(package, models=models, meta=package.meta | meta)
    qualities = records.ACCURACIES
    return Index.from_candidates(index.coefficients, qualities, index.sizes, own)


@cache
def at_once(index: Index) -> AtOnce:
    package = index.package
    assert package is not None
    return AtOnce(Translator(Planner(index, package.extractor()), Settings()))


def ask(index: Index, **terms: Any) -> Answer:
    return at_once(index).answer(Terms(budget_ms=1000.0, **terms), PERSON)


@pytest.mark.parametrize("positive", [0, 1])
def test_the_label_follows_the_threshold_that_the_answer_tells(positive: int) -> None:
    name = ("stays", "flies")[positive]
    for threshold in (0.0, 0.1, 0.9, 1.0):
        answer = ask(with_heads({"positive": positive}, threshold=threshold))
        assert answer.scores is not None
        flies = answer.scores["flies"] >= threshold
        assert answer.label == ("flies" if flies else "stays")
        told = threshold if positive else 1 - threshold
        assert answer.threshold == {name: told}


def test_scores_whose_larger_one_is_not_chosen_come_with_a_threshold() -> None:
    shifted = make_line(1.0, np.array([0.0, -3.0]), logs=False)
    answer, plain = ask(with_heads({}, calibration=shifted)), ask(records.make_index())
    assert answer.label == plain.label
    assert answer.threshold is not UNSET
    assert answer.threshold["flies"] == pytest.approx(1 / (1 + np.exp(3)))
    assert plain.threshold is UNSET
    cooler = make_line(0.5, np.zeros(2), logs=False)
    assert ask(with_heads({}, calibration=cooler)).threshold is UNSET


@pytest.mark.parametrize("positive", [0, 1])
def test_a_request_may_bring_its_own_threshold(positive: int) -> None:
    index, name = with_heads({"positive": positive}), ("stays", "flies")[positive]
    scores = ask(index).scores
    assert scores is not None
    own = scores[name]
    for threshold in (0.0, own, float(np.nextafter(own, 2)), 1.0):
        answer = ask(index, threshold=threshold)
        assert (answer.label == name) == (own >= threshold)
        assert answer.threshold == {name: threshold}
        assert answer.scores == scores
    prior = at_once(index).answer(Terms(budget_ms=0.0, threshold=0.5), PERSON)
    assert prior.features == ()
    assert prior.label == name


def test_a_request_with_a_threshold_is_evaluated_whole() -> None:
    index = stopping_records.make_index()
    answerer, terms = at_once(index), Terms(budget_ms=1000.0)
    for row in stopping_records.draw_rows(40, 3):
        record = stopping_records.record_of(row)
        exact = answerer.answer(Terms(budget_ms=1000.0, exact=True), record)
        answer = answerer.answer(Terms(budget_ms=1000.0, threshold=0.3), record)
        assert answer.scores == exact.scores
        assert answer.early is UNSET
        assert answerer.answer(terms, record).label is not None


@pytest.mark.parametrize(
    ("threshold", "said"),
    [
        (-0.1, "threshold is -0.1; it must be in"),
        (1.1, "threshold is 1.1; it must be in"),
        (float("nan"), "threshold is nan; it must be in"),
    ],
)
def test_a_threshold_out_of_range_is_refused(threshold: float, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        ask(records.make_index(), threshold=threshold)


def test_a_threshold_needs_two_classes_and_probabilities() -> None:
    with pytest.raises(BadInput, match="two classes; this one answers numbers"):
        at_once(make_numbers()).answer(Terms(budget_ms=9.0, threshold=0.5), PERSON)
    index = with_heads({}, link=0)
    with pytest.raises(BadInput, match="the scores of this index are none"):
        ask(index, threshold=0.5)
