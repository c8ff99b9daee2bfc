"""Numbers as people read them."""

import math

import pytest

from polydom.features.figures import show_accuracy, show_cost, show_ms, show_us


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


@pytest.mark.parametrize(
    ("milliseconds", "shown"),
    [
        (0.0, "0 ms"),
        (1e-9, "0.0000 ms"),
        (0.00149, "0.0015 ms"),
        (0.0294567, "0.0295 ms"),
        (0.9996, "1.00 ms"),
        (5.2, "5.20 ms"),
        (99.96, "100 ms"),
        (-5.2, "-5.20 ms"),
        (1284.4, "1,280 ms"),
        (math.nextafter(1e6, 0), "1,000,000 ms"),
        (1e6, "1e+06 ms"),
        (math.inf, "inf ms"),
    ],
)
def test_milliseconds_have_three_digits(milliseconds: float, shown: str) -> None:
    assert show_ms(milliseconds) == shown


def test_costs_are_shown_in_milliseconds_or_in_their_own_unit() -> None:
    assert show_cost(0.0052, "s") == show_cost(5200.0, "us") == "5.20 ms"
    assert show_cost(25.92, "usd") == "25.92 usd"
    assert show_cost(0.0, "usd") == "0 usd"


def test_accuracies_have_three_decimals() -> None:
    assert [show_accuracy(a) for a in (0.0, 0.9829, 1.0)] == ["0.000", "0.983", "1.000"]
