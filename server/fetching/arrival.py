"""What one key brings: the values, once they are here, and who waits for them."""

from collections.abc import Callable
from math import inf
from typing import Any, Literal

from polydom.features.fetches.answers import Values
from polydom.features.fetches.fetch import Key

State = Literal["kept", "waiting", "came", "failed", "not_sent"]
Done = Callable[[], object]
# A key and the types of its values: True and 1 are equal in Python, but a source may
# have other values for each.
ExactKey = tuple[Any, ...]


def exact(key: Key) -> ExactKey:
    """Return the key with the types of its values."""
    return (key, *map(type, key))


class Arrival:
    """What one key brings. All requests that wait for the same key share one.

    Attributes
    ----------
    state
        "waiting" at first, if values must come; then "came", "failed" or "not_sent".
        "kept" if an earlier call brought the values. A key is "failed" if its call
        raised an error or took longer than it may, or if the answer for the key cannot
        be used. A key is "not_sent" if the source is down, if
        the key's time was over before a call was free, or if the key has no use: a NaN.
    values
        Values by column; None if there are none, for this key or yet.
    sent_s
        Time when the key was asked for.
    came_s
        Time when the values came; infinity if they did not.
    asks
        Number of requests that asked for the key while it had not come.
    due_s
        Time until which some request can use the values.
    wanted
        False if all requests that waited wait no more.
    """

    __slots__ = (
        "_waiting",
        "asks",
        "came_s",
        "due_s",
        "key",
        "sent_s",
        "state",
        "values",
        "wanted",
    )

    def __init__(self, key: ExactKey, due_s: float, sent_s: float) -> None:
        self.key = key
        self.asks = 1
        self.state: State = "waiting"
        self.values: Values | None = None
        self.sent_s = sent_s
        self.came_s = inf
        self.due_s = due_s
        self.wanted = True
        self._waiting: dict[Done, None] = {}  # ordered, and quick to leave

    def then(self, done: Done) -> None:
        """Call `done` on the event loop when the arrival ends; it must not raise.

        Only for an arrival whose state is "waiting".
        """
        self._waiting[done] = None
        self.wanted = True

    def forget(self, done: Done) -> None:
        """Do not call `done`: the request waits no more.

        The call goes on. A key that no call has sent yet is not sent, if no other
        request waits for it by then.
        """
        self._waiting.pop(done, None)
        self.wanted = bool(self._waiting)

    def kept(self, values: Values | None, came_s: float) -> "Arrival":
        """Return the arrival that later requests for the key get."""
        arrival = Arrival(self.key, self.due_s, self.sent_s)
        arrival.end("kept", values, came_s)
        return arrival

    def end(
        self, state: State, values: Values | None = None, came_s: float = inf
    ) -> None:
        """Set the last state, and the values with the time when they came."""
        self.state = state
        self.values = values
        self.came_s = came_s

    def tell(self) -> None:
        """Call what waits for the arrival, which has ended."""
        waiting, self._waiting = self._waiting, {}
        for done in waiting:
            done()
