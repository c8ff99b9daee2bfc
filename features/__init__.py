"""Items, the features that describe them, and what those cost."""

from .costs.curve import CostCurve
from .feature import feature, step

__all__ = ["CostCurve", "feature", "step"]
