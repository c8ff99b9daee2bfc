"""What each candidate of an index still costs when some features are computed."""

import math

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.polynomials import monomials
from polydom.features.sizes import Size
from polydom.indexer.index.package import Package

Floats = NDArray[np.float64]


class RestCosts:
    """Finds the best candidate to go on to from computed features; immutable.

    The index has C candidates, m features and s steps.
    """

    def __init__(self, package: Package, qualities: Floats) -> None:
        self._table = package.costs
        self._models = package.model_s, package.checked_s
        self._qualities = qualities
        self._masks = package.masks.astype(np.int64)
        m = len(package.costs.needs)
        # (C, m) and (m, s): features of candidates, and steps of features
        self._sets = (self._masks[:, None] >> np.arange(m) & 1).astype(np.bool_)
        self._needs = np.zeros((m, len(package.costs.step_coefficients)), np.bool_)
        for feature, steps in enumerate(package.costs.needs):
            self._needs[feature, list(steps)] = True

    def ready(self, computed: int) -> int:
        """Return the row of the best candidate whose features are all `computed`."""
        own = self._masks & ~computed == 0
        return int(np.where(own, self._qualities, -math.inf).argmax())

    def of_feature(self, feature: int, size: Size, run: int) -> float:
        """Return the cost of a feature and its steps, without the steps in `run`."""
        return float(self._costs(np.eye(len(self._needs))[feature] > 0, size, run))

    def curve_of(self, features: int) -> list[float]:
        """Return the cost curve of the features in a mask, each with its steps."""
        table = self._table
        chosen = features >> np.arange(len(self._needs)) & 1
        curve: list[float] = (
            chosen @ table.feature_coefficients
            + chosen @ self._needs @ table.step_coefficients
        ).tolist()
        return curve

    def of_candidates(
        self, size: Size, computed: int, run: int, *, exact: bool
    ) -> Floats:
        """Return what each candidate costs beyond computed features and run steps.

        `computed` is the mask of computed features, and `run` of steps that have run.
        The costs (C,) include the candidates' models, evaluated whole if `exact`. They
        are 0 for candidates whose features are all computed.
        """
        left = self._sets & ~(computed >> np.arange(len(self._needs)) & 1 > 0)
        costs = self._costs(left, size, run) + self._models[exact]
        found: Floats = np.where(left.any(axis=1), costs, 0.0)
        return found

    def best(
        self, costs: Floats, left: float, withheld: int, min_quality: float
    ) -> tuple[int, int]:
        """Return the best row that costs at most `left`, and the cheapest row.

        Both are candidates that need no feature in the mask `withheld`, have at least
        `min_quality`, and compute some feature; -1 if there is none. Of equally good
        rows, the best is the cheapest, and the other way round.
        """
        able = (self._masks != 0) & (self._masks & withheld == 0)
        rows = np.flatnonzero(able & (self._qualities >= min_quality))
        if not len(rows):
            return -1, -1
        own, good = costs[rows], self._qualities[rows]
        cheapest = int(rows[np.lexsort((-good, own))[0]])
        fits = own <= left
        if not fits.any():
            return -1, cheapest
        ranked = np.lexsort((own, -np.where(fits, good, -math.inf)))
        return int(rows[ranked[0]]), cheapest

    def _costs(self, features: NDArray[np.bool_], size: Size, run: int) -> Floats:
        """Return the cost of each set of `features` (..., m) with the steps not run."""
        table = self._table
        terms = monomials([size], len(table.overhead))[0]
        steps = features @ self._needs
        steps &= ~(run >> np.arange(self._needs.shape[1]) & 1 > 0)
        total: Floats = features @ (table.feature_coefficients @ terms)
        total = total + steps @ (table.step_coefficients @ terms)
        return total
