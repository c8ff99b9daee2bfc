"""Schedules stored beside a model: exact round trips, and refusals of all else."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB

from polydom.features.errors import BadModel
from polydom.models import Ensemble, MarginSchedule, Schedule, compile
from polydom.models.early_exit.evaluator import digest_model
from polydom.models.early_exit.stored_schedule import load_early_exit
from polydom.models.importers.compile_model import compile_model
from polydom.models.load import load_model
from polydom.models.qwyc.promise import Promise
from tests.support.examples import few
from tests.support.first_use import AtFirstUse
from tests.support.models.agreement import bundled

Arrays = dict[str, NDArray[Any]]
T = 12


def made(classes: int, seed: int = 0) -> Ensemble:
    X, y = bundled("wine")
    forest = RandomForestClassifier(T, max_depth=3, random_state=seed)
    found = compile(forest.fit(X, y if classes > 2 else y > 0))
    assert isinstance(found, Ensemble)
    return found


ENSEMBLES = AtFirstUse((2, 3), made)
X = bundled("wine")[0].astype(np.float32)


def drawn(ensemble: Ensemble, draw: np.random.Generator, promise: Any) -> Any:
    order, size = draw.permutation(ensemble.size), ensemble.size
    if not ensemble.binary:
        margin = np.where(draw.random(size) < 0.3, np.inf, draw.uniform(0, 1, size))
        return MarginSchedule(order, margin, ensemble.bias, promise)
    limits = np.sort(draw.normal(0, 0.5, (size, 2)), axis=1)
    limits[draw.random(size) < 0.3] = -np.inf, np.inf
    return Schedule(order, limits[:, 0], limits[:, 1], ensemble.threshold, promise)


@pytest.mark.parametrize("classes", [2, 3])
@settings(max_examples=few(20), deadline=None)
@given(seed=st.integers(0, 999), promised=st.booleans())
def test_a_round_trip_is_exact(classes: int, seed: int, promised: bool) -> None:
    ensemble, draw = ENSEMBLES[classes], np.random.default_rng(seed)
    promise = None
    if promised:
        count = classes if seed % 2 else 1  # a single bound is an older release's
        changed = tuple(draw.integers(0, 6, count).tolist())
        promise = Promise((0.005,) * count, 0.95, (1000,) * count, changed)
    schedule, lines = drawn(ensemble, draw, promise), seed % 2
    exits = ensemble.early_exit(schedule)
    if lines:
        exits = ensemble.fit_early_scores(schedule, X)
    arrays = {name: array.copy() for name, array in exits.arrays().items()}
    model = load_model("trees", ensemble.classifier.arrays(), width=X.shape[1])
    loaded = load_early_exit(model, arrays)
    assert loaded.schedule.promise == promise
    for part, other in zip(
        loaded.schedule.__reduce__()[1], exits.schedule.__reduce__()[1], strict=True
    ):
        np.testing.assert_array_equal(part, other)
    np.testing.assert_array_equal(loaded.choices(X), exits.choices(X))
    assert [loaded.answer(row) for row in X[:9]] == [exits.answer(r) for r in X[:9]]
    again = loaded.arrays()
    assert list(again) == list(arrays)
    assert all(again[name].tobytes() == arrays[name].tobytes() for name in arrays)


def stored(classes: int) -> Arrays:
    ensemble, draw = ENSEMBLES[classes], np.random.default_rng(0)
    promise = Promise((0.005,) * classes, 0.95, (1000,) * classes, (3,) * classes)
    schedule = drawn(ensemble, draw, promise)
    return ensemble.fit_early_scores(schedule, X).arrays()


def put(name: str, at: Any, value: float) -> Callable[[Arrays], Arrays]:
    def damage(arrays: Arrays) -> Arrays:
        array = arrays[name].copy()
        array[at] = value
        return arrays | {name: array}

    return damage


def swap(name: str, change: Callable[[Any], Any]) -> Callable[[Arrays], Arrays]:
    return lambda arrays: arrays | {name: change(arrays[name])}


DAMAGED: list[tuple[int, Callable[[Arrays], Arrays], str]] = [
    (2, put("order", 0, -1), r"order is not a permutation of 0 \.\.\. 11"),
    (2, put("order", 0, 2**31 - 1), "not a permutation"),
    (3, lambda a: put("order", 0, a["order"][1])(a), "not a permutation"),
    (2, swap("order", lambda a: a[:5]), r"'order' has shape \(5,\), it must be \(12\)"),
    (
        2,
        swap("order", lambda a: np.arange(10**6, dtype="i4")),
        r"'order' has shape \(1000000,\)",
    ),
    (2, swap("order", lambda a: a.astype("i8")), "'order' is int64, it must be int32"),
    (2, swap("order", lambda a: a.astype(">i4")), "'order' is >i4, it must be int32"),
    (2, swap("order", lambda a: a[:, None]), r"'order' has shape \(12, 1\)"),
    (2, swap("lower", lambda a: a.astype("f4")), "'lower' is float32"),
    (2, swap("lower", lambda a: a[:3]), r"'lower' has shape \(3,\), it must be \(12\)"),
    (2, put("lower", 3, np.nan), r"lower\[3\] is nan"),
    (2, put("upper", 4, np.nan), r"upper\[4\] is nan"),
    (2, put("lower", 2, np.inf), r"lower\[2\] is inf"),
    (2, put("threshold", 0, 0.25), "its threshold is 0.25; that of its model is -?0.0"),
    (2, put("threshold", 0, np.nan), "'threshold' holds NaN or infinity"),
    (2, swap("threshold", lambda a: a[0]), "'threshold' has shape"),
    (3, put("margin", 1, np.nan), r"margin\[1\] is nan"),
    (3, swap("margin", lambda a: a.astype(object)), "'margin' is object"),
    (3, put("bias", 2, 0.5), "class .*2.* begins at 0.5 instead of 0"),
    (3, put("bias", 0, np.inf), "'bias' holds NaN or infinity"),
    (3, swap("bias", lambda a: a[:2]), r"'bias' has shape \(2,\), it must be \(3\)"),
    (2, swap("promise", lambda a: a[:2]), "its promise is 2 numbers"),
    (2, put("promise", 0, 1.5), "its promise cannot be"),
    (2, put("promise", 1, 1.0), "its promise cannot be"),
    (2, put("promise", 2, 0), "its promise cannot be"),
    (2, put("promise", 3, 1001), "its promise cannot be"),
    (2, put("promise", 3, 0.5), "its promise cannot be"),
    (2, put("promise", 2, 1e300), "its promise cannot be"),
    (2, put("promise", 0, np.nan), "'promise' holds NaN"),
    (2, put("early", (3, 0), np.nan), "'early' holds NaN or infinity"),
    (3, put("partial", (0, 1), np.inf), "'partial' holds NaN or infinity"),
    (2, put("partial", (5, 1), -0.5), r"partial\[5\] has the slope -0.5, below 0"),
    (2, put("early", (1, 0), 1e308), "scores by early leave the range of float64"),
    (3, put("early", (1, 1), 1e308), "scores by early leave the range of float64"),
    (2, swap("early", lambda a: a[:5]), r"'early' has shape \(5, 2\), it must be"),
    (3, swap("partial", lambda a: a.astype("f4")), "'partial' is float32"),
    (2, put("promise", 5, 0.9), "its promise cannot be"),
    (3, put("promise", 11, -1), "its promise cannot be"),
    (3, swap("promise", lambda a: a[:8]), "8 numbers; it must be 4 for each of the 3"),
    (2, put("model", 0, 1), "made for another model"),
    (2, swap("model", lambda a: a[:7]), "'model' has shape"),
    (2, swap("model", lambda a: a.view("i8")), "'model' is int64"),
]


@pytest.mark.parametrize(("classes", "damage", "reason"), DAMAGED)
def test_what_is_damaged_is_refused_by_name(
    classes: int, damage: Callable[[Arrays], Arrays], reason: str
) -> None:
    model = ENSEMBLES[classes].classifier
    begun = time.process_time()
    with pytest.raises(BadModel, match=f"stored schedule: .*{reason}"):
        load_early_exit(model, damage(stored(classes)))
    assert time.process_time() - begun < 1.0


@pytest.mark.parametrize("classes", [2, 3])
def test_each_array_is_needed(classes: int) -> None:
    arrays = stored(classes)
    for name in arrays:
        fewer = {key: array for key, array in arrays.items() if key != name}
        with pytest.raises(BadModel, match=f"array '{name}' is missing"):
            load_early_exit(ENSEMBLES[classes].classifier, fewer)


@pytest.mark.parametrize("classes", [2, 3])
def test_older_arrays_give_no_scores_to_early_answers(classes: int) -> None:
    arrays = stored(classes)
    del arrays["early"], arrays["partial"]
    exits = load_early_exit(ENSEMBLES[classes].classifier, arrays)
    assert exits.lines is None
    answers = [exits.answer(row) for row in X]
    assert min(one.used for one in answers) < T
    assert all((one.scores is None) == (one.used < T) for one in answers)


@settings(max_examples=few(200), deadline=None)
@given(data=st.data(), classes=st.sampled_from([2, 3]))
def test_drawn_bytes_are_a_schedule_or_refused(data: Any, classes: int) -> None:
    arrays = stored(classes)
    name = data.draw(st.sampled_from(sorted(arrays)))
    raw = bytearray(arrays[name].tobytes())
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    array = np.frombuffer(bytes(raw), arrays[name].dtype)
    array = array.reshape(arrays[name].shape)
    damaged = arrays | {name: array}
    try:
        exits = load_early_exit(ENSEMBLES[classes].classifier, damaged)
    except BadModel:
        return
    codes, used = exits.choices(X)
    assert ((codes >= 0) & (codes < classes)).all()
    assert ((used >= 1) & (used <= T)).all()
    scores = [exits.answer(row).scores for row in X[::9]]
    assert np.isfinite(np.array(scores, np.float64)).all()


def test_schedules_of_other_models_are_refused() -> None:
    arrays = stored(2)
    with pytest.raises(BadModel, match="made for another model"):
        load_early_exit(made(2, seed=1).classifier, arrays)
    with pytest.raises(BadModel, match="array 'margin' is missing"):
        load_early_exit(ENSEMBLES[3].classifier, arrays)
    rows, y = bundled("wine")
    with pytest.raises(BadModel, match="kind 'gaussian' has no base models"):
        load_early_exit(compile_model(GaussianNB().fit(rows, y)), arrays)
    linear = compile_model(RidgeClassifier().fit(rows, y > 0))
    with pytest.raises(BadModel, match=r"has shape \(12,\), it must be \(13\)"):
        load_early_exit(linear, arrays)


def test_a_digest_tells_models_apart_and_not_copies() -> None:
    rows, y = bundled("wine")
    labels = np.array(["a", "b", "c"], object)[y]
    boosting = GradientBoostingClassifier(n_estimators=3, random_state=0)
    models = [
        compile_model(boosting.fit(rows, y)),
        compile_model(boosting.fit(rows, labels)),
        compile_model(boosting.set_params(learning_rate=0.2).fit(rows, y)),
        ENSEMBLES[3].classifier,
    ]
    digests = [digest_model(model).tobytes() for model in models]
    assert len(set(digests)) == len(models)
    copy = load_model("trees", models[0].arrays(), width=rows.shape[1])
    assert digest_model(copy).tobytes() == digests[0]
    again = compile_model(boosting.set_params(learning_rate=0.1).fit(rows, labels))
    assert digest_model(again).tobytes() == digests[1]
