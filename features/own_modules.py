"""Finds the user's own modules: not Python's, not installed, and not polydom's.

Modules are found and read as files; nothing here imports them.
"""

import ast
import functools
import hashlib
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions
from pathlib import Path

from .syntax import OURS, imports_in, tree_digest

INSTALLED = ("site-packages", "dist-packages")


def is_library(module: str) -> bool:
    """Return True if a module is part of Python or of an installed distribution.

    The result is False for scripts, notebooks, and a project's files of features.
    """
    first = module.partition(".")[0]
    if first in (OURS, "__main__", ""):
        return False
    if first in sys.stdlib_module_names:
        return True
    return next(_own_files(module), None) is None and _find(first, None) is not None


def own_source(module: str) -> str | None:
    """Return a hash of the sources of a module and of the modules that it imports.

    Only the user's own modules count. The result is None if `module` is not one of
    them.
    """
    found, _ = _read_all([module])
    digest = hashlib.sha256()
    for place, file in sorted(found.items()):
        content = file.read_bytes()
        tree = _tree_of(file)
        known = tree_digest(tree) if tree else hashlib.sha256(content).hexdigest()
        digest.update(f"{place} {known}\n".encode())
    return digest.hexdigest() if found else None


def others_modules(files: Iterable[Path]) -> set[str]:
    """Return the installed top-level modules that files import, directly or not.

    Imports are followed through the user's own modules only.
    """
    imported = [name for file in files for name in _imported_by(file)]
    _, others = _read_all(imported)
    first = {name.partition(".")[0] for name in others}
    return first - sys.stdlib_module_names - {OURS, "__main__", ""}


def _read_all(modules: Iterable[str]) -> tuple[dict[str, Path], set[str]]:
    """Follow the imports of `modules`, directly or not, through the user's own files.

    Returns the user's own files, and the names of all other modules.
    """
    found: dict[str, Path] = {}
    others: set[str] = set()
    left = [*modules]
    while left:
        module = left.pop()
        files = [*_own_files(module)]
        if not files:
            others.add(module)
        for file in files:
            if file not in found.values():
                found[f"{module}:{file.name}"] = file
                is_package = file.stem == "__init__"
                left += _imported_by(
                    file, module if is_package else module.rpartition(".")[0]
                )
    return found, others


def _imported_by(file: Path, package: str = "") -> list[str]:
    """List the imported modules; `from a import b` counts as `a` and as `a.b`."""
    tree = _tree_of(file)
    found: dict[str, None] = {}
    for module, name in imports_in(tree, package) if tree else ():
        found[module] = None
        if name:
            found[f"{module}.{name}"] = None
    return [*found]


def _tree_of(file: Path) -> ast.Module | None:
    try:
        return ast.parse(file.read_bytes())
    except (SyntaxError, ValueError):
        return None


def _own_files(module: str) -> Iterator[Path]:
    """Yield the files of a user's module and of the packages that it lies in."""
    first = module.partition(".")[0]
    if first in sys.stdlib_module_names or first in (OURS, "__main__", ""):
        return
    path, parts = None, module.split(".")
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


def _find(name: str, path: object) -> ModuleSpec | None:
    try:
        return PathFinder.find_spec(name, path)  # type: ignore[arg-type]
    except (ImportError, ValueError):
        return None


@functools.lru_cache(maxsize=256)
def _is_installed(first: str, file: Path) -> bool:
    if any(part in INSTALLED for part in file.parts):
        return True
    # `pip install --target` puts distributions beside the user's own modules
    place = file.parents[1] if file.stem == "__init__" else file.parent
    return any(place.glob("*.dist-info")) and first in packages_distributions()
