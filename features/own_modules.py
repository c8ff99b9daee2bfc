"""Modules of the user's own: neither Python's, nor installed, nor polydom's.

They are found and read as files; none is imported here.
"""

import ast
import functools
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import (
    PackageNotFoundError,
    distribution,
    packages_distributions,
)
from pathlib import Path
from typing import Literal

Home = Literal["walked", "read", "library"]

OURS = "polydom"
INSTALLED = ("site-packages", "dist-packages")


def is_ours(module: str) -> bool:
    """Whether a module is polydom's."""
    return module.partition(".")[0] == OURS


def home_of(module: str) -> Home:
    """Return whose a module is, which decides what a fingerprint reads of it.

    "walked" are polydom's, which may move things between them, and what no import
    finds again: files of features, and scripts. "read" are the user's own, "library"
    all others.
    """
    first = module.partition(".")[0]
    if first in (OURS, "__main__", ""):
        return "walked"
    if first in sys.stdlib_module_names:
        return "library"
    if next(_own_files(module), None) is not None:
        return "read"
    return "library" if _find(first, None) else "walked"


def own_source(name: str) -> str | None:
    """Hash a module of the user's own, with all that it imports; None for others."""
    found, _ = _read_all([name])
    digest = hashlib.sha256()
    for place, file in sorted(found.items()):
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{place} {content}\n".encode())
    return digest.hexdigest() if found else None


def others_modules(files: Iterable[Path]) -> set[str]:
    """Top-level modules of others that files import, or modules of the user's own.

    Those of Python's and polydom's are left out.
    """
    imported = [name for file in files for name in _imported_names(file.read_bytes())]
    _, others = _read_all(imported)
    first = {name.partition(".")[0] for name in others}
    return first - sys.stdlib_module_names - {OURS, "__main__", ""}


def _read_all(names: Iterable[str]) -> tuple[dict[str, Path], set[str]]:
    """Files of the user's own modules that names lead to, and the names of others."""
    found: dict[str, Path] = {}
    others: set[str] = set()
    left = [*names]
    while left:
        module = left.pop()
        files = [*_own_files(module)]
        if not files:
            others.add(module)
        for file in files:
            if file not in found.values():
                found[f"{module}:{file.name}"] = file
                if file.suffix == ".py":
                    inside = file.stem == "__init__"
                    package = module if inside else module.rpartition(".")[0]
                    left += _imported_names(file.read_bytes(), package)
    return found, others


@functools.lru_cache(maxsize=64)
def _imported_names(source: bytes, package: str = "") -> tuple[str, ...]:
    """List the modules, and what may be modules, that a source imports anywhere."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ()
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        found.update(dict.fromkeys(_names_in(node, package)))
    return tuple(found)


def absolute(name: str, level: int, package: str) -> str:
    """Resolve a relative import; empty where it leads out of the package."""
    if level == 0:
        return name
    try:
        return importlib.util.resolve_name("." * level + name, package)
    except ImportError:
        return ""


def _own_files(name: str) -> Iterator[Path]:
    """Files of a module of the user's own and of the packages it is in.

    None where there is no such module, or it is somebody else's.
    """
    first = name.partition(".")[0]
    if first in sys.stdlib_module_names or first in (OURS, "__main__", ""):
        return
    path, parts = None, name.split(".")
    for count in range(1, len(parts) + 1):
        spec = _find(".".join(parts[:count]), path)
        if spec is None:
            return
        path = spec.submodule_search_locations
        if spec.origin and spec.has_location:
            file = Path(spec.origin)
            if count == 1 and _is_installed(first, file):
                return
            yield file


def _names_in(node: ast.AST, package: str) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = absolute(node.module or "", node.level, package)
        if base:
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Call) and node.args:
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if called in ("import_module", "__import__"):
            first = node.args[0]
            # of f"skimage.{module}" the beginning is enough
            if isinstance(first, ast.JoinedStr) and first.values:
                first = first.values[0]
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value.rstrip(".")


def _find(name: str, path: object) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(name, path)  # type: ignore[arg-type]
    except (ImportError, ValueError):
        return None


@functools.lru_cache(maxsize=256)
def _is_installed(first: str, file: Path) -> bool:
    """Whether a top-level module came with Python or with a distribution."""
    folders = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    if any(part in INSTALLED for part in file.parts):
        return True
    if any(folder in file.parents for folder in folders):
        return True
    place = file.parents[1] if file.stem == "__init__" else file.parent
    if not any(place.glob("*.dist-info")):
        return False
    return any(
        _place_of(name) == place for name in packages_distributions().get(first, ())
    )


def _place_of(name: str) -> Path | None:
    try:
        return Path(str(distribution(name).locate_file("")))
    except PackageNotFoundError:
        return None
