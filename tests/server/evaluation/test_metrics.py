"""What replies say of a predictor, against counting them one by one."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.features.errors import BadItem
from polydom.indexer.index.quality import OF_CLASSES
from polydom.server.evaluation.comparison import Comparison, Reply, Trial
from polydom.server.evaluation.labelled_items import LabelledItem
from polydom.server.evaluation.metrics import ClassMetrics
from polydom.server.evaluation.predictors import PlainAnswer, Predictor
from polydom.server.schema.wire import Answer
from tests.support.oracles import evaluation as oracle

KNOWN = ["ham", "spam", "eggs"]
BUDGET_MS = 3.0
COSTS = np.array([[0.0, 5.0, 1.0], [1.0, 0.0, 2.0], [0.5, 1.0, 0.0]])


class Anyone:
    """One who is never asked."""

    name = "anyone"
    features = None

    def answer(self, item: LabelledItem) -> PlainAnswer:
        raise NotImplementedError


def answer_of(label: str, **changed: Any) -> Answer:
    facts: dict[str, Any] = {
        "label": label,
        "scores": None,
        "features": ("length",),
        "expected_quality": 0.75,
        "expected_accuracy": 0.75,
        "reason": None,
        "budget_met": True,
        "actual_us": 1.0,
        "queue_us": 0.0,
        "elapsed_us": 1.0,
        "index_version": "1",
        "budget_us": BUDGET_MS * 1e3,
    }
    return Answer(**(facts | changed))


def metrics_of(
    replies: list[oracle.Plain],
    unit: str = "s",
    measure: str = "accuracy",
    **changed: Any,
) -> ClassMetrics:
    """A judge of one predictor with these replies; `changed` is of each answer."""
    trials = []
    for one in replies:
        item = LabelledItem(str(one.position), "", one.label, 1.0, "")
        reply = Reply(one.took_ms / 1e3, error=BadItem("it is torn"))
        if one.answer is not None:
            said = answer_of(one.answer, scores=one.scores, **changed)
            reply = Reply(one.took_ms / 1e3, said)
        trials.append(Trial(one.position, item, (reply,)))
    predictors: list[Predictor] = [Anyone()]
    comparison = Comparison([], predictors)
    comparison.trials = trials
    costs = COSTS if measure == "cost" else None
    return ClassMetrics(comparison, predictors, unit, KNOWN, measure, costs)


@st.composite
def drawn_replies(draw: st.DrawFn) -> list[oracle.Plain]:
    """Few replies to fewer items, some of foreign classes, some without an answer."""
    rng = np.random.default_rng(draw(st.integers(0, 9_999)))
    labels = rng.choice([*KNOWN, "foreign"], draw(st.integers(1, 5))).tolist()
    scores = draw(st.booleans())
    wanting = draw(st.sampled_from([0.0, 0.2]))
    replies = []
    for _ in range(draw(st.integers(1, 12))):
        position = int(rng.integers(len(labels)))
        raw = rng.integers(1, 4, len(KNOWN))
        shares = dict(zip(KNOWN, (raw / raw.sum()).tolist(), strict=True))
        answered = rng.random() >= wanting
        replies.append(
            oracle.Plain(
                position,
                labels[position],
                str(rng.choice([*KNOWN, "other"])) if answered else None,
                float(rng.integers(1, 6)),
                shares if scores and answered else None,
            )
        )
    return replies


def cost_of(label: str, answer: str | None) -> float:
    """What an answer costs; what the index does not know costs most."""
    if label not in KNOWN or answer not in KNOWN:
        return 5.0
    return float(COSTS[KNOWN.index(label), KNOWN.index(answer)])


def quality_of(measure: str, replies: list[oracle.Plain]) -> float | None:
    """What a measure says of replies."""
    if measure == "cost":
        paid = [cost_of(one.label, one.answer) for one in replies]
        return float(1 - np.mean(paid) / 5)
    if measure in (one_class := oracle.rates_of(replies, KNOWN[1])):
        return one_class[measure] or 0.0
    quality: float | None = oracle.judged(replies, KNOWN)[measure]
    if measure == "log_loss" and quality is not None:
        return float(np.exp(-quality))
    return quality


@given(drawn_replies(), st.sampled_from([*OF_CLASSES]))
def test_metrics_is_that_of_counting_one_by_one(
    replies: list[oracle.Plain], measure: str
) -> None:
    judge = metrics_of(replies, measure=measure)
    found = judge.at_budget(0, BUDGET_MS)
    quality = quality_of(measure, replies)
    assert found.quality == (None if quality is None else pytest.approx(quality))
    error = oracle.error_by_parts(replies, partial(quality_of, measure))
    if measure == "accuracy":
        error = oracle.judged(replies, KNOWN)["standard_error"]
    assert found.quality_error == (
        None if error is None else pytest.approx(error, abs=1e-9)
    )
    for name, value in oracle.judged(replies, KNOWN).items():
        assert getattr(found, name) == (
            value if value is None else pytest.approx(value)
        ), name
    assert isinstance(found.classes, list)
    for one in found.classes:
        expected = oracle.rates_of(replies, one.label)
        assert (one.precision, one.recall, one.f1) == pytest.approx(
            (expected["precision_at"], expected["recall_at"], expected["f_beta"])
        )
    assert isinstance(found.reliability, list)
    if found.reliability:
        assert sum(one.count for one in found.reliability) == len(replies)
    assert found.precision_recall == []  # only of two classes
    inside, right = oracle.in_time(replies, BUDGET_MS)
    assert (found.inside, found.right_inside) == pytest.approx((inside, right))
    beside = judge.without_budget(0, [1.0, BUDGET_MS])
    assert beside.inside == [oracle.in_time(replies, b)[0] for b in (1.0, BUDGET_MS)]
    confusion = judge.confusion(0, BUDGET_MS)
    counted = oracle.confused(replies)
    for label, row in zip(confusion.labels, confusion.matrix, strict=True):
        for answer, count in zip(confusion.answers, row, strict=True):
            assert counted.pop((label, answer), 0) == count
    assert not counted
    mistakes = [pair.count for pair in confusion.pairs]
    assert mistakes == sorted(mistakes, reverse=True)
    assert sum(mistakes) == sum(one.label != one.answer for one in replies)


def replies_of(*labels: str) -> list[oracle.Plain]:
    return [oracle.Plain(k, label, "ham", 1.0) for k, label in enumerate(labels)]


def test_answers_that_came_early_are_counted() -> None:
    replies = replies_of("ham", "spam")
    assert metrics_of(replies).at_budget(0, 1.0).early == 0.0
    assert metrics_of(replies, reason="sure").at_budget(0, 1.0).early == 1.0
    some: dict[str, Any] = {"base_models": 8, "base_models_used": 7}
    assert metrics_of(replies, reason="budget", **some).at_budget(0, 1.0).early == 1.0
    some["base_models_used"] = 8
    assert metrics_of(replies, reason="budget", **some).at_budget(0, 1.0).early == 0.0


def test_scores_of_early_answers_are_beside_those_of_whole_answers() -> None:
    def reply(share: float | None, **changed: Any) -> Reply:
        scores = None if share is None else {"ham": 1 - share, "spam": share}
        return Reply(1e-3, answer_of("spam", scores=scores, **changed))

    def compared(shares: list[float | None], early: bool = True) -> Any:
        trials = []
        for k, share in enumerate(shares):
            item = LabelledItem(str(k), "", ["ham", "spam"][k % 2], 1.0, "")
            said: dict[str, Any] = {"early": True} if early else {}
            trials.append(Trial(k, item, (reply(share, **said), reply(k % 2 / 2))))
        # whole, so that it is not compared; and one without an answer
        item = LabelledItem("9", "", "spam", 1.0, "")
        torn = Reply(1e-3, error=BadItem("it is torn"))
        trials.append(Trial(9, item, (reply(0.1), reply(0.1))))
        trials.append(Trial(10, item, (reply(0.1, early=True), torn)))
        predictors: list[Predictor] = [Anyone(), Anyone()]
        comparison = Comparison([], predictors)
        comparison.trials = trials
        labels = ["ham", "spam"]
        return ClassMetrics(comparison, predictors, "s", labels).early(0, 1, 3.0)

    found = compared([0.25, 0.75, 0.5, 0.125])
    assert (found.amount, found.items) == (3.0, 4)
    assert found.early.auc == 0.5
    assert found.early.brier == pytest.approx(np.mean([1 / 16, 1 / 16, 1 / 4, 49 / 64]))
    assert found.whole.auc == 1.0
    assert found.whole.brier == pytest.approx(1 / 8)
    assert found.whole.calibration_error == pytest.approx(0.25)
    assert compared([0.25], early=False) is None
    assert compared([None, None]) is None
    one = compared([0.25])
    assert (one.items, one.early.auc) == (1, None)
    no_shares = compared([7.5, -3.0])
    assert (no_shares.early.log_loss, no_shares.early.brier) == (None, None)


def test_plans_and_expectations_are_those_of_the_answers() -> None:
    found = metrics_of(replies_of("ham", "spam", "eggs")).at_budget(0, BUDGET_MS)
    assert found.expected_accuracy == 0.75
    assert [(one.features, one.share) for one in found.plans] == [(("length",), 1.0)]
    assert not isinstance(found.given_ms, float)
    assert metrics_of(replies_of("ham")).at_budget(0, 4.0).given_ms == BUDGET_MS


def test_money_is_inside_by_what_the_plan_costs() -> None:
    money: dict[str, Any] = {"budget": 0.5, "predicted": 0.25, "budget_met": False}
    found = metrics_of(replies_of("ham", "spam"), "usd", **money).at_budget(0, 0.5)
    assert (found.budget, found.inside, found.mean_cost) == (0.5, 0.0, 0.25)
    assert not isinstance(found.budget_ms, float)


def test_scores_that_are_no_probabilities_have_no_log_loss() -> None:
    margins = {"ham": -2.0, "spam": 2.0, "eggs": 0.0}
    replies = [oracle.Plain(0, "ham", "ham", 1.0, margins)]
    replies.append(oracle.Plain(1, "spam", "ham", 1.0, margins))
    found = metrics_of(replies).at_budget(0, 1.0)
    assert (found.auc, found.log_loss) == (0.5, None)


def test_the_curve_of_two_classes_is_thinned_and_keeps_its_ends() -> None:
    rng = np.random.default_rng(0)
    trials = []
    for k, share in enumerate(rng.random(400).tolist()):
        label = "spam" if rng.random() < share else "ham"
        item = LabelledItem(str(k), "", label, 1.0, "")
        said = answer_of("ham", scores={"ham": 1 - share, "spam": share})
        trials.append(Trial(k, item, (Reply(1e-3, said),)))
    predictors: list[Predictor] = [Anyone()]
    comparison = Comparison([], predictors)
    comparison.trials = trials
    for positive in ("ham", "spam"):
        judge = ClassMetrics(
            comparison,
            predictors,
            "s",
            ["ham", "spam"],
            "average_precision",
            positive=positive,
        )
        found = judge.at_budget(0, BUDGET_MS)
        assert found.quality == found.average_precision
        curve = found.precision_recall
        assert isinstance(curve, list)
        assert 40 < len(curve) <= 50
        recalls = [point.recall for point in curve]
        assert recalls == sorted(recalls)
        assert recalls[-1] == 1.0
        own = sum(one.item.label == positive for one in trials)
        assert own / 400 <= curve[-1].precision < 0.6
        assert isinstance(found.calibration_error, float)
        assert found.calibration_error < 0.1
