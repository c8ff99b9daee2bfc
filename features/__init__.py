"""Items, the features that describe items, and the costs of features.

Cost curves are imported only when first used: a client of a server needs errors and
items, but no cost curves.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import PolydomError
from .feature import feature, step

if TYPE_CHECKING:
    from .costs.curve import CostCurve

__all__ = ["CostCurve", "PolydomError", "feature", "step"]


def __getattr__(name: str) -> Any:
    if name == "CostCurve":
        return import_module(".costs.curve", __name__).CostCurve
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
