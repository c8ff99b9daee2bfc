"""Files that features open in a build, and the warnings about undeclared ones."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from polydom.features.errors import BadFeature
from polydom.indexer.building.cache import Cache
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import choose_features
from polydom.indexer.building.features.feature_values import compute_values
from polydom.indexer.building.features.opened_files import OpenedFiles, undeclared
from polydom.indexer.building.project import Project
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.index.stored_features import load_extractor
from tests.support.builds.progresses import Stages

OWN = """\
import functools
from pathlib import Path
from polydom import feature

HERE = Path(__file__).parent
WORDS = (HERE / "loaded.txt").read_text().split()

@functools.cache
def lazily():
    return (HERE / "lazy.txt").read_text().split()

@feature(kind="text", files={files!r})
def counted(text):
    if "rare" in text:
        with open(HERE / "rare.txt") as file:
            file.read()
    with open(HERE / "written.txt", "w") as file:
        file.write(text)
    return [sum(text.count(word) for word in [*WORDS, *lazily()])]
"""


def compute(folder: Path, files: list[str], workers: int = 1) -> list[str]:
    """Compute the values of a project, and return the names of its features."""
    for name in ("loaded", "lazy", "rare"):
        (folder / f"{name}.txt").write_text("free win")
    (folder / "mine.py").write_text(OWN.format(files=files))
    texts = [{"text": "a" * (n + 9), "label": "ab"[n % 2]} for n in range(30)]
    texts[17]["text"] = "rare" + "a" * 8
    lines = "".join(json.dumps(one) + "\n" for one in texts)
    (folder / "texts.jsonl").write_text(lines)
    content = {"data": {"texts": "texts.jsonl"}, "features": {"files": ["mine.py"]}}
    project = Project.from_mapping(content, folder=folder)
    dataset = load_data(project)
    features = choose_features(project, dataset)
    given: Any = {"workers": Workers.here(workers), "cache": Cache(folder / "c")}
    table = compute_values(
        dataset, features, on_bad_item="stop", progress=Stages(), **given
    )
    return [one.name for one in table.features.stored]


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records]
    begun = "mine.py reads the file "
    assert all(line.startswith(begun) and "which no feature" in line for line in said)
    return [line.removeprefix(begun).split(",")[0] for line in said]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_undeclared_file_is_named_once(
    workers: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compute(tmp_path, ["lazy.txt"], workers)
    assert sorted(warned(caplog)) == ["loaded.txt", "rare.txt"]


def test_declared_files_are_named_by_no_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    compute(tmp_path, ["lazy.txt", "loaded.txt", "rare.txt"])
    assert warned(caplog) == []


def test_only_regular_files_that_are_read_by_this_thread_are_noted(
    tmp_path: Path,
) -> None:
    there, opened = tmp_path / "there", OpenedFiles()
    there.write_text("x")

    def read_all() -> int:
        for path in (there, os.fsencode(there), json.__file__, "/proc/self/stat"):
            with open(path, "rb") as file:
                file.read(1)
        (tmp_path / "written").write_text("y")
        os.close(os.open(tmp_path, os.O_RDONLY))
        with pytest.raises(FileNotFoundError):
            (tmp_path / "absent").read_text()
        with open(os.open(there, os.O_RDONLY)) as file:
            file.read()
        other = threading.Thread(target=(tmp_path / "written").read_text)
        other.start()
        other.join()
        return 7

    assert opened.during(read_all) == 7
    assert opened.found == {os.path.realpath(there)}
    (tmp_path / "written").read_text()
    assert len(opened.found) == 1
    silent = OpenedFiles(watches=False)
    assert silent.during(read_all) == 7
    assert silent.found == set()


def test_what_a_function_opens_before_it_fails_is_noted(tmp_path: Path) -> None:
    there, opened = tmp_path / "there", OpenedFiles()
    there.write_text("x")

    def fail() -> None:
        there.read_text()
        raise LookupError

    with pytest.raises(LookupError):
        opened.during(fail)
    assert opened.found == {os.path.realpath(there)}


def test_files_elsewhere_are_named_by_their_whole_path(tmp_path: Path) -> None:
    found = {os.path.realpath("/usr/x.bin"), os.path.realpath(tmp_path / "a\n.txt")}
    warnings = undeclared(found, [], [tmp_path / "mine.py"])
    names = sorted(
        line.split(",")[0].rpartition(" file ")[2] for line in warnings.values()
    )
    assert names == ["/usr/x.bin", "a\\n.txt"]


def test_an_index_of_other_files_is_refused_and_opens_none_by_its_names(
    tmp_path: Path,
) -> None:
    compute(tmp_path, ["lazy.txt"])
    project = Project.from_mapping(
        {"data": {"texts": "texts.jsonl"}, "features": {"files": ["mine.py"]}},
        folder=tmp_path,
    )
    (stored,) = choose_features(project, load_data(project)).stored
    own = [tmp_path / "mine.py"]
    assert load_extractor([stored], own)
    assert stored.files
    hostile = tmp_path / "secret.txt"
    hostile.write_text("free win")
    named = {**stored.files, os.fspath(hostile): stored.files["lazy.txt"]}
    opened = OpenedFiles()
    with pytest.raises(BadFeature, match="declares no more"):
        opened.during(
            load_extractor, [msgspec.structs.replace(stored, files=named)], own
        )
    assert os.path.realpath(hostile) not in opened.found
    (tmp_path / "lazy.txt").write_text("free")
    with pytest.raises(
        BadFeature, match=r"'counted': the file 'lazy.txt' is not the one"
    ):
        load_extractor([stored], own)
