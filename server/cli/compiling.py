"""Says on standard error that kernels are compiled, and how far that is."""

import sys
import time
from collections.abc import Callable

# Seconds between two lines.
EVERY_S = 3.0


class CompilingNotice:
    """Told of each kernel that is compiled; it says so at the first, then now and then.

    In whole lines, which bars of progress and logs can have between theirs. `now` is
    the monotonic clock.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._count = 0
        self._said_s = 0.0

    def __call__(self, kernel: str) -> None:
        """Note that one more is begun."""
        now_s = self._now()
        if not self._count:
            self._said_s = now_s
            self._say("compiling for this processor, once; it takes 5 to 15 s")
        elif now_s - self._said_s >= EVERY_S:
            self._said_s = now_s
            self._say(f"compiling still: {self._count} kernels are done")
        self._count += 1

    def _say(self, what: str) -> None:
        print(f"polydom: {what}", file=sys.stderr, flush=True)
