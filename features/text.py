"""Ready-made features of texts."""

from .registry import Feature

FEATURES: tuple[Feature, ...] = ()
