"""Columns that tell nothing end no training, whatever the learner, and are named."""

import inspect
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline

from polydom.features.extract import Extractor
from polydom.features.tables.column_features import columns
from polydom.indexer import BudgetClassifier, Index, build
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.training.dull_columns import (
    say_dull_columns,
    varying_columns,
)
from polydom.indexer.building.training.quality import Metric
from polydom.indexer.building.training.train_sets import Trainer
from polydom.indexer.building.training.training_task import TrainingTask, division_of
from polydom.indexer.cluster.workers import Workers
from polydom.models.selection.learners import LEARNERS, Task, _class
from tests.support.builds import few_learners

ROWS = 60
RNG = np.random.default_rng(0)
CODES = np.arange(ROWS) % 2
FEW = {"n_estimators": 4, "n_lattices": 3, "epochs": 1}
NAN = np.nan


def at(places: list[int], values: Any, other: float = NAN) -> NDArray[Any]:
    column = np.full(ROWS, other)
    column[places] = values
    return column


TELLING = CODES + 0.3 * RNG.normal(size=ROWS)
DULL = {
    "constant": np.full(ROWS, 7.0),
    "zero": np.zeros(ROWS),
    "empty": np.full(ROWS, NAN),
    "one value": at([2], 3.0),
    "other values in the tested part": at([0, 1, 2], [1, 2, 3]),
    "another value in the tested part": at([1], 8.0, other=7.0),
    "constant or missing": np.where(np.arange(ROWS) % 3, 7.0, NAN),
    "constant in a class": np.where(CODES, RNG.normal(size=ROWS), 1.0),
    "identical": TELLING,
    "huge": np.where(CODES, 3.4e38, -3.4e38),
}
VALUES = np.column_stack([TELLING, *DULL.values()]).astype(np.float32)
TESTED = np.arange(ROWS) < 12
SPLITS = [(np.flatnonzero(~TESTED), np.flatnonzero(TESTED))]


def trainer_of(folder: Path, task: Task, learner: str) -> Trainer:
    path, _, _ = LEARNERS[task][learner]
    known = inspect.signature(_class(path)).parameters
    few = {name: value for name, value in FEW.items() if name in known}
    if learner == "hist_boosting":
        few["max_iter"] = 4
    given: dict[str, NDArray[Any]] = {"values": VALUES, "codes": CODES}
    if task == "regression":
        given["numbers"] = 3.0 * CODES + TELLING
    cache = Cache(folder)
    return Trainer(
        TrainingTask(
            items=cache.share("items", given),
            division=cache.share("division", division_of(SPLITS)),
            metric=Metric("accuracy", 2) if task == "classes" else Metric("r2", 0),
            learner={"name": learner, **few},
            seed=0,
            starts=tuple(range(VALUES.shape[1] + 1)),
            key="judged",
        ),
        Workers.here(1),
        cache,
    )


@pytest.mark.parametrize(
    ("task", "learner"), [(task, name) for task in LEARNERS for name in LEARNERS[task]]
)
def test_no_column_ends_a_training(tmp_path: Path, task: Task, learner: str) -> None:
    trainer = trainer_of(tmp_path, task, learner)
    alone = [1 << place for place in range(VALUES.shape[1])]
    beside = [1 | one for one in alone[1:]]
    everything = sum(alone)
    masks = [0, *alone, *beside, everything]
    found = dict(zip(masks, trainer.qualities(masks), strict=True))
    assert np.isfinite([*found.values()]).all()
    for mask, name in zip(alone[1:], DULL, strict=True):
        if name in ("constant", "zero", "empty"):
            assert found[mask] == found[0]
            rows = VALUES.copy()
            rows[:, 1:4] = 1e6  # what no model depends on
            model = trainer.model(1 | mask)
            np.testing.assert_array_equal(model.predict(rows), model.predict(VALUES))


def test_they_are_named(caplog: pytest.LogCaptureFixture) -> None:
    names = ["a", "b", "c", "d", "e", "f", "g", "h"]
    extractor = Extractor(
        [columns("first", names[:4]), columns("second", names[4:])], [4, 4]
    )
    trained = [np.flatnonzero(~TESTED), np.arange(ROWS)]
    say_dull_columns(extractor, VALUES[:, :8], trained, everywhere=True)
    some = "holds one value or none in the rows of 1 of 2 trainings"
    assert [
        message.split(", w")[0].split(", so")[0] for message in caplog.messages
    ] == [
        "column 'b' holds one value only",
        "column 'c' holds one value only",
        "column 'd' is empty",
        f"column 'e' {some}",
        f"column 'f' {some}",
        f"column 'g' {some}",
    ]
    caplog.clear()
    say_dull_columns(extractor, VALUES[:, :8], trained, everywhere=False)
    assert len(caplog.messages) == 3


@pytest.mark.parametrize("learner", ["naive_bayes", "hist_boosting"])
def test_a_build_goes_on_and_names_them(
    tmp_path: Path, learner: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = [
        f"{value:.4f},7,,{3 if row == 5 else ''},{'ab'[code]}"
        for row, (value, code) in enumerate(zip(TELLING, CODES, strict=True))
    ]
    (tmp_path / "rows.csv").write_text("\n".join(["x,flat,none,rare,label", *rows]))
    (tmp_path / "PROJECT.toml").write_text(
        f'workers = 1\nseed = 1\n[data]\ntable = "rows.csv"\n[learner]\n'
        f'name = "{learner}"\n[search]\nfolds = 4\n[costs]\nitems = 5\nrepeats = 1\n'
    )
    with caplog.at_level(logging.WARNING):
        index: Index = build(tmp_path / "PROJECT.toml", output=tmp_path / "my.pdx")
    assert index.qualities.max() > 0.9
    assert "column 'flat' is the same in all rows" in caplog.text
    assert "column 'none' is empty" in caplog.text
    assert "column 'rare' holds one value or none in the rows of 1 of 4" in caplog.text


def test_an_estimator_goes_on_and_names_them(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    few_learners.use(monkeypatch)
    table = VALUES[:, :8]
    model = BudgetClassifier(learner="auto", search_budget_s=1.0)
    with caplog.at_level(logging.WARNING):
        assert model.fit(table, CODES).score(table, CODES) > 0.9
    assert "column 'x1' holds one value only" in caplog.text
    assert "column 'x3' is empty" in caplog.text


FILLED = make_pipeline(SimpleImputer(), GaussianNB())


@pytest.mark.parametrize(
    ("rows", "differ", "differ_filled"),
    [
        ([[7.0], [7.0]], False, False),
        ([[NAN], [NAN]], False, False),
        ([[7.0], [NAN]], True, False),
        ([[7.0], [8.0]], True, True),
        ([[7.0, 1.0], [7.0, 2.0]], True, True),
        ([[-0.0], [0.0]], False, False),
    ],
)
def test_rows_differ_as_a_learner_sees_them(
    rows: list[list[float]], differ: bool, differ_filled: bool
) -> None:
    assert varying_columns(RandomForestClassifier(), np.array(rows)).any() == differ
    assert varying_columns(FILLED, np.array(rows)).any() == differ_filled
