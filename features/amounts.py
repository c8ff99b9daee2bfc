"""Amounts of time, written for people."""

# From here on, about a quarter of an hour, nobody reads single microseconds.
LONG_US = 1e9


def show_us(microseconds: float) -> str:
    """Write microseconds: `5,200 us`, and `1.5e+12 us` where they are very many."""
    shown = ",.0f" if abs(microseconds) < LONG_US else ".4g"
    return f"{microseconds:{shown}} us"
