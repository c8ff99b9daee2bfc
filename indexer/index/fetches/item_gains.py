"""What an item gains by a larger feature set, if a smaller set's model is not sure.

A set with paid columns may be better on the average, and gain nothing for an item of
which the model of free columns is sure already. The gain is a function of the model's
margin, fitted at the build on items that no model was trained on.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile

Floats = NDArray[np.float64]

KNOTS = 16  # margins at which a gain is stored
MOST_PAIRS = 4096


@dataclass(frozen=True, slots=True, eq=False)
class ItemGains:
    """Expected gains of quality for pairs of feature sets, by margin; immutable.

    Between two knots, a gain is linear in the margin. Outside the knots it is that of
    the nearest.
    """

    # (P, 2) uint64: Masks of the features of the asked model, and of the larger set
    pairs: NDArray[np.uint64]
    margins: Floats  # (P, KNOTS) float64: Margins of the asked model, ascending
    gains: Floats  # (P, KNOTS) float64: Expected gain of quality at each margin

    @classmethod
    def none(cls) -> Self:
        """Return the gains of an index that has none."""
        empty = np.empty((0, KNOTS))
        return cls(np.empty((0, 2), np.uint64), empty, empty)

    def curves(self) -> dict[tuple[int, int], tuple[list[float], list[float]]]:
        """Return margins and gains by pair, for `gain_at`."""
        pairs = map(tuple, self.pairs.tolist())
        known = zip(self.margins.tolist(), self.gains.tolist(), strict=True)
        return dict(zip(pairs, known, strict=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return all arrays by name; none if there are no pairs."""
        if not len(self.pairs):
            return {}
        return {"pairs": self.pairs, "margins": self.margins, "gains": self.gains}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Make gains from named arrays; raise BadIndexFile if they are damaged."""
        if not arrays:
            return cls.none()
        pairs, margins, gains = (arrays[name] for name in ("pairs", "margins", "gains"))
        count = len(pairs)
        if not (
            pairs.dtype == np.uint64
            and margins.dtype == gains.dtype == np.float64
            and pairs.shape == (count, 2)
            and margins.shape == gains.shape == (count, KNOTS)
            and count <= MOST_PAIRS
            and bool(np.isfinite(margins).all())
            and bool((np.diff(margins) >= 0).all())
            and bool((np.abs(gains) <= 1).all())
        ):
            raise BadIndexFile("damaged: the gains of its items are no gains")
        return cls(pairs, margins, gains)


def gain_at(curve: tuple[list[float], list[float]], margin: float) -> float:
    """Return the expected gain at a margin by one of `ItemGains.curves`."""
    margins, gains = curve
    place = bisect_right(margins, margin)
    if place == 0 or place == len(margins):
        return gains[max(place - 1, 0)]
    low, high = margins[place - 1], margins[place]
    share = (margin - low) / (high - low)
    return gains[place - 1] + share * (gains[place] - gains[place - 1])
