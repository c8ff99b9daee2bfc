"""A thread that writes lines about answers into a file, from a bounded queue."""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable

from ..engine.monitoring.rare_log import RareLog
from .line import Entry
from .log_file import LogFile, LogFolder

# Entries, and bytes of their items, that may wait to be written. Further ones are
# dropped.
MOST_WAITING = 1 << 14
MOST_HELD = 64 << 20
# Seconds between two looks at the queue.
PAUSE_S = 0.05
# Lines that are encoded before they are written. While it writes, the thread holds no
# interpreter lock, so the event loop waits no longer than for this many lines.
AT_ONCE = 64

log = logging.getLogger("polydom")


class LineWriter:
    """Writes a line about each entry into a file, in a thread of its own.

    Entries are added by the event loop, which never waits for the thread. Those that do
    not fit into the queue are dropped, and so are lines that cannot be written.
    `dropped` counts them. `name` says in the server's log which file it is. `line_of`
    returns the line of an entry, as the function of this name in `line` does; `epoch_s`
    returns its second argument.
    """

    def __init__(
        self,
        name: str,
        line_of: Callable[[Entry, float], bytes],
        epoch_s: Callable[[], float],
    ) -> None:
        self.dropped = 0
        self._name, self._line_of, self._epoch_s = name, line_of, epoch_s
        self._waiting: deque[Entry] = deque()
        # bytes of items that were ever added, and that the thread has taken
        self._held = self._taken = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = RareLog(time.monotonic)

    def start(self, file: LogFile | LogFolder) -> None:
        """Start the thread, which writes into this file."""
        self._thread = threading.Thread(
            target=self._run, args=(file,), name="polydom-answer-log", daemon=True
        )
        self._thread.start()

    def begin_stop(self) -> None:
        """Let the thread write what waits, and end."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of the thread, for at most `timeout_s` seconds."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def add(self, entry: Entry) -> None:
        """Give an entry to the thread, or drop it if too much waits."""
        held = self._held + entry.held
        if len(self._waiting) < MOST_WAITING and held - self._taken <= MOST_HELD:
            self._held = held
            self._waiting.append(entry)
        else:
            self.dropped += 1

    def _run(self, file: LogFile | LogFolder) -> None:
        stopped = False
        while not stopped:
            stopped = self._stopping.wait(PAUSE_S)
            epoch_s = self._epoch_s()
            while self._waiting:
                count = min(len(self._waiting), AT_ONCE)
                entries = [self._waiting.popleft() for _ in range(count)]
                self._write(file, self._lines_of(entries, epoch_s))
        file.close()

    def _lines_of(self, entries: list[Entry], epoch_s: float) -> list[bytes]:
        lines = []
        for entry in entries:
            self._taken += entry.held
            try:
                lines.append(self._line_of(entry, epoch_s))
            except Exception:  # the thread must go on
                self.dropped += 1
                if (more := self._failures.add("line")) is not None:
                    log.exception("a line about an answer cannot be written%s", more)
        return lines

    def _write(self, file: LogFile | LogFolder, lines: list[bytes]) -> None:
        try:
            if lines:
                file.write(b"\n".join(lines) + b"\n")
        except (OSError, ValueError) as error:  # ValueError: standard output is closed
            self.dropped += len(lines)
            if (more := self._failures.add("file")) is not None:
                log.error(
                    "lines for %s are dropped%s: %s",
                    self._name,
                    more,
                    getattr(error, "strerror", None) or error,
                    extra={"event": "lines_dropped", "file": self._name},
                )
