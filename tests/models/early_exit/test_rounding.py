"""Schedules and rounding: sums that tie with the threshold but for their last bits."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from polydom.features.errors import BadInput
from polydom.models import compile
from polydom.models.qwyc.confidence_bound import upper_bound
from polydom.models.qwyc.fit_schedule import fit_margin_schedule, fit_schedule
from polydom.models.qwyc.running_sums import whole_sums
from polydom.models.qwyc.schedule import MarginSchedule, Schedule
from tests.support.examples import few
from tests.support.models.agreement import bundled
from tests.support.oracles.early_exit import add_up, walk_early, walk_margins

Floats = NDArray[np.float64]

# None of these has an exact double, so every order of adding them rounds its own way.
TENTHS = st.integers(-4, 4).map(lambda n: n / 10)


def drawn(draw: st.DrawFn, shape: tuple[int, ...]) -> Floats:
    size = int(np.prod(shape))
    values = draw(st.lists(TENTHS, min_size=size, max_size=size))
    scale = draw(st.sampled_from([1.0, 1 / 3, 1e6 / 7]))
    return np.array(values).reshape(shape) * scale


@st.composite
def tied_scores(draw: st.DrawFn) -> tuple[Floats, float]:
    """Scores (N, T) and a threshold that is the whole sum of one row, or near it."""
    scores = drawn(draw, (draw(st.integers(2, 30)), draw(st.integers(1, 8))))
    i = draw(st.integers(0, len(scores) - 1))
    order = draw(st.permutations(range(scores.shape[1])))
    return scores, float(scores[i, order].sum())


@given(tied_scores())
def test_whole_sums_are_added_one_by_one(case: tuple[Floats, float]) -> None:
    scores, start = case
    found = whole_sums(scores)
    assert found.tolist() == [add_up(row) for row in scores]
    begun = whole_sums(scores, start)
    assert begun.tolist() == [add_up(row, start) for row in scores]


@given(
    tied_scores(),
    st.sampled_from(["polydom", "qwyc", "fixed"]),
    st.sampled_from([0.0, 0.05, 0.3]),
    st.sampled_from(["both", "negative"]),
)
def test_alpha_holds_on_the_fitted_rows_by_the_evaluators_own_count(
    case: tuple[Floats, float], method: Any, alpha: float, sides: Any
) -> None:
    scores, threshold = case
    whole = np.array([add_up(row) >= threshold for row in scores])
    assume(whole.any() and not whole.all())
    order: Any = np.arange(scores.shape[1])[::-1] if method == "fixed" else None
    schedule = fit_schedule(
        scores, threshold, alpha, method=method, order=order, sides=sides, threads=1
    )
    decisions, used = schedule.evaluate(scores)
    wrong = decisions != whole
    np.testing.assert_array_equal(schedule.changed(scores), whole[wrong])
    assert np.mean(wrong) <= alpha
    if method == "polydom":  # the paper's methods know one share of all
        for positive in (False, True):
            assert (wrong & (whole == positive)).sum() <= alpha * (
                whole == positive
            ).sum()
    last = used == scores.shape[1]
    np.testing.assert_array_equal(decisions[last], whole[last])
    slow = walk_early(
        scores, schedule.order.tolist(), schedule.lower, schedule.upper, threshold
    )
    assert (decisions.tolist(), used.tolist()) == slow


@given(st.data(), st.sampled_from([0.0, 0.1, 0.3]))
def test_alpha_holds_on_the_fitted_rows_of_more_classes(
    data: st.DataObject, alpha: float
) -> None:
    shape = tuple(data.draw(st.integers(2, most)) for most in (20, 6, 4))
    scores = data.draw(st.composite(drawn)(shape=shape))
    bias = data.draw(st.composite(drawn)(shape=shape[2:]))
    whole = np.array(
        [
            int(np.argmax([add_up(row[:, k], bias[k]) for k in range(shape[2])]))
            for row in scores
        ]
    )
    schedule = fit_margin_schedule(scores, alpha, bias=bias)
    choices, used = schedule.evaluate(scores)
    wrong = choices != whole
    np.testing.assert_array_equal(schedule.changed(scores), whole[wrong])
    for k in range(shape[2]):
        assert (wrong & (whole == k)).sum() <= alpha * (whole == k).sum()
    for i, row in enumerate(scores):
        order = schedule.order.tolist()
        slow = walk_margins(row, order, schedule.margin, bias)
        assert slow == (choices[i], used[i])


FORESTS = [
    RandomForestClassifier(6, random_state=0, max_features=1, max_depth=3),
    ExtraTreesClassifier(4, random_state=0, max_features=1),
    ExtraTreesClassifier(10, random_state=0, max_depth=2),
]


@pytest.mark.parametrize("alpha", [0.0, 0.01, 0.1])
@pytest.mark.parametrize("forest", FORESTS, ids=repr)
@pytest.mark.parametrize("name", ["breast_cancer", "wine"])
def test_evaluator_of_an_ensemble_keeps_to_alpha_ties_and_all(
    forest: Any, name: str, alpha: float
) -> None:
    """A forest's trees tie often, and scikit-learn then answers the first class."""
    X, y = bundled(name)
    half = len(y) // 2
    rng = np.random.default_rng(0)
    mixed = rng.permutation(len(y))
    ensemble = compile(forest.fit(X[mixed[:half]], y[mixed[:half]]))
    rows = np.concatenate([X, rng.permuted(X, axis=0)])
    whole = ensemble.predict(rows)
    scores = ensemble.base_scores(rows)
    own = np.searchsorted(ensemble.classes, whole)
    schedule: Any
    if len(ensemble.classes) == 2:
        threshold = ensemble.threshold
        schedule = fit_schedule(scores, threshold, alpha, decisions=own == 1)
    else:
        bias = ensemble.bias
        schedule = fit_margin_schedule(scores, alpha, bias=bias, decisions=own)
    exits = ensemble.early_exit(schedule)
    chosen, used = exits.choices(rows)
    assert np.mean(ensemble.classes[chosen] != whole) <= alpha
    last = used == ensemble.size
    np.testing.assert_array_equal(ensemble.classes[chosen][last], whole[last])


@settings(max_examples=few(20))
@given(
    seed=st.integers(0, 10**6),
    trees=st.sampled_from([2, 4, 10]),
    classes=st.sampled_from([2, 3]),
    alpha=st.sampled_from([0.05, 0.1, 0.2]),
)
def test_calibration_counts_what_an_even_forest_decides_itself_at_ties(
    seed: int, trees: int, classes: int, alpha: float
) -> None:
    X, y = make_classification(
        900, 6, n_informative=4, n_classes=classes, flip_y=0.3, random_state=seed
    )
    rows = X.astype(np.float32)
    forest = RandomForestClassifier(trees, random_state=seed)
    ensemble = compile(forest.fit(rows[:100], y[:100]))
    fresh = rows[500:]
    exits = ensemble.fit_early_exit(
        rows[100:500], alpha=alpha, confidence=0.9, calibration=fresh
    )
    changed = int(np.count_nonzero(exits.predict(fresh) != forest.predict(fresh)))
    promise = exits.schedule.promise
    assert promise is not None
    if classes == 2:  # each side is counted as if the other did not stop rows before
        assert sum(promise.changed) >= changed
    else:
        assert sum(promise.changed) == changed
    for wrong, rows in zip(promise.changed, promise.rows, strict=True):
        assert upper_bound(wrong, rows, 0.9) <= alpha or not wrong


def test_an_early_answer_against_the_ensembles_own_counts_as_changed() -> None:
    """Both rows sum to the threshold; the ensemble decides each its own way."""
    scores = np.array([[1.0, -1.0], [1.0, -1.0]])
    own = np.array([True, False])
    early = Schedule(np.arange(2), np.array([-9.0, -np.inf]), np.array([0.5, 9]), 0.0)
    assert early.changed(scores).tolist() == []
    assert early.changed(scores, own).tolist() == [0]
    assert early.without_stops().changed(scores, own).tolist() == []
    classes = np.stack([scores, -scores], axis=2)
    margins = MarginSchedule(np.arange(2), np.array([0.5, np.inf]), np.zeros(2))
    choices = np.array([0, 1])
    assert margins.changed(classes).tolist() == []
    assert margins.changed(classes, choices).tolist() == [1]
    assert margins.without_stops().changed(classes, choices).tolist() == []


def test_decisions_of_the_calibration_rows_are_needed_where_those_of_others_are() -> (
    None
):
    scores = np.repeat([[1.0, 2.0], [-1.0, -2.0]], 50, axis=0)
    own = scores[:, 0] > 0
    terms: dict[str, Any] = {"confidence": 0.9, "calibration": scores}
    one_kind: list[dict[str, Any]] = [
        {"decisions": own},
        {"calibration_decisions": own},
    ]
    for kind in one_kind:
        with pytest.raises(BadInput, match="calibration_decisions are needed together"):
            fit_schedule(scores, 0.0, 0.1, **terms, **kind)
        classes = np.stack([scores, -scores], axis=2)
        chosen = {name: own.astype(int) for name in kind}
        more = terms | chosen | {"calibration": classes}
        with pytest.raises(BadInput, match="calibration_decisions are needed together"):
            fit_margin_schedule(classes, 0.1, **more)
    with pytest.raises(BadInput, match=r"bool of shape \(9,\); .* bool, \(100,\)"):
        fit_schedule(
            scores, 0.0, 0.1, decisions=own, calibration_decisions=own[:9], **terms
        )
    with pytest.raises(BadInput, match="without a confidence"):
        fit_schedule(scores, 0.0, 0.1, calibration_decisions=own)


def test_decisions_that_do_not_fit_the_rows_are_refused() -> None:
    scores = np.array([[1.0, 2.0], [-1.0, -2.0], [0.5, 0.0]])
    with pytest.raises(BadInput, match=r"decisions are int64 of shape \(3,\)"):
        fit_schedule(scores, 0.0, 0.0, decisions=np.array([1, 0, 1]))
    with pytest.raises(BadInput, match=r"bool of shape \(2,\); .* bool, \(3,\)"):
        fit_schedule(scores, 0.0, 0.0, decisions=np.array([True, False]))
    with pytest.raises(BadInput, match="all 3 decisions are alike"):
        fit_schedule(scores, 0.0, 0.0, decisions=np.ones(3, bool))
    three = np.zeros((2, 2, 3))
    for wrong in (np.array([0, 3]), np.array([0]), np.array([0.0, 1.0])):
        with pytest.raises(BadInput, match=r"\(2,\) positions of classes, 0 \.\.\. 2"):
            fit_margin_schedule(three, 0.0, decisions=wrong)
