"""Report that a kernel is being compiled. This module imports no compiler."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Compiling:
    """A listener: `tell` is called with a kernel's name when compilation begins."""

    def __init__(self) -> None:
        self.tell: Callable[[str], None] | None = None
        self._depth = 0

    @contextmanager
    def of(self, kernel: str) -> Iterator[None]:
        """Call `tell`, except within another kernel's compilation; needs the lock."""
        if self.tell is not None and self._depth == 0:
            self.tell(kernel)
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1


COMPILING = Compiling()
