"""What is published, built from this checkout, installed elsewhere and used there.

Nothing is downloaded: what is built has the build backend of this environment, and what
is installed has this environment's libraries.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement

from tests.support.builds import projects
from tests.support.places import ROOMS, ROOT

pytestmark = pytest.mark.jit  # another process runs all that is tried here

COMPILES = """
from polydom.models.scoring.kernels.link import logistic
assert logistic(0.0) == 0.5
assert logistic.signatures
"""
USES = """
import polydom
print(polydom.__version__)
with polydom.Client("http://127.0.0.1:PORT") as client:
    client.wait_ready()
    print(client.predict("Win a free prize NOW!!!", budget_ms=1000).label)
"""


class Venv(NamedTuple):
    """An environment with polydom and what it needs, and nothing else."""

    place: Path
    site: Path
    version: str

    @property
    def binaries(self) -> Path:
        return self.place / ("Scripts" if os.name == "nt" else "bin")

    def run(self, *arguments: str, folder: Path, compiled: bool = False) -> str:
        return run([self.binaries / arguments[0], *arguments[1:]], folder, compiled)


def environment(compiled: bool = False) -> dict[str, str]:
    """Without compiling: a new place would have every kernel compiled anew."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return kept | {"NUMBA_DISABLE_JIT": str(int(not compiled)), "PIP_NO_INDEX": "1"}


def run(arguments: list[str | Path], folder: Path, compiled: bool = False) -> str:
    done = subprocess.run(
        list(map(str, arguments)),
        cwd=folder,
        env=environment(compiled),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def copy_of_sources(place: Path) -> Path:
    """The checkout, without what git passes over."""
    passed_over = [".git", *(ROOT / ".gitignore").read_text().split()]
    ignored = shutil.ignore_patterns(*(name.rstrip("/") for name in passed_over))
    shutil.copytree(ROOT, place, ignore=ignored, symlinks=True)
    return place


def files_below(place: Path) -> set[str]:
    return {
        path.relative_to(place).as_posix()
        for path in place.rglob("*")
        if path.is_file() and path.parent.name != "__pycache__"
    }


def contents(wheel: Path) -> dict[str, str]:
    """A digest of each file, by its name."""
    with ZipFile(wheel) as packed:
        return {
            name: hashlib.sha256(packed.read(name)).hexdigest()
            for name in packed.namelist()
        }


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


def install(published: Path, place: Path) -> Venv:
    """Install a wheel or an sdist as pip does, into an environment of its own."""
    venv = Venv(place, place, version="")
    place.mkdir()
    run([sys.executable, "-m", "venv", "--without-pip", place], place.parent)
    says = "import sysconfig; print(sysconfig.get_path('purelib'))"
    site = Path(venv.run("python", "-c", says, folder=place).strip())
    link(distribution("setuptools"), site)
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python"]
    how = ["install", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, venv.binaries / "python", *how, published], place)
    (metadata,) = site.glob("polydom-*.dist-info")
    package = PathDistribution(metadata)
    for needed in needed_by(package):
        link(needed, site)
    return Venv(place, site, package.version)


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_of_sources(tmp_path_factory.mktemp("release") / "sources")


@pytest.fixture(scope="module")
def dist(sources: Path) -> Path:
    """An sdist and a wheel, both of the checkout."""
    place = sources.parent / "dist"
    which = ("--sdist", "--wheel", "--outdir", place, ".")
    run([sys.executable, "-m", "build", "--no-isolation", *which], sources)
    return place


def test_sdist_holds_what_the_checkout_does(sources: Path, dist: Path) -> None:
    (sdist,) = dist.glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        files = {member.name for member in packed.getmembers() if member.isfile()}
    holds = {name.partition("/")[2] for name in files}
    wanted = {
        f"polydom/{name}" if name.startswith(ROOMS) else name  # its links followed
        for name in files_below(sources)
        if not name.startswith(("build/", "polydom.egg-info/"))
    }
    added = {name for name in holds if not name.startswith("polydom.egg-info/")}
    assert added - {"PKG-INFO", "setup.cfg"} == wanted
    assert {"LICENSE", "CHANGELOG.md", "tests/conftest.py", "Makefile"} <= holds


def test_wheel_is_the_rooms(sources: Path, dist: Path) -> None:
    (wheel,) = dist.glob("*.whl")
    packed = {name for name in contents(wheel) if ".dist-info/" not in name}
    rooms = {
        f"polydom/{room}/{name}"
        for room in ROOMS
        for name in files_below(sources / room)
        if not name.endswith(".proto")  # compiled before
    }
    assert packed == rooms | {f"polydom/{n}" for n in files_below(sources / "polydom")}


def test_an_index_shows_what_is_published(dist: Path) -> None:
    files = [str(path) for path in dist.iterdir()]
    says = run([sys.executable, "-m", "twine", "check", "--strict", *files], dist)
    assert says.count("PASSED") == len(files) == 2
    (wheel,) = dist.glob("*.whl")
    with ZipFile(wheel) as packed:
        (name,) = (n for n in packed.namelist() if n.endswith(".dist-info/METADATA"))
        shown = packed.read(name).decode()
    assert not re.findall(r"\]\((?!https://|#)[^)]*\)", shown), "an index has no files"


@contextmanager
def serving(venv: Venv, folder: Path) -> Iterator[str]:
    """Serve the index of a folder; the port."""
    with subprocess.Popen(
        [venv.binaries / "polydom", "serve", "my.pdx", "--port=0"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
            assert found
            yield found[1]
        finally:
            process.terminate()
            assert process.wait(timeout=20) == 0


def test_wheel_and_sdist_are_installed_and_used(dist: Path, tmp_path: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    builds = install(wheel, tmp_path / "of-wheel")
    folder = projects.texts(tmp_path / "empty")
    (folder / "PROJECT.toml").unlink()
    builds.run("python", "-m", "polydom", "init", "--kind", "texts", folder=folder)
    project = (folder / "PROJECT.toml").read_text()
    for line, less in {  # so that it takes seconds
        r"(?s)^use = \[.*?\]": 'use = ["casing", "punctuation"]',
        r"^# workers = \d+": "workers = 1",
    }.items():
        project, replaced = re.subn(line, less, project, flags=re.MULTILINE)
        assert replaced == 1
    (folder / "PROJECT.toml").write_text(project)
    builds.run("polydom", "build", "PROJECT.toml", "-o", "my.pdx", folder=folder)
    (folder / "mail.txt").write_text("Win a free prize NOW!!!")
    ask = ["predict", "my.pdx", "mail.txt", "--budget-ms", "1000", "--json"]
    assert json.loads(builds.run("polydom", *ask, folder=folder))["label"] == "spam"

    serves = install(sdist, tmp_path / "of-sdist")
    assert sdist.name == f"polydom-{serves.version}.tar.gz"
    # what pip made of the sdist is the wheel, but for the list that it wrote anew
    for name, digest in contents(wheel).items():
        if not name.endswith("/RECORD"):
            made = (serves.site / name).read_bytes()
            assert hashlib.sha256(made).hexdigest() == digest, name
    rooms = files_below(serves.site / "polydom")
    assert {f"polydom/{name}" for name in rooms} <= contents(wheel).keys()
    with serving(serves, folder) as port:
        uses = USES.replace("PORT", port)
        said = serves.run("python", "-c", uses, folder=folder).split()
    assert said == [serves.version, "spam"]
    serves.run("python", "-c", COMPILES, folder=folder, compiled=True)
