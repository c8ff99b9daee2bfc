"""Every benchmark can be imported, says how it is used, and is told of rightly."""

import importlib
import inspect
import re
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks.__main__ import SUBJECTS, benchmarks, question
from benchmarks.__main__ import main as run
from tests.support.places import ROOT

pytestmark = pytest.mark.jit  # of imports and options, which kernels have no part in
FOLDER = ROOT / "benchmarks"
FILES = sorted(path for path in FOLDER.rglob("*.py") if path.stem != "__init__")
MODULES = benchmarks() | {"benchmarks.data.fetch": "benchmarks.data.fetch"}
TOLD = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(FOLDER.rglob("*.md")),
    *sorted(ROOT.glob("docs/**/*.md")),
]
COMMAND = re.compile(
    r"python -m (benchmarks\.[\w.]+|benchmarks (?!NAME|\[)\w+)([^\n`#]*)"
)


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


# what is run, what it is given, and where that is told
COMMANDS = [
    (name.removeprefix("benchmarks "), re.split(r" {2,}", given)[0], path)
    for path in [*TOLD, *FILES]
    for name, given in COMMAND.findall(path.read_text("utf-8"))
]


def load(name: str) -> ModuleType:
    """Import a module of benchmarks; skip where it needs a library that is not here."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if missing.split(".")[0] in ("benchmarks", "polydom", "tests"):
            raise
        pytest.skip(f"{missing} is not here")


@pytest.mark.parametrize("name", [name_of(path) for path in FILES])
def test_a_file_can_be_imported(name: str) -> None:
    load(name)


def test_benchmarks_are_listed_with_their_questions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run([])
    printed = capsys.readouterr().out
    for name, module in benchmarks().items():
        asked = question(module)
        assert asked[-1] in ".?"
        assert re.search(rf"^{name} +\w+ +{re.escape(asked)}$", printed, re.M)


def test_a_benchmark_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit, match="no benchmark is named 'none'"):
        run(["none"])


@pytest.mark.parametrize("name", MODULES)
def test_a_benchmark_does_what_it_is_told_to_be_able_to(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every option of every command that some text gives is one of the benchmark's."""
    main = load(MODULES[name]).main
    assert next(iter(inspect.signature(main).parameters)) == "arguments"
    with pytest.raises(SystemExit) as left:
        main(["--help"])
    assert left.value.code == 0
    known = capsys.readouterr().out
    assert "usage: python -m benchmarks" in known
    for told, given, path in COMMANDS:
        if told == name:
            for option in re.findall(r"(?<![\w-])--?[a-z][\w-]*", given):
                assert re.search(rf"{option}(?![\w-])", known), f"{path}: {given}"


def test_every_command_that_is_told_is_there() -> None:
    assert {(name, path) for name, _, path in COMMANDS if name not in MODULES} == set()


@pytest.mark.parametrize("subject", SUBJECTS)
def test_every_benchmark_has_a_section_of_its_subject(subject: str) -> None:
    text = (FOLDER / subject / "README.md").read_text()
    listed = importlib.import_module(f"benchmarks.{subject}").BENCHMARKS
    assert {*listed} <= {*re.findall(r"^## (\w+)$", text, re.M)}
    assert f"]({subject}/README.md" in (FOLDER / "README.md").read_text()


def test_every_project_names_a_function_that_gives_its_items() -> None:
    text = "".join(path.read_text("utf-8") for path in FILES)
    found = re.findall(r'"items": f?"([\w.]+):(\w+)(\{[\w.]+\})?', text)
    assert found
    for module, function, _ in found:
        assert any(name.startswith(function) for name in vars(load(module)))
