"""Items, the features that describe items, and the costs of features.

Some names are imported only when first used: a client of a server needs errors and
items, but no cost curves, fetches or networks.
"""

from typing import TYPE_CHECKING

from polydom.lazy import offer

from .errors import PolydomError
from .feature import feature, step

if TYPE_CHECKING:
    from .costs.curve import CostCurve as CostCurve
    from .fetches.fetch import fetch as fetch
    from .networks.terms import network as network

__all__ = ["CostCurve", "PolydomError", "feature", "fetch", "network", "step"]

__getattr__ = offer(
    __name__,
    {
        "CostCurve": ".costs.curve",
        "fetch": ".fetches.fetch",
        "network": ".networks.terms",
    },
)[1]


def __dir__() -> list[str]:
    return __all__
