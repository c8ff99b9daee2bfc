"""Counts of events that may happen thousands of times, and are logged rarely."""

from collections import Counter
from collections.abc import Callable
from math import inf
from threading import Lock

# Seconds between two records in the log about events of the same name.
QUIET_S = 60.0


class RareLog:
    """Counts events by name, and says which of them to log.

    Of each name, at most one event is logged in `QUIET_S` seconds on the clock `now`.
    Threads may share the object.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._counts: Counter[str] = Counter()
        self._now = now
        # Time of each name's last record in the log, and the name's count then
        self._logged: dict[str, tuple[float, int]] = {}
        self._lock = Lock()

    def counts(self) -> Counter[str]:
        """Return the number of events until now, by name."""
        with self._lock:
            return self._counts.copy()

    def add(self, name: str) -> str | None:
        """Count an event; return None if it is not to be logged.

        Otherwise return words for the record: " 6 times since the last record", or ""
        if this is the first record.
        """
        now_s = self._now()
        with self._lock:
            self._counts[name] += 1
            count = self._counts[name]
            logged_s, before = self._logged.get(name, (-inf, 0))
            if now_s - logged_s < QUIET_S:
                return None
            self._logged[name] = now_s, count
        return f" {count - before} times since the last record" if before else ""
