"""What a build kept is found again, unless what it depends on is another."""

import sys
from pathlib import Path

import pytest

from polydom.indexer.building.cache_keys import feature_keys
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.features.choose_features import choose_features
from polydom.indexer.building.project import Project
from tests.support.builds import projects
from tests.support.processes.forked_process import run_forked

BUILD = """\
import sys

from polydom.indexer import build

# Python would keep a module by its size and time, as pip does not
sys.dont_write_bytecode = True
sys.path.append(sys.argv[1])
build("PROJECT.toml")
"""
PROJECT = projects.TEXTS.replace(
    'use = ["text_length", "hashed_words"]',
    'files = ["own.py"]\nuse = ["text_length", "counted"]',
)
OWN = """\
import counting

from polydom.features import feature


@feature(kind="text")
def counted(text):
    return [counting.count(text)]
"""


def install(
    place: Path, version: str, returned: str, *, name: str = "counting"
) -> None:
    """Put a library there, as an installer does."""
    facts = place / f"{name}.dist-info"
    facts.mkdir(parents=True, exist_ok=True)
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    (facts / "top_level.txt").write_text(f"{name}\n")
    (place / f"{name}.py").write_text(f"def count(text):\n    return {returned}\n")


def run_build(folder: Path, library: Path) -> set[str]:
    """Build in a process of its own; the folders of the cache's entries."""
    script = folder / "build.py"
    script.write_text(BUILD)
    done = run_forked(["python", str(script), str(library)], folder)
    assert done.returncode == 0, done.stderr
    cache = folder / ".polydom-cache"
    return {str(path.relative_to(cache)) for path in cache.glob("*/*")}


def test_an_upgraded_library_makes_features_and_their_models_anew_and_no_other(
    tmp_path: Path,
) -> None:
    folder = projects.texts(tmp_path / "project", project=PROJECT)
    (folder / "own.py").write_text(OWN)
    library = tmp_path / "library"
    install(library, "1.0", "len(text)")
    first = run_build(folder, library)
    install(library, "1.0", "len(text)", name="beside")
    assert run_build(folder, library) == first
    install(library, "1.1", "text.count('!')")
    second = run_build(folder, library)
    new = sorted(name.split("/")[0] for name in second - first)
    # the values of the feature that calls it, all times, and all models
    kinds = ["machine_times", "sets", "sets", "times", "times", "times"]
    assert new == [*kinds, "values"]
    assert first < second


def test_a_changed_module_of_the_users_own_makes_its_features_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = projects.texts(tmp_path, project=PROJECT)
    (folder / "own.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "counting", raising=False)
    project = Project.load(folder / "PROJECT.toml")
    dataset = load_data(project)
    keys = []
    for body in ("len(text)", "text.count('!')"):
        (folder / "counting.py").write_text(f"def count(text):\n    return {body}\n")
        chosen = choose_features(project, dataset)
        keys.append(feature_keys(chosen.stored, chosen.files))
    # by monkeypatch it would come back at the end, for tests of other files
    del sys.modules["counting"]
    (ready_made, own), (same, other) = keys
    assert same == ready_made
    assert other != own
