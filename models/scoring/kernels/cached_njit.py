"""A replacement of numba's `njit`: compiles a kernel when needed, once per machine.

Compiling all kernels takes most of a minute, and an index needs only a few. So a kernel
is compiled only when it is first called, or when a kernel that calls it is compiled. It
is compiled for the types that it declares. If another process has compiled the kernel,
its code is loaded.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numba
from numba.core import typeinfer
from numba.core.caching import NullCache
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher

from .compiling import COMPILING
from .kernel_cache import KernelCache

# "fastmath" is left out, because it assumes that there is no NaN.
OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}
# Kernels of one row take microseconds; releasing Python's lock would slow them down.
ONE_ROW = {**OPTIONS, "nogil": False}
COMPILED = not numba.config.DISABLE_JIT
# Every imported kernel; a kernel comes after the kernels that it calls.
DECLARED: "list[Kernel]" = []


class Kernel(CPUDispatcher):  # type: ignore[misc]  # numba is untyped
    """A function that numba compiles when it is first needed. Threads may share it.

    It is compiled for the signatures in `declared`; if there are none, for the types of
    a call's arguments. If `kept` is True, the compiled code is stored on disk.
    """

    declared: tuple[Any, ...] = ()
    kept = False
    _cache: Any

    def compile_declared(self) -> None:
        """Compile or load all declared signatures, unless that is done already."""
        if not self.declared or not self._can_compile:
            return
        with global_compiler_lock, typeinfer.register_dispatcher(self):
            # Another thread may have compiled meanwhile, and a kernel may call itself.
            if self._can_compile and not self.is_compiling:
                for signature in self.declared:
                    self.compile(signature)
                self.disable_compile()

    def compile(self, sig: Any) -> Any:
        """Compile for the signature `sig`, or load the code if it is on disk."""
        cache = self._cache
        if self.kept and isinstance(cache, NullCache):
            with suppress(RuntimeError):  # no folder is writable
                cache = self._cache = KernelCache(self.py_func)
        if not isinstance(cache, KernelCache):
            return super().compile(sig)
        if not cache.holds(sig, self.targetctx):
            with COMPILING.of(self.py_func.__name__), cache.lock():
                return super().compile(sig)
        return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Compile this kernel before numba compiles a kernel that calls it."""
        self.compile_declared()
        return super().get_call_template(args, kws)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """Compile at the first call, for the declared or the arguments' types."""
        if not self.declared:
            return super()._compile_for_args(*args, **kws)
        self.compile_declared()
        return self


def njit(signatures: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that turns a function into a `Kernel`.

    `signatures` is a numba signature or a list of signatures. If it is None, the kernel
    is compiled for the argument types of each call. `options` are those of
    `numba.njit`.
    """
    kept = options.pop("cache", False)
    options |= {"nopython": True, "boundscheck": None, "no_cfunc_wrapper": True}

    def decorate(function: Callable[..., Any]) -> Any:
        if not COMPILED:
            return function
        kernel = Kernel(function, targetoptions=options)
        kernel.kept = kept
        if signatures is not None:
            several = isinstance(signatures, list)
            kernel.declared = tuple(signatures) if several else (signatures,)
            DECLARED.append(kernel)
        return kernel

    return decorate
