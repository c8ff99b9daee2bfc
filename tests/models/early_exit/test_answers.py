"""`answer`: class, base models used, whole scores or their bounds, of one row."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from xgboost import XGBClassifier

from polydom.features.errors import BadInput, BadRow
from polydom.features.threads import one_thread
from polydom.models import Ensemble, MarginSchedule, Schedule, compile
from polydom.models.early_exit.class_score_bounds import bound_sums
from polydom.models.early_exit.early_exits import EarlyExit, MarginExit
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.scoring.remaining_bounds import sums_after
from polydom.models.trees import self_test
from tests.support.examples import few
from tests.support.first_use import AtFirstUse
from tests.support.models.agreement import bundled
from tests.support.oracles.early_exit import walk_early, walk_margins

Exits = EarlyExit | MarginExit
FEW: dict[str, Any] = {"n_estimators": 9, "random_state": 0}
LEARNERS: dict[str, Any] = {
    "lightgbm": LGBMClassifier(**FEW, verbose=-1, n_jobs=1),
    "one against the rest": LGBMClassifier(
        **FEW, verbose=-1, n_jobs=1, objective="multiclassova"
    ),
    "xgboost": XGBClassifier(n_estimators=9, max_depth=3, n_jobs=1),
    "boosting": GradientBoostingClassifier(**FEW, max_depth=2),
    "histogram": HistGradientBoostingClassifier(max_iter=9),
    "adaboost": AdaBoostClassifier(**FEW),
    "forest": RandomForestClassifier(**FEW, max_depth=3),
    "extra trees": ExtraTreesClassifier(**FEW),
    "prepared": make_pipeline(
        StandardScaler(), RandomForestClassifier(**FEW, max_depth=3)
    ),
    "lattices": LatticeEnsembleClassifier(9, 3, epochs=2, random_state=0),
    "simplices": LatticeEnsembleClassifier(
        40, 3, interpolation="simplex", epochs=2, random_state=0
    ),
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(max_iter=9000)),
    "huber": make_pipeline(
        StandardScaler(), SGDClassifier(loss="modified_huber", random_state=0)
    ),
    "ridge": RidgeClassifier(),
    "multinomial": MultinomialNB(),
}
LINEAR = {"logistic", "huber", "ridge", "multinomial"}
DATA = {2: "breast_cancer", 3: "wine"}


def compiled(key: tuple[str, int]) -> Ensemble:
    name, classes = key
    with one_thread():
        fitted = clone(LEARNERS[name]).fit(*bundled(DATA[classes]))
        ensemble: Ensemble = compile(fitted)
    return ensemble


ENSEMBLES = AtFirstUse(
    [
        (name, classes)
        for name in LEARNERS
        for classes in DATA
        if (name, classes) != ("one against the rest", 2)
    ],
    compiled,
)
BOUNDED = [(name, classes) for name, classes in ENSEMBLES if name not in LINEAR]
ROWS = {classes: bundled(name)[0] for classes, name in DATA.items()}


def drawn_exit(
    ensemble: Ensemble, X: NDArray[Any], seed: int, width: float, last: bool = False
) -> Exits:
    """An evaluator with limits drawn as wide as a share of the scores' spread.

    If `last`, the last base model has limits too.
    """
    draw, T = np.random.default_rng(seed), ensemble.size
    scores, order = ensemble.base_scores(X), draw.permutation(T)
    spread = width * np.abs(scores).sum(axis=1).mean() + 1e-9
    if not ensemble.binary:
        margin = draw.uniform(0, spread, T)
        margin[-1] = margin[-1] if last else np.inf
        return ensemble.early_exit(MarginSchedule(order, margin, ensemble.bias))
    limits = ensemble.threshold + np.sort(draw.normal(0, spread, (T, 2)), axis=1)
    limits[-1] = limits[-1] if last else (-np.inf, np.inf)
    schedule = Schedule(order, limits[:, 0], limits[:, 1], ensemble.threshold)
    return ensemble.early_exit(schedule)


def whole_exit(ensemble: Ensemble) -> Exits:
    """An evaluator that never stops, in another order than the ensemble's."""
    never, T = np.full(ensemble.size, np.inf), ensemble.size
    order = np.random.default_rng(1).permutation(T)
    if ensemble.binary:
        return ensemble.early_exit(Schedule(order, -never, never, ensemble.threshold))
    return ensemble.early_exit(MarginSchedule(order, never, ensemble.bias))


def walk(exits: Exits, ensemble: Ensemble, scores: NDArray[Any]) -> tuple[int, int]:
    """Class and base models used of one row, slowly."""
    schedule = exits.schedule
    order = schedule.order.tolist()
    if isinstance(schedule, MarginSchedule):
        return walk_margins(scores, order, schedule.margin, ensemble.bias)
    limits = schedule.lower, schedule.upper, schedule.threshold
    decisions, used = walk_early(scores[None], order, *limits)
    return int(decisions[0]), used[0]


@pytest.mark.parametrize(("name", "classes"), ENSEMBLES)
@settings(max_examples=few(8), deadline=None)
@given(
    seed=st.integers(0, 999),
    width=st.sampled_from([0.05, 0.3, 9.0]),
    last=st.booleans(),
)
def test_answers_are_those_of_a_walk_and_bounds_hold_what_scores_become(
    name: str, classes: int, seed: int, width: float, last: bool
) -> None:
    ensemble, rows = ENSEMBLES[name, classes], ROWS[classes]
    exits = drawn_exit(ensemble, rows, seed, width, last)
    draw = np.random.default_rng(seed)
    X = rows[draw.integers(0, len(rows), 12)]
    whole, base = ensemble.predict_scores(X), ensemble.base_scores(X)
    codes, used = exits.choices(X)
    np.testing.assert_array_equal(exits.choices(X.astype(np.float32)), (codes, used))
    for i, row in enumerate(X):
        one = exits.answer(row.astype(np.float32))
        assert exits.answer(row) == exits.answer(row.tolist())
        assert (one.code, one.used) == walk(exits, ensemble, base[i])
        assert (one.code, one.used) == (codes[i], used[i])
        assert one[:2] == exits.answer(row)[:2]
        assert one.code == exits.choose(row.astype(np.float32))
        assert (one.bounds is None) == (name in LINEAR)
        assert (one.scores is None) == (one.used < exits.size)
        if one.scores is not None:
            np.testing.assert_allclose(one.scores, whole[i], rtol=1e-9, atol=1e-14)
            exactly = [(score, score) for score in one.scores]
            assert one.bounds == (None if name in LINEAR else exactly)
        for k, (low, high) in enumerate(one.bounds or []):
            assert one.scores is not None or low <= whole[i, k] <= high


@pytest.mark.parametrize(("name", "classes"), BOUNDED)
def test_bounds_hold_for_every_row(name: str, classes: int) -> None:
    """Exactly, to the last bit of the scores that the classifier gives."""
    ensemble, X = ENSEMBLES[name, classes], ROWS[classes]
    X = X[: few(len(X))]
    whole, T, found = ensemble.predict_scores(X), ensemble.size, 0
    for stop in {1, T // 2, T - 1}:
        order = np.random.default_rng(stop).permutation(T)
        at = np.where(np.arange(T) == stop - 1, 0.0, np.inf)
        if ensemble.binary:
            ends = np.where(np.isinf(at), at, ensemble.threshold)
            limits = np.where(np.isinf(at), -np.inf, ends), ends
            made: Any = Schedule(order, *limits, ensemble.threshold)
        else:
            made = MarginSchedule(order, at, ensemble.bias)
        exits = ensemble.early_exit(made)
        for row, scores in zip(X.astype(np.float32), whole, strict=True):
            answer = exits.answer(row)
            if answer.used < T:
                found += 1
                low, high = np.array(answer.bounds).T
                assert ((low <= scores) & (scores <= high)).all()
                assert answer.used == stop
    assert found > len(X)


def test_sums_after_each_position() -> None:
    scores, order = np.array([[1.0, 2], [3, 4], [5, 6]]), np.array([2, 0, 1])
    expected = [[4.0, 6], [3, 4], [0, 0]]
    assert sums_after(scores, order).tolist() == expected
    assert sums_after(scores[:1], order[1:2]).tolist() == [[0.0, 0]]


def test_what_has_no_bounds_gives_none() -> None:
    ensemble = ENSEMBLES["ridge", 2]
    assert bound_sums(ensemble.terms, np.arange(ensemble.size)) is None
    found = bound_sums(ENSEMBLES["forest", 3].terms, np.arange(9))
    assert found is not None
    assert (found[0] < found[1]).all()


@pytest.mark.parametrize("name", ["forest", "lightgbm", "extra trees", "boosting"])
def test_ties_are_decided_by_the_classifiers_own_order(name: str) -> None:
    """Sums at the threshold and of two equal best classes, in many orders."""
    draw = np.random.default_rng(0)
    X = draw.integers(0, 2, (60, 3)).astype(np.float64)
    for classes in (2, 3):
        y = np.arange(60) % classes
        with one_thread():
            model = LEARNERS[name].fit(X, y)
        ensemble = compile(model)
        exits = whole_exit(ensemble)
        answers = [exits.answer(row) for row in X.astype(np.float32)]
        codes = [ensemble.classifier.choose(row) for row in X.astype(np.float32)]
        assert [answer.code for answer in answers] == codes
        for answer, row in zip(answers, X, strict=True):
            scores = ensemble.predict_scores(row[None])[0]
            assert answer.scores is not None
            np.testing.assert_allclose(answer.scores, scores, atol=1e-14)


@pytest.mark.parametrize("name", sorted(LINEAR - {"multinomial"}))
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_gap_that_was_met_is_refused_as_the_model_does(
    name: str, classes: int, value: float
) -> None:
    ensemble, X = ENSEMBLES[name, classes], ROWS[classes].astype(np.float32)
    exits = whole_exit(ensemble)
    rows = X[:3].copy()
    rows[1, 4] = value
    for row in (rows[1], rows[1].astype(np.float64)):
        for call in (exits.answer, exits.choose):
            with pytest.raises(BadRow, match=f"row 0 has {value} in column 4") as error:
                call(row)
            assert error.value.column == 4
    for some in (rows, rows.astype(np.float64)):
        with pytest.raises(BadRow, match=f"row 1 has {value} in column 4"):
            exits.choices(some)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gap_at_another_operating_point_is_refused_too(value: float) -> None:
    ensemble, X = ENSEMBLES["logistic", 2], ROWS[2].astype(np.float32)
    never, T = np.full(ensemble.size, np.inf), ensemble.size
    schedule = Schedule(np.arange(T), -never, never, ensemble.threshold + 1.0)
    exits = ensemble.early_exit(schedule)
    row = X[0].copy()
    assert exits.answer(row).code == exits.choose(row)
    row[T - 1] = value
    for call in (exits.answer, exits.choose):
        with pytest.raises(BadRow, match=f"row 0 has {value} in column {T - 1}"):
            call(row)


def test_rows_that_are_none_are_refused() -> None:
    for classes in (2, 3):
        exits = drawn_exit(ENSEMBLES["forest", classes], ROWS[classes], 0, 1.0)
        with pytest.raises(BadInput, match="a row of shape"):
            exits.answer(ROWS[classes][:2])
        with pytest.raises(BadInput, match="a row of type str"):
            exits.answer("row")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["forest", "lightgbm", "lattices"])
@pytest.mark.parametrize("classes", [2, 3])
def test_threads_share_an_evaluator(name: str, classes: int) -> None:
    ensemble, rows = ENSEMBLES[name, classes], ROWS[classes].astype(np.float32)
    exits = drawn_exit(ensemble, rows, 0, 0.2)
    expected = [exits.answer(row) for row in rows]
    with ThreadPoolExecutor(4) as threads:
        ask = list(threads.map(lambda _: [exits.answer(r) for r in rows], range(8)))
    assert ask == [expected] * 8


@pytest.mark.parametrize("name", ["forest", "lightgbm", "histogram"])
@pytest.mark.parametrize("classes", [2, 3])
def test_portable_kernels_give_the_same_answers(
    name: str, classes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble, rows = ENSEMBLES[name, classes], ROWS[classes].astype(np.float32)
    for width in (0.1, 9.0):
        exits = drawn_exit(ensemble, rows, 0, width)
        expected = [exits.answer(row) for row in rows]
        with monkeypatch.context() as patched:
            patched.setattr(self_test.TRUST, "held", False)
            portable: Any = drawn_exit(ensemble, rows, 0, width)
        assert not portable.packed.vector
        assert [portable.answer(row) for row in rows] == expected
