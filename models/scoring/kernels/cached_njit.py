"""`numba.njit` for all kernels: compiled when first needed, once for a machine.

To compile all kernels takes most of a minute, and an index needs a few. So a kernel is
compiled, or loaded from the file in which another process has kept it, when it is first
called or when a kernel that calls it is compiled; for the types that it declares.
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

OPTIONS = {"cache": True, "nogil": True, "error_model": "numpy"}  # no fastmath: NaN
# One row takes microseconds: to let go of Python's lock would cost a part of that.
ONE_ROW = {**OPTIONS, "nogil": False}
COMPILED = not numba.config.DISABLE_JIT
# Every kernel that was imported, in an order in which callees come first.
DECLARED: "list[Kernel]" = []


class Kernel(CPUDispatcher):  # type: ignore[misc]  # numba is untyped
    """A function that is compiled when it is first needed. Threads may share it.

    Attributes
    ----------
    declared
        Signatures that it is compiled for, and no others. Where there are none it is
        compiled as numba does, for whatever it is called with.
    kept
        Whether what it is compiled to is kept on disk.
    """

    declared: tuple[Any, ...] = ()
    kept = False
    _cache: Any

    def compile_declared(self) -> None:
        """Compile for what is declared, or load that; once."""
        if not self.declared or not self._can_compile:
            return
        with global_compiler_lock, typeinfer.register_dispatcher(self):
            # Another thread may have done it meanwhile; a kernel may call itself.
            if self._can_compile and not self.is_compiling:
                for signature in self.declared:
                    self.compile(signature)
                self.disable_compile()

    def compile(self, sig: Any) -> Any:
        """Compile as numba does, unless another process does or has."""
        cache = self._cache
        if self.kept and isinstance(cache, NullCache):
            with suppress(RuntimeError):  # nothing can be kept anywhere
                cache = self._cache = KernelCache(self.py_func)
        if not isinstance(cache, KernelCache):
            return super().compile(sig)
        if not cache.holds(sig, self.targetctx):
            with COMPILING.of(self.py_func.__name__), cache.lock():
                return super().compile(sig)
        return super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """As numba's, for the compiler of a kernel that calls this one."""
        self.compile_declared()
        return super().get_call_template(args, kws)

    def _compile_for_args(self, *args: Any, **kws: Any) -> Any:
        """As numba's, unless types are declared; what is returned is called."""
        if not self.declared:
            return super()._compile_for_args(*args, **kws)
        self.compile_declared()
        return self


def njit(signatures: Any = None, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Decorate a kernel of one signature, a list of them or none; see `numba.njit`."""
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
