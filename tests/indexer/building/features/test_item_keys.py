"""Items have equal hashes if, and only if, what a feature reads of them is equal."""

import csv
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.fingerprint import fingerprint
from polydom.features.loading import ready_made_features
from polydom.features.tables.records import Records
from polydom.features.tables.text_columns import TextOf, alone, feature_on
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import choose_features
from polydom.indexer.building.features.item_keys import Distinct, item_keys
from polydom.indexer.building.project import Project

OWN = """\
from polydom.features import feature

@feature(kind="record")
def own(record):
    return [1]
"""
# Cells of a column each, of which some differ only in what is missing, or in a sign
CELLS: dict[str, list[str]] = {
    "whole": ["0", "1", "9007199254740993", "9007199254740992"],
    "real": ["0.5", "-0.5", "", "1e-300"],
    "word": ["a", "b", "", "ab"],
    "day": ["2024-05-01", "2024-05-02", ""],
    "yes": ["true", "false"],
}


def read(folder: Path, rows: list[dict[str, Any]]) -> tuple[Dataset, list[Distinct]]:
    """The rows as a data set, and the keys of a function of the whole record."""
    with (folder / "t.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)
    (folder / "own.py").write_text(OWN)
    content = {
        "data": {"table": "t.csv"},
        "features": {"files": ["own.py"], "use": ["own"]},
    }
    project = Project.from_mapping(content, folder=folder)
    dataset = load_data(project)
    keys = item_keys(dataset, choose_features(project, dataset), ())
    return dataset, [key.items for key in keys if key is not None]


def test_rows_have_equal_hashes_if_their_records_are_equal(tmp_path: Path) -> None:
    rows = [
        {**dict(zip(CELLS, cells, strict=True)), "label": "xy"[n % 2]}
        for n, cells in enumerate(product(*CELLS.values()))
    ]
    draw = np.random.default_rng(0)
    rows = [rows[k] for k in draw.integers(0, len(rows), 300)]
    dataset, (keys,) = read(tmp_path, rows)
    assert isinstance(dataset.items, Records)
    shown = [repr(item.payload) for item in dataset.items]
    numbers = {text: n for n, text in enumerate(dict.fromkeys(shown))}
    slow = [numbers[text] for text in shown]
    pairs = {*zip(slow, keys.own.tolist(), strict=True)}
    assert len(pairs) == len(numbers) == len(keys.hashes)
    # the hash of a row is the same in whatever table of the same columns it is
    order = draw.permutation(300)
    _, (other,) = read(tmp_path, [rows[k] for k in order])
    np.testing.assert_array_equal(other.hashes[other.own], keys.hashes[keys.own][order])
    found, places = keys.find(other.hashes.view(np.uint8).reshape(-1, 16))
    assert found.all()
    np.testing.assert_array_equal(keys.hashes[keys.own[places]], other.hashes)


def test_hashes_that_end_with_zeros_are_told_apart() -> None:
    digests = np.zeros((4, 16), np.uint8)
    digests[1, 0], digests[2, :2], digests[3, 0] = 1, 1, 1
    keys = Distinct(digests)
    assert len(keys.hashes) == 3
    assert keys.first[keys.own].tolist() == [0, 1, 2, 1]
    digests[0, 15] = 1
    assert keys.find(digests)[0].tolist() == [False, True, True, True]
    assert keys.find(digests[:0])[0].shape == (0,)


@pytest.mark.parametrize(
    "feature",
    [one for one in ready_made_features() if one.kind == "text"],
    ids=lambda one: one.name,
)
def test_a_feature_of_a_column_is_told_by_the_feature_of_texts(feature: Any) -> None:
    for most in (3, 500):
        put = feature_on(TextOf("note", most), feature)
        assert fingerprint(put) != fingerprint(feature)
        assert fingerprint(alone(put)) == fingerprint(feature)
