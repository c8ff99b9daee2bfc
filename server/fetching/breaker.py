"""Whether a source is down, and when it is tried again."""

from math import inf

# Number of calls in a row that failed after which a source is down.
FAILURES = 5
# Seconds between two probes of a source that is down.
PROBE_S = 0.5


class Breaker:
    """Tells whether the source of a fetch is down.

    A source is up at first. It goes down when `FAILURES` calls in a row have failed,
    and up when a call succeeds. A call has succeeded if it brought an answer for each
    key, even if there is nothing for it or the answer cannot be used. Calls are in a
    row if none has succeeded since they were sent: keys that hang may end all at once,
    while others come. While a source is down, only probes are sent.
    """

    __slots__ = ("_came_s", "_failures", "_probe_s", "down")

    def __init__(self) -> None:
        self.down = False
        self._failures = 0  # in a row
        self._came_s = -inf  # time of the last success
        self._probe_s = inf  # time from which the next probe may be sent

    def came(self, now_s: float) -> None:
        """Count a call that brought answers in time, at `now_s`."""
        self._failures, self._came_s = 0, now_s
        self.down = False

    def failed(self, now_s: float, sent_s: float) -> None:
        """Count a call that was sent at `sent_s`, and has failed."""
        if sent_s < self._came_s:
            return
        self._failures += 1
        if self._failures >= FAILURES and not self.down:
            self.down = True
            self._probe_s = now_s + PROBE_S

    def probes(self, now_s: float) -> bool:
        """Return True if a call may be sent to a source that is down.

        That call counts as the probe, so the next one may be sent `PROBE_S` later.
        """
        if now_s < self._probe_s:
            return False
        self._probe_s = now_s + PROBE_S
        return True
