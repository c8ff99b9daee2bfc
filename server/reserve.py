"""How much of every budget to keep for what follows the plan."""

QUANTILE = 0.99
# Largest relative change that one measurement makes.
RATE = 0.05


class Reserve:
    """A running high quantile of the seconds from a plan's end to its answer sent.

    Stochastic approximation (Robbins and Monro, 1951) on the logarithm, so that one
    stall moves it by `RATE` and not by its own length: every measurement above pulls
    it up, every other down, in the ratio that balances at the quantile.

    Parameters
    ----------
    seconds
        The first estimate, above 0.
    """

    __slots__ = ("seconds",)

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def add(self, seconds: float) -> None:
        """Take one more measurement into account."""
        if seconds > self.seconds:
            self.seconds *= 1 + RATE * QUANTILE
        else:
            self.seconds *= 1 - RATE * (1 - QUANTILE)
