"""Compiled models and their copies: pickled, copied, sent to processes and threads."""

import copy
import gc
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any

import numpy as np
import pytest
from joblib import Parallel, delayed
from sklearn.base import clone
from sklearn.ensemble import (
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from polydom.features.errors import BadInput, BadModel
from polydom.features.threads import one_thread
from polydom.models import compile
from polydom.models.early_exit.exact_schedule import exact_schedule
from polydom.models.importers.compile_model import compile_model
from polydom.models.lattices.estimator import LatticeEnsembleClassifier
from polydom.models.qwyc.fit_schedule import fit_margin_schedule, fit_schedule
from polydom.models.qwyc.schedule import MarginSchedule, Schedule
from polydom.models.scoring.classifier import Classifier, Head
from polydom.models.scoring.prior import Mean
from polydom.models.trees.trees import Trees
from tests.support.models.agreement import bundled

X, Y = bundled("breast_cancer")
ROWS = X.astype(np.float32)
WINE = bundled("wine")[0].astype(np.float32)


Learn = Callable[[], Any]
LEARNERS: dict[str, Learn] = {
    "forest": lambda: RandomForestClassifier(20, random_state=0),
    "boosting": lambda: GradientBoostingClassifier(n_estimators=20, random_state=0),
    "histogram": lambda: HistGradientBoostingClassifier(max_iter=20),
    "scaled trees": lambda: make_pipeline(
        StandardScaler(), RandomForestClassifier(5, random_state=0)
    ),
    "lattices": lambda: LatticeEnsembleClassifier(20, 3, random_state=0, epochs=2),
    "simplices": lambda: LatticeEnsembleClassifier(
        20, 3, interpolation="simplex", random_state=0, epochs=2
    ),
    "linear": lambda: make_pipeline(StandardScaler(), LogisticRegression()),
}


@cache
def learned(name: str, data: str = "breast_cancer") -> Any:
    return LEARNERS[name]().fit(*bundled(data))


def pickled(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": pickled,
    "deepcopy": copy.deepcopy,
    "copy": copy.copy,
}


def overwrite_freed() -> list[np.ndarray[Any, Any]]:
    """Fill memory that was let go of with numbers that are no addresses."""
    gc.collect()
    sizes = [2**k for k in range(3, 16)] * 40
    return [np.full(size, 2**62 - 1, np.int64) for size in sizes]


def answers(model: Any) -> bytes:
    """What a model says of all rows, at once and one by one."""
    whole = model.predict_scores(ROWS), model.predict(ROWS)
    single = [model.answer(row) for row in ROWS[:60]]
    return b"".join(part.tobytes() for part in whole) + repr(single).encode()


def exit_answers(exits: Any, rows: Any) -> list[Any]:
    chosen, used = exits.choices(rows)
    single = [exits.choose(row) for row in rows[:60]]
    whole = [exits.answer(row) for row in rows[:60]]
    return [chosen.tolist(), used.tolist(), single, whole]


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", LEARNERS)
def test_copy_answers_to_the_bit_once_the_original_is_gone(name: str, way: str) -> None:
    model = compile_model(learned(name))
    expected = answers(model)
    made = COPIES[way](model)
    del model
    held = overwrite_freed()
    assert answers(made) == expected
    assert len(held)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["forest", "histogram", "lattices", "linear"])
def test_copy_of_an_early_exit_answers_to_the_bit(name: str, way: str) -> None:
    ensemble = compile(learned(name))
    schedule: Schedule | MarginSchedule
    if name == "linear":
        scores = ensemble.base_scores(ROWS)
        schedule = fit_schedule(scores, ensemble.threshold, 0.01)
    else:
        schedule = exact_schedule(ensemble)
    exits = ensemble.early_exit(schedule)
    expected = exit_answers(exits, ROWS)
    made = COPIES[way](exits)
    del ensemble, exits
    held = overwrite_freed()
    assert exit_answers(made, ROWS) == expected
    assert len(held)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("name", ["histogram", "forest", "lattices", "linear"])
def test_copy_of_a_margin_exit_answers_to_the_bit(name: str, way: str) -> None:
    ensemble = compile(learned(name, "wine"))
    schedule = fit_margin_schedule(ensemble.base_scores(WINE), 0.02, bias=ensemble.bias)
    exits = ensemble.early_exit(schedule)
    expected = exit_answers(exits, WINE)
    made = COPIES[way](exits)
    del ensemble, exits
    held = overwrite_freed()
    assert exit_answers(made, WINE) == expected
    assert len(held)


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize(
    "learner",
    [
        RandomForestRegressor(9, random_state=0),
        HistGradientBoostingRegressor(loss="poisson", max_iter=5),
        make_pipeline(StandardScaler(), Ridge()),
    ],
    ids=["forest", "counts", "ridge"],
)
def test_copy_of_a_regressor_answers_to_the_bit(learner: Any, way: str) -> None:
    with one_thread():
        model = compile(learner.fit(X, Y))
    expected = model.predict(ROWS), [model.predict_one(row) for row in ROWS[:60]]
    made = COPIES[way](model)
    del model
    held = overwrite_freed()
    np.testing.assert_array_equal(made.predict(ROWS), expected[0])
    assert [made.predict_one(row) for row in ROWS[:60]] == expected[1]
    assert len(held)


@pytest.mark.parametrize("way", COPIES)
def test_copy_of_a_mean_is_the_mean(way: str) -> None:
    assert COPIES[way](Mean.fit([1.0, 4.0])).value == 2.5


def test_fitted_lattices_are_copied_with_their_estimator() -> None:
    fitted = learned("lattices")
    expected = fitted.predict_proba(X)
    for made in (pickled(fitted), copy.deepcopy(fitted)):
        np.testing.assert_array_equal(made.predict_proba(X), expected)
    assert not hasattr(clone(fitted), "lattices_")


def test_copy_of_a_schedule_is_checked_again() -> None:
    scores = np.array([[1.0, 2.0], [-1.0, -2.0]])
    schedules: list[Any] = [
        fit_schedule(scores, 0.0, 0.0),
        fit_margin_schedule(np.stack([scores, -scores], axis=2), 0.0),
    ]
    for schedule in schedules:
        made = pickled(schedule)
        assert repr(made) == repr(schedule)
        for made_part, part in zip(
            made.__reduce__()[1], schedule.__reduce__()[1], strict=True
        ):
            np.testing.assert_array_equal(made_part, part)
        kind, (order, *rest) = schedule.__reduce__()
        with pytest.raises(BadInput, match="not a permutation"):
            kind(order + 7, *rest)


def test_bayes_is_copied() -> None:
    model = compile_model(GaussianNB().fit(X, Y))
    assert answers(pickled(model)) == answers(model)


def test_models_go_to_joblibs_processes() -> None:
    ensemble = compile(learned("forest"))
    exits = ensemble.early_exit(exact_schedule(ensemble))
    rows = ROWS[:60]
    calls: list[Any] = [delayed(exits.choices)(rows)]
    calls += [delayed(one)(row) for row in rows for one in (exits.choose, exits.answer)]
    (chosen, used), *single = Parallel(n_jobs=2)(calls)
    found = [chosen.tolist(), used.tolist(), single[::2], single[1::2]]
    assert found == exit_answers(exits, rows)


def test_threads_share_a_copy() -> None:
    model = pickled(compile_model(learned("forest")))
    expected = answers(model)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: answers(model), range(8)))
    assert found == [expected] * 8


def test_packed_arrays_are_not_copied_by_themselves() -> None:
    ensemble = compile(learned("forest"))
    exits: Any = ensemble.early_exit(exact_schedule(ensemble))
    assert isinstance(exits.packed.start, np.ndarray)
    with pytest.raises(BadInput, match="addresses of this process"):
        pickle.dumps(exits.packed)
    with pytest.raises(BadInput, match="addresses of this process"):
        copy.deepcopy(exits.packed)


def test_pickle_whose_arrays_do_not_fit_is_refused() -> None:
    model: Any = compile_model(learned("forest"))
    made, (kind, arrays, width, packed) = model.scorer.__reduce__()
    assert (kind, packed) == (Trees, model.scorer.packed is not None)
    with pytest.raises(BadModel, match="outside the row of 3 columns"):
        made(kind, arrays, 3, packed)
    with pytest.raises(BadModel, match="'roots' is missing"):
        made(kind, {k: v for k, v in arrays.items() if k != "roots"}, width, packed)
    with pytest.raises(BadModel, match="leaves"):
        made(kind, arrays | {"leaves": arrays["leaves"][:, 0]}, width, packed)
    other = compile_model(learned("linear", "wine"))
    assert isinstance(other, Classifier)
    with pytest.raises(BadModel, match="its head reads 3"):
        Classifier(model.scorer, other.head)
    with pytest.raises(BadModel, match="unknown link 17"):
        Head(model.classes, 17, 0, 1)
