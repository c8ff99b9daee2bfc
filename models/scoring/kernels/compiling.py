"""Notice of kernels being compiled. This module loads no compiler itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Compiling:
    """A listener that is told of each compilation, but not of kernels that are loaded.

    Attributes
    ----------
    tell
        Function that gets the name of a kernel when its compilation begins. It is not
        called for kernels that are compiled because another kernel calls them.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self._depth = 0

    @contextmanager
    def of(self, kernel: str) -> Iterator[None]:
        """Tell that a kernel is being compiled, by this process or by another one.

        The caller holds this process's compiler lock.
        """
        if self.tell is not None and self._depth == 0:
            self.tell(kernel)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


COMPILING = Compiling()
