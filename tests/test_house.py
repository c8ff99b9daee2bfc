"""The rules of the house that no linter knows."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("features", "models", "indexer", "server")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


def imports(path: Path) -> set[str]:
    """Top-level packages that a module imports anywhere."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_keeps_the_house_rules(path: Path) -> None:
    imported = imports(path)
    if not path.name.endswith("_kernels.py") and path.name != "declare.py":
        assert "numba" not in imported, "numba is for kernel modules"
    assert not imported & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    assert not imported & set(ROOMS), "rooms are imported as polydom.* or relatively"


def test_every_package_is_listed_for_the_wheel() -> None:
    listed = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    found = {
        "polydom." + ".".join(path.parent.relative_to(ROOT).parts)
        for path in SOURCES
        if path.name == "__init__.py"
    }
    assert set(listed["packages"]) == found


def loaded_by(statement: str) -> set[str]:
    """Top-level modules that a fresh process has after a statement."""
    code = f"{statement}; import sys; print(*{{m.split('.')[0] for m in sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


HEAVY = {"sklearn", "fastapi", "skimage", "PIL", "lightgbm", "xgboost", "matplotlib"}


def test_client_loads_nothing_that_computes() -> None:
    loaded = loaded_by("from polydom.server import AsyncClient, Client")
    assert not loaded & (HEAVY | {"numba", "scipy", "uvicorn"})


@pytest.mark.parametrize("room", ["features", "models", "indexer"])
def test_room_is_light_to_import(room: str) -> None:
    assert not loaded_by(f"import polydom.{room}") & HEAVY


@pytest.mark.parametrize("room", ["features", "models", "indexer", "server"])
def test_room_exports_what_it_lists(room: str) -> None:
    code = (
        f"import polydom.{room} as room; names = room.__all__; "
        "assert sorted(names) == list(names), names; "
        "[getattr(room, name) for name in names]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
