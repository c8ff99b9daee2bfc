"""Calibrated heads: one row and many, thresholds, bounds, and what is refused."""

import copy
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from polydom.features.errors import BadModel
from polydom.models.early_exit.class_score_bounds import ClassBounds
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.early_exit.exact_schedule import exact_schedule
from polydom.models.importers.compile_model import compile_model
from polydom.models.load import load_model
from polydom.models.scoring.calibration import Calibration, make_knots, make_line
from polydom.models.scoring.classifier import Classifier, Head, load_head
from polydom.models.scoring.float_order import first_with
from polydom.models.scoring.kernels.calibration import MOST, bound_calibrated
from polydom.models.scoring.kernels.link import (
    EACH,
    HUBER,
    LARGEST,
    LARGEST_SCORE,
    LOGISTIC,
    MARGIN,
    NOT_NEGATIVE,
    POSITIVE,
    SOFTMAX,
    bound_scores,
)
from polydom.models.scoring.kernels.native import entry
from polydom.models.scoring.prior import Prior
from polydom.models.scoring.stored_arrays import Stored
from tests.support.examples import few
from tests.support.oracles.calibration import calibrated_slowly

Floats = NDArray[np.float64]

HARD = [0.0, -0.0, 1.0, -5.0, 700.0, -800.0, np.inf, -np.inf, 1e-300]
LINE = make_line(0.4, np.array([0.0, 0.7]), logs=False)
KNOTS = make_knots(
    np.array([[-2.0, -1.0, 0.5, 3.0], [-1.0, -0.5, 0.1, 4.0]]), (0.2, 3.0), logs=False
)


def logged(calibration: Calibration, limit: float) -> Calibration:
    return Calibration(np.array([1.0, limit, *calibration.table[2:]]))


@pytest.mark.parametrize("calibration", [LINE, KNOTS, logged(KNOTS, 12.0)])
@pytest.mark.parametrize("link", [LOGISTIC, HUBER])
@pytest.mark.parametrize("rule", [POSITIVE, NOT_NEGATIVE, LARGEST_SCORE])
def test_a_margin_is_mapped_as_its_twin_says_and_as_many_are(
    calibration: Calibration, link: int, rule: int
) -> None:
    plain = Head(np.arange(2), link, rule, 1, 0.7)
    head = Head(np.arange(2), link, rule, 1, 0.7, calibration)
    draw = np.random.default_rng(3).normal(0, 3, 50)
    for margin in (*HARD, *draw.tolist()):
        raw = np.array([margin])
        code, scores = head.answer(raw)
        assert scores == head.scores_by(margin) == head.scores(raw[None])[0].tolist()
        assert (code, scores) == head.answer_by(margin)
        assert code == head.choose_by(margin) == head.choose(raw[None])[0]
        assert code == plain.choose_by(margin)  # calibration decides nothing
        slow = calibrated_slowly(calibration, raw, plain.scores_by(margin), 0.7)
        np.testing.assert_allclose(scores, slow, rtol=1e-9, atol=3e-16)
        assert 0 < min(scores) < max(scores) < 1
    assert np.isnan(head.scores_by(np.nan)).all()


@pytest.mark.parametrize("link", [SOFTMAX, EACH, HUBER, LOGISTIC])
@pytest.mark.parametrize("K", [2, 3])
@pytest.mark.parametrize("logs", [False, True])
def test_rows_are_mapped_as_their_twin_says_one_or_many(
    link: int, K: int, logs: bool
) -> None:
    draw = np.random.default_rng(link)
    limit = 20.0 if logs else np.inf
    calibration = make_line(0.6, draw.normal(size=K), logs=logs, limit=limit)
    plain = Head(np.arange(K), link, LARGEST, K, 1.5)
    head = Head(np.arange(K), link, LARGEST, K, 1.5, calibration)
    for raw in (*draw.choice([0.0, 1.0, 700.0, -5.0], (40, K)), draw.normal(size=K)):
        code, scores = head.answer(raw)
        assert code == head.choose(raw[None])[0] == plain.choose(raw[None])[0]
        assert np.array(scores).tobytes() == head.scores(raw[None]).tobytes()
        slow = calibrated_slowly(calibration, raw, plain.answer(raw)[1], 1.5)
        np.testing.assert_allclose(scores, slow, rtol=1e-9, atol=3e-16)
        assert 0 < min(scores) < max(scores) < 1


PINNED = [
    make_line(1e-3, np.zeros(2), logs=False),
    make_line(7.0, np.zeros(2), logs=False),
    make_knots(np.zeros((2, 1)), (0.01, 5.0), logs=False),
    make_knots(
        np.array([[-3.0, -1e-9, 0.0, 0.5, 4.0], [-0.2, -1e-6, 0.0, 1e-6, 3.0]]),
        (0.1, 2.0),
        logs=False,
    ),
]
ULP = 5e-324
BESIDE = [0.0, -0.0, *(s * x for s in (1, -1) for x in (ULP, 1e-300, 1e-17, 1e-16))]


@pytest.mark.parametrize("calibration", PINNED)
@pytest.mark.parametrize(
    ("link", "inputs", "logs"),
    [
        (MARGIN, 1, False),
        (LOGISTIC, 1, False),
        (HUBER, 1, True),
        (MARGIN, 2, False),
        (MARGIN, 2, True),  # shares of two classes
        (SOFTMAX, 2, False),
        (LOGISTIC, 2, True),
        (HUBER, 2, True),
        (EACH, 2, True),
    ],
)
@pytest.mark.parametrize("rule", [POSITIVE, NOT_NEGATIVE, LARGEST, LARGEST_SCORE])
@given(gain=st.sampled_from([1.0, 0.3, 1e-3]), seed=st.integers(0, 999))
@settings(max_examples=few(8))
def test_a_map_with_a_fixed_border_gives_no_other_class_a_larger_score(
    calibration: Calibration,
    rule: int,
    link: int,
    inputs: int,
    logs: bool,
    gain: float,
    seed: int,
) -> None:
    if (rule < LARGEST) != (inputs == 1) and (rule, inputs) != (LARGEST_SCORE, 1):
        return  # no such head
    draw = np.random.default_rng(seed)
    near = [-1e3, 1e3, *BESIDE, *HARD, *draw.normal(0, 2, 9).tolist()]
    if inputs == 1:
        rows = np.array(near)[:, None]
    else:
        first = draw.choice([0.0, 0.5, -800.0, *draw.normal(0, 3, 3)], len(near))
        with np.errstate(over="ignore"):
            rows = np.column_stack([first, first + near])
            above = np.column_stack([first, np.nextafter(first, np.inf)])
            rows = np.concatenate([rows, above, above[:, ::-1], [[np.inf, np.inf]]])
        rows = np.clip(rows, 0.0, 1.0) if link == MARGIN and logs else rows
    made = logged(calibration, 20.0) if logs else calibration
    head = Head(np.arange(2), link, rule, inputs, gain, made)
    many, chosen = head.scores(rows), head.choose(rows)
    assert (many[np.arange(len(rows)), chosen] == many.max(axis=1)).all()
    for row, code, scores in zip(rows, chosen, many.tolist(), strict=True):
        assert head.answer(row) == (code, scores)
        if inputs == 1:
            assert head.answer_by(float(row[0])) == (code, scores)


@pytest.mark.parametrize("link", [SOFTMAX, LOGISTIC, HUBER, EACH])
@given(slope=st.floats(1e-4, 50), seed=st.integers(0, 999))
@settings(max_examples=few(20))
def test_a_temperature_gives_no_other_of_many_classes_a_larger_score(
    link: int, slope: float, seed: int
) -> None:
    draw = np.random.default_rng(seed)
    made = make_line(slope, np.zeros(4), logs=link != SOFTMAX, limit=30.0)
    head = Head(np.arange(4), link, LARGEST, 4, 0.7, made)
    rows = draw.choice([0.0, ULP, 1.0, np.nextafter(1.0, 2), -800.0, 700.0], (60, 4))
    rows[::2] = draw.normal(0, 5, (30, 4))
    many, chosen = head.scores(rows), head.choose(rows)
    assert (many[np.arange(60), chosen] == many.max(axis=1)).all()
    assert all(
        head.answer(row) == (code, own)
        for row, code, own in zip(rows, chosen, many.tolist(), strict=True)
    )


def test_infinite_raw_scores_of_some_classes_share_the_probability() -> None:
    calibration = make_line(0.5, np.array([0.0, 1.0, 0.0]), logs=False)
    head = Head(np.arange(3), SOFTMAX, LARGEST, 3, 1.0, calibration)
    _, scores = head.answer(np.array([np.inf, 0.0, np.inf]))
    least = math.exp(-MOST)
    np.testing.assert_allclose(scores, [0.5, least / 2, 0.5], rtol=1e-9)
    _, scores = head.answer(np.full(3, -np.inf))
    np.testing.assert_allclose(scores, 1 / 3)


@pytest.mark.parametrize("calibration", [None, LINE, KNOTS, logged(LINE, 9.0)])
@given(st.floats(0, 1) | st.sampled_from([0.0, 1e-300, 0.5, 1 - 1e-16, 1.0]))
def test_the_second_class_is_chosen_where_its_score_reaches_the_threshold(
    calibration: Calibration | None, threshold: float
) -> None:
    args = np.arange(2), LOGISTIC, POSITIVE, 1, 1.0, calibration
    with np.errstate(over="ignore"):  # the largest margins are tried, too
        head = Head(*args, threshold)
    assert head.border == threshold
    assert head.cut is not None
    cut = 0.0 if math.isnan(head.cut) else head.cut
    near = [np.nextafter(cut, -np.inf), cut, np.nextafter(cut, np.inf)]
    for margin in (*map(float, near), -3.0, 0.0, 2.0, -np.inf, np.inf):
        code, scores = head.answer_by(margin)
        assert code == head.choose_by(margin) == (margin >= head.cut)
        if abs(scores[1] - threshold) > 4e-16:  # exp may fall by a last bit
            assert code == (scores[1] >= threshold)
        raw = np.array([margin])
        assert head.answer(raw) == (code, scores)
        assert head.choose(raw[None])[0] == code
    assert head.choose_by(math.nan) == 0


def test_by_its_margin_a_row_gets_the_class_of_its_raw_scores() -> None:
    head = Head(np.arange(2), SOFTMAX, LARGEST, 2, 1.0, LINE)
    for margin in (-0.5, *BESIDE, 0.5):
        code, scores = head.answer(np.array([0.0, margin]))
        assert head.answer_by(margin) == (code, scores)
        assert head.choose_by(margin) == code == (margin > 0)
    assert head.answer_by(-0.5)[1][1] > 0.5  # the map leans to the second class


def test_the_border_of_a_calibrated_head_is_the_score_of_the_margin_0() -> None:
    head = Head(np.arange(2), LOGISTIC, POSITIVE, 1, 1.0, LINE)
    assert (
        head.border == head.scores_by(0.0)[1] == pytest.approx(1 / (1 + math.exp(-0.7)))
    )
    assert Head(np.arange(2), LOGISTIC, POSITIVE, 1).border == 0.5
    assert Head(np.arange(2), MARGIN, POSITIVE, 1).border == 0.0


@given(st.floats(allow_nan=False))
def test_the_first_number_that_holds_is_found(limit: float) -> None:
    assert first_with(lambda number: number >= limit) == limit
    assert math.isnan(first_with(lambda _: False))
    assert first_with(lambda _: True) == -math.inf


@pytest.mark.parametrize("link", [SOFTMAX, EACH, HUBER, MARGIN])
@settings(max_examples=few(60))
@given(st.data())
def test_bounds_hold_for_calibrated_scores_of_all_that_may_be_added(
    link: int, data: Any
) -> None:
    draw = np.random.default_rng(data.draw(st.integers(0, 999)))
    logs, T = link != SOFTMAX, data.draw(st.integers(1, 3))
    totals = draw.dirichlet(np.ones(3)) if link == MARGIN else draw.normal(0, 3, 3)
    ends = np.sort(draw.normal(0, data.draw(st.floats(0, 2)), (T, 2, 3)), axis=1)
    calibration = make_line(
        data.draw(st.floats(0.1, 5)), draw.normal(size=3), logs=logs, limit=25.0
    )
    head = Head(np.arange(3), link, LARGEST, 3, 1.3, calibration)
    least, most = ends.sum(axis=0)
    if link == MARGIN:  # raw scores are shares, from 0 to 1
        least, most = -totals * draw.random(3), (1 - totals) * draw.random(3)
    rounding = np.array([1e-12, 0.0, 1.0])
    kernels = entry(bound_scores), entry(bound_calibrated)
    bounds = ClassBounds(least[None], most[None], head, rounding, *kernels)
    found = np.array(bounds.of(1, totals))
    for _ in range(30):
        reached = totals + least + draw.random(3) * (most - least)
        scores = head.scores(reached[None])[0]
        assert (found[:, 0] <= scores).all()
        assert (scores <= found[:, 1]).all()


@pytest.mark.parametrize(
    "threshold",
    [0.03, *(pytest.param(one, marks=pytest.mark.jit) for one in (0.0, 0.4, 0.9, 1.0))],
)
def test_a_forest_stops_early_by_its_threshold_and_changes_nothing(
    threshold: float,
) -> None:
    draw = np.random.default_rng(0)
    X = draw.normal(size=(300, 4)).astype(np.float32)
    y = (X[:, 0] + draw.normal(size=300) > 1).astype(int)
    forest = RandomForestClassifier(20, random_state=0).fit(X, y)
    made: Any = compile_model(forest, np.arange(4))
    plain = made.head
    calibration = make_line(0.6, np.array([0.0, -0.3]), logs=True, limit=8.0)
    settings_of = plain.classes, plain.link, plain.rule, plain.inputs, plain.gain
    head = Head(*settings_of, calibration, threshold)
    model = Classifier(made.scorer, head)
    ensemble = as_ensemble(model)
    early = ensemble.early_exit(exact_schedule(ensemble))
    scores = model.predict_scores(X)
    far = abs(scores[:, 1] - threshold) > 1e-12
    np.testing.assert_array_equal(
        model.predict(X)[far], (scores[:, 1] >= threshold)[far]
    )
    np.testing.assert_array_equal(early.predict(X), model.predict(X))
    for row in X[:100]:
        answer = early.answer(row)
        code, own = model.answer(row)
        assert answer.code == code == early.choose(row)
        if answer.scores is not None:
            np.testing.assert_allclose(answer.scores, own, atol=1e-11)
        else:
            assert answer.bounds is not None
            for (low, high), score in zip(answer.bounds, own, strict=True):
                assert low <= score <= high
    again = load_model(model.kind, model.arrays(), width=4)
    assert isinstance(again, Classifier)
    assert again.predict_scores(X).tobytes() == scores.tobytes()
    for same in (again, copy.deepcopy(model)):
        np.testing.assert_equal(same.head.cut, model.head.cut)


def test_a_prior_may_choose_a_rarer_class() -> None:
    shares = np.array([0.9, 0.1])
    for chosen, code in ((1, 1), (0, 0), (None, 0)):
        prior = Prior(np.array(["no", "yes"]), shares, chosen)
        again = load_model("prior", prior.arrays(), width=0)
        for model in (prior, again):
            assert model.choose(np.empty(0)) == code
            assert model.answer(np.empty(0)) == (code, [0.9, 0.1])
            assert model.predict(np.empty((2, 0))).tolist() == [["no", "yes"][code]] * 2
    with pytest.raises(BadModel, match="class 3 of 3 cannot be chosen"):
        Prior(np.arange(3), np.full(3, 1 / 3), 3)


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([], "of 0 numbers is not for 2 classes"),
        ([0, 1, 1, 1, 0], "of 5 numbers is not for 2 classes"),
        ([2, 1, 1, 1, 0, 0], "needs 0, or 1 and a finite limit"),
        ([1, np.inf, 1, 1, 0, 0], "needs 0, or 1 and a finite limit"),
        ([0, np.nan, 1, 1, 0, 0], "needs 0, or 1 and a finite limit"),
        ([0, 9, 0, 1, 0, 0], "slopes must be above 0"),
        ([0, 9, 1, 1, 0, np.nan], "its numbers finite"),
        ([0, 9, 1, 1, 0, 0, 0, 1], "knots of a calibration must rise"),
        ([0, 9, 1, 1, 0, 1, 1, 0], "knots of a calibration must rise"),
    ],
)
def test_a_damaged_calibration_is_refused(numbers: list[float], said: str) -> None:
    arrays = Head(np.arange(2), LOGISTIC, POSITIVE, 1).arrays()
    arrays["calibration"] = np.array(numbers, np.float64)
    with pytest.raises(BadModel, match=said):
        load_head(Stored("linear", arrays))


@pytest.mark.parametrize(
    ("head", "threshold", "said"),
    [
        ((np.arange(3), SOFTMAX, LARGEST, 3), 0.5, "for two classes, not 3"),
        ((np.arange(2), LOGISTIC, POSITIVE, 1), 1.5, "1.5 is not from 0 to 1"),
        ((np.arange(2), LOGISTIC, POSITIVE, 1), -0.1, "-0.1 is not from 0 to 1"),
        ((np.arange(2), LOGISTIC, POSITIVE, 1), np.nan, "nan is not from 0 to 1"),
    ],
)
def test_a_threshold_that_cannot_be_is_refused(
    head: Any, threshold: float, said: str
) -> None:
    given: Any = (*head, 1.0, None, threshold)
    with pytest.raises(BadModel, match=said):
        Head(*given)
