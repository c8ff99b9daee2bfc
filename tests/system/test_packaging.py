"""A wheel of this checkout, installed into an environment of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import projects
from tests.support.places import ROOT


def run(arguments: list[str | Path], folder: Path) -> str:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        list(map(str, arguments)), cwd=folder, env=kept, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.jit
def test_wheel_works_in_an_empty_folder(tmp_path: Path) -> None:
    run([sys.executable, "-m", "build", "--wheel", "-o", tmp_path, ROOT], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run([sys.executable, "-m", "venv", tmp_path / "venv"], tmp_path)
    binaries = tmp_path / "venv" / ("Scripts" if os.name == "nt" else "bin")
    run([binaries / "pip", "install", "--quiet", wheel], tmp_path)

    folder = projects.texts(tmp_path / "empty")
    run([binaries / "polydom", "build", "PROJECT.toml", "-o", "my.pdx"], folder)
    facts = json.loads(
        run([binaries / "polydom", "inspect", "my.pdx", "--json"], folder)
    )
    assert facts["labels"] == ["ham", "spam"]
    (folder / "mail.txt").write_text("Win a free prize NOW!!!")
    predict = ["predict", "my.pdx", "mail.txt", "--budget-ms", "1000", "--json"]
    answer = json.loads(run([binaries / "polydom", *predict], folder))
    assert answer["label"] == "spam"
