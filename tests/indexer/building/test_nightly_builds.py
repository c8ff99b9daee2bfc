"""A build of data that changed a little computes little, and is one from scratch."""

import json
import logging
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polydom.features.tables.records import Records
from polydom.indexer.building.build import build
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import choose_features
from polydom.indexer.building.features.feature_values import (
    FeatureTable,
    compute_values,
)
from polydom.indexer.building.project import Project
from polydom.indexer.cluster.workers import Workers
from tests.support.builds import projects
from tests.support.builds.progresses import Stages
from tests.support.processes.forked_process import run_forked

Item = dict[str, Any]
OWN = """\
from polydom.features import feature


@feature(kind="{kind}", fails="without")
def first(item):
    with open({log!r}, "a") as file:
        print("first", {read}, file=file)
    if {read} % 11 == 5:
        raise LookupError("down")
    return [{read} % 7, {read}]


@feature(kind="{kind}")
def second(item):
    with open({log!r}, "a") as file:
        print("second", {read}, file=file)
    return [{read} % {divisor}]
"""


def text(number: int) -> str:
    return "x" * number


class Numbered:
    """A project of numbered items, whose features note the numbers that they read."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.log = folder / "log"
        self.folder.mkdir(exist_ok=True)
        self.code()

    def code(self, divisor: int = 5) -> None:
        read = "len(item)" if self.kind == "text" else 'int(item["n"])'
        given = {"kind": self.kind, "log": str(self.log), "read": read}
        (self.folder / "own.py").write_text(OWN.format(divisor=divisor, **given))

    def values(self, numbers: list[int], cache: str, *, memory: bool = False) -> Any:
        """The values of the items, and what was computed."""
        data = {"texts": "items.jsonl"} if self.kind == "text" else {"table": "t.csv"}
        if self.kind == "text":
            rows = [{"text": text(n), "label": "ab"[n % 2]} for n in numbers]
            lines = "".join(json.dumps(row) + "\n" for row in rows)
            (self.folder / "items.jsonl").write_text(lines)
        else:
            lines = "".join(f"{n},{n / 3},w{n % 3},{'ab'[n % 2]}\n" for n in numbers)
            (self.folder / "t.csv").write_text("n,m,word,label\n" + lines)
        content = {
            "data": data,
            "features": {"files": ["own.py"], "use": ["first", "second"]},
        }
        project = Project.from_mapping(content, folder=self.folder)
        dataset = load_data(project)
        if memory:
            dataset = replace(dataset, items=tuple(dataset.items))
        features = choose_features(project, dataset)
        self.log.write_text("")
        table = compute_values(
            dataset,
            features,
            on_bad_item="stop",
            workers=Workers.here(1),
            cache=Cache(self.folder / cache),
            progress=Stages(),
        )
        lines = self.log.read_text()
        found = [line.split() for line in lines.splitlines()]
        return table, sorted((name, int(number)) for name, number in found)


def both(numbers: list[int]) -> list[tuple[str, int]]:
    return sorted((name, n) for name in ("first", "second") for n in {*numbers})


def same(one: FeatureTable, other: FeatureTable) -> None:
    assert one.values.tobytes() == other.values.tobytes()
    assert one.warnings == other.warnings
    assert [*one.dataset.names] == [*other.dataset.names]


NIGHTS: dict[str, Callable[[list[int]], list[int]]] = {
    "the same": lambda own: own,
    "appended": lambda own: [*own, 101, 102, 104],
    "removed": lambda own: own[3:-3],
    "reordered": lambda own: [
        own[k] for k in np.random.default_rng(0).permutation(len(own))
    ],
    "changed": lambda own: [n + 200 * (k % 9 == 0) for k, n in enumerate(own)],
    "duplicated": lambda own: [*own, *own[:7], 300, 300, 301],
    "all at once": lambda own: [400, *own[::-2], 401, 401, *own[4:9], 49],
}


@pytest.mark.parametrize("kind", ["text", "record"])
@pytest.mark.parametrize("night", NIGHTS)
def test_only_new_items_are_computed_and_all_are_as_from_scratch(
    tmp_path: Path, kind: str, night: str, caplog: pytest.LogCaptureFixture
) -> None:
    own, before = Numbered(tmp_path, kind), [*range(20, 80)]
    own.values(before, "kept")
    numbers = NIGHTS[night](before)
    caplog.set_level(logging.INFO, "polydom.data")
    caplog.clear()
    found, computed = own.values(numbers, "kept")
    told = [line for line in caplog.messages if line.startswith("values of")]
    expected, every = own.values(numbers, "scratch")
    same(found, expected)
    new = {*numbers} - {*before}
    assert computed == both([*new])
    assert every == both(numbers)
    kept = sum(n in before for n in numbers)
    more = f"; {len(numbers) - kept:,} are computed"
    assert told == (
        [f"values of {kept} of {len(numbers)} items were kept{more}"] if new else []
    )
    again, computed = own.values(numbers, "kept")
    same(again, expected)
    assert computed == []
    # another way to hold the items makes other names for them, or the same
    same(own.values(numbers, "kept", memory=True)[0], expected)


@pytest.mark.parametrize("kind", ["text", "record"])
def test_only_a_changed_feature_is_computed_again(
    tmp_path: Path, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    own, numbers = Numbered(tmp_path, kind), [*range(20, 60)]
    own.values(numbers, "kept")
    own.code(divisor=3)
    caplog.set_level(logging.INFO, "polydom.data")
    found, computed = own.values([*numbers, 90], "kept")
    expected, _ = own.values([*numbers, 90], "scratch")
    same(found, expected)
    assert computed == sorted([*[("second", n) for n in numbers], *both([90])])
    assert (
        "values of 40 of 41 items were kept; 1 are computed; those of 'second' are "
        "computed for all items"
    ) in caplog.messages
    own.code()
    _, computed = own.values(numbers, "kept")
    assert computed == []


def test_whole_numbers_that_become_fractions_are_other_records(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "from polydom.features import feature\n\n"
        "@feature(kind='record')\ndef shown(record):\n"
        "    return [len(str(record['n']))]\n"
    )
    features = {"files": ["own.py"], "use": ["shown"]}
    for cells in ("1 2 3 4", "1 2 3 4 5.5", "1 2 3 4 9007199254740993", "5 4 3"):
        lines = [f"{n},{'ab'[k % 2]}" for k, n in enumerate(cells.split())]
        (tmp_path / "t.csv").write_text("\n".join(["n,label", *lines]))
        content = {"data": {"table": "t.csv"}, "features": features}
        project = Project.from_mapping(content, folder=tmp_path)
        dataset = load_data(project)
        assert isinstance(dataset.items, Records)
        found = [
            compute_values(
                dataset,
                choose_features(project, dataset),
                on_bad_item="stop",
                workers=Workers.here(1),
                cache=Cache(tmp_path / cache),
                progress=Stages(),
            ).values
            for cache in ("kept", f"scratch {cells}")
        ]
        one, other = found
        np.testing.assert_array_equal(one, other)


def test_a_longer_text_in_a_column_leaves_the_values_of_the_others(
    tmp_path: Path,
) -> None:
    use = {"use": ["note: casing", "note: text_length"]}
    stages = []
    for texts in (["one note", "another", "third"] * 9, ["one note", "longest " * 40]):
        lines = [f"{note} {n},{'ab'[n % 2]}" for n, note in enumerate(texts * 9)]
        (tmp_path / "t.csv").write_text("\n".join(["note,label", *lines]))
        groups = [{"name": "note", "columns": ["note"], "kind": "text"}]
        content = {
            "data": {"table": "t.csv"},
            "features": {**use, "columns": groups},
        }
        project = Project.from_mapping(content, folder=tmp_path)
        dataset = load_data(project)
        features = choose_features(project, dataset)
        tables = []
        for cache in ("kept", f"scratch {len(texts)}"):
            stages.append(Stages())
            given: Any = {"progress": stages[-1], "cache": Cache(tmp_path / cache)}
            tables.append(
                compute_values(
                    dataset,
                    features,
                    on_bad_item="stop",
                    workers=Workers.here(1),
                    **given,
                )
            )
        same(*tables)
    folders = {path.parent.name for path in (tmp_path / "kept").rglob("*.pdx")}
    assert len(folders) == 2  # one for each feature, whatever the longest text


PROJECT = projects.TEXTS.replace(
    'use = ["text_length", "hashed_words"]',
    'use = ["text_length", "hashed_words", "learned_words"]',
)


def test_an_index_of_grown_data_has_the_bytes_of_one_from_scratch(
    tmp_path: Path,
) -> None:
    """With the same measured times, which are copied from one folder to the other."""
    folder = projects.texts(tmp_path, 80, PROJECT)
    plan, mails = folder / "PROJECT.toml", folder / "mails.jsonl"
    grown = mails.read_text()
    mails.write_text("".join(grown.splitlines(keepends=True)[:76]))
    build(plan, cache=tmp_path / "kept")
    mails.write_text(grown)
    build(plan, cache=tmp_path / "scratch", output=tmp_path / "scratch.pdx")
    for times in ("times", "machine_times"):
        shutil.copytree(
            tmp_path / "scratch" / times, tmp_path / "kept" / times, dirs_exist_ok=True
        )
    build(plan, cache=tmp_path / "kept", output=tmp_path / "kept.pdx")
    one, other = (tmp_path / f"{name}.pdx" for name in ("scratch", "kept"))
    assert one.read_bytes() == other.read_bytes()


BUILD = """\
import sys
from polydom.indexer import build
build("PROJECT.toml", output=sys.argv[1])
"""


def test_two_builds_at_once_leave_what_both_can_read(tmp_path: Path) -> None:
    folder = projects.texts(tmp_path, 60, projects.TEXTS)
    (folder / "build.py").write_text(BUILD)
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(run_forked, ["python", "build.py", f"{n}.pdx"], folder)
            for n in range(2)
        ]
        for run in runs:
            done = run.result(timeout=250)
            assert done.returncode == 0, done.stderr
    entries = sorted((folder / ".polydom-cache" / "values").rglob("*.pdx"))
    assert entries
    assert not [*(folder / ".polydom-cache").rglob("*.tmp")]
    stages = Stages()
    build(folder / "PROJECT.toml", progress=stages)
    assert sorted((folder / ".polydom-cache" / "values").rglob("*.pdx")) == entries
