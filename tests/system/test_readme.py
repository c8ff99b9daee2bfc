"""The README's commands and code, run as they stand there."""

import doctest
import io
import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image, ImageDraw

from tests.support import documents, servers
from tests.support.places import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
PER_CLASS = 10


def blocks(language: str) -> list[str]:
    return [text for of, text in documents.blocks(README) if of == language]


def commands() -> list[list[str]]:
    """The shell commands of README, comments cut."""
    return [shlex.split(one, comments=True) for one in documents.commands(README)]


def photo(label: str, number: int) -> bytes:
    """A disc or a square somewhere on a photo of its own size."""
    edge = 64 + 16 * number
    image = Image.new("L", (edge, edge), 40 + 5 * number)
    box = (edge // 8 + number, edge // 6, edge // 2 + number, edge // 2 + edge // 10)
    draw = ImageDraw.Draw(image)
    (draw.ellipse if label == "cats" else draw.rectangle)(box, fill=220)
    file = io.BytesIO()
    image.save(file, "jpeg")
    return file.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has: photos in a folder per class, and a cat."""
    folder = tmp_path_factory.mktemp("reader")
    for label in ("cats", "dogs"):
        for number in range(PER_CLASS + 1):
            part = "photos" if number < PER_CLASS else "held-out"
            path = folder / part / label / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(photo(label, number))
    (folder / "cat.jpg").write_bytes(photo("cats", 3))
    return folder


@pytest.mark.jit
def test_readme_commands_work_in_their_order(folder: Path) -> None:
    ran = []
    for command in commands():
        if command[0] == "polydom" and command[1] != "serve":
            servers.polydom(command[1:], folder)
            ran.append(command[1])
    first = ["init", "build", "inspect", "plan", "predict"]
    assert ran == [*first, "evaluate", "score"]
    served = [c for c in commands() if c[:2] == ["polydom", "serve"]]
    asked = [c for c in commands() if c[0] == "curl"]
    assert len(served) == len(asked) == 1
    with servers.serving(served[0][2], folder=folder) as (_, port):
        answer = subprocess.run(
            [part.replace(":8000", f":{port}") for part in asked[0]],
            cwd=folder,
            capture_output=True,
            check=True,
        )
        (code,) = [block for block in blocks("python") if "Client(" in block]
        batch = subprocess.run(
            [sys.executable, "-c", code.replace(":8000", f":{port}")],
            cwd=folder,
            capture_output=True,
            check=True,
            text=True,
        )
    assert json.loads(answer.stdout)["label"] in {"cats", "dogs"}
    entries = batch.stdout.splitlines()
    assert len(entries) == 2 * PER_CLASS + 1
    assert all(entry.startswith("Entry(label=") for entry in entries[:-1])
    assert entries[-1].startswith(f"Totals(items={2 * PER_CLASS}, errors=0, ")


def test_readme_make_commands_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = [command[1] for command in commands() if command[0] == "make"]
    assert targets == ["demo", "test"]
    for target in targets:
        assert f"\n{target}:" in makefile


def test_readme_session_prints_what_it_says() -> None:
    sessions = [block for block in blocks("python") if ">>>" in block]
    assert sessions
    for session in sessions:
        test = doctest.DocTestParser().get_doctest(session, {}, "README", None, 0)
        assert doctest.DocTestRunner().run(test).failed == 0


def test_readme_feature_is_one(tmp_path: Path) -> None:
    (code,) = [block for block in blocks("python") if "@feature" in block]
    (tmp_path / "mine.py").write_text(code)
    from polydom.features.loading import load_features

    (brightness,) = load_features([], [tmp_path / "mine.py"])
    assert brightness.name == "brightness"
    assert brightness.kind == "image"
