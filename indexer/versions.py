"""Versions of the libraries that a build's numbers come from.

What a build keeps is named by them too (see `keys.py`): after an upgrade it is made
again, never mixed with what another version made.
"""

import ast
import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from ..features.feature import Feature, Step
from ..features.own_modules import imported_names, is_ours, own_files
from ..models.learners import LEARNERS

Versions = dict[str, str]

# Under every value and every model.
ALWAYS = ("numpy", "polydom")
LEARNING = ("scikit-learn", "scipy")
OURS = Path(__file__).resolve().parents[1]


class Imports(NamedTuple):
    """What a Python file imports, anywhere in it.

    `packages` are the names of top-level packages, `files` the modules beside it, of
    the user's own and of polydom's that it names.
    """

    packages: frozenset[str]
    files: frozenset[Path]


def feature_versions(feature: Feature) -> Versions:
    """Versions of what the files of a feature, and of its steps, import.

    What modules of the user's own import that they import counts as well, however far
    away, and what such modules of polydom's import, but no further.
    """
    found: set[str] = set()
    seen: set[Path] = set()
    left = set(_files_of(feature))
    while left:
        path = left.pop()
        seen.add(path)
        imports = imports_of(path)
        found |= imports.packages
        for other in filter(Path.is_file, imports.files):
            if OURS in other.parents:
                found |= imports_of(other).packages
            elif other not in seen:
                left.add(other)
    return versions_of(found)


def learner_versions(settings: Iterable[Mapping[str, Any]]) -> Versions:
    """Versions of the libraries that learners train with.

    Parameters
    ----------
    settings
        What `make_learner` takes for each.
    """
    names = (str(setting.get("name")) for setting in settings)
    paths = (LEARNERS[name][0] if name in LEARNERS else name for name in names)
    packages = {path.partition(":")[0].partition(".")[0] for path in paths}
    known = {name: _version(name) for name in LEARNING}
    return {**versions_of(packages), **known}


def versions_of(packages: Iterable[str]) -> Versions:
    """Versions of the distributions of top-level packages, of `ALWAYS` and Python.

    What belongs to none, such as the standard library, is in Python's.
    """
    names = {name for package in packages for name in _distributions().get(package, ())}
    python = ".".join(map(str, sys.version_info[:2]))
    known = {name.lower(): _version(name) for name in names | set(ALWAYS)}
    return {**known, "python": python}


def imports_of(path: Path) -> Imports:
    """Read which packages and modules a file imports, without importing any."""
    return _imports_in(path, path.read_bytes())


@functools.lru_cache(maxsize=64)
def _imports_in(path: Path, source: bytes) -> Imports:
    names = imported_names(source)
    packages = {name.partition(".")[0] for name in names}
    files: set[Path] = set()
    for name in names:
        files |= set(_file_of_ours(name))
        files |= {file for file in own_files(name) if file.suffix == ".py"}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level:
            files |= set(_beside(path, node))
    return Imports(frozenset(packages), frozenset(files))


def _file_of_ours(name: str) -> Iterator[Path]:
    """File of one of polydom's modules; its packages import them all, so not those."""
    if is_ours(name):
        spec = None
        with suppress(ModuleNotFoundError):  # what is imported may be no module
            spec = find_spec(name)
        if spec is not None and spec.origin and not spec.submodule_search_locations:
            yield Path(spec.origin)


def _beside(path: Path, node: ast.ImportFrom) -> Iterator[Path]:
    """Files that a relative import may mean."""
    folder = path.parents[node.level - 1]
    if node.module:
        yield folder.joinpath(*node.module.split(".")).with_suffix(".py")
    else:
        yield from (folder / f"{alias.name}.py" for alias in node.names)


def _files_of(part: Feature | Step) -> Iterator[Path]:
    """Source files of a feature or step, and of all the steps that it needs."""
    code = _code_of(part.function)
    file = None if inspect.isbuiltin(code) else inspect.getsourcefile(code)
    if file is not None and Path(file).is_file():
        yield Path(file).resolve()
    for step in part.needs:
        yield from _files_of(step)


def _code_of(function: Callable[..., Any]) -> Any:
    """Find the function, or class of a callable object, that a feature is made of."""
    while isinstance(function, functools.partial):
        function = function.func
    function = inspect.unwrap(function)
    return function if inspect.isroutine(function) else type(function)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "none"


@functools.cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()
