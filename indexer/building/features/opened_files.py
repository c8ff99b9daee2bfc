"""Files that features open in a build, to warn of files that no feature declares.

Python reports each file that it opens to audit hooks (PEP 578). Files that a library
opens by itself in C are not reported.
"""

import os
import site
import sys
import sysconfig
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cache
from pathlib import Path
from threading import local
from typing import Any, TypeVar

from polydom.features.errors import printable

T = TypeVar("T")

# Compiled and source code, whose changes fingerprints show, or that Python checks.
CODE = (".py", ".pyc", ".pyd", ".so", ".nbi", ".nbc")
SYSTEM = ("/proc", "/sys", "/dev")

_own = local()  # `notes` of the thread: what it opens now, or None


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and (notes := getattr(_own, "notes", None)) is not None:
        notes.append(arguments)


@cache
def _install() -> None:
    """Add the hook once in this process, as a hook cannot be removed."""
    sys.addaudithook(_note)


class OpenedFiles:
    """Collects the paths of files that function calls open for reading, in this thread.

    If `watches` is false, nothing is collected.
    """

    def __init__(self, *, watches: bool = True) -> None:
        if watches:
            _install()
        self.found: set[str] = set()
        self._notes: list[tuple[Any, ...]] | None = [] if watches else None

    def during(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function, note the files that it opens, and return its result."""
        _own.notes = self._notes
        try:
            return function(*arguments)
        finally:
            _own.notes = None
            if self._notes:
                self.found.update(filter(None, map(_read_path, self._notes)))
                self._notes.clear()


def _read_path(arguments: tuple[Any, ...]) -> str | None:
    """Return the path of a regular file that was opened to be read; None for others."""
    path, _, flags = arguments
    if isinstance(path, int) or path is None:
        return None
    if isinstance(flags, int) and flags & os.O_WRONLY:
        return None
    text = os.path.realpath(os.fsdecode(path))
    if text.endswith(CODE) or not os.path.isfile(text):
        return None
    return None if any(_is_inside(text, folder) for folder in _folders()) else text


@cache
def _folders() -> tuple[str, ...]:
    """Return the folders of Python, of installed libraries, and of the system."""
    kinds = ("stdlib", "platstdlib", "purelib", "platlib")
    folders = [sysconfig.get_path(kind) for kind in kinds]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    folders += SYSTEM
    return tuple(dict.fromkeys(map(os.path.realpath, folders)))


def _is_inside(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)


def undeclared(
    found: Collection[str], declared: Iterable[Path], files: Sequence[Path]
) -> dict[str, str]:
    """Return a warning for each opened file that no feature declares, by path.

    `found` has the paths of opened files, and `files` are the Python files with the
    features. Warnings name files relative to the folder of the first of these.
    """
    known = {os.path.realpath(path) for path in declared}
    folder = os.path.realpath(files[0].parent) if files else ""
    readers = " or ".join(file.name for file in files)
    warnings = {}
    for path in sorted({*found} - known):
        name = os.path.relpath(path, folder) if _is_inside(path, folder) else path
        warnings[path] = printable(
            f"{readers} reads the file {name}, which no feature declares, so that "
            f'nobody sees if it changes later; @feature(files=["{name}"]) keeps its '
            "checksum in the index"
        )
    return warnings
