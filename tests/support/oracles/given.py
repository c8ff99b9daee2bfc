"""Slow twins of look-ups where some features are withheld."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple


class Drawn(NamedTuple):
    """Candidates: the feature set, the cost at one size and the quality of each."""

    masks: Sequence[int]
    costs: Sequence[float]
    qualities: Sequence[float]

    def only(self, keeps: Callable[[int], bool]) -> "Drawn":
        """Those whose feature set is to be kept."""
        rows = [row for row, mask in enumerate(self.masks) if keeps(mask)]
        return Drawn(
            [self.masks[row] for row in rows],
            [self.costs[row] for row in rows],
            [self.qualities[row] for row in rows],
        )

    def without(self, withheld: int) -> "Drawn":
        """Those that need none of some features."""
        return self.only(lambda mask: not mask & withheld)

    def best(self, budget: float) -> float:
        """The highest quality that fits; -1 where nothing does."""
        pairs = zip(self.costs, self.qualities, strict=True)
        return max((q for cost, q in pairs if cost <= budget), default=-1.0)

    def skyline(self) -> list[tuple[float, float]]:
        """Cost and quality of all that are better than whatever costs no more."""
        pairs = {*zip(self.costs, self.qualities, strict=True)}
        return sorted(
            (cost, quality)
            for cost, quality in pairs
            if not any(
                (c < cost and q >= quality) or (c == cost and q > quality)
                for c, q in pairs
            )
        )


def features_of(mask: int) -> Iterable[int]:
    """Positions of the features in a set."""
    return [k for k in range(mask.bit_length()) if mask >> k & 1]


def best_with_one_more(
    drawn: Drawn, withheld: int, budget: float, together: Sequence[int]
) -> float:
    """The highest quality that fits, had one of the withheld features come.

    Others come with it: of each feature a mask of those, itself too.
    """
    return max(
        (
            drawn.without(withheld & ~together[k]).best(budget)
            for k in features_of(withheld)
        ),
        default=-1.0,
    )
