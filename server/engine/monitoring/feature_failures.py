"""Features that failed while serving: counts of them, and their errors in the log."""

import logging
from collections import Counter
from collections.abc import Callable
from math import inf
from threading import Lock

from polydom.features.errors import FeatureFailed

# Seconds between two records in the log about the same feature. A feature may fail on
# every item.
QUIET_S = 60.0

log = logging.getLogger("polydom")


class FeatureFailures:
    """Counts how often each feature failed, and logs the errors with their tracebacks.

    Of each feature, at most one error is logged in `QUIET_S` seconds on the clock
    `now`. Threads may share the object.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._counts: Counter[str] = Counter()
        self._now = now
        # Time of each feature's last record in the log, and the feature's count then
        self._logged: dict[str, tuple[float, int]] = {}
        self._lock = Lock()

    def counts(self) -> Counter[str]:
        """Return the number of failures of each feature until now, by name."""
        with self._lock:
            return self._counts.copy()

    def add(self, feature: str, failure: FeatureFailed) -> None:
        """Count a failure of the feature with this name, and perhaps log it."""
        now_s = self._now()
        with self._lock:
            self._counts[feature] += 1
            count = self._counts[feature]
            logged_s, before = self._logged.get(feature, (-inf, 0))
            if now_s - logged_s < QUIET_S:
                return
            self._logged[feature] = now_s, count
        times = f" {count - before} times since the last record" if before else ""
        cause = failure.__cause__  # None if a value is unusable
        log.error("feature %r failed%s: %s", feature, times, failure, exc_info=cause)
