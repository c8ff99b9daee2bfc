"""Amounts as people read them."""

import math

import pytest

from polydom.features.amounts import show_us


@pytest.mark.parametrize(
    ("microseconds", "shown"),
    [
        (0.0, "0 us"),
        (0.4, "0 us"),
        (5200.0, "5,200 us"),
        (math.nextafter(1e9, 0) - 1, "999,999,999 us"),
        (1e9, "1e+09 us"),
        (1.23456e300, "1.235e+300 us"),
        (math.inf, "inf us"),
    ],
)
def test_microseconds_are_short_however_many(microseconds: float, shown: str) -> None:
    assert show_us(microseconds) == shown
