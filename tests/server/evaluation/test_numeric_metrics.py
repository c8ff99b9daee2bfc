"""What replies that are numbers say of a predictor, against scikit-learn."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadItem
from polydom.server.evaluation.comparison import Comparison, Reply, Trial
from polydom.server.evaluation.labelled_items import LabelledItem
from polydom.server.evaluation.metrics import NumericMetrics
from polydom.server.evaluation.predictors import PlainAnswer, Predictor
from tests.support.oracles import evaluation as oracle

BUDGET_MS = 3.0
MEAN = 2.5


class Anyone:
    """One who is never asked."""

    name = "anyone"
    features = None

    def answer(self, item: LabelledItem) -> PlainAnswer:
        raise NotImplementedError


def metrics_of(replies: list[oracle.PlainNumber], measure: str) -> NumericMetrics:
    trials = []
    for one in replies:
        item = LabelledItem(str(one.position), "", repr(one.label), 1.0, "")
        reply = Reply(one.took_ms / 1e3, error=BadItem("it is torn"))
        if one.answer is not None:
            said = PlainAnswer(None, value=one.answer, interval=one.interval)
            reply = Reply(one.took_ms / 1e3, said)
        trials.append(Trial(one.position, item, (reply,)))
    predictors: list[Predictor] = [Anyone()]
    comparison = Comparison([], predictors)
    comparison.trials = trials
    return NumericMetrics(comparison, predictors, "s", measure, MEAN)


@st.composite
def drawn_replies(draw: st.DrawFn) -> list[oracle.PlainNumber]:
    """Few replies to fewer items, some alike, some without an answer."""
    rng = np.random.default_rng(draw(st.integers(0, 9_999)))
    labels = rng.integers(0, 4, draw(st.integers(1, 5))).astype(float).tolist()
    holds = draw(st.booleans())
    replies = []
    for _ in range(draw(st.integers(1, 12))):
        position = int(rng.integers(len(labels)))
        answer = float(rng.integers(0, 9)) / 2 if rng.random() < 0.8 else None
        interval = None if answer is None or not holds else (answer - 1, answer + 0.5)
        took_ms = float(rng.integers(1, 6))
        replies.append(
            oracle.PlainNumber(position, labels[position], answer, took_ms, interval)
        )
    return replies


def close(value: Any) -> Any:
    return value if value is None else pytest.approx(value, abs=1e-12)


@given(drawn_replies(), st.sampled_from(["r2", "mae"]))
def test_metrics_is_that_of_counting_one_by_one(
    replies: list[oracle.PlainNumber], measure: str
) -> None:
    found = metrics_of(replies, measure).without_budget(0, [1.0, BUDGET_MS])
    for name, value in oracle.judged_numbers(replies, MEAN).items():
        assert getattr(found, name) == close(value), name
    labels = [one.label for one in replies]
    how = {"absolute": measure == "mae"}
    given = oracle.in_time_or_mean(replies, MEAN, np.inf)
    assert found.quality == close(oracle.explained(labels, given, **how))

    def explained(some: list[oracle.PlainNumber]) -> float:
        answers = oracle.in_time_or_mean(some, MEAN, np.inf)
        return oracle.explained([one.label for one in some], answers, **how)

    assert found.quality_error == close(oracle.error_by_parts(replies, explained))
    inside = [
        oracle.explained(labels, oracle.in_time_or_mean(replies, MEAN, ms), **how)
        for ms in (1.0, BUDGET_MS)
    ]
    assert found.quality_inside == [close(one) for one in inside]
    assert not isinstance(found.right_inside, list)
    assert not isinstance(found.accuracy, float)
