"""Versions of libraries: all that computing depends on, and nothing else."""

import json
import subprocess
import sys
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from polydom import features
from polydom.features.libraries import differences, versions
from polydom.features.own_modules import others_modules

ASK = """\
import json, sys
from pathlib import Path
from polydom.features.libraries import versions
print(json.dumps(versions(map(Path, sys.argv[1:]))))
"""


def install(place: Path, name: str, version: str, *requires: str) -> None:
    """Put a library of one module there, as an installer does."""
    facts = place / f"{name}.dist-info"
    facts.mkdir(parents=True, exist_ok=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    lines += [f"Requires-Dist: {one}" for one in requires]
    (facts / "METADATA").write_text("\n".join(lines) + "\n")
    (facts / "top_level.txt").write_text(f"{name}\n")
    (place / f"{name}.py").write_text("")


def versions_there(
    place: Path, monkeypatch: pytest.MonkeyPatch, *files: Path
) -> dict[str, str]:
    """Ask a process that finds a folder's libraries."""
    monkeypatch.setenv("PYTHONPATH", str(place))
    command = [sys.executable, "-B", "-c", ASK, *map(str, files)]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(ran.stdout)
    return found


def test_libraries_that_nothing_imports_do_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path / "place", "anything", "1.0")
    own = tmp_path / "own.py"
    own.write_text("import numpy\nimport json\nimport polydom\n")
    assert versions_there(tmp_path / "place", monkeypatch, own) == versions()


def test_what_a_file_imports_counts_with_all_that_it_requires(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, own = tmp_path / "place", tmp_path / "own.py"
    install(place, "first", "1.0", "Second[fast]>=1", "never; python_version < '3'")
    install(place, "second", "2.0", "third; extra == 'fast'", "other; extra == 'slow'")
    install(place, "third", "3.0", "first")  # in a circle
    install(place, "other", "4.0")
    install(place, "never", "5.0")
    own.write_text("def f(text):\n    from first import thing\n")
    there = versions_there(place, monkeypatch, own)
    new = {"first": "1.0", "second": "2.0", "third": "3.0"}
    assert there == {**versions(), **new}
    install(place, "third", "3.1", "first")
    assert differences(there, versions_there(place, monkeypatch, own)) == [
        "third 3.1 (here 3.0)"
    ]
    assert differences(there, versions())[0] == "first missing (here 1.0)"


def test_what_a_module_of_the_users_own_imports_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "own.py"
    own.write_text("import helping\n")
    (tmp_path / "helping").mkdir()
    (tmp_path / "helping" / "__init__.py").write_text("from . import deeper\n")
    (tmp_path / "helping" / "deeper.py").write_text("import first\n")
    install(tmp_path, "first", "1.0")
    assert versions_there(tmp_path, monkeypatch, own)["first"] == "1.0"


def test_a_library_that_cannot_be_read_or_is_not_there_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, own = tmp_path / "place", tmp_path / "own.py"
    install(place, "first", "1.0", "second (>= what)", "nowhere")
    own.write_text("import first\nimport missing\n")
    found = versions_there(place, monkeypatch, own)
    assert found == {**versions(), "first": "1.0"}


def test_all_that_computing_imports_is_there() -> None:
    root = Path(features.__file__).parents[1]
    rooms = ("features", "models", "indexer/building", "indexer/index")
    files = [file for room in rooms for file in (root / room).rglob("*.py")]
    installed, found = packages_distributions(), versions()
    imported = {
        name.lower() for one in others_modules(files) for name in installed[one]
    }
    assert imported > {"numpy", "numba", "scikit-learn", "pillow"}
    assert imported <= found.keys()
