"""Learned features: honest, the same again, of whole groups, of what time allows."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.items import text_item
from polydom.features.ready_made.learned_text import recipes_by_name
from polydom.indexer import Index
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.dataset import Dataset, make_dataset
from polydom.indexer.building.data.split import split
from polydom.indexer.building.features import learn_features as module
from polydom.indexer.building.features.feature_values import FeatureTable
from polydom.indexer.building.features.fit_terms import Fitting, fit_terms
from polydom.indexer.building.features.learn_features import (
    FeatureLearner,
    Learned,
    Lesson,
    lesson_of,
)
from polydom.indexer.building.project import Project
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.progress import Silence
from tests.support.builds import projects
from tests.support.builds.progresses import Stages
from tests.support.builds.staged_build import StagedBuild
from tests.support.indexes.learned import table_of

NAMES = ["learned_words", "learned_ngrams"]
RECIPES = [recipes_by_name()[name] for name in NAMES]
WORDS = [f"{a}{b}" for a in "bcdfgklm" for b in ("a", "e", "in", "o", "un")]


def drawn(
    count: int, classes: int = 2, told: float = 0.5, group: int = 1, seed: int = 0
) -> Dataset:
    """Texts in groups, some with a word that tells their class."""
    draw = np.random.default_rng(seed)
    items, labels = [], []
    for number in range(count):
        code = number // group % classes
        text = [*draw.choice(WORDS, draw.integers(3, 12))]
        text += [f"tell{code}"] * bool(draw.random() < told)
        items.append(text_item(" ".join(text)))
        labels.append(f"c{code}")
    names = [str(number) for number in range(count)]
    return make_dataset(items, names, labels, [n // group for n in range(count)])


def learner(folder: Path, progress: Any = None, workers: int = 1) -> FeatureLearner:
    return FeatureLearner(Workers.here(workers), Cache(folder), progress or Silence())


def lesson(dataset: Dataset, folds: int | None = None) -> Lesson:
    divisions = split(dataset, seed=1, held_out=0.25, folds=folds)
    return lesson_of(dataset, divisions, 1)


def accuracy(learned: Learned, dataset: Dataset) -> float:
    codes, scores = dataset.codes[learned.rows], learned.scores
    if scores.shape[1] == 1:
        return float(np.mean((scores[:, 0] > 0) == codes))
    return float(np.mean(scores.argmax(axis=1) == codes))


def arrays_of(learned: Learned) -> list[Any]:
    parts = [*learned.weights.arrays().values(), learned.rows, learned.scores]
    return [part.tolist() for part in parts] + [learned.facts]


def test_random_labels_cannot_be_told_from_their_own_scores(tmp_path: Path) -> None:
    dataset = drawn(600, told=0.0)
    for one in learner(tmp_path).learn(RECIPES, [lesson(dataset)] * 2):
        assert abs(accuracy(one, dataset) - 0.5) < 0.1


@pytest.mark.parametrize("folds", [None, 3])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_training_text_s_scores_come_from_other_parts(
    tmp_path: Path, folds: int | None, classes: int
) -> None:
    dataset = drawn(120, classes, group=2)
    given = lesson(dataset, folds)
    (learned, _) = learner(tmp_path).learn(RECIPES, [given] * 2)
    assert learned.rows.tolist() == given.rows.tolist()
    assert len(given.rows) == (120 if folds else 90)
    assert accuracy(learned, dataset) > 1 / classes + 0.1
    assert len(np.unique(given.folds)) == (folds or module.FOLDS)
    fitting = Fitting(classes, RECIPES[0].most, learned.facts.strength, 1)
    texts = [str(dataset.items[row].payload) for row in given.rows]
    for part in np.unique(given.folds).tolist():
        own, others = given.rows[given.folds == part], given.rows[given.folds != part]
        assert not set(dataset.groups[own]) & set(dataset.groups[others])
        taught = [texts[at] for at in np.flatnonzero(given.folds != part)]
        weights = fit_terms(table_of(NAMES[0], taught), dataset.codes[others], fitting)
        compute = RECIPES[0].feature(weights).function
        for at in np.flatnonzero(given.folds == part)[:3]:
            expected = compute(RECIPES[0].count(texts[at]))
            assert learned.scores[at] == pytest.approx(expected, abs=1e-4)
    whole = fit_terms(table_of(NAMES[0], texts), dataset.codes[given.rows], fitting)
    assert learned.weights.weights == pytest.approx(whole.weights, abs=1e-6)


def test_the_same_again_is_recalled_and_another_seed_is_another(tmp_path: Path) -> None:
    dataset = drawn(80)
    given = lesson(dataset)
    first, told = Stages(), Stages()
    found = learner(tmp_path / "a", first).learn(RECIPES, [given] * 2)
    assert first.done[module.STAGE] == len(RECIPES) * (2 + 2 * module.FOLDS)
    recalled = learner(tmp_path / "a", told).learn(RECIPES, [given] * 2)
    again = learner(tmp_path / "b").learn(RECIPES, [given] * 2)
    assert told.done[module.STAGE] == 0
    assert [*map(arrays_of, recalled)] == [*map(arrays_of, found)]
    assert [*map(arrays_of, again)] == [*map(arrays_of, found)]
    other = learner(tmp_path / "a").learn(RECIPES, [given._replace(seed=2)] * 2)
    assert arrays_of(other[0]) != arrays_of(found[0])


def test_a_feature_that_was_learned_is_not_learned_again_beside_others(
    tmp_path: Path,
) -> None:
    given = lesson(drawn(80))
    learner(tmp_path).learn(RECIPES[:1], [given])
    progress = Stages()
    learner(tmp_path, progress).learn(RECIPES, [given] * 2)
    assert progress.done[module.STAGE] == 2 + 2 * module.FOLDS


def test_two_processes_learn_the_same(tmp_path: Path) -> None:
    given = lesson(drawn(80, classes=3))
    one, two = (
        learner(tmp_path / str(w), workers=w).learn(RECIPES, [given] * 2)
        for w in (1, 2)
    )
    assert [*map(arrays_of, one)] == [*map(arrays_of, two)]


@pytest.mark.parametrize(("classes", "bayes"), [(2, False), (3, False), (3, True)])
def test_more_texts_than_time_allows_are_drawn_by_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, classes: int, bayes: bool
) -> None:
    dataset = drawn(300, classes, group=3)
    given = lesson(dataset)
    # a text has about 8 different words
    monkeypatch.setattr(module, "MOST_TERMS", 1000)
    monkeypatch.setattr(module, "MOST_PRODUCTS", 1000 * (classes if not bayes else 1))
    monkeypatch.setattr(module, "BAYES_FROM", 2 if bayes else 99)
    monkeypatch.setattr(module, "CHOSEN_ON", 500)
    (learned,) = learner(tmp_path).learn(RECIPES[:1], [given])
    assert (learned.facts.strength is None) == bayes
    assert 75 < learned.facts.texts == len(learned.rows) < 200
    left = np.setdiff1d(given.rows, learned.rows)
    assert not set(dataset.groups[learned.rows]) & set(dataset.groups[left])
    assert set(learned.rows) < set(given.rows)
    assert accuracy(learned, dataset) > 1 / classes


def test_few_weights_are_kept_where_there_are_many_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_WEIGHTS", 30)
    (learned,) = learner(tmp_path).learn(RECIPES[:1], [lesson(drawn(90, classes=3))])
    assert learned.weights.weights.shape == (10, 3)


def builder(folder: Path, use: str, more: str = "") -> StagedBuild:
    project = projects.TEXTS.split("[features]")[0] + f"[features]\nuse = {use}\n{more}"
    projects.texts(folder, project=project)
    return StagedBuild(Project.load(folder / "PROJECT.toml"), folder / "cache")


def scored(table: FeatureTable, rows: Any) -> Any:
    """What the features that are stored compute of some items."""
    extract = table.features.extractor.extract
    return np.stack([extract(table.dataset.items[row]) for row in rows])


USE = '["casing", "learned_words", "learned_all_ngrams"]'


def test_test_items_and_those_set_aside_have_the_stored_feature_s_scores(
    tmp_path: Path,
) -> None:
    exits = "[exits]\nalpha = 0.2\nconfidence = 0.5"
    made = builder(tmp_path, USE, exits)
    table, fresh = made.table, made.data.fresh
    ((train, test),) = made.data.splits
    assert fresh is not None
    names = [one.name for one in table.features.stored]
    assert names == ["casing", "learned_words", "learned_all_ngrams"]
    assert (scored(table, test) == table.values[test]).all()
    aside = made.divided.fresh
    assert len(aside.items) == len(fresh.values)
    final = made.data.final._replace(dataset=aside)
    expected = scored(final, range(len(fresh.values)))
    assert (expected == fresh.values).all()
    columns = slice(table.features.starts[1], None)
    assert (scored(table, train) != table.values[train])[:, columns].any(axis=0).all()


def test_with_folds_no_item_has_the_stored_feature_s_score(tmp_path: Path) -> None:
    made = builder(tmp_path, '["learned_words"]', "[search]\nfolds = 3")
    table = made.table
    assert table.values.shape == (len(table.dataset.items), 1)
    assert (scored(table, range(20)) != table.values[:20]).all()
    learned = table.features.stored[0].learned
    assert learned
    assert learned.texts == len(table.dataset.items)


def test_accuracy_for_random_labels_is_that_of_guessing(tmp_path: Path) -> None:
    made = builder(tmp_path, '["learned_words", "learned_ngrams"]')
    lines = [
        json.dumps({"text": item.payload, "label": label})
        for item, label in zip(drawn(800, told=0.0).items, "ab" * 400, strict=True)
    ]
    (tmp_path / "mails.jsonl").write_text("\n".join(lines))
    assert list(made.trainer.qualities([1, 2, 3])) == pytest.approx([0.5] * 3, abs=0.1)
    train = made.trainer.task.splits[0][0]
    values, codes = made.table.values[train], made.table.dataset.codes[train]
    assert abs(np.corrcoef(values[:, 0], codes)[0, 1]) < 0.15


@pytest.mark.parametrize("refit", [True, False])
def test_an_index_stores_what_its_models_were_trained_with(
    tmp_path: Path, refit: bool
) -> None:
    search = f"[search]\nrefit = {str(refit).lower()}\n[exits]\nalpha = 0.1\n"
    made = builder(tmp_path, '["text_length", "learned_words"]', search)
    index, items = made.index(), made.divided.rest.items
    package = index.package
    assert package is not None
    (judged,) = (one for one in made.table.features.stored if one.learned)
    (kept,) = (one for one in package.features if one.learned)
    assert judged.learned
    assert kept.learned
    assert (judged.fingerprint == kept.fingerprint) == (not refit)
    assert (kept.learned.texts == len(items)) == refit
    assert judged.learned.texts < len(items)
    # loaded again it answers by what it stores
    index.save(tmp_path / "my.pdx")
    loaded = Index.load(tmp_path / "my.pdx").package
    assert loaded is not None
    row = loaded.extractor().extract(items[0])
    mine = package.extractor().extract(items[0])
    assert (row == mine).all()
    best = int(index.qualities.argmax())
    assert loaded.models[best].predict(row[None]) == package.models[best].predict(
        mine[None]
    )


@pytest.mark.parametrize("told", [0.0, 1.0])
def test_numbers_are_told_by_scores_of_other_parts(tmp_path: Path, told: float) -> None:
    classes = drawn(240, told=told)
    noise = np.random.default_rng(2).normal(size=240)
    numbers = 1e6 + 500 * (classes.codes + 0.2 * noise)
    codes = np.zeros(240, np.int64)
    dataset = replace(classes, labels=(), codes=codes, numbers=numbers)
    for one in learner(tmp_path).learn(RECIPES, [lesson(dataset)] * 2):
        assert one.scores.shape == (180, 1)
        agreement = np.corrcoef(one.scores[:, 0], numbers[one.rows])[0, 1]
        assert agreement > 0.5 if told else abs(agreement) < 0.25
