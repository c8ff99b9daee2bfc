"""A selector whose waits are exact to some tens of microseconds (Linux only)."""

import select
import selectors
from typing import Any

FD_SETSIZE = 1024  # `select` waits for no file with a larger number


class FineSelector(selectors.EpollSelector):
    """Waits as `select` does, to some tens of microseconds, for any number of sockets.

    `epoll` counts whole milliseconds. Its own file can be waited for by `select`, which
    counts microseconds. A selector that is made while a thousand files are open counts
    milliseconds.
    """

    def select(self, timeout: float | None = None) -> list[tuple[Any, int]]:
        """Return what is ready, as `selectors` does; wait at most `timeout` seconds."""
        if timeout is not None and timeout > 0 and self.fileno() < FD_SETSIZE:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        return super().select(timeout)
