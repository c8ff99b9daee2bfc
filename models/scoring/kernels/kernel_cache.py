"""Compiled kernels on disk, in files named by a digest of all source code involved.

numba's own cache compares only the source file of the kernel. This digest also covers
the package's modules that the source file imports, directly or not, and the setting
`NUMBA_BOUNDSCHECK`. It ignores paths and file times, so compiled files stay valid when
the package is installed again.

No file is unpickled or linked before its checksum is verified. The checksum detects
damage, not forgery: whoever can write to the folder can run code as any user who reads
it. So `NUMBA_CACHE_DIR` must not be a folder that other users can write to.
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
_TOLD: set[Path] = set()  # folders for which a damaged file was already logged
# Imports at the beginning of a line; imports for type checkers alone are indented.
_IMPORT = re.compile(rb"^from ([.\w]+) import", re.MULTILINE)
_OWN = __name__.partition(".")[0]
# Modules that all kernels import, but whose code does not end up in any kernel.
_UNINVOLVED = {__name__, f"{__package__}.compiling"}


class _BySources(_CacheLocator):  # type: ignore[misc]  # numba is untyped
    """Tells numba the folder and the file names for a kernel's compiled code."""

    def __init__(self, function: Callable[..., Any], file: str) -> None:
        self._py_file = file  # for numba's warnings
        self._digest = digest(function.__module__)
        folders = _folders(Path(file))
        name = f"{Path(file).stem}.{function.__qualname__}-{self._digest}.*nbc"
        kept = [folder for folder in folders if any(folder.glob(name))]
        self._folder = next(iter(kept or filter(_is_writable, folders)), None)

    @classmethod
    def from_function(cls, py_func: Any, py_file: str) -> "_BySources | None":
        """Return a locator for a function, or None if no folder is writable."""
        located = cls(py_func, py_file)
        return located if located._folder else None

    def get_cache_path(self) -> str:
        return str(self._folder)

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        """Return the digest of the sources, for numba to put into file names."""
        return self._digest


class _Impl(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = [_BySources]  # noqa: RUF012  numba's


class _Files:
    """The files of one kernel's compiled code, one for each signature and processor.

    A file's checksum includes the file's name, so a renamed file counts as damaged.
    """

    def __init__(self, folder: Path, base: str) -> None:
        self._folder = folder
        self._base = base

    def load(self, key: Any) -> Any:
        """Load the code saved under a key; None if the file is missing or damaged."""
        content = self.read(key)
        return None if content is None else loads(content)

    def read(self, key: Any) -> bytes | None:
        """Read the bytes saved under a key; None if the file is missing or damaged."""
        path = self._path(key)
        try:
            sealed = path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError:  # the path is a folder, or reading is not permitted
            sealed = b""
        content = sealed[_SEAL_BYTES:]
        if sealed[:_SEAL_BYTES] == _seal(path.name, content):
            return content
        _say_damaged(path)
        return None

    def save(self, key: Any, data: Any) -> None:
        """Write code under a key; raise OSError and keep the old file if that fails."""
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
    """Log that a file is damaged, once for each folder.

    A power cut may damage many files.
    """
    if path.parent not in _TOLD:
        _TOLD.add(path.parent)
        log.warning("a compiled kernel is damaged, and compiled again: %s", path)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """The compiled code of one kernel on disk, shared by processes.

    The folder is `NUMBA_CACHE_DIR`/polydom if that environment variable is set.
    Otherwise it is `__pycache__` next to the source file or, if that is not writable,
    the user's cache folder. Raises RuntimeError if no folder is writable.
    """

    _impl_class = _Impl

    def __init__(self, py_func: Callable[..., Any]) -> None:
        super().__init__(py_func)
        self._cache_file = _Files(Path(self._cache_path), self._impl.filename_base)

    def holds(self, signature: Any, target: Any) -> bool:
        """Return True if the disk has code for this signature and target processor."""
        key = self._index_key(signature, target.codegen())
        return self._cache_file.read(key) is not None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save compiled code; ignore an error of writing, such as a full disk."""
        with suppress(OSError):
            super().save_overload(sig, data)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the lock of the folder, so that only one process compiles at a time.

        If the lock file cannot be opened, the `with` block runs without the lock.
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
    """Return the possible folders for a source file's kernels, best first."""
    if numba.config.CACHE_DIR:
        return [Path(numba.config.CACHE_DIR, "polydom")]
    own = AppDirs(appname="polydom", appauthor=False).user_cache_dir
    return [file.parent / "__pycache__", Path(own, "kernels")]


@functools.cache
def _lock_of(folder: str, process: int) -> FileLock:
    """Return the lock of a folder, a separate object in each process.

    `process` is the caller's process id: a forked process must not use its parent's
    object.
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
    """Return a digest of the source code of a module and of its imported modules.

    Only modules of polydom and of the module's own package are included.
    """
    found: dict[str, bytes] = {}
    _collect(name, found)
    sources = sorted(hashlib.sha256(source).digest() for source in found.values())
    settings = f"{numba.__version__} {numba.config.BOUNDSCHECK!r}".encode()
    return hashlib.sha256(b"".join([settings, *sources])).hexdigest()[:16]


def _collect(name: str, found: dict[str, bytes]) -> None:
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
