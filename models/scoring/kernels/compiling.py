"""Who is told that kernels are compiled; loads no compiler itself."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Compiling:
    """Tells of kernels that are compiled, not of those that are loaded.

    Attributes
    ----------
    tell
        Called with the name of each that is begun, but for those it calls; None where
        nobody wants to know.
    """

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self._depth = 0

    @contextmanager
    def of(self, kernel: str) -> Iterator[None]:
        """Tell that a kernel is compiled now, here or by a process that is waited for.

        Whoever calls holds this process's compiler.
        """
        if self.tell is not None and self._depth == 0:
            self.tell(kernel)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


COMPILING = Compiling()
