"""Executions that ask after every feature what to compute next."""

from polydom.features.sizes import Size
from polydom.indexer.index.index import Index
from polydom.indexer.index.next_feature import AnytimeRule


def make_anytime(index: Index, unit: str) -> AnytimeRule | None:
    """Make the rule to steer by, None where an index's plans are to be kept to.

    It needs to know typical times; costs that time does not reduce never leave
    anything over; and the exits of an index belong to its plans.
    """
    package = index.package
    assert package is not None
    if unit != "s" or not len(package.typical) or package.margins:
        return None
    quantile = float(package.meta.get("quantile", 0.99))
    return AnytimeRule.of(package, index.accuracies, quantile)


class AnytimePath:
    """Features computed so far, and what they make possible; for one execution.

    Attributes
    ----------
    done
        Mask of what is complete.
    reached
        Row that answers with what is complete, and the high seconds of that, without
        the row's model; one value, since any thread may read it at any time.
    """

    __slots__ = ("_anytime", "_at", "_next", "done", "reached")

    def __init__(self, anytime: AnytimeRule, size: Size) -> None:
        self._anytime = anytime
        self._at = anytime.at(size)
        self._next = -1
        self.done = 0
        self.reached = anytime.answer(0), anytime.overhead_s(size)

    def next(self, left: float) -> int:
        """Feature that is worth beginning with so much time left, -1 for none."""
        row = self._anytime.target(self._at, self.done, left)
        self._next = row if row < 0 else self._anytime.next(row, self.done)
        return self._next

    def spent(self, *, failed: bool = False) -> float:
        """High seconds of the features begun, of the last even if it `failed`."""
        if failed:
            return self.reached[1] + self._anytime.high_s(
                self._at, self.done, self._next
            )
        return self.reached[1] if self.done else 0.0

    def computed(self, feature: int) -> None:
        """Take a feature into account that is complete now."""
        _, charged = self.reached
        charged += self._anytime.high_s(self._at, self.done, feature)
        self.done |= 1 << feature
        self.reached = self._anytime.answer(self.done), charged
