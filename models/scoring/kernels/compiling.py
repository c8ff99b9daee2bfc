"""Report when the compilation of a kernel begins. This module imports no compiler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Compiling:
    """The listener that learns of compilations.

    The function `tell`, unless it is None, is called with a kernel's name when the
    compilation of the kernel begins.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self._depth = 0

    @contextmanager
    def of(self, kernel: str) -> Iterator[None]:
        """Call `tell` with a kernel's name; the caller compiles in the `with` block.

        Kernels that are compiled inside another kernel's block are not reported. The
        caller must hold numba's compiler lock.
        """
        if self.tell is not None and self._depth == 0:
            self.tell(kernel)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


COMPILING = Compiling()
