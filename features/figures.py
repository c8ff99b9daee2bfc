"""Writes numbers for people, rounded: times, costs, shares."""

import math

# From a quarter of an hour on, nobody reads single microseconds.
LONG_US = 1e9
DIGITS = 3  # significant digits of a time
FINEST = 4  # decimals of a millisecond: a tenth of a microsecond
MONEY_DIGITS = 4
NUMBER_DIGITS = 4
# Numbers outside of this range are written with an exponent.
LEAST_NUMBER, MOST_NUMBER = 1e-4, 1e12


def show_us(microseconds: float) -> str:
    """Write microseconds: `5,200 us`, or `1.5e+12 us` for a very large number."""
    shown = ",.0f" if abs(microseconds) < LONG_US else ".4g"
    return f"{microseconds:{shown}} us"


def show_ms(milliseconds: float) -> str:
    """Write milliseconds with three digits: `0.0295 ms`, `5.20 ms`, `1,280 ms`.

    Examples
    --------
    >>> show_ms(5.2), show_ms(1280.4), show_ms(0.00012), show_ms(1.5e9)
    ('5.20 ms', '1,280 ms', '0.0001 ms', '1.5e+09 ms')
    """
    if abs(milliseconds) >= LONG_US / 1e3:
        return f"{milliseconds:.4g} ms"
    if milliseconds == 0:
        return "0 ms"
    rounded = float(f"{milliseconds:.{DIGITS}g}")
    decimals = DIGITS - 1 - math.floor(math.log10(abs(rounded)))
    return f"{rounded:,.{min(max(decimals, 0), FINEST)}f} ms"


def show_cost(amount: float, unit: str) -> str:
    """Write a cost: as milliseconds if `unit` is "s" or "us", and else as money.

    Examples
    --------
    >>> show_cost(0.0052, "s"), show_cost(25.92, "usd")
    ('5.20 ms', '25.92 usd')
    """
    if unit in ("s", "us"):
        return show_ms(amount * (1e3 if unit == "s" else 1e-3))
    return f"{amount:.{MONEY_DIGITS}g} {unit}"


def show_accuracy(share: float) -> str:
    """Write a quality, or a difference of qualities, with three decimals: `0.983`."""
    return f"{share:.3f}"


def show_number(number: float) -> str:
    """Write a predicted number, or a mean error, with four significant digits or more.

    Examples
    --------
    >>> show_number(12.3), show_number(-0.01234), show_number(1234567.8)
    ('12.3', '-0.01234', '1,234,568')
    """
    size = abs(number)
    if not LEAST_NUMBER <= size < MOST_NUMBER:
        return f"{number:.{NUMBER_DIGITS}g}"
    decimals = NUMBER_DIGITS - 1 - math.floor(math.log10(size))
    shown = f"{number:,.{max(decimals, 0)}f}"
    return shown.rstrip("0").rstrip(".") if "." in shown else shown
