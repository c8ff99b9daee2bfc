"""The rules of the house that no linter knows."""

import ast
import graphlib
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

import pytest

from tests.support.places import ROOT

ROOMS = ("features", "models", "indexer", "server")
SOURCES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))


# ruff asks every public name and package for a docstring (D), import-linter for layers.
# What only a user imports, or nobody: the rooms' exports count as imports.
ENTRIES = {
    "polydom.server.__main__": "the command polydom",
    "polydom.server.evaluation.judge": "the process that a gate starts",
}


def name_of(path: Path) -> str:
    """Name of a module, or of the package whose __init__ it is."""
    parts = ("polydom", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if path.stem == "__init__" else parts)


ENGINES = {"dask", "distributed", "pyspark", "ray"}
MODULES = {name_of(path): path for path in SOURCES}


def is_kernel(path: Path) -> bool:
    """Whether a module holds compiled code, and how it is declared."""
    return "kernels" in path.parts


@cache
def imports(path: Path) -> frozenset[str]:
    """All that a module imports anywhere, by its whole name: modules and their names.

    Also what it imports for type checkers only, or by a text such as "package:Class".
    """
    return frozenset(_each_import(path))


def _each_import(path: Path) -> Iterator[str]:
    name = name_of(path)
    package = name if path.stem == "__init__" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = resolve_name(relative, package) if node.level else relative
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant):
            named = re.fullmatch(r"(polydom[.\w]+):\w+", str(node.value))
            yield from named.groups() if named else ()


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_module_keeps_the_house_rules(path: Path) -> None:
    imported = {name.partition(".")[0] for name in imports(path)}
    assert is_kernel(path) or "numba" not in imported, "numba is for kernel modules"
    assert not imported & {"pickle", "marshal", "shelve", "dill", "cloudpickle"}
    adapts = name_of(path).startswith("polydom.indexer.cluster.")
    assert adapts or not imported & ENGINES, "engines are for indexer/cluster"
    assert not imported & set(ROOMS), "rooms are imported as polydom.* or relatively"


@pytest.mark.parametrize("room", ROOMS)
def test_no_modules_import_each_other_in_a_circle(room: str) -> None:
    graph = {
        name: MODULES.keys() & imports(path) - {name}
        for name, path in MODULES.items()
        if path.relative_to(ROOT).parts[0] == room and path.stem != "__init__"
    }
    graphlib.TopologicalSorter(graph).prepare()  # its error names the circle


def test_no_module_is_there_for_tests_alone() -> None:
    imported = {name for path in SOURCES for name in imports(path)}
    modules = {name for name, path in MODULES.items() if path.stem != "__init__"}
    assert modules - imported == set(ENTRIES)


def test_only_a_build_fetches_from_an_address() -> None:
    fetching = {
        name_of(path)
        for path in SOURCES
        if any(one.startswith("urllib.request") for one in imports(path))
    }
    assert fetching == {"polydom.indexer.building.features.download"}


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
    assert not loaded & (HEAVY | ENGINES | {"numba", "scipy", "uvicorn"})


@pytest.mark.parametrize("room", ["features", "models", "indexer"])
def test_room_is_light_to_import(room: str) -> None:
    assert not loaded_by(f"import polydom.{room}") & (HEAVY | ENGINES)


def test_no_engine_of_clusters_is_loaded_unasked() -> None:
    loaded = loaded_by("import polydom.server.__main__")
    assert not loaded & ENGINES


def test_rooms_export_what_they_list() -> None:
    """In a fresh process, each room before those that import it."""
    code = "".join(
        f"import polydom.{room} as room; names = room.__all__\n"
        "assert sorted(names) == list(names), names; assert {*names} <= {*dir(room)}\n"
        "[getattr(room, name) for name in names]\n"
        for room in ROOMS
    )
    subprocess.run([sys.executable, "-c", code], check=True)
