"""`[costs]`: the parts of a plan's cost, and how they are measured."""

from typing import Literal

import msgspec
from msgspec import Struct

from polydom.features.errors import BadProject
from polydom.features.items import SIZE_NAMES, Kind

from .numbers import NotNegative, Positive, Share


class Costs(Struct, frozen=True, forbid_unknown_fields=True):
    """The parts of a plan's cost, and how they are measured.

    Attributes
    ----------
    quantile
        Share of the measured times that the cost curve has to cover.
    items
        Number of items to time.
    repeats
        Minimum number of measurements of each item.
    weights
        Number of budget units that one unit of each cost is worth. By default only
        measured seconds count; `{ usd = 1.0 }` counts the dollars that columns declare,
        and no time.
    size
        Size of an item, on which costs depend: "pixels" or ["width", "height"] of an
        image, "characters" or ["words", "sentences"] of a text. The default is the size
        of one number.
    measured
        "here" measures times in the build's process. "later" leaves this to `polydom
        measure` on a machine like the server; the build stops when it needs times that
        are missing.
    """

    quantile: Share = 0.99
    items: Positive = 48
    repeats: Positive = 5
    weights: dict[str, NotNegative] = msgspec.field(default_factory=lambda: {"s": 1.0})
    size: str | list[str] | None = None
    measured: Literal["here", "later"] = "here"

    @property
    def pair(self) -> bool:
        """True if an item's size has two numbers, such as width and height."""
        return isinstance(self.size, list)

    def check_size(self, kind: Kind | None = None) -> None:
        """Raise BadProject if items of this kind cannot have this `size`.

        If `kind` is None, items of some kind must have it.
        """
        kinds = SIZE_NAMES if kind is None else [kind]
        known = [names for one in kinds for names in SIZE_NAMES[one]]
        own = [self.size] if isinstance(self.size, str) else self.size
        if own is None or tuple(own) in known:
            return
        names = [repr(one[0] if len(one) == 1 else list(one)) for one in known]
        needed = f"one of {', '.join(names)} is needed"
        if kind is not None:
            needed = f"{' or '.join(names)} is what there is of a {kind}"
        raise BadProject(f"costs.size is {self.size!r}; {needed}")
