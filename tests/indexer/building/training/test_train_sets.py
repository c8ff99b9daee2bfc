"""Training feature sets: what of it is kept, counted, drawn and done again."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.split import divide_groups
from polydom.indexer.building.training import train_sets
from polydom.indexer.building.training.quality import Metric
from polydom.indexer.building.training.refit import train_again
from polydom.indexer.building.training.train_sets import Trainer
from polydom.indexer.building.training.training_task import TrainingTask, division_of
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.progress import Silence

ROWS = 400
SETS = [0b00, 0b01, 0b10, 0b11]


def trainer_of(folder: Path, *, everything: bool = False) -> Trainer:
    """Two features of three columns, of which the second tells more."""
    rng = np.random.default_rng(0)
    codes = np.arange(ROWS) % 2
    values = rng.normal(size=(ROWS, 6)).astype(np.float32)
    values[:, 1] += codes
    values[:, 4] += 2 * codes
    part = divide_groups(codes, np.arange(ROWS), 4, 0)
    split = np.flatnonzero(part != 0), np.flatnonzero(part == 0)
    cache = Cache(folder)
    task = TrainingTask(
        items=cache.share("items", {"values": values, "codes": codes}),
        division=cache.share("division", division_of([] if everything else [split])),
        metric=Metric("accuracy", 2),
        learner={"name": "sklearn.linear_model:LogisticRegression", "C": 3.0},
        seed=0,
        starts=(0, 3, 6),
        key="all" if everything else "judged",
    )
    return Trainer(task, Workers.here(1), cache)


def test_accuracy_is_that_of_the_items_said_to_be_decided_right(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    accuracies = list(trainer.qualities(SETS))
    right = trainer.right(SETS)
    assert right.shape == (4, ROWS // 4)
    assert right.mean(axis=1).tolist() == accuracies
    values = trainer.task.values
    ((train, test),) = trainer.task.splits
    codes = trainer.task.codes
    for mask, row in zip(SETS[1:], right[1:], strict=True):
        columns = [c for c in range(6) if mask >> (c // 3) & 1]
        model = LogisticRegression(C=3.0).fit(values[train][:, columns], codes[train])
        assert (row == (model.predict(values[test][:, columns]) == codes[test])).all()


def test_seconds_of_trainings_that_are_asked_for_count_once(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    assert trainer.spent.seconds == 0
    list(trainer.qualities(SETS))
    spent_s = trainer.spent.seconds
    assert spent_s == pytest.approx(sum(map(trainer.seconds, SETS)))
    assert min(map(trainer.seconds, SETS)) > 0
    list(trainer.qualities(SETS))
    assert trainer.spent.seconds == spent_s
    # what was kept took as long as it did
    again = trainer_of(tmp_path)
    list(again.qualities(SETS[::-1]))
    assert again.spent.seconds == pytest.approx(spent_s)


def test_what_an_earlier_version_kept_is_trained_again(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    accuracies = list(trainer.qualities(SETS))
    for mask in SETS:
        entry = trainer.cache.load(trainer.task.name(mask))
        assert entry is not None
        meta, arrays = entry
        del meta["seconds"], arrays["right"]
        trainer.cache.store(trainer.task.name(mask), meta, arrays)
    again = trainer_of(tmp_path)
    assert list(again.qualities(SETS)) == accuracies
    assert again.right(SETS).mean(axis=1).tolist() == accuracies


def test_a_sample_is_kept_apart_and_counts_too(tmp_path: Path) -> None:
    trainer = trainer_of(tmp_path)
    few = trainer.on_sample(40)
    assert few.rows == 40
    ((rows, test),) = few.task.splits
    ((train, tested),) = trainer.task.splits
    assert set(rows) < set(train)
    assert (test == tested).all()
    (accuracy,) = few.qualities([3])
    assert trainer.spent.seconds == few.seconds(3)
    assert list(trainer.qualities([3])) != [accuracy]


def test_a_long_training_is_told_from_short_ones_that_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train_sets, "SAMPLE", 40)
    monkeypatch.setattr(Trainer, "seconds", lambda own, mask: 1 + own.rows / 100)
    trainer = trainer_of(tmp_path)
    assert trainer.expected_s(3) == pytest.approx(1 + trainer.rows / 100)
    assert trainer.spent.seconds == 0
    # a first training that takes more seconds a row than the second
    monkeypatch.setattr(Trainer, "seconds", lambda own, mask: 1.0)
    assert trainer.expected_s(3) == 1.0
    monkeypatch.setattr(train_sets, "SAMPLE", trainer.rows // 3)  # few rows
    assert trainer.expected_s(3) == 0.0
    monkeypatch.setattr(train_sets, "SAMPLE", 40)
    list(trainer.qualities([3]))
    assert trainer.expected_s(3) == 0.0


def test_kept_sets_are_trained_again_on_all_items(tmp_path: Path) -> None:
    judged, everything = trainer_of(tmp_path), trainer_of(tmp_path, everything=True)
    qualities = dict(zip(SETS, judged.qualities(SETS), strict=True))
    assert train_again(SETS, qualities, everything, np.inf, Silence()) == {*SETS}
    values, codes = judged.task.values, judged.task.codes
    for mask in SETS[1:]:
        model = everything.model(mask)
        columns = [c for c in range(6) if mask >> (c // 3) & 1]
        whole = LogisticRegression(C=3.0).fit(values[:, columns], codes)
        expected = whole.predict_proba(values[:, columns])
        assert model.predict_scores(values) == pytest.approx(expected, abs=1e-4)


def test_without_time_the_most_accurate_alone_is_trained_again(tmp_path: Path) -> None:
    judged, everything = trainer_of(tmp_path), trainer_of(tmp_path, everything=True)
    qualities = dict(zip(SETS, judged.qualities(SETS), strict=True))
    best = max(SETS, key=qualities.__getitem__)
    assert train_again(SETS, qualities, everything, 1e-9, Silence()) == {best}
