"""Every row of every real data set: imported ensembles decide as their originals.

The columns of texts and images are counts of their bytes: decisions on those are
compared as well as on any others.
"""

import gzip
import tarfile
from collections.abc import Callable, Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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
from sklearn.linear_model import RidgeClassifier
from sklearn.tree import DecisionTreeClassifier

from polydom.features.threads import one_thread
from polydom.models import compile
from tests.support.models.agreement import Labelled
from tests.support.models.boosters import lgbm, xgb

Table = NDArray[np.float64]
FITTED = 700  # rows; all are asked about
SMALL: dict[str, Any] = {"n_estimators": 5, "random_state": 0}
LEARNERS: dict[str, Any] = {
    "tree": DecisionTreeClassifier(random_state=0),
    "forest": RandomForestClassifier(**SMALL),
    "extra trees": ExtraTreesClassifier(**SMALL),
    "boosting": GradientBoostingClassifier(max_features="sqrt", **SMALL),
    "histogram": HistGradientBoostingClassifier(max_iter=5, random_state=0),
    "adaboost": AdaBoostClassifier(DecisionTreeClassifier(max_depth=2), **SMALL),
    "bagging": BaggingClassifier(max_features=0.5, **SMALL),
    "lightgbm": lgbm(n_estimators=5),
    "xgboost": xgb(n_estimators=5),
    "linear": RidgeClassifier(),
}
NO_GAPS = ("boosting", "adaboost", "linear")
CLOSE = {"xgboost": 1e-5, "linear": 1e-12}


def _adult(folder: Path) -> Table:
    lines = (folder / "adult.data").read_text() + (folder / "adult.test").read_text()
    rows = [line.rstrip(".").split(", ") for line in lines.splitlines()]
    columns = []
    for column in zip(*(row for row in rows if len(row) == 15), strict=True):
        known = {value: float(code) for code, value in enumerate(sorted(set(column)))}
        numbers = all(value.isdigit() for value in known)
        columns.append([float(v) if numbers else known[v] for v in column])
    table = np.array(columns).T
    table[::50, 2] = np.nan  # scikit-learn, LightGBM and XGBoost take what is missing
    return table


def _higgs(folder: Path) -> Table:
    first = [
        np.loadtxt(folder / f"lightgbm_binary.{part}.gz", delimiter="\t")
        for part in ("train", "test")
    ]
    last = np.loadtxt(folder / "sas_higgs.csv.gz", delimiter=",", skiprows=1)
    return np.concatenate([*(np.roll(table, -1, axis=1) for table in first), last])


def _million_song(folder: Path) -> Table:
    table = np.loadtxt(folder / "millionsong.txt.gz", delimiter=",")
    table[:, 0] //= 10  # decades
    return np.roll(table, -1, axis=1)


def _mnist(folder: Path) -> Table:
    parts = []
    for part in ("train", "t10k"):
        with gzip.open(folder / f"{part}-images-idx3-ubyte.gz") as file:
            images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 784)
        with gzip.open(folder / f"{part}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(), np.uint8, offset=8)
        parts.append(np.column_stack([images[:, 2::8], labels]))
    return np.concatenate(parts).astype(np.float64)


def _counts(items: Iterable[tuple[bytes, str]]) -> Table:
    """How often each byte occurs in each item, and the code of its label."""
    contents, labels = zip(*items, strict=True)
    counts = [np.bincount(np.frombuffer(raw, np.uint8), None, 256) for raw in contents]
    codes = np.unique(labels, return_inverse=True)[1]
    return np.column_stack([np.array(counts, np.float64), codes])


def _polarity(folder: Path) -> Table:
    with tarfile.open(folder / "txt_sentoken.tar.xz") as archive:
        reviews = (member for member in archive if member.isfile())
        return _counts(
            (archive.extractfile(one).read(), one.name.split("/")[-2])  # type: ignore[union-attr]
            for one in reviews
        )


def _sms(folder: Path) -> Table:
    lines = (folder / "SMSSpamCollection").read_bytes().splitlines()
    pairs = (line.partition(b"\t") for line in lines)
    return _counts((text, label.decode()) for label, _, text in pairs)


def _scenes(folder: Path) -> Table:
    images = sorted(folder.glob("*/*/*.jpg"))
    return _counts((path.read_bytes(), path.parent.name) for path in images)


def _stays(folder: Path) -> Table:
    return np.genfromtxt(folder / "physionet.csv.gz", delimiter=",", skip_header=1)


WITHOUT_ROWS = {"networks"}
SETS: dict[str, tuple[int, Callable[[Path], Table]]] = {
    "adult": (48_842, _adult),
    "ann_thyroid_costs": (
        7_200,
        lambda folder: np.concatenate(
            [np.loadtxt(folder / f"ann-{part}.data") for part in ("train", "test")]
        ),
    ),
    "covtype20k": (
        20_000,
        lambda folder: np.loadtxt(folder / "covtype.20k.data.gz", delimiter=","),
    ),
    "higgs": (18_484, _higgs),
    "millionsong": (6_724, _million_song),
    "mnist": (70_000, _mnist),
    "physionet": (12_000, _stays),
    "polarity": (2_000, _polarity),
    "scene15": (4_485, _scenes),
    "sms_spam": (5_574, _sms),
}


@lru_cache(maxsize=1)
def rows_of(name: str, data: Path) -> Labelled:
    """All rows in a fixed random order, with codes from 0 on."""
    count, read = SETS[name]
    table = read(data / name)
    assert len(table) == count
    table = table[np.random.default_rng(0).permutation(count)]
    return table[:, :-1], np.unique(table[:, -1], return_inverse=True)[1]


def original_scores(name: str, fitted: Any, X: Table) -> Table:
    """What `Ensemble.decision_function` promises, from the original."""
    if name == "lightgbm":
        return np.asarray(fitted.predict(X, raw_score=True))
    if name == "xgboost":
        return np.asarray(fitted.predict(X, output_margin=True))
    if hasattr(fitted, "decision_function"):
        return np.asarray(fitted.decision_function(X))
    shares = np.asarray(fitted.predict_proba(X))
    return shares[:, 1] - shares[:, 0] if shares.shape[1] == 2 else shares


def test_no_data_set_is_left_out(data: Path) -> None:
    folders = {path.name for path in data.iterdir() if path.is_dir()}
    assert folders - WITHOUT_ROWS == set(SETS)


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize("name", SETS)
def test_every_row_is_decided_as_by_the_original(
    data: Path, name: str, learner: str
) -> None:
    X, y = rows_of(name, data)
    if learner in NO_GAPS:
        X = np.nan_to_num(X)
    # XGBoost wants codes without gaps, and some decades are rare.
    codes = np.unique(y[:FITTED], return_inverse=True)[1]
    with one_thread():
        fitted = clone(LEARNERS[learner]).fit(X[:FITTED], codes)
        choices, scores = fitted.predict(X), original_scores(learner, fitted, X)
    ensemble = compile(fitted)
    np.testing.assert_array_equal(ensemble.predict(X), choices)
    own = ensemble.decision_function(X)
    if learner in CLOSE:
        largest = max(1.0, np.abs(scores).max())
        assert np.abs(own - scores).max() <= CLOSE[learner] * largest
    else:
        np.testing.assert_array_equal(own, scores)
