"""Does a compiled model answer as its original? Rows and data sets to ask it with."""

import csv
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from polydom.models.importers.compile_model import compile_model
from polydom.models.load import load_model
from polydom.models.scoring.model import Model
from tests.support.examples import INTERPRETED

Labelled = tuple[NDArray[np.float64], NDArray[np.int64]]

BUNDLED = (
    "iris",
    "breast_cancer",
    # of three classes, as iris is
    pytest.param("wine", marks=pytest.mark.jit),
    pytest.param("digits", marks=pytest.mark.jit),
)
FEWER_ROWS = 500
REAL = ("adult", "covtype20k", "higgs", "ann_thyroid")


def bundled(name: str) -> Labelled:
    """One of scikit-learn's own data sets; float64 that holds float32 values."""
    import sklearn.datasets

    X, y = getattr(sklearn.datasets, f"load_{name}")(return_X_y=True)
    if INTERPRETED and len(y) > FEWER_ROWS:  # as many of each class as in all
        X, y = X[::3], y[::3]
    return X.astype(np.float32).astype(np.float64), y.astype(np.int64)


@lru_cache
def real(name: str, data: Path) -> Labelled:
    """One of the real data sets, shuffled; float64 that holds float32 values."""
    if name == "adult":
        X, y = _adult(data / "adult" / "adult.data")
    elif name == "covtype20k":
        table = np.loadtxt(data / "covtype20k" / "covtype.20k.data.gz", delimiter=",")
        X, y = table[:, :-1], table[:, -1]
    elif name == "higgs":
        table = np.loadtxt(data / "higgs" / "lightgbm_binary.train.gz", delimiter="\t")
        X, y = table[:, 1:], table[:, 0]
    else:
        table = np.loadtxt(data / "ann_thyroid_costs" / "ann-train.data")
        X, y = table[:, :-1], table[:, -1]
    order = np.random.default_rng(0).permutation(len(y))
    X = X.astype(np.float32).astype(np.float64)
    return X[order], y[order].astype(np.int64)


def _adult(path: Path) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    with open(path, newline="") as file:
        rows = [row for row in csv.reader(file, skipinitialspace=True) if len(row) > 1]
    columns = []
    for values in zip(*rows, strict=True):
        known = {value: code for code, value in enumerate(sorted(set(values)))}
        numeric = all(value.lstrip("-").isdigit() for value in known)
        columns.append([float(v) if numeric else float(known[v]) for v in values])
    table = np.array(columns).T
    return table[:, :-1], table[:, -1]


def edge_rows(
    X: NDArray[np.float64],
    thresholds: NDArray[np.float64],
    count: int,
    *,
    missing: bool = False,
    infinite: bool = False,
) -> NDArray[np.float64]:
    """Rows mixed from real values, thresholds and their neighbours, and extremes.

    All are float32 values, held as float64.
    """
    draw = np.random.default_rng(len(X))
    rows = np.stack([draw.choice(column, count) for column in X.T], axis=1)
    near = thresholds.astype(np.float32) if len(thresholds) else np.zeros(1, "f4")
    largest = np.finfo(np.float32).max
    # Not also -largest: scikit-learn's check of its input would add inf and -inf.
    extremes = [0.0, -0.0, 1e-45, -1e-45, 1e-35, -1e-35, largest, -1e30, -1.0, 0.5]
    extremes += [np.nan] * 3 * missing + [np.inf, -np.inf] * infinite
    pool = np.concatenate(
        [
            near,
            np.nextafter(near, np.float32(np.inf)),
            np.nextafter(near, np.float32(-np.inf)),
            np.repeat(np.array(extremes, np.float32), max(1, len(near) // 8)),
        ]
    )
    if not infinite:
        pool = pool[~np.isinf(pool)]
    swapped = draw.random(rows.shape) < 0.4
    rows[swapped] = draw.choice(pool, swapped.sum())
    return rows


def reference_scores(estimator: Any, X: NDArray[Any]) -> NDArray[np.float64]:
    """Class scores as `Model.scores` promises them, from the original library."""
    if hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict_proba(X), np.float64)
    margin = np.asarray(estimator.decision_function(X), np.float64)
    return margin if margin.ndim == 2 else np.column_stack([-margin, margin])


def stored_and_loaded(model: Model, width: int) -> Model:
    """Make the same model again from its arrays, made read-only as a mapped file's."""
    arrays = {name: array.copy() for name, array in model.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    return load_model(model.kind, arrays, width=width)


def assert_agrees(
    estimator: Any, X: NDArray[np.float64], *, tolerance: float = 1e-6
) -> None:
    """Compile, store, load; the same choices on every row, the same scores.

    `tolerance` is relative to the largest score. The rows are put among other columns,
    in another order, to show that the model finds its own.
    """
    d = X.shape[1]
    columns = np.random.default_rng(d).permutation(d + 3)[:d]
    model = compile_model(estimator, columns.astype(np.int32))
    model = stored_and_loaded(model, d + 3)
    full = np.full((len(X), d + 3), 7.0)
    full[:, columns] = X
    expected = estimator.predict(X)
    np.testing.assert_array_equal(model.predict(full), expected)
    singles = full.astype(np.float32)
    np.testing.assert_array_equal(model.predict(singles), expected)
    scores = reference_scores(estimator, X)
    largest = max(1.0, np.abs(scores).max())
    assert np.abs(model.predict_scores(full) - scores).max() <= tolerance * largest
    for i in range(0, len(X), max(1, len(X) // 20)):
        chosen = model.choose(singles[i])
        assert isinstance(chosen, int)
        assert model.classes[chosen] == expected[i]
        place, one = model.answer(singles[i])
        assert place == chosen
        assert np.abs(np.array(one) - scores[i]).max() <= tolerance * largest


def assert_values_agree(
    estimator: Any, X: NDArray[np.float64], *, tolerance: float = 0.0
) -> Model:
    """Compile, store, load a regressor; the same values on every row.

    `tolerance` is relative to the largest value. Rows are mixed as in `assert_agrees`.
    """
    d = X.shape[1]
    columns = np.random.default_rng(d).permutation(d + 3)[:d]
    model = compile_model(estimator, columns.astype(np.int32))
    model = stored_and_loaded(model, d + 3)
    full = np.full((len(X), d + 3), 7.0)
    full[:, columns] = X
    expected = np.asarray(estimator.predict(X), np.float64).reshape(-1)
    near = {"rtol": 0, "atol": tolerance * np.abs(expected).max()}
    singles = full.astype(np.float32)
    for rows in (full, singles):
        np.testing.assert_allclose(model.predict(rows), expected, **near)
    assert model.predict(full).dtype == np.float64
    np.testing.assert_array_equal(model.predict_scores(full)[:, 0], model.predict(full))
    for row, value in zip(singles[:20], model.predict(singles), strict=False):
        assert model.answer(row) == (0, [value])
    return model
