"""What a build keeps is given back, or made again where it is not what it should be."""

import os
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from polydom.features.errors import BadProject
from polydom.indexer.building import cache as caches
from polydom.indexer.building.build import build
from polydom.indexer.building.cache import (
    DAY_S,
    DAYS_IN_USE,
    FOLDER,
    MOST_CARRIED,
    Cache,
    SharedArrays,
    digest,
    sweep_unused,
)
from polydom.indexer.index.file.pdx_file import write_file
from tests.support.builds import projects


def test_cache_gives_back_what_it_keeps(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new")
    assert cache.load("sets/a/1") is None
    cache.store("sets/a/1", {"accuracy": 0.5}, {"x": np.arange(3)})
    stored = cache.load("sets/a/1")
    assert stored is not None
    assert stored[0] == {"accuracy": 0.5}
    np.testing.assert_array_equal(stored[1]["x"], [0, 1, 2])


def test_a_build_does_not_wait_for_the_disk_after_each_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[int] = []
    monkeypatch.setattr(os, "fsync", waits.append)
    Cache(tmp_path).store("a", {}, {"x": np.arange(3)})
    Cache(tmp_path).share("b", {"x": np.arange(3)})
    assert waits == []
    write_file(tmp_path / "index.pdx", {}, {})
    assert waits


@pytest.mark.parametrize("content", [b"", b"half", b"x" * 1000])
def test_cache_entry_that_is_damaged_counts_as_absent(
    tmp_path: Path, content: bytes
) -> None:
    cache = Cache(tmp_path)
    cache.store("a", {}, {"x": np.arange(3)})
    (tmp_path / "a.pdx").write_bytes(content)
    assert cache.load("a") is None


def test_an_entry_under_another_name_counts_as_absent(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Cache(tmp_path)
    for name in ("a", "b", "c"):
        cache.store(name, {"name": name}, {})
    assert cache.load("none") is None
    assert not caplog.text
    one, other = tmp_path / "a.pdx", tmp_path / "b.pdx"
    contents = one.read_bytes(), other.read_bytes()
    one.write_bytes(contents[1])
    other.write_bytes(contents[0])
    assert (cache.load("a"), cache.load("b")) == (None, None)
    assert cache.load("c") == ({"name": "c"}, {})
    (said,) = caplog.messages
    assert said == (
        f"{tmp_path} holds entries that are not what they should be, and are made "
        "again; the first is a: it was kept as 'b'"
    )


def test_an_entry_that_its_reader_cannot_use_counts_as_absent(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.store("a", {"x": [1]}, {})
    assert cache.recall("a", lambda meta, _: meta["x"]) == [1]
    assert cache.recall("a", lambda meta, arrays: arrays["x"]) is None
    assert cache.recall("a", lambda meta, _: meta["x"][1]) is None
    assert cache.recall("a", lambda meta, _: float(meta["x"])) is None
    cache.store("a", {"x": [2]}, {})
    assert cache.recall("a", lambda meta, _: meta["x"]) == [2]
    write_file(tmp_path / "old.pdx", {"x": 1}, {})  # of before entries had names
    assert cache.load("old") is None


def test_digest_tells_parts_apart() -> None:
    assert digest("a", "b") != digest("ab")
    assert digest({"x": 1, "y": 2}) == digest({"y": 2, "x": 1})
    assert digest([1, None]) != digest([1, 0])


def test_shared_arrays_that_are_mapped_stay_as_they_were(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    mapped = cache.share("x", {"y": np.zeros(1000)})["y"]
    cache.share("x", {"y": np.ones(10)})
    assert (mapped == 0).all()


PROJECT = """\
seed = 1
workers = 1

[data]
texts = "mails.jsonl"

[features]
use = ["text_length", "learned_words"]

[costs]
items = 8
repeats = 2

[learner]
name = "forest"
n_estimators = 5

[search]
method = "poly-dom"
folds = 3

[exits]
alpha = 0.1
confidence = 0
"""


def exchanged(folder: Path, files: dict[str, Path]) -> None:
    """Every entry holds what another did."""
    contents = [path.read_bytes() for path in files.values()]
    for path, content in zip(files.values(), [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)


def emptied(folder: Path, files: dict[str, Path]) -> None:
    """Every entry has its name, and holds nothing that a reader needs."""
    for name, path in files.items():
        write_file(path, {"name": name, "kept": {}}, {"x": np.arange(3)})


def reshaped(folder: Path, files: dict[str, Path]) -> None:
    """Every array of every entry lacks its first row."""
    cache = Cache(folder)
    for name in files:
        meta, arrays = cache.load(name) or ({}, {})
        cut = {key: array[1:] for key, array in arrays.items() if array.ndim}
        cache.store(name, meta, {**arrays, **cut})


@pytest.mark.parametrize("change", [exchanged, emptied, reshaped])
def test_a_build_makes_again_what_does_not_fit(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Path, dict[str, Path]], None],
) -> None:
    plan = projects.texts(tmp_path, 60, PROJECT) / "PROJECT.toml"
    folder, first = tmp_path / FOLDER, build(plan)
    files = {
        path.relative_to(folder).with_suffix("").as_posix(): path
        for path in sorted(folder.rglob("*.pdx"))
    }
    groups = {name.split("/")[0] for name in files}
    assert groups >= {"learned", "margins", "sets", "times", "values", "machine_times"}
    for path in folder.rglob("*"):
        if path.is_file() and path.suffix != ".pdx":
            path.write_bytes(path.read_bytes()[:-20])
    change(folder, files)
    caplog.clear()
    again = build(plan)
    assert again.package is not None
    assert first.package is not None
    assert again.package.labels == first.package.labels
    told = [text for text in caplog.messages if "are made again" in text]
    assert len(told) == 1
    caplog.clear()
    build(plan)
    assert not [text for text in caplog.messages if "are made again" in text]


def aged(path: Path, days: float) -> Path:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))
    return path


def test_all_that_a_build_keeps_goes_if_it_is_unused_and_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = projects.texts(tmp_path, 60, PROJECT) / "PROJECT.toml"
    build(plan)
    folder = tmp_path / FOLDER
    paths = [path for path in folder.rglob("*") if path.is_file()]
    foreign = [folder / "values" / "mine" / "a.pdx", folder / "sets" / "my.pdx"]
    foreign += [folder / "my.pdx", folder / "vectors" / digest("a") / "b.pdx"]
    for path in foreign:
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_bytes(b"mine")
    for path in (*paths, *foreign):
        aged(path, DAYS_IN_USE + 1)
    sweep_unused(tmp_path / "none")
    sweep_unused(folder)
    assert all(path.exists() for path in paths)
    monkeypatch.setattr(caches, "MOST_BYTES", 0)
    sweep_unused(folder)
    assert [path for path in folder.rglob("*") if path.is_file()]
    assert not any(path.exists() for path in paths)
    assert all(path.exists() for path in foreign)
    build(plan)


def test_what_was_used_last_stays_in_a_full_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, names = Cache(tmp_path), [f"sets/{digest(k)}/1" for k in range(6)]
    for name in names:
        cache.store(name, {}, {"x": np.zeros(1000)})
    paths = [tmp_path / f"{name}.pdx" for name in names]
    monkeypatch.setattr(caches, "MOST_BYTES", 3.5 * paths[0].stat().st_size)
    for path, days in zip(paths, (5, 3, 4, 9, 1, 8), strict=True):
        aged(path, days)
    assert cache.load(names[3]) is not None
    sweep_unused(tmp_path)
    assert [path.exists() for path in paths] == [False, True, False, True, True, False]
    monkeypatch.setattr(caches, "MOST_BYTES", 0)
    sweep_unused(tmp_path)
    assert [path.exists() for path in paths] == [False, False, False, True, True, False]


def test_arrays_are_small_to_send_and_the_same_there(tmp_path: Path) -> None:
    arrays = {"a": np.arange(1e5), "none": np.zeros((0, 3)), "b": np.eye(2) > 0}
    shared = SharedArrays.place(tmp_path / "new", arrays)
    content = pickle.dumps(shared)
    assert len(content) < 500
    there = pickle.loads(content)
    assert [*there] == ["a", "none", "b"]
    assert len(there) == 3
    for name, array in arrays.items():
        np.testing.assert_array_equal(there[name], array)
        assert there[name].dtype == array.dtype
    with pytest.raises(KeyError):
        there["c"]
    with pytest.raises(ValueError, match="read-only"):
        there["a"][0] = 1
    there.remove()
    assert not (tmp_path / "new").exists()


def test_without_a_folder_few_arrays_are_carried_along() -> None:
    most = np.zeros(MOST_CARRIED, np.uint8)
    there = pickle.loads(pickle.dumps(SharedArrays.place(None, {"a": most})))
    np.testing.assert_array_equal(there["a"], most)
    there.remove()
    with pytest.raises(BadProject, match=r"17 MB would go with every call .* --shared"):
        SharedArrays.place(None, {"a": most, "b": np.zeros(1)})
