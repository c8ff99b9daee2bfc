"""Report which kernel is being compiled. This module does not import numba."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Compiling:
    """Reports to a listener, the function `tell`, which kernel is being compiled.

    `tell` is called with the name of the kernel. If it is None, nothing is reported.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self._depth = 0  # above 1 while a kernel compiles a kernel that it calls

    @contextmanager
    def of(self, kernel: str) -> Iterator[None]:
        """Report the kernel that the caller compiles in the `with` block.

        Of nested blocks, only the outermost is reported. The caller must hold numba's
        compiler lock.
        """
        if self.tell is not None and self._depth == 0:
            self.tell(kernel)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


COMPILING = Compiling()
