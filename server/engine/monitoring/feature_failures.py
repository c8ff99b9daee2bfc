"""Features that failed while serving: counts of them, and their errors in the log."""

import logging
from collections import Counter
from collections.abc import Callable

from polydom.features.errors import FeatureFailed

from .rare_log import RareLog

log = logging.getLogger("polydom")


class FeatureFailures:
    """Counts how often each feature failed, and logs the errors with their tracebacks.

    A feature may fail on every item, so its errors are logged rarely: see `RareLog`,
    which has the clock `now`. Threads may share the object.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._failures = RareLog(now)

    def counts(self) -> Counter[str]:
        """Return the number of failures of each feature until now, by name."""
        return self._failures.counts()

    def add(self, feature: str, failure: FeatureFailed) -> None:
        """Count a failure of the feature with this name, and perhaps log it."""
        times = self._failures.add(feature)
        if times is not None:
            cause = failure.__cause__  # None if a value is unusable
            log.error(
                "feature %r failed%s: %s", feature, times, failure, exc_info=cause
            )
