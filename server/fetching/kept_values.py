"""Values of a fetch that are kept for later requests."""

from collections import OrderedDict
from collections.abc import Callable
from sys import getsizeof
from typing import NamedTuple

from .arrival import Arrival, ExactKey

# Bytes of an entry besides its key and its values, about: two tuples, an arrival with
# its times, and a place in the dictionary.
ENTRY_BYTES = 500


class _Entry(NamedTuple):
    arrival: Arrival
    until_s: float
    size: int  # in bytes


class KeptValues:
    """Keeps arrivals by key for some seconds, in a bounded number of bytes.

    The number of bytes is an estimate. If there are more than `most_bytes`, the oldest
    are dropped. `now` is a clock in seconds.
    """

    def __init__(self, most_bytes: int, now: Callable[[], float]) -> None:
        self._most_bytes = most_bytes
        self._now = now
        self._entries = OrderedDict[ExactKey, _Entry]()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: ExactKey) -> Arrival | None:
        """Return the arrival that is kept for a key, if it is still of use.

        Raises TypeError if the key cannot be hashed.
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._now() < entry.until_s:
            return entry.arrival
        self._drop(key)
        return None

    def add(self, arrival: Arrival, until_s: float) -> None:
        """Keep an arrival until a time, unless one is kept that lasts longer."""
        now_s, key = self._now(), arrival.key
        before = self._entries.get(key)
        if until_s <= now_s or (before is not None and before.until_s >= until_s):
            return
        if before is not None:
            self._drop(key)
        entry = _Entry(arrival, until_s, _size(arrival))
        self._entries[key] = entry
        self.bytes += entry.size
        while self._entries:
            oldest, entry = next(iter(self._entries.items()))
            if self.bytes <= self._most_bytes and now_s < entry.until_s:
                break
            self._drop(oldest)

    def _drop(self, key: ExactKey) -> None:
        self.bytes -= self._entries.pop(key).size


def _size(arrival: Arrival) -> int:
    values = arrival.values or {}
    parts = (*arrival.key[0], *values.values())
    return ENTRY_BYTES + getsizeof(values) + sum(map(getsizeof, parts))
