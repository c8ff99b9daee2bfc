"""Compiled kernels on disk, named by all that they were compiled from.

numba takes a file for fresh while the source file of its kernel is the same. But the
constants and kernels that a kernel imports are in its code too, and so are the checks
that `NUMBA_BOUNDSCHECK` asks for. Where sources lie and when they were written does not
matter here, so what is compiled stays of use where they are installed again.

Each file is sealed with a checksum, and nothing of it is unpickled or linked before
that fits: an empty file, as a power cut leaves it, or a byte that has changed, costs
another compilation and no more. The checksum finds accidents, not forgery. Whoever may
write to the folder can run code as whoever uses it, as with Python's own `.pyc` files:
`NUMBA_CACHE_DIR` must name no folder that others may write to.
"""

import functools
import hashlib
import logging
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import resolve_name
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
from filelock import FileLock
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.core.serialize import dumps, loads
from numba.misc.appdirs import AppDirs

log = logging.getLogger("polydom")

_SEAL = hashlib.sha256
_SEAL_BYTES = _SEAL().digest_size
_TOLD: set[Path] = set()  # folders in which something is damaged
# At the beginning of a line: what is imported for types alone is indented.
_IMPORT = re.compile(rb"^from ([.\w]+) import", re.MULTILINE)
_OWN = __name__.partition(".")[0]
# What is imported by all kernels, and in the code of none.
_UNINVOLVED = {__name__, f"{__package__}.compiling"}


class _BySources(_CacheLocator):  # type: ignore[misc]  # numba is untyped
    """Finds the folder of a kernel's files, and names them by its sources."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # which numba names in warnings
        self._digest = digest(function.__module__)
        folders = _folders(Path(file))
        name = f"{Path(file).stem}.{function.__qualname__}-{self._digest}.*nbc"
        kept = [folder for folder in folders if any(folder.glob(name))]
        self._folder = next(iter(kept or filter(_is_writable, folders)), None)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> "_BySources | None":
        """Say where; None where nothing can be kept."""
        located = cls(py_func, py_file)
        return located if located._folder else None

    def get_cache_path(self) -> str:
        """Return the folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """Return what files are compared by; their name says all."""
        return self._digest

    def get_disambiguator(self) -> str:
        """Return what tells versions of a kernel apart in their files' names."""
        return self._digest


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_BySources]  # noqa: RUF012  numba's


class _Files:
    """What one kernel was compiled to: a sealed file for each signature and processor.

    A key says which; it is part of the file's name, and the name of what is sealed, so
    that no file does in another's place.
    """

    def __init__(self, folder: Path, base: str) -> None:
        self._folder = folder
        self._base = base

    def load(self, key: Any) -> Any:
        """Give what was saved; None where that is not there, or damaged."""
        content = self.read(key)
        return None if content is None else loads(content)

    def read(self, key: Any) -> bytes | None:
        """Give the bytes of what was saved, once their seal was found to fit."""
        path = self._path(key)
        try:
            sealed = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:  # a folder in its place, a file that may not be read
            sealed = b""
        content = sealed[_SEAL_BYTES:]
        if sealed[:_SEAL_BYTES] == _seal(path.name, content):
            return content
        _say_damaged(path)
        return None

    def save(self, key: Any, data: Any) -> None:
        """Keep what a kernel was compiled to, whole or not at all, instead of the last.

        OSError is raised where that cannot be.
        """
        path, content = self._path(key), dumps(data)
        temporary = path.with_name(f"{path.name}.tmp.{os.urandom(8).hex()}")
        try:
            with temporary.open("wb") as file:
                file.write(_seal(path.name, content) + content)
                file.flush()
                os.fsync(file.fileno())
            if path.is_dir():
                path.rmdir()
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)

    def _path(self, key: Any) -> Path:
        told_apart = _SEAL(repr(key).encode()).hexdigest()[:16]
        return self._folder / f"{self._base}.{told_apart}.nbc"


def _seal(name: str, content: bytes) -> bytes:
    return _SEAL(name.encode() + b"\0" + content).digest()


def _say_damaged(path: Path) -> None:
    """Say so once a folder: after a power cut much of it may be."""
    if path.parent not in _TOLD:
        _TOLD.add(path.parent)
        log.warning("a compiled kernel is damaged, and compiled again: %s", path)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """What one kernel was compiled to, shared by processes.

    It is beside the sources, as Python's own compiled files are; where that folder can
    be neither read from nor written to, in the user's folder for such things; or where
    the environment variable `NUMBA_CACHE_DIR` says.

    Raises
    ------
    RuntimeError
        If it can be kept nowhere.
    """

    _impl_class = _Impl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        self._cache_file = _Files(Path(self._cache_path), self._impl.filename_base)

    def holds(self, signature: Any, target: Any) -> bool:
        """Whether there is code for this signature and this processor."""
        key = self._index_key(signature, target.codegen())
        return self._cache_file.read(key) is not None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep code; where that cannot be, as on a full disk, it is compiled again."""
        with suppress(OSError):
            super().save_overload(sig, data)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keep other processes from compiling meanwhile, or wait for one that does.

        Where no file can be locked all compile.
        """
        lock = _lock_of(self._cache_path, os.getpid())
        try:
            lock.acquire()
        except OSError:
            yield
            return
        try:
            yield
        finally:
            lock.release()


def _folders(file: Path) -> list[Path]:
    """List where the kernels of a source file may be kept, the best first."""
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR, "polydom")]
    own = AppDirs(appname="polydom", appauthor=False).user_cache_dir
    return [file.parent / "__pycache__", Path(own, "kernels")]


@functools.cache
def _lock_of(folder: str, process: int) -> FileLock:
    """Give a process's one lock of a folder, which its holder may take again.

    A lock that was made before this process was forked is the other's.
    """
    return FileLock(Path(folder, "kernels.lock"))


@functools.cache
def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


@functools.cache
def digest(name: str) -> str:
    """Hash a module's source, and those of what it imports from its package or ours."""
    found: dict[str, bytes] = {}
    _collect(name, found)
    sources = sorted(hashlib.sha256(source).digest() for source in found.values())
    settings = f"{numba.__version__} {numba.config.BOUNDSCHECK!r}".encode()
    return hashlib.sha256(b"".join([settings, *sources])).hexdigest()[:16]


def _collect(name: str, found: dict[str, bytes]) -> None:
    """Put the source of a module, and of those that it imports, into `found`."""
    module = sys.modules.get(name)
    if name in found or module is None or name in _UNINVOLVED:
        return
    source = found[name] = _source(module)
    tops = {_OWN, name.partition(".")[0]}
    names = {
        resolve_name(n.decode(), module.__package__) for n in _IMPORT.findall(source)
    }
    names |= {v.__name__ for v in vars(module).values() if isinstance(v, ModuleType)}
    for other in names:
        if other.partition(".")[0] in tops:
            _collect(other, found)


@functools.cache
def _source(module: ModuleType) -> bytes:
    spec = module.__spec__
    read = getattr(spec and spec.loader, "get_data", None)
    return read(spec.origin) if read and spec and spec.origin else b""
