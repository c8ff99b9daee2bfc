"""Learned features with all that a build and a server do with features."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from polydom.features.errors import BadFeature, BadIndexFile, BadProject
from polydom.features.items import text_item
from polydom.indexer import Index, build
from polydom.indexer.building.costs.remeasure import carried_items, remeasure
from polydom.indexer.index.facts import facts_of
from polydom.indexer.index.file.pdx_file import read_file
from polydom.indexer.progress import Silence
from polydom.server.app import create_app
from tests.support.builds import projects
from tests.support.edited_files.edits import sealed
from tests.support.indexes.learned import make_index
from tests.support.waiting import until_ready

PROJECT = """\
seed = 1
workers = 1
learner = "logistic"

[data]
texts = "mails.jsonl"
group = "of"

[features]
use = ["learned_words", "learned_ngrams"]

[costs]
items = 12
repeats = 3
"""
ASKED = ["WIN a prize", "see you at home later", "", "\N{SNOWMAN}", "free " * 300]


def grouped(folder: Path, more: str) -> Path:
    """A project of texts of which two at a time belong together."""
    projects.texts(folder, count=160, project=PROJECT + more)
    lines = (folder / "mails.jsonl").read_text().splitlines()
    rows = [json.loads(line) | {"of": i // 2} for i, line in enumerate(lines)]
    (folder / "mails.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return folder


@pytest.mark.parametrize(
    "more", ["[exits]\nalpha = 0.2\nconfidence = 0.6\n", "[search]\nfolds = 3\n"]
)
def test_an_index_answers_as_its_features_and_models_do(
    tmp_path: Path, more: str
) -> None:
    folder = grouped(tmp_path, more)
    path = folder / "my.pdx"
    build(folder / "PROJECT.toml", output=path)
    bytes_before = path.read_bytes()
    build(folder / "PROJECT.toml", output=path)
    assert path.read_bytes() == bytes_before
    assert b"dinner" not in b"".join(a.tobytes() for a in read_file(path)[1].values())
    index = Index.load(path)
    package = index.package
    assert package is not None
    learned = facts_of(index).learned
    assert learned
    assert learned["learned_words"]["terms"] > 10
    extractor = package.extractor()
    with TestClient(create_app({"my": path})) as client:
        until_ready(client)
        for text in ASKED:
            asked = {"text": text, "budget_ms": 1000, "exact": True}
            answer = client.post("/v1/predict", json=asked).json()
            row = extractor.extract(text_item(text))
            best = index.best(text_item(text).size, 1.0).row
            said = package.models[best].predict(row[None, :])[0]
            assert answer["label"] == package.labels[said], text
    measured = remeasure(index, carried_items(index), Silence(), repeats=5)
    measured.save(folder / "here.pdx")
    again = Index.load(folder / "here.pdx").package
    assert again is not None
    assert again.features == package.features


def test_features_of_images_cannot_be_learned_from_texts(tmp_path: Path) -> None:
    folder = projects.shapes(tmp_path, '["width", "height"]')
    project = (folder / "PROJECT.toml").read_text()
    named = project.replace('files = ["sides.py"]', 'use = ["learned_words"]')
    (folder / "PROJECT.toml").write_text(named)
    with pytest.raises(BadProject, match="'learned_words' is for text items; the data"):
        build(folder / "PROJECT.toml")


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    path = tmp_path_factory.mktemp("learned") / "learned.pdx"
    make_index().save(path)
    meta, arrays, _ = read_file(path)
    return meta, {name: array.copy() for name, array in arrays.items()}


def reloaded(content: tuple[Any, Any], folder: Path, **changed: Any) -> Index:
    arrays = dict(content[1])
    for name, array in changed.items():
        arrays.pop(f"features/{name}")
        if array is not None:
            arrays[f"features/{name}"] = array
    (folder / "edited.pdx").write_bytes(sealed(content[0], arrays))
    return Index.load(folder / "edited.pdx")


def test_other_weights_than_those_built_with_are_refused_before_serving(
    content: tuple[Any, Any], tmp_path: Path
) -> None:
    package = reloaded(content, tmp_path).package
    assert package is not None
    assert package.extractor().extract(text_item("WIN")).shape == (7,)
    other = content[1]["features/0/weights"] * np.float32(2)
    package = reloaded(content, tmp_path, **{"0/weights": other}).package
    assert package is not None
    with pytest.raises(BadFeature, match="'learned_words' is not what the index was"):
        package.extractor()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (
            "0/hashes",
            lambda a: a[::-1].copy(),
            "features/0: learned terms are not in o",
        ),
        ("0/hashes", lambda a: a[1:], "features/0: learned terms are not as many"),
        ("1/rarity", lambda a: -a, "features/1: a learned term's rarity"),
        ("1/weights", lambda a: a * np.float32("nan"), "features/1: learned weights"),
        ("1/weights", lambda a: a.astype(float), "another type of number"),
        ("1/intercepts", lambda a: None, "the arrays of features/1 are others"),
    ],
)
def test_damaged_weights_are_refused_when_a_file_is_loaded(
    content: tuple[Any, Any], tmp_path: Path, name: str, change: Any, message: str
) -> None:
    changed = {name: change(content[1][f"features/{name}"])}
    with pytest.raises(BadIndexFile, match=message):
        reloaded(content, tmp_path, **changed)


def test_arrays_of_a_feature_that_was_not_learned_are_refused(
    content: tuple[Any, Any], tmp_path: Path
) -> None:
    meta, arrays = content
    for where, message in ((2, "features/2 are others"), (9, "belongs to no feature")):
        more = arrays | {f"features/{where}/hashes": np.zeros(1, np.uint32)}
        (tmp_path / "edited.pdx").write_bytes(sealed(meta, more))
        with pytest.raises(BadIndexFile, match=message):
            Index.load(tmp_path / "edited.pdx")
