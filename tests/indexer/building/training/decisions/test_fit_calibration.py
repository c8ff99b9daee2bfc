"""Calibrations fitted to held-out items: what is kept, what is not, and edges."""

from functools import partial
from itertools import product

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from polydom.indexer.building.training.decisions.calibration_forms import LEAST_ODDS
from polydom.indexer.building.training.decisions.evidence import (
    Evidence,
    evidence_of,
    join_evidence,
)
from polydom.indexer.building.training.decisions.fit_calibration import (
    FittedCalibration,
    at_best_temperature,
    fit_calibration,
)
from polydom.models.measures import log_loss
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LARGEST, LOGISTIC, POSITIVE, SOFTMAX
from polydom.models.scoring.prior import Prior

Floats = NDArray[np.float64]
DRAW = np.random.default_rng(0)


def drawn(count: int, classes: int = 2) -> tuple[Floats, NDArray[np.int64]]:
    """Return log scores (N, K), and classes (N,) that are drawn by them."""
    z = DRAW.normal(0, 2, (count, classes))
    if classes == 2:
        z[:, 0] = 0.0
    shares = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    above = shares.cumsum(axis=1) < DRAW.random((count, 1))
    return z, np.minimum(above.sum(axis=1), classes - 1)


def fitted(
    z: Floats,
    codes: NDArray[np.int64],
    *,
    logs: bool = False,
    probable: bool = True,
    shift: Floats | None = None,
    forced: bool = False,
) -> FittedCalibration:
    places = np.arange(len(codes))
    found = Evidence(z, logs, probable)
    ones = np.ones(len(codes))
    return fit_calibration(found, codes, ones, places, shift, 0, forced=forced)


@pytest.mark.parametrize("classes", [2, 4])
def test_scores_that_hold_are_left_as_they_are(classes: int) -> None:
    found = fitted(*drawn(1500, classes))
    assert found.calibration is None
    assert found.form is None
    assert found.before == found.after


@pytest.mark.parametrize(("classes", "form"), [(2, "temperature"), (4, "temperature")])
def test_what_is_too_sure_gets_a_temperature(classes: int, form: str) -> None:
    z, codes = drawn(1500, classes)
    found = fitted(4 * z, codes)
    assert found.form == form
    assert found.calibration is not None
    assert found.before is not None
    assert found.after is not None
    assert found.calibration.table[2] == pytest.approx(0.25, abs=0.04)
    assert found.after.log_loss < 0.8 * found.before.log_loss
    assert found.after.error < 0.5 * found.before.error


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("factor", [1e-5, 1e3])
def test_a_temperature_far_from_1_is_found(factor: float, classes: int) -> None:
    z, codes = drawn(1500, classes)
    found = fitted(factor * z, codes)
    assert found.form == "temperature"
    assert found.calibration is not None
    assert found.calibration.table[2] == pytest.approx(1 / factor, rel=0.25)


def test_scores_of_ten_classes_that_are_nearly_always_right_stay_sure() -> None:
    draw = np.random.default_rng(1)
    codes = draw.integers(0, 10, 600)
    z = draw.normal(size=(600, 10))
    z[np.arange(600), codes] += 3.4  # right in 95 of 100
    found = fitted(6 * 3.4 * z, codes)  # the true log odds of such normals, times 6
    assert found.before is not None
    assert found.after is not None
    assert found.form == "temperature"
    assert found.calibration is not None
    assert found.calibration.table[2] == pytest.approx(1 / 6, rel=0.25)
    assert found.after.log_loss < 0.5 * found.before.log_loss
    assert found.after.error < found.before.error


def test_the_improvement_told_is_that_of_fresh_items() -> None:
    z, codes = drawn(1500)
    found, (fresh, of_fresh) = fitted(4 * z, codes), drawn(4000)
    head = Head(np.arange(2), LOGISTIC, POSITIVE, 1, 4.0, found.calibration)
    loss = log_loss(of_fresh, head.scores(fresh[:, 1:].copy()))
    assert found.after is not None
    assert found.after.log_loss == pytest.approx(loss, abs=0.04)


def test_what_leans_to_one_class_gets_offsets_where_a_threshold_decides() -> None:
    z, codes = drawn(800)
    found = fitted(z + np.array([0, 1.5]), codes, forced=True)
    assert found.form == "offsets"
    assert found.calibration is not None
    assert found.calibration.table[-1] == pytest.approx(-1.5, abs=0.3)


def test_what_leans_to_one_class_gets_a_slope_for_each_side() -> None:
    z, codes = drawn(900)
    z[:, 1] += 1.5
    found = fitted(z, codes)
    assert found.form == "slopes"
    assert found.calibration is not None
    assert found.after is not None
    assert found.before is not None
    assert found.after.log_loss < found.before.log_loss
    _, _, *slopes, x, y = found.calibration.table.tolist()
    assert (x, y) == (0, 0)
    for side, slope in zip((z[:, 1] < 0, z[:, 1] > 0), slopes, strict=True):
        best = min(np.geomspace(0.01, 9, 2000), key=partial(loss_of, z, codes, side))
        assert slope == pytest.approx(best, rel=0.01)


def loss_of(
    z: Floats, codes: NDArray[np.int64], side: NDArray[np.bool_], slope: float
) -> float:
    """Return the log loss of smoothed labels of the items of a side."""
    odds, own = slope * z[side, 1], codes[side]
    spread = 1 / (len(own) + 2)
    target = np.where(own == 1, 1 - spread, spread)
    return float(np.sum(np.logaddexp(0, odds) - target * odds))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("count", [400, 1600])
def test_no_map_contradicts_the_choice_of_the_model(classes: int, count: int) -> None:
    forms = set()
    for lean, power, ties in product((0.0, 1.5, -3.0), (1, 3), (False, True)):
        z, codes = drawn(count, classes)
        z = 3 * np.sign(z) * np.abs(z) ** power + lean * np.arange(classes)
        z = np.round(z) if ties else z
        found = fitted(z, codes)
        forms.add(found.form)
        if found.calibration is None:
            continue
        inputs = 1 if classes == 2 else classes
        link, rule = (LOGISTIC, POSITIVE) if classes == 2 else (SOFTMAX, LARGEST)
        args = np.arange(classes), link, rule, inputs, 1.0
        head, plain = Head(*args, found.calibration), Head(*args)
        rows = z[:, -inputs:].copy()
        rows[:4, 0] = [0.0, 5e-324, -5e-324, 1e-17]
        scores, chosen = head.scores(rows), plain.choose(rows)
        assert (scores[np.arange(count), chosen] == scores.max(axis=1)).all()
    assert forms - {None, "temperature"} if classes == 2 else "temperature" in forms
    assert "offsets" not in forms


@pytest.mark.parametrize("forced", [False, True])
def test_a_side_that_is_always_right_gets_finite_scores(forced: bool) -> None:
    draw = np.random.default_rng(2)
    z = np.column_stack([np.zeros(3000), draw.normal(0, 3, 3000)])
    codes = (z[:, 1] > 0).astype(np.int64)  # all items above the border are right
    near = np.flatnonzero(abs(z[:, 1] + 1.5) < 1.5)  # below, near ones are a half
    codes[near[draw.random(len(near)) < 0.48]] = 1
    found = fitted(z, codes, forced=forced)
    assert found.form == "isotonic"
    assert found.calibration is not None
    assert found.calibration.find_flaw(2) is None


def test_sides_whose_items_are_mostly_of_the_other_class_get_almost_a_half() -> None:
    z, codes = drawn(4000)
    z = z**3
    z[:, 1] += 30.0
    found = fitted(z, codes)
    assert found.form == "isotonic"
    assert found.calibration is not None
    x, y = found.calibration.table[4:].reshape(2, -1)
    assert np.count_nonzero((x == 0) & (y == 0)) == 1
    assert (np.sign(x) == np.sign(y)).all()
    assert y[np.flatnonzero(x > 0)[0]] == LEAST_ODDS
    means = IsotonicRegression(increasing=True).fit(z[:, 1], codes).predict(x[x > 3])
    shares = 1 / (1 + np.exp(-y[x > 3]))
    np.testing.assert_allclose(shares, np.maximum(means, 0.5), atol=0.08)


def test_many_items_of_a_bent_curve_get_an_isotonic_map_that_rises() -> None:
    z, codes = drawn(3000)
    found = fitted(z**3, codes)
    assert found.form == "isotonic"
    head = Head(np.arange(2), LOGISTIC, POSITIVE, 1, 1.0, found.calibration)
    scores = head.scores(np.linspace(-60, 60, 500)[:, None])[:, 1]
    assert (np.diff(scores) > 0).all()
    assert found.after is not None
    assert found.after.error < 0.04
    few = fitted(z[:900] ** 3, codes[:900])
    assert few.form in ("temperature", "slopes")


def test_shares_of_0_and_1_prove_nothing() -> None:
    codes = DRAW.integers(0, 2, 400)
    shares = np.where(DRAW.random(400) < 0.9, codes, 1 - codes).astype(float)
    with np.errstate(divide="ignore"):
        z = np.log(np.column_stack([1 - shares, shares]))
    found = fitted(z, codes, logs=True)
    assert found.calibration is not None
    scores = np.column_stack([1 - shares, shares])
    found.calibration.apply(z, 1.0, scores)
    assert sorted({*scores[:, 1].round(1).tolist()}) == [0.1, 0.9]


def test_margins_become_probabilities_and_class_weights_are_taken_back() -> None:
    z, codes = drawn(900)
    margins = fitted(z / 3, codes, probable=False)
    assert margins.form in ("temperature", "slopes")
    assert margins.before is None
    weighed = fitted(z + np.log([1.0, 9.0]), codes, shift=np.log([1.0, 9.0]))
    assert weighed.form == "prior"
    assert weighed.calibration is not None
    assert weighed.calibration.table[-1] == pytest.approx(-np.log(9))


@pytest.mark.parametrize("count", [1, 2, 29])
def test_few_items_change_nothing(count: int) -> None:
    z, codes = drawn(count)
    assert fitted(9 * z, codes).calibration is None
    shift = np.log([1.0, 4.0])
    assert fitted(9 * z, codes, shift=shift).form == "prior"


def test_items_of_one_class_or_with_one_score_change_nothing() -> None:
    z, codes = drawn(500)
    assert fitted(z, np.zeros(500, np.int64)).calibration is None
    assert fitted(np.zeros((500, 2)), codes).calibration is None
    assert fitted(z, codes, probable=False).before is None


def test_evidence_of_parts_is_joined_if_all_have_it() -> None:
    one = Evidence(np.zeros((2, 2)), logs=False, probable=True)
    joined = join_evidence([one, one])
    assert joined is not None
    assert joined.z.shape == (4, 2)
    assert join_evidence([one, None]) is None
    assert join_evidence([]) is None
    assert join_evidence([one, one._replace(logs=True)]) is None
    prior = Prior(np.arange(2), np.array([0.5, 0.5]))
    assert evidence_of(prior, np.zeros((2, 1), np.float32), 2) is None
    assert not isinstance(prior, Classifier)


def test_models_compare_by_log_loss_as_a_temperature_makes_it() -> None:
    z, codes = drawn(1500, 3)
    ones = np.ones(len(codes))

    def loss(z: Floats) -> float:
        found = Evidence(z, logs=False, probable=True)
        return log_loss(codes, at_best_temperature(found, codes, ones, None, 0))

    softmax = np.exp(z) / np.exp(z).sum(axis=1, keepdims=True)
    assert loss(z) == pytest.approx(log_loss(codes, softmax))  # it holds already
    assert loss(6 * z) == pytest.approx(loss(z), rel=0.01)
    shift = np.log([1.0, 2.0, 4.0])
    weighed = Evidence(6 * (z + shift), logs=False, probable=True)
    back = at_best_temperature(weighed, codes, ones, shift, 0)
    assert log_loss(codes, back) == pytest.approx(loss(z), rel=0.02)
    # few items leave scores as they are
    few = Evidence(6 * z[:20], logs=False, probable=True)
    kept = at_best_temperature(few, codes[:20], ones[:20], None, 0)
    np.testing.assert_allclose(kept, few.scores(None))
