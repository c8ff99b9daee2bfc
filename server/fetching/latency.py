"""The distribution of a fetch's arrival times, which follows the latest calls."""

from bisect import bisect_left
from itertools import pairwise
from math import inf

import numpy as np
from numpy.typing import NDArray

from polydom.indexer.index.kernels.expected_quality import LEAST_GAIN

# Upper bounds of the histogram's bins in seconds, from 10 us to 10 s. Longer times
# count as never.
BOUNDS_S: list[float] = (1e-5 * 1.1 ** np.arange(146)).tolist()
# Number of calls after which an observation has half of its first weight.
HALF_LIFE = 1000
# Seconds after which it has half of its first weight, too, if calls are rare; a pause
# counts as at most ten of these.
HALF_LIFE_S = 60.0
LONGEST_PAUSE_S = 600.0
# Weight of all draws of the index together is at most that of this many calls.
DRAWS_WEIGHT = 200.0
# Share of all weight that may be a rounding error of sums.
ROUNDING = 1e-9

_BINS = len(BOUNDS_S)
_BLOCK = 12  # bins in a block, so that a sum has few terms
_EDGES_S = (0.0, *BOUNDS_S)
_WIDTHS_S = tuple(high_s - low_s for low_s, high_s in pairwise(_EDGES_S))
_GROWTH = 2 ** (1 / HALF_LIFE)
_LARGEST_WEIGHT = 1e100


class Latency:
    """A distribution F of the seconds from the asking for a key until its values come.

    F is a histogram in which old observations weigh less. Inside a bin, F is linear. A
    failure is an infinite time, so F may stay below 1. Of a call that was sent twice,
    the first answer counts: F is what a request that asks now may expect. Only the
    event loop may use this object.

    `draws`, shape (M,), are seconds, with infinity for failures; they are the first
    observations. One more is spread evenly over the bins after the last draw's, since
    one in M + 1 new times is longer than all M draws. The first calls of a server often
    are, as they open connections. If no draw ever came, F is 0.
    """

    __slots__ = ("_bins", "_blocks", "_total", "_weight")

    def __init__(self, draws: NDArray[np.float64]) -> None:
        # Instead of making the old observations lighter, each new one is heavier.
        self._weight = 1.0
        each = min(1.0, DRAWS_WEIGHT / len(draws)) if len(draws) else 0.0
        places = np.searchsorted(BOUNDS_S, draws)
        counts = each * np.bincount(places, minlength=_BINS + 1)[:_BINS]
        came = np.flatnonzero(counts)
        later = counts[came[-1] + 1 if len(came) else _BINS :]
        later += each / max(len(later), 1)
        # Weights of the observations in each bin, and in each block of bins
        self._bins: list[float] = counts.tolist()
        firsts = np.arange(0, _BINS, _BLOCK)
        self._blocks: list[float] = np.add.reduceat(counts, firsts).tolist()
        # Weight of all, those that never came, too
        self._total = each * (len(draws) + bool(len(later)))

    def add(self, took_s: float, since_s: float = 0.0) -> None:
        """Add an observation in seconds; infinity if the call failed.

        `since_s` is how long ago the observation before was added.
        """
        growth = _GROWTH * 2 ** (min(since_s, LONGEST_PAUSE_S) / HALF_LIFE_S)
        self._weight = weight = self._weight * growth
        self._total += weight
        place = bisect_left(BOUNDS_S, took_s)
        if place < _BINS:
            self._bins[place] += weight
            self._blocks[place // _BLOCK] += weight
        if weight > _LARGEST_WEIGHT:
            self._bins = [one / weight for one in self._bins]
            self._blocks = [one / weight for one in self._blocks]
            self._total /= weight
            self._weight = 1.0

    def chance(self, elapsed_s: float, until_s: float) -> float:
        """Return the probability that values come by `until_s`.

        They have not come in the first `elapsed_s` seconds. Both times count from the
        asking.
        """
        if until_s <= elapsed_s:
            return 0.0
        came = self._weight_until(elapsed_s) if elapsed_s > 0 else 0.0
        left = self._total - came
        if left <= ROUNDING * self._total:  # all observations were shorter
            return 0.0
        return min((self._weight_until(until_s) - came) / left, 1.0)

    def quantile(self, share: float) -> float:
        """Return the time until which this share of all that ever came had come."""
        return self._time_of(share * self._weight_until(inf))

    def last_useful_s(self, until_s: float, gain: float) -> float:
        """Return for how many seconds from the asking it pays to wait.

        Waiting pays as long as `chance(t, until_s) * gain >= LEAST_GAIN`, where `gain`
        is the gain of quality if values come by `until_s`. The result is the largest
        such t up to `until_s`, or 0 if there is none.
        """
        if gain <= LEAST_GAIN:
            return 0.0
        least = LEAST_GAIN / gain
        # (F(u) - F(t)) / (1 - F(t)) >= least, solved for F(t)
        most = (self._weight_until(until_s) - least * self._total) / (1 - least)
        if most < 0 or not self._total:
            return 0.0
        # where F reaches 1, nothing is left to come
        most = min(most, (1 - 2 * ROUNDING) * self._total)
        return min(self._time_of(most), until_s)

    def _weight_until(self, time_s: float) -> float:
        """Return the weight of all observations up to `time_s`."""
        place = bisect_left(BOUNDS_S, time_s)
        block = place // _BLOCK
        below = sum(self._blocks[:block]) + sum(self._bins[block * _BLOCK : place])
        if place == _BINS:
            return below
        share = (time_s - _EDGES_S[place]) / _WIDTHS_S[place]
        return below + share * self._bins[place]

    def _time_of(self, weight: float) -> float:
        """Return the last time up to which at most this weight has come."""
        below, place = 0.0, 0
        for block in self._blocks:
            if below + block > weight:
                break
            below += block
            place += _BLOCK
        for one in self._bins[place : place + _BLOCK]:
            if below + one > weight:
                return _EDGES_S[place] + (weight - below) / one * _WIDTHS_S[place]
            below += one
            place += 1
        return _EDGES_S[place] if place < _BINS else inf
