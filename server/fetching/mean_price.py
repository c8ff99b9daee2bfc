"""A mean price of a request: how much quality a unit of price has to gain for that."""

# Change of the worth of the dearest fetch, in quality, if it was bought once.
STEP = 2e-3


class MeanPrice:
    """Keeps the mean price of requests at what the operator allows.

    A fetch is bought if it is expected to gain more quality than `worth` times its
    price. After a request that was dearer than the mean allowed, `worth` rises, and
    falls after a cheaper one (dual ascent, as FrugalML's budget; Chen et al., 2020).
    Without a mean, `worth` stays 0. `dearest` is the largest price of a fetch, above 0
    if there is one with a price.
    """

    def __init__(self, mean: float | None, dearest: float) -> None:
        self.worth = 0.0  # quality for a unit of price
        self._mean = mean
        self._dearest = dearest

    def add(self, price: float) -> None:
        """Update the worth after a request with this price."""
        if self._mean is not None and self._dearest:
            step = STEP / self._dearest**2
            self.worth = max(0.0, self.worth + step * (price - self._mean))
