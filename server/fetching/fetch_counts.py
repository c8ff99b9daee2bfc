"""Counts of a fetch's calls and keys, for the metrics."""

from typing import Literal

from ..metrics.counts import SECONDS, Histogram

Ended = Literal["came", "failed"]


class FetchCounts:
    """Counts of one fetch. Only the event loop's thread changes them.

    Attributes
    ----------
    seconds
        Histograms of the seconds from the asking for keys until they came or failed.
        Keys that were asked for and sent together, and ended alike, count once.
    in_flight
        Calls that have not ended; also those that took longer than they may.
    kept
        Keys whose values an earlier call had brought.
    not_sent
        Keys that no call asked for.
    hedges
        Second calls for the same keys, by whether they came before the first one.
    """

    def __init__(self) -> None:
        self.seconds: dict[Ended, Histogram] = {
            "came": Histogram(SECONDS),
            "failed": Histogram(SECONDS),
        }
        self.in_flight = 0
        self.kept = 0
        self.not_sent = 0
        self.hedges = {True: 0, False: 0}
