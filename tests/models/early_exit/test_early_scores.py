"""Class scores of rows that do not use all base models."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

from polydom.features.errors import BadInput
from polydom.models import Ensemble, compile
from polydom.models.early_exit.early_scores import (
    LEAST_SHARE,
    LEAST_SLOPE,
    TINY,
    _Lines,
    fit_early_scores,
)
from polydom.models.early_exit.ensemble import Ensemble as Made
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.early_exit.exact_schedule import exact_schedule
from polydom.models.scoring.calibration import make_knots, make_line
from polydom.models.scoring.kernels.link import SOFTMAX
from polydom.models.scoring.stopping_rule import margins_of
from tests.models.early_exit.test_answers import (
    ENSEMBLES,
    ROWS,
    drawn_exit,
    whole_exit,
)
from tests.support.examples import few
from tests.support.oracles.early_exit import least_deviance

MARGINS = {"ridge"}  # class scores that are no probabilities


def scored(name: str, classes: int, seed: int = 0, width: float = 0.3) -> Any:
    ensemble, X = ENSEMBLES[name, classes], ROWS[classes]
    exits = drawn_exit(ensemble, X, seed, width)
    return ensemble.fit_early_scores(exits.schedule, X)


@pytest.mark.parametrize(("name", "classes"), ENSEMBLES)
@settings(max_examples=few(3), deadline=None)
@given(seed=st.integers(0, 999), width=st.sampled_from([0.05, 0.3]))
def test_early_scores_agree_with_class_and_bounds(
    name: str, classes: int, seed: int, width: float
) -> None:
    exits, X = scored(name, classes, seed, width), ROWS[classes][::15]
    many, (codes, used) = exits.predict_scores(X), exits.choices(X)
    for i, row in enumerate(X.astype(np.float32)):
        one = exits.answer(row)
        assert (one.code, one.used) == (codes[i], used[i])
        np.testing.assert_allclose(one.scores, many[i], rtol=1e-9, atol=1e-12)
        assert one.scores[one.code] == max(one.scores)
        if name not in MARGINS:
            assert all(0.0 <= score <= 1.0 for score in one.scores)
            if name != "one against the rest":
                assert sum(one.scores) == pytest.approx(1.0)
        if one.bounds is not None and classes == 2:
            ends = zip(one.scores, one.bounds, strict=True)
            assert all(low <= score <= high for score, (low, high) in ends)


@pytest.mark.parametrize(("name", "classes"), ENSEMBLES)
def test_calibrated_early_scores_agree_with_the_class(name: str, classes: int) -> None:
    plain, X = ENSEMBLES[name, classes].classifier, ROWS[classes][::6]
    logs = plain.head.link != SOFTMAX and name not in MARGINS
    if classes == 2:
        made = make_knots(np.zeros((2, 1)), (0.3, 2.0), logs=logs, limit=30.0)
    else:
        made = make_line(0.4, np.zeros(classes), logs=logs, limit=30.0)
    ensemble = as_ensemble(replace(plain, head=replace(plain.head, calibration=made)))
    schedule = drawn_exit(ensemble, X, 0, 0.3).schedule
    exits: Any = ensemble.fit_early_scores(schedule, X)
    many, (codes, _) = exits.predict_scores(X), exits.choices(X)
    assert (many[np.arange(len(X)), codes] == many.max(axis=1)).all()
    for row, code in zip(X[::9].astype(np.float32), codes[::9], strict=True):
        one = exits.answer(row)
        assert one.code == code
        assert one.scores[one.code] == max(one.scores)
    used = ensemble.size // 2
    sums = running_sums(ensemble, exits, X)[:, used - 1]
    codes, scores = exits.early_answers(np.full(len(X), used), sums)
    assert (scores[np.arange(len(X)), codes] == scores.max(axis=1)).all()


@pytest.mark.parametrize(("name", "classes"), ENSEMBLES)
def test_rows_without_time_are_answered_by_their_sums(name: str, classes: int) -> None:
    exits, ensemble = scored(name, classes), ENSEMBLES[name, classes]
    X, T = ROWS[classes][:: few(5)], ensemble.size
    sums = running_sums(ensemble, exits, X)
    for used in (1, T // 2, T):
        codes, scores = exits.early_answers(np.full(len(X), used), sums[:, used - 1])
        for i in range(0, len(X), 9):
            total = sums[i, used - 1]
            one = exits.cut_answer(used, float(total[0]) if classes == 2 else total)
            assert (one.code, one.used) == (codes[i], used)
            np.testing.assert_allclose(one.scores, scores[i], rtol=1e-9, atol=1e-12)
            assert one.scores[one.code] == max(one.scores)
    whole = ensemble.predict_scores(X)  # after the last base model nothing is guessed
    clear = margins_of(whole) > 1e-3
    assert (codes == whole.argmax(axis=1))[clear].all()


def running_sums(ensemble: Made, exits: Any, X: NDArray[Any]) -> NDArray[Any]:
    base = ensemble.base_scores(X)[:, exits.schedule.order].cumsum(axis=1)
    return base[:, :, None] if ensemble.binary else base + ensemble.bias


@pytest.mark.parametrize("name", ["lightgbm", "forest", "logistic", "huber"])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_line_near_or_far_fits_better(name: str, classes: int) -> None:
    ensemble, X = ENSEMBLES[name, classes], ROWS[classes]
    exits, used = whole_exit(ensemble), max(1, ensemble.size // 3)
    sums = running_sums(ensemble, exits, X)[:, used - 1]
    raw = ensemble.decision_function(X)
    raw = raw[:, None] if classes == 2 else raw
    lines = _Lines(ensemble.classifier, raw)
    line = lines.fit(sums, np.ones(len(X), np.bool_))
    assert line[1] >= LEAST_SLOPE
    found = np.square(line[0] + line[1] * sums - raw).sum()
    if name == "forest":  # least squares; a line of any other slope is worse
        for slope in line[1] + np.array([-0.1, -1e-3, 1e-3, 0.1]):
            offset = np.mean(raw - slope * sums)
            assert np.square(offset + slope * sums - raw).sum() >= found - 1e-9
        return
    target, score = lines._target, lines._score
    floor = TINY if target.min() > 0.0 else LEAST_SHARE
    shares = np.maximum(score(line[0] + line[1] * sums), floor)
    deviance = (shares - target * np.log(shares)).sum()
    starts = [(0.0, 1.0), (0.0, 3.0), (line[0], line[1])]
    best = least_deviance(score, sums, target, floor, starts)
    # Huber's function is flat in parts, so that its deviance has many minima.
    near = 0.15 if name == "huber" else 1e-3
    assert deviance <= best + near * abs(best)


def test_scores_are_those_that_rows_turn_out_to_have() -> None:
    """On fresh rows, the mean early score is the mean score of the whole forest."""
    draw = np.random.default_rng(0)
    X = draw.normal(size=(2400, 4)).astype(np.float32)
    y = X.sum(axis=1) + draw.normal(size=len(X)) > 0.3
    forest = RandomForestClassifier(30, max_depth=5, n_jobs=1, random_state=0)
    ensemble = compile(forest.fit(X[:800], y[:800]))
    exits = ensemble.fit_early_exit(X[800:1600], alpha=0.02)
    fresh = X[1600:]
    whole, early = ensemble.predict_scores(fresh), exits.predict_scores(fresh)
    codes, used = exits.choices(fresh)
    for side in (0, 1):
        stopped = (used < exits.size) & (codes == side)
        assert stopped.sum() > 100
        assert np.mean(early[stopped] - whole[stopped]) == pytest.approx(0, abs=0.02)
    apart = early[used < exits.size, 1] - whole[used < exits.size, 1]
    assert np.std(apart) < 0.15


def test_a_schedule_that_stops_no_row_here_has_lines_of_all_rows() -> None:
    ensemble, X = ENSEMBLES["lightgbm", 2], ROWS[2]
    never = whole_exit(ensemble)
    exits = ensemble.fit_early_scores(never.schedule, X)
    assert exits.lines is not None
    np.testing.assert_array_equal(exits.lines.early, exits.lines.partial)
    # the last line is the identity, of which the sum lacks the bias
    bias = float(ensemble.terms.base_bias()[0])
    np.testing.assert_allclose(exits.lines.partial[-1], [bias, 1.0], atol=1e-6)


def test_one_row_and_equal_rows_are_enough() -> None:
    for key in (("lightgbm", 2), ("forest", 3), ("logistic", 2), ("boosting", 3)):
        ensemble, X = ENSEMBLES[key], ROWS[key[1]]
        schedule = whole_exit(ensemble).schedule
        for rows in (X[:1], np.repeat(X[:1], 5, axis=0)):
            exits = ensemble.fit_early_scores(schedule, rows)
            assert exits.lines is not None
            assert np.isfinite(exits.lines.early).all()
            assert np.isfinite(exits.lines.partial).all()


def test_without_rows_there_are_no_lines() -> None:
    ensemble = ENSEMBLES["forest", 2]
    schedule = exact_schedule(ensemble)
    with pytest.raises(BadInput, match="no rows came"):
        ensemble.fit_early_scores(schedule, ROWS[2][:0])
    bare: Any = ensemble.early_exit(schedule)
    one, zero = np.ones(1, np.int64), np.zeros((1, 1))
    with pytest.raises(BadInput, match="no class scores"):
        bare.predict_scores(ROWS[2])
    with pytest.raises(BadInput, match="no class scores"):
        bare.early_answers(one, zero)
    with pytest.raises(BadInput, match="no class scores"):
        bare.early_answers(one, zero, one)
    with pytest.raises(BadInput, match="no class scores"):
        bare.cut_answer(1, 0.0)


def test_blocks_of_linear_terms_share_a_line() -> None:
    draw = np.random.default_rng(1)
    X = draw.normal(size=(300, 20))
    y = X @ draw.normal(size=20) > 0
    fitted = LogisticRegression().fit(X, y)
    ensemble: Ensemble = compile(fitted)
    exits = ensemble.fit_early_exit(X, alpha=0.02)
    assert exits.lines is not None
    assert exits.lines.early.shape == (20, 2)
    assert len(np.unique(exits.lines.partial[:, 1])) == 5  # blocks of 4 terms
    assert exits.predict_scores(X) is not None


def test_of_many_rows_some_are_used() -> None:
    ensemble, X = ENSEMBLES["forest", 2], np.tile(ROWS[2], (20, 1))
    exits = drawn_exit(ensemble, ROWS[2], 0, 0.3)
    base, raw = ensemble.base_scores(X)[:, :, None], ensemble.decision_function(X)
    order, stops = exits.schedule.order, exits.stops
    lines = fit_early_scores(
        ensemble.classifier, base, order, stops, exits.start, raw[:, None]
    )
    assert np.isfinite(lines.early).all()
