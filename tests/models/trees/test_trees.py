"""Tree ensembles against scikit-learn and against a walk by hand."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier

from polydom.features.errors import BadModel
from polydom.features.threads import one_thread
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.preparation import plain
from polydom.models.trees.nodes import (
    MISSING_LEFT,
    NAN_IS_ZERO,
    NODE,
    NOT_BELOW_ZERO,
    SET_LEFT,
    WHOLE_ONLY,
    ZERO_IS_MISSING,
    Tree,
)
from polydom.models.trees.trees import join
from tests.support.examples import few
from tests.support.models.agreement import (
    BUNDLED,
    REAL,
    assert_agrees,
    bundled,
    edge_rows,
    real,
)
from tests.support.oracles.trees import tree_value

SHARES = {
    "tree": DecisionTreeClassifier(random_state=0),
    "random tree": ExtraTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(12, random_state=0),
    "random forest of trees": ExtraTreesClassifier(12, random_state=0),
}
SUMS = {
    "boosting": GradientBoostingClassifier(n_estimators=8, random_state=0),
    "adaboost": AdaBoostClassifier(
        DecisionTreeClassifier(max_depth=2), n_estimators=9, random_state=0
    ),
    "bagging": BaggingClassifier(max_features=0.5, random_state=0),
}
HIST = HistGradientBoostingClassifier(max_iter=8, random_state=0)
LEARNERS = SHARES | SUMS | {"histogram": HIST}


def thresholds_of(estimator: Any) -> NDArray[np.float64]:
    """Thresholds of the compiled form's numeric nodes."""
    nodes = compile_model(estimator).arrays()["nodes"].reshape(-1).view(NODE)
    thresholds: NDArray[np.float64] = nodes["threshold"][nodes["column"] >= 0]
    return thresholds[np.isfinite(thresholds)]


def fit(estimator: Any, X: NDArray[Any], y: NDArray[Any]) -> Any:
    # OpenMP threads that wait for a busy core make tiny fits take minutes.
    with one_thread():
        return clone(estimator).fit(X, y)


@pytest.mark.parametrize("name", BUNDLED)
@pytest.mark.parametrize("learner", LEARNERS)
def test_trees_decide_as_scikit_learn(name: str, learner: str) -> None:
    X, y = bundled(name)
    fitted = fit(LEARNERS[learner], X[::2], y[::2])
    assert_agrees(fitted, X, tolerance=1e-12)
    assert_agrees(fitted, edge_rows(X, thresholds_of(fitted), 200), tolerance=1e-12)


@pytest.mark.jit
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("learner", LEARNERS)
def test_trees_decide_as_scikit_learn_on_real_data(
    data: Any, name: str, learner: str
) -> None:
    X, y = real(name, data)  # of all rows, some: all of them take minutes
    fitted = fit(LEARNERS[learner], X[:2000], y[:2000])
    assert_agrees(fitted, X[2000:7000], tolerance=1e-12)
    assert_agrees(fitted, edge_rows(X, thresholds_of(fitted), 1000), tolerance=1e-12)


@pytest.mark.parametrize("learner", [*SHARES, "histogram"])
@pytest.mark.parametrize(
    "name", ["iris", pytest.param("breast_cancer", marks=pytest.mark.jit)]
)
def test_missing_values_go_where_scikit_learn_sends_them(
    name: str, learner: str
) -> None:
    X, y = bundled(name)
    gaps = np.random.default_rng(1).random(X.shape) < 0.2
    X[gaps & (np.median(X) < X)] = np.nan
    fitted = fit(LEARNERS[learner], X, y)
    rows = edge_rows(
        X, thresholds_of(fitted), 300, missing=True, infinite=learner == "histogram"
    )
    assert_agrees(fitted, X, tolerance=1e-12)
    assert_agrees(fitted, rows, tolerance=1e-12)


@pytest.mark.parametrize(
    "name", ["breast_cancer", pytest.param("wine", marks=pytest.mark.jit)]
)
def test_categories_go_where_scikit_learn_sends_them(name: str) -> None:
    X, y = bundled(name)
    draw = np.random.default_rng(2)
    X[:, 1] = np.floor(X[:, 1]) % 40
    X[:, 3] = draw.integers(0, 60, len(X)) + 7 * (y == 1)
    X[::9, 3] = np.nan
    learner = HistGradientBoostingClassifier(
        max_iter=8, categorical_features=[1, 3], min_samples_leaf=5
    )
    fitted = fit(learner, X, y)
    assert (thresholds_of(fitted) != 0).any()
    rows = edge_rows(X, thresholds_of(fitted), 400, missing=True)
    rows[:, 3] = draw.choice([-1, 0.0, 3.5, 12, 66, 200, 1e9, np.nan], len(rows))
    assert_agrees(fitted, X, tolerance=1e-12)
    assert_agrees(fitted, rows, tolerance=1e-12)


@pytest.mark.parametrize("learner", ["forest", "boosting", "histogram"])
def test_trees_behind_a_scaler_decide_as_scikit_learn(learner: str) -> None:
    X, y = bundled("breast_cancer")
    pipeline = make_pipeline(
        SimpleImputer(), StandardScaler(), MinMaxScaler(), LEARNERS[learner]
    )
    fitted = fit(pipeline, X[::2], y[::2])
    assert_agrees(fitted, X, tolerance=1e-12)
    rows = np.clip(edge_rows(X, X[0], 200), -1e30, 1e30)
    assert_agrees(fitted, rows, tolerance=1e-12)


@pytest.mark.parametrize("learner", ["boosting", "histogram", "adaboost"])
@pytest.mark.parametrize(
    "name", ["breast_cancer", pytest.param("wine", marks=pytest.mark.jit)]
)
def test_raw_scores_of_boosting_are_bit_equal(name: str, learner: str) -> None:
    X, y = bundled(name)
    fitted = fit(LEARNERS[learner], X, y)
    raw = compile_model(fitted).scorer.raw(X)  # type: ignore[attr-defined]
    expected = fitted.decision_function(X).reshape(raw.shape)
    np.testing.assert_array_equal(raw, expected)


def test_float64_values_between_float32_ones_go_as_in_scikit_learn() -> None:
    X, y = bundled("breast_cancer")
    for learner in ("forest", "boosting", "histogram"):
        fitted = fit(LEARNERS[learner], X, y)
        rows = edge_rows(X, thresholds_of(fitted), 300)
        # Thresholds themselves and their float64 neighbours.
        near = thresholds_of(fitted)
        draw = np.random.default_rng(3)
        swapped = draw.random(rows.shape) < 0.4
        rows[swapped] = draw.choice(
            np.concatenate([near, np.nextafter(near, 1e9), np.nextafter(near, -1e9)]),
            swapped.sum(),
        )
        np.testing.assert_array_equal(
            compile_model(fitted).predict(rows), fitted.predict(rows)
        )


def test_boosting_of_a_raw_score_of_zero_takes_the_positive_class() -> None:
    X, y = np.zeros((12, 1)), np.array([0, 1] * 6)
    for learner, chosen in ((SUMS["boosting"], 1), (HIST, 0)):
        fitted = fit(learner, X, y)
        assert fitted.decision_function(X[:1])[0] == 0
        assert fitted.predict(X[:1])[0] == chosen
        assert compile_model(fitted).predict(X[:1])[0] == chosen


def test_exponential_loss_and_zero_init_keep_their_scores() -> None:
    X, y = bundled("breast_cancer")
    for options in ({"loss": "exponential"}, {"init": "zero"}):
        learner = GradientBoostingClassifier(n_estimators=5, **options)
        assert_agrees(fit(learner, X, y), X, tolerance=1e-12)


def test_tree_that_is_a_single_leaf_answers() -> None:
    X = np.zeros((4, 2))
    fitted = fit(SHARES["tree"], X, np.array([0, 1, 1, 1]))
    assert_agrees(fitted, X)


def test_boosting_with_an_init_estimator_is_refused() -> None:
    X, y = bundled("breast_cancer")
    learner = GradientBoostingClassifier(
        n_estimators=2, init=DecisionTreeClassifier(max_depth=1)
    )
    with pytest.raises(BadModel, match="with an init estimator of its own"):
        compile_model(fit(learner, X, y))


def test_ensemble_of_other_things_than_trees_is_refused() -> None:
    X, y = bundled("breast_cancer")
    learner = BaggingClassifier(LogisticRegression(max_iter=5000), n_estimators=2)
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    with pytest.raises(BadModel, match="BaggingClassifier of LogisticRegression"):
        compile_model(fit(learner, scaled, y))


def test_categories_that_are_not_whole_numbers_are_refused() -> None:
    X, y = bundled("iris")
    learner = HistGradientBoostingClassifier(max_iter=2, categorical_features=[0])
    with pytest.raises(BadModel, match="column 0 has categories that are neither"):
        compile_model(fit(learner, X, y))


VALUES = st.sampled_from(
    [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-36, 1.0, 1.5, 2.0, 31.0, 32.0, 70.0, -0.5]
)


@st.composite
def drawn_trees(draw: st.DrawFn) -> Tree:
    """A tree of any shape, with every kind of node."""
    inner = draw(st.integers(0, 12))
    parents: list[tuple[int, int]] = []
    open_ends, left, right = [0], [-1], [-1]
    for _ in range(inner):
        node = open_ends.pop(draw(st.integers(0, len(open_ends) - 1)))
        left[node], right[node] = len(left), len(left) + 1
        open_ends += [left[node], right[node]]
        left += [-1, -1]
        right += [-1, -1]
        parents.append((left[node], right[node]))
    n = len(left)
    inside = np.array(left) >= 0
    flags = draw(st.lists(st.integers(0, 63), min_size=n, max_size=n))
    sets = {
        int(node): draw(st.lists(st.integers(0, 80), max_size=5))
        for node in np.flatnonzero(inside)
        if draw(st.booleans())
    }
    return Tree(
        column=np.where(
            inside, draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)), -1
        ),
        threshold=np.array(
            draw(st.lists(VALUES.filter(lambda v: v == v), min_size=n, max_size=n))
        ),
        left=np.array(left),
        right=np.array(right),
        values=np.arange(n, dtype=np.float64)[:, None] + 0.5,
        flags=np.array(flags),
        sets=sets,
    )


@settings(max_examples=few(150))
@given(
    trees=st.lists(drawn_trees(), min_size=1, max_size=4),
    rows=st.lists(st.lists(VALUES, min_size=3, max_size=3), min_size=1, max_size=6),
)
def test_trees_of_any_shape_walk_as_by_hand(
    trees: list[Tree], rows: list[list[float]]
) -> None:
    scorer = join(
        trees,
        [0] * len(trees),
        plain(np.arange(3)),
        bias=np.array([0.25]),
        single=False,
    )
    X = np.array(rows)
    expected = [0.25 + sum(tree_value(t, row) for t in trees) for row in rows]
    np.testing.assert_array_equal(scorer.raw(X)[:, 0], expected)
    if not np.isin(X, [1e-36]).any():
        singles = scorer.raw(X.astype(np.float32))[:, 0]
        np.testing.assert_array_equal(singles, expected)


def test_flags_are_different_bits() -> None:
    missing = MISSING_LEFT, NAN_IS_ZERO, ZERO_IS_MISSING
    assert sum((*missing, SET_LEFT, WHOLE_ONLY, NOT_BELOW_ZERO)) == 63
