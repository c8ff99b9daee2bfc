"""Ensembles: files, base scores, early exit."""

import copy
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.errors import AllAlike, BadInput, BadModel
from polydom.models import Ensemble, MarginSchedule, Schedule, compile, fit_schedule
from polydom.models.early_exit.ensemble import as_ensemble
from polydom.models.importers.compile_model import compile_model
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.kernels.link import LOGISTIC, POSITIVE
from polydom.models.scoring.preparation import plain
from polydom.models.trees.nodes import Tree
from polydom.models.trees.trees import join
from tests.models.early_exit.test_answers import ENSEMBLES, ROWS, whole_exit
from tests.support.examples import few
from tests.support.models.agreement import bundled
from tests.support.models.boosters import lgbm, xgb

READ = """
import sys

import numpy as np

sys.modules.update(lightgbm=None, xgboost=None)  # importing them fails
from polydom.models import compile

for path in sys.argv[2:]:
    chosen = compile(path).predict(np.load(sys.argv[1]))
    np.save(f"{path}.npy", chosen)
"""


def test_files_are_read_without_their_packages(tmp_path: Path) -> None:
    X, y = bundled("breast_cancer")
    first, second = lgbm().fit(X, y), xgb().fit(X, y)
    text, json, ubj = (tmp_path / f"model.{end}" for end in ("txt", "json", "ubj"))
    first.booster_.save_model(text)
    second.save_model(json)
    second.save_model(ubj)
    np.save(tmp_path / "X.npy", X)
    paths = [str(path) for path in (tmp_path / "X.npy", text, json, ubj)]
    subprocess.run([sys.executable, "-c", READ, *paths], check=True)
    for path, fitted in ((text, first), (json, second), (ubj, second)):
        chosen = np.load(f"{path}.npy")
        np.testing.assert_array_equal(chosen, fitted.predict(X))


def pickled(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


# Sums of extra trees are nearly all 0 or 1, so that few thresholds make a difference.
TWO = [name for name, classes in ENSEMBLES if classes == 2 and name != "extra trees"]
X_TWO = ROWS[2][: few(1000)]


@pytest.mark.parametrize(("name", "classes"), ENSEMBLES)
def test_base_scores_sum_to_the_decision(name: str, classes: int) -> None:
    ensemble, X = ENSEMBLES[name, classes], ROWS[classes]
    scores = ensemble.base_scores(X)
    more = () if classes == 2 else (classes,)
    assert scores.shape == (len(X), ensemble.size, *more)
    start = -ensemble.threshold if classes == 2 else ensemble.bias
    sums, whole = scores.sum(axis=1) + start, ensemble.decision_function(X)
    np.testing.assert_allclose(sums, whole, atol=1e-6)


@pytest.mark.parametrize(("name", "classes"), ENSEMBLES)
def test_a_schedule_that_never_stops_decides_as_the_original(
    name: str, classes: int
) -> None:
    ensemble, X = ENSEMBLES[name, classes], ROWS[classes]
    exits, width = whole_exit(ensemble), X.shape[1]
    rows = np.vstack([X, np.zeros((2, width)), np.full((1, width), 1e30)])
    for some in (rows, rows.astype(np.float32)):
        np.testing.assert_array_equal(exits.predict(some), ensemble.predict(rows))
        assert (exits.choices(some)[1] == ensemble.size).all()
    for row in rows.astype(np.float32):
        assert exits.choose(row) == exits.choices(row[None])[0][0]


def test_rows_that_are_all_decided_alike_are_refused() -> None:
    ensemble = ENSEMBLES["forest", 2]
    alike = X_TWO[ensemble.predict(X_TWO) == 1]
    with pytest.raises(AllAlike, match=f"all {len(alike)} decisions are alike"):
        ensemble.fit_early_exit(alike, alpha=0.01)


def test_schedules_for_other_ensembles_are_refused() -> None:
    ensemble, T = ENSEMBLES["boosting", 3], 9
    order, limits = np.arange(T), np.zeros(T)
    with pytest.raises(BadInput, match="orders 3 base models; this ensemble has 9"):
        ensemble.early_exit(MarginSchedule(order[:3], limits[:3], ensemble.bias))
    with pytest.raises(BadInput, match="bias is not this ensemble's"):
        ensemble.early_exit(MarginSchedule(order, limits, ensemble.bias + 1))
    near = ensemble.bias + np.array([0.0, 1e-6, 0.0])
    with pytest.raises(BadInput, match=r"class .*1.* begins at"):
        ensemble.early_exit(MarginSchedule(order, limits, near))
    with pytest.raises(BadInput, match=r"shape \(2,\); this ensemble has 3 classes"):
        ensemble.early_exit(MarginSchedule(order, limits, np.zeros(2)))
    with pytest.raises(BadInput, match="only an ensemble for two classes"):
        ensemble.early_exit(Schedule(order, limits, limits, 0.0))
    with pytest.raises(BadInput, match="for two classes has one threshold"):
        ensemble.threshold  # noqa: B018
    two = ENSEMBLES["boosting", 2]
    with pytest.raises(BadInput, match="orders 3 base models; this ensemble has 9"):
        two.early_exit(Schedule(order[:3], limits[:3], limits[:3], 0.0))
    with pytest.raises(BadInput, match="for more than two classes"):
        two.early_exit(MarginSchedule(order, limits, np.zeros(2)))
    with pytest.raises(BadInput, match="has a threshold, no bias"):
        two.bias  # noqa: B018
    for nothing in (None, "schedule"):
        with pytest.raises(BadInput, match=f"{type(nothing).__name__} is no schedule"):
            two.early_exit(nothing)  # type: ignore[arg-type]


@pytest.mark.parametrize("shift", [-0.3, 0.2])
@pytest.mark.parametrize("name", TWO)
def test_schedule_for_another_operating_point_is_honoured(
    name: str, shift: float
) -> None:
    ensemble = ENSEMBLES[name, 2]
    scores = ensemble.base_scores(X_TWO)
    sums = scores.sum(axis=1)
    threshold = float(np.quantile(np.unique(sums), 0.5 + shift))
    schedule = fit_schedule(scores, threshold, 0.0)
    decisions, used = schedule.evaluate(scores)
    exits = ensemble.early_exit(schedule)
    for X in (X_TWO, X_TWO.astype(np.float32)):
        chosen, steps = exits.choices(X)
        expected = decisions
        if X.dtype == np.float32:
            expected = schedule.evaluate(ensemble.base_scores(X))[0]
        else:
            np.testing.assert_array_equal(steps, used)
        np.testing.assert_array_equal(chosen, expected)
        np.testing.assert_array_equal([exits.choose(row) for row in X], chosen)
    assert np.mean(decisions != (ensemble.predict(X_TWO) == 1)) > 0.01


@pytest.mark.parametrize("through", [copy.copy, copy.deepcopy, pickled])
def test_a_copy_keeps_to_another_operating_point(through: Any) -> None:
    ensemble = ENSEMBLES["lightgbm", 2]
    scores = ensemble.base_scores(X_TWO)
    threshold = float(np.quantile(scores.sum(axis=1), 0.2))
    exits = ensemble.early_exit(fit_schedule(scores, threshold, 0.01))
    made = through(exits)
    assert made.schedule.threshold == threshold
    rows = X_TWO.astype(np.float32)
    np.testing.assert_array_equal(made.choices(rows), exits.choices(rows))
    assert made.choose(rows[0]) == exits.choose(rows[0])
    assert (made.predict(rows) != ensemble.predict(rows)).any()


def test_whole_sums_of_huge_scores_decide_as_the_original() -> None:
    """Leaves that cancel: another order of adding them rounds by more than 1e-9."""
    rng = np.random.default_rng(0)
    T = 60
    huge = rng.choice([-1.0, 1.0], T) * 10.0 ** rng.uniform(6, 9, T)
    stumps = [
        Tree(
            column=np.array([t % 5, -1, -1]),
            threshold=np.zeros(3),
            left=np.array([1, 0, 0]),
            right=np.array([2, 0, 0]),
            values=np.array([[0.0], [value], [-value]]),
            flags=np.zeros(3, int),
        )
        for t, value in enumerate(np.concatenate([huge, -huge]))
    ]
    trees = join(
        stumps, [0] * 2 * T, plain(np.arange(5)), bias=np.zeros(1), single=True
    )
    made = Classifier(trees, Head(np.array([0, 1]), LOGISTIC, POSITIVE, 1))
    ensemble = as_ensemble(made)
    order = rng.permutation(2 * T)
    never = np.full(2 * T, np.inf)
    exits = ensemble.early_exit(Schedule(order, -never, never, ensemble.threshold))
    X = rng.choice([-1.0, 1.0], (200, 5)).astype(np.float32)
    expected = ensemble.predict(X)
    np.testing.assert_array_equal(exits.predict(X), expected)
    np.testing.assert_array_equal([exits.choose(row) for row in X], expected)


def test_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"\xff\xfe\x00binary")
    with pytest.raises(
        BadModel, match=r"model\.bin is neither a LightGBM text file nor"
    ):
        compile(tmp_path / "model.bin")


small: dict[str, Any] = {"n_estimators": 4, "random_state": 0}
MADE = {
    "boosting": GradientBoostingClassifier(**small),
    "forest": RandomForestClassifier(**small),
    "scaled": make_pipeline(StandardScaler(), RandomForestClassifier(**small)),
    "linear": LogisticRegression(max_iter=5000),
    "lattices": LatticeEnsembleClassifier(4, 2, epochs=2, random_state=0),
}


def wiggled(ensemble: Ensemble, width: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Which scores move when a column takes other values, tried column by column."""
    X, _ = bundled("wine")
    rows = np.zeros((len(X), width))
    rows[:, :13] = X
    before = ensemble.base_scores(rows)
    moved = np.zeros((ensemble.size, width), bool)
    for column in range(width):
        other = rows.copy()
        other[:, column] = np.random.default_rng(0).permutation(rows[:, column])
        after = ensemble.base_scores(other).reshape(len(X), ensemble.size, -1)
        apart = after != before.reshape(after.shape)
        moved[:, column] = apart.any(axis=(0, 2))
    return moved


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("classes", [2, 3])
def test_only_columns_that_are_used_move_scores(name: str, classes: int) -> None:
    X, y = bundled("wine")
    ensemble = compile(MADE[name].fit(X, np.minimum(y, classes - 1)))
    used = ensemble.uses(15)
    assert used.shape == (ensemble.size, 15)
    assert not (wiggled(ensemble, 15) & ~used).any()
    assert not used[:, 13:].any()
    if name in ("linear", "lattices"):
        assert used.sum() == ensemble.size * (1 if name == "linear" else 2)
    else:
        assert (wiggled(ensemble, 15) == used).mean() > 0.9


def test_columns_are_those_of_the_full_row() -> None:
    X, y = bundled("wine")
    fitted = make_pipeline(StandardScaler(), RandomForestClassifier(**small)).fit(X, y)
    columns = np.arange(13)[::-1] + 4
    model: Any = compile_model(fitted, columns.astype(np.int32))
    used = as_ensemble(model).uses(17)
    here = compile(fitted).uses(13)
    np.testing.assert_array_equal(used[:, columns], here)
    assert not used[:, :4].any()
