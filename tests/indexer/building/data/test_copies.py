"""The same bytes twice are never trained on and tested on."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from polydom.indexer.building.data.copies import joined_groups
from polydom.indexer.building.data.dataset import Dataset
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.data.split import split
from polydom.indexer.building.project import Project


def load(folder: Path, **data: Any) -> Dataset:
    return load_data(Project.from_mapping({"data": data}, folder=folder))


def mails(folder: Path, words: dict[str, str], name: str = "mails") -> None:
    for path, text in words.items():
        (folder / name / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / name / path).write_text(text)


def test_copies_are_one_group(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    words = {f"{'ab'[k % 2]}/{k:02}.txt": f"text {k}" for k in range(40)}
    copies = {f"{'ab'[k % 2]}/copy {k:02}.txt": f"text {k}" for k in range(20)}
    mails(tmp_path, words | copies)
    dataset = load(tmp_path, texts="mails")
    texts = np.array([item.payload for item in dataset.items])
    assert len(np.unique(dataset.groups)) == 40
    for train, test in split(dataset, seed=0, held_out=0.2, folds=5):
        assert not {*texts[train]} & {*texts[test]}
    assert caplog.messages == [
        "20 files hold what another one holds, such as a/00.txt and a/copy 00.txt; "
        "copies are never on both sides of a split"
    ]


def test_copies_of_two_classes_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mails(tmp_path, {"a/1.txt": "x", "a/2.txt": "y", "b/3.txt": "x", "b/4.txt": "z"})
    dataset = load(tmp_path, texts="mails")
    assert dataset.groups.tolist() == [0, 1, 0, 2]
    assert caplog.messages[0].startswith(
        "a/1.txt and b/3.txt hold the same bytes and have different labels"
    )


def test_what_is_tested_on_is_not_trained_on(tmp_path: Path) -> None:
    mails(tmp_path, {"a/1.txt": "x", "a/2.txt": "y", "b/3.txt": "v", "b/4.txt": "z"})
    mails(tmp_path, {"a/5.txt": "x", "b/6.txt": "new"}, "fresh")
    dataset = load(tmp_path, texts="mails", test="fresh")
    assert [*dataset.names] == ["a/2.txt", "b/3.txt", "b/4.txt", "a/5.txt", "b/6.txt"]
    why = "it holds what a/5.txt holds, which is tested on"
    assert dataset.skipped == (("a/1.txt", why),)


def test_copies_join_the_groups_that_people_name(tmp_path: Path) -> None:
    mails(tmp_path, {"1.txt": "x", "2.txt": "y", "3.txt": "x", "4.txt": "z"})
    rows = ["1.txt,a,p", "2.txt,b,p", "3.txt,a,q", "4.txt,b,r"]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label,who", *rows]))
    dataset = load(tmp_path, texts="mails", labels="labels.csv", group="who")
    assert dataset.groups.tolist() == [0, 0, 0, 1]


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=10)
)
def test_groups_are_joined_as_one_by_one(pairs: list[tuple[int, int]]) -> None:
    sides = np.array(pairs).T
    groups, own = (np.unique(side, return_inverse=True)[1] for side in sides)
    joined = groups.tolist()
    for _ in pairs:  # until nothing changes
        for a, first in enumerate(own):
            for b, second in enumerate(own):
                if first == second:
                    low, high = sorted((joined[a], joined[b]))
                    joined = [low if g == high else g for g in joined]
    found = joined_groups(groups, own).tolist()
    ways = zip(found, joined, strict=True)
    assert len({*ways}) == len({*found}) == len({*joined})
