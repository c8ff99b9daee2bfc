"""Every script can be imported, says how it is used, and is told of rightly."""

import importlib
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.places import ROOT

pytestmark = pytest.mark.jit  # of imports and options, which kernels have no part in
FOLDER = ROOT / "benchmarks"
FILES = sorted(path for path in FOLDER.rglob("*.py") if path.stem != "__init__")
TOLD = [ROOT / "README.md", FOLDER / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]
COMMAND = re.compile(r"python -m (benchmarks[.\w]*)([^\n`#]*)")


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def is_script(path: Path) -> bool:
    return path.stem.startswith(("bench_", "fuzz_")) or "parse_args" in path.read_text()


SCRIPTS = [name_of(path) for path in FILES if is_script(path)]
# each script and what it is given, in texts and in the first lines of scripts
COMMANDS = [
    (name, re.split(r" {2,}", arguments)[0].split())
    for path in [*TOLD, *FILES]
    for name, arguments in COMMAND.findall(path.read_text("utf-8"))
]


def load(name: str) -> ModuleType:
    """Import a benchmark; skip where it needs a library that is not here."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if missing.split(".")[0] in ("benchmarks", "polydom", "tests"):
            raise
        pytest.skip(f"{missing} is not here")


def help_of(
    name: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> str:
    """What a script says of itself, or of one of its commands."""
    monkeypatch.setattr(sys, "argv", [name, *words, "--help"])
    with pytest.raises(SystemExit) as left:
        load(name).main()
    assert left.value.code == 0, capsys.readouterr().err
    return capsys.readouterr().out


@pytest.mark.parametrize("name", [name_of(path) for path in FILES])
def test_a_benchmark_can_be_imported(name: str) -> None:
    load(name)


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_does_what_it_is_told_to_be_able_to(
    name: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every option of every command that some text gives is one of the script's."""
    assert "usage: " in help_of(name, [], monkeypatch, capsys)
    for _, given in (command for command in COMMANDS if command[0] == name):
        text = " ".join(given)
        words = text.partition("-")[0].partition("[")[0].split()
        known = help_of(name, words, monkeypatch, capsys)
        for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", text):
            assert re.search(rf"{option}(?![\w-])", known), f"{name} {text}"


def test_every_command_that_is_told_is_a_script() -> None:
    assert {name for name, _ in COMMANDS} <= {*SCRIPTS}


def test_every_script_is_in_the_table_of_its_readme_and_has_a_section() -> None:
    text = (FOLDER / "README.md").read_text()
    named = {name.rpartition(".")[2] for name in SCRIPTS}
    scripts = sorted(name for name in named if name.startswith(("bench_", "fuzz_")))
    assert sorted(re.findall(r"^\| `(\w+)` \|", text, re.M)) == scripts
    assert sorted(re.findall(r"^## (\w+)", text, re.M)) == scripts


def test_every_project_names_a_function_that_gives_its_items() -> None:
    text = "".join(path.read_text("utf-8") for path in FILES)
    found = re.findall(r'"items": f?"([\w.]+):(\w+)(\{name\})?', text)
    assert found
    for module, function, _ in found:
        assert any(name.startswith(function) for name in vars(load(module)))
