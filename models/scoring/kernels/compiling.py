"""Report which kernel is being compiled. This module does not import numba."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Compiling:
    """Tells a listener which kernel is being compiled.

    The listener is the function `tell`, which gets the name of the kernel; None for no
    listener.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self._depth = 0  # above 1 while a kernel compiles a kernel that it calls

    @contextmanager
    def of(self, kernel: str) -> Iterator[None]:
        """Tell the listener about `kernel`, which the `with` block compiles.

        Of nested blocks, the listener is told only about the outermost. The caller must
        hold numba's compiler lock.
        """
        if self.tell is not None and self._depth == 0:
            self.tell(kernel)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


COMPILING = Compiling()
