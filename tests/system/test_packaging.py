"""A wheel of this checkout, installed into an environment of its own."""

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.support import projects
from tests.support.places import ROOT

ROOMS = ("features", "models", "indexer", "server")
COMPILES = """
from polydom.models.scoring.kernels.link import logistic
assert logistic(0.0) == 0.5
assert logistic.signatures
"""


def run(arguments: list[str | Path], folder: Path, *, compiled: bool = False) -> str:
    """Run it without compiling: a new place would have every kernel compiled anew."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    kept["NUMBA_DISABLE_JIT"] = str(int(not compiled))
    done = subprocess.run(
        list(map(str, arguments)), cwd=folder, env=kept, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def needed_by(package: Distribution) -> list[Distribution]:
    """What pip would install with it, as it is installed here."""
    found: dict[str, Distribution] = {}
    asking: list[tuple[Distribution, str]] = [(package, "")]
    for asked, extra in asking:
        for line in asked.requires or []:
            need = Requirement(line)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                new = need.name not in found
                found[need.name] = distribution(need.name)
                asking += [(found[need.name], one) for one in need.extras]
                asking += [(found[need.name], "")] * new
    return list(found.values())


def link(package: Distribution, site: Path) -> None:
    """Let an environment have a package of this one, and nothing else of it."""
    for name in {file.parts[0] for file in package.files or []} - {"..", "__pycache__"}:
        if not (site / name).exists():
            (site / name).symlink_to(str(package.locate_file(name)))


def copy_of_sources(place: Path) -> Path:
    """What a wheel is made of, without what earlier builds left beside it."""
    for room in (*ROOMS, "polydom"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / room, place / room, ignore=ignored)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, place)
    return place


def files_of(place: Path) -> set[str]:
    """Files of the rooms, as the wheel should name them; .proto is compiled before."""
    rooms = {
        f"polydom/{path.relative_to(place).as_posix()}"
        for room in ROOMS
        for path in (place / room).rglob("*")
        if path.is_file() and path.suffix != ".proto"
    }
    return rooms | {f"polydom/{path.name}" for path in (place / "polydom").iterdir()}


@pytest.mark.jit
def test_wheel_works_in_an_empty_folder(tmp_path: Path) -> None:
    sources = copy_of_sources(tmp_path / "sources")
    wanted = files_of(sources)
    run([sys.executable, "-m", "build", "--wheel", "-o", tmp_path, sources], tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == wanted
    venv = tmp_path / "venv"
    run([sys.executable, "-m", "venv", "--without-pip", venv], tmp_path)
    binaries = venv / ("Scripts" if os.name == "nt" else "bin")
    install: list[str | Path] = [
        "pip",
        "--python",
        binaries / "python",
        "install",
        "--no-deps",
    ]
    run([sys.executable, "-m", *install, "--no-index", "--quiet", wheel], tmp_path)
    says = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(run([binaries / "python", "-c", says], tmp_path).strip())
    (metadata,) = site.glob("polydom-*.dist-info")
    for package in needed_by(PathDistribution(metadata)):
        link(package, site)

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
    run([binaries / "python", "-c", COMPILES], folder, compiled=True)
    version = run(
        [binaries / "python", "-c", "import polydom; print(polydom.__version__)"],
        folder,
    )
    assert version.strip() in metadata.name
    assert "Usage: polydom" in run(
        [binaries / "python", "-m", "polydom", "--help"], folder
    )
