"""`numba.njit` for all kernels, with a cache that sees what they import.

numba keeps machine code in files and takes it for fresh while the source file of the
kernel is the same. But the constants and kernels that a kernel imports are in its code
too, and so are the checks that `NUMBA_BOUNDSCHECK` asks for.
"""

import functools
import hashlib
import re
import sys
from collections.abc import Callable
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

import numba

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN
# One row takes microseconds: to let go of Python's lock would cost a part of that.
ONE_ROW = {**OPTIONS, "nogil": False}
COMPILED = not numba.config.DISABLE_JIT

# At the beginning of a line: what is imported for types alone is indented.
_IMPORT = re.compile(rb"^from ([.\w]+) import", re.MULTILINE)
_OWN = __name__.partition(".")[0]


def njit(*signatures: Any, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Compile as `numba.njit` does; a cached kernel is named after its sources, too.

    Its files in the cache are then those of one state of its own module and of all that
    this imports from its package.
    """
    compiled = numba.njit(*signatures, **options)

    def decorate(function: Callable[..., Any]) -> Any:
        if options.get("cache"):
            function.__qualname__ += f".{digest(function.__module__)}"
        return compiled(function)

    return decorate


@functools.cache
def digest(name: str) -> str:
    """Hash a module's source, and those of what it imports from its package or ours."""
    found: dict[str, bytes] = {}
    _collect(name, found)
    sources = sorted(hashlib.sha256(source).digest() for source in found.values())
    checked = repr(numba.config.BOUNDSCHECK).encode()
    return hashlib.sha256(b"".join([checked, *sources])).hexdigest()[:16]


def _collect(name: str, found: dict[str, bytes]) -> None:
    """Put the source of a module, and of those that it imports, into `found`."""
    module = sys.modules.get(name)
    if name in found or module is None:
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
