"""Ready-made features of images."""

from .registry import Feature

FEATURES: tuple[Feature, ...] = ()
