"""Ranges of numbers that keys of several tables take."""

from typing import Annotated

from msgspec import Meta

Share = Annotated[float, Meta(gt=0, lt=1)]
Positive = Annotated[int, Meta(ge=1)]
Above = Annotated[float, Meta(gt=0)]
NotNegative = Annotated[float, Meta(ge=0)]
