"""Cost curves: seconds as a polynomial of an item's size, fitted to measured times.

No coefficient is negative, so a cost never falls as the size grows, and a larger
feature set never costs less. The curve follows a high quantile of the times: a curve
through their mean would let a plan exceed its budget half the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import BadInput
from ..sizes import Size
from .polynomials import cost_at, degree_of, values_at
from .quantile import fit_quantile

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CostCurve:
    """Seconds as a polynomial of the item size, without negative coefficients.

    Attributes
    ----------
    coefficients : (T,) float64
        From the constant term on, in the order of `polynomials.py`; read-only.
    variables : int
        How many numbers a size has: 1 or 2.

    Raises
    ------
    BadInput
        If a coefficient is negative or not finite, or if no polynomial in
        `variables` numbers has this number of coefficients.

    Examples
    --------
    >>> curve = CostCurve([1e-3, 2e-6]) + CostCurve([1e-3])
    >>> curve(500)
    0.003
    >>> CostCurve([1e-3, 0, 2e-6], variables=2).at((640.0, 500.0))
    0.002
    """

    coefficients: Floats
    variables: int

    def __init__(self, coefficients: ArrayLike, variables: int = 1) -> None:
        own = checked(coefficients, ndim=1)
        if degree_of(len(own), variables) < 0:
            raise BadInput(
                f"{len(own)} cost coefficients came; a polynomial in two numbers has "
                "1, 3, 6, 10 ..."
            )
        object.__setattr__(self, "coefficients", own)
        object.__setattr__(self, "variables", variables)

    @property
    def degree(self) -> int:
        """Degree of the polynomial; for two variables, the total degree."""
        return degree_of(len(self.coefficients), self.variables)

    @overload
    def __call__(self, size: float) -> float: ...
    @overload
    def __call__(self, size: ArrayLike) -> Floats: ...
    def __call__(self, size: ArrayLike) -> float | Floats:
        """Return the seconds of an item of this size, or of each size in an array.

        Pass sizes of two numbers as an array (M, 2). For a single pair, call `at`.
        """
        if isinstance(size, float | int | np.number):
            return self.at(float(size))
        points = np.asarray(size, np.float64)
        if self.variables == 2 and (points.ndim != 2 or points.shape[1] != 2):
            raise BadInput(f"sizes of shape {points.shape} came; (M, 2) is needed")
        return values_at(self.coefficients, points)

    def at(self, size: Size) -> float:
        """Return the seconds of one item; `size` is one number or a pair of numbers."""
        return cost_at(self.coefficients.tolist(), size)

    def __add__(self, other: "CostCurve") -> "CostCurve":
        """Return the sum of this cost curve and another."""
        shorter, longer = sorted((self.coefficients, other.coefficients), key=len)
        added = longer.copy()
        added[: len(shorter)] += shorter
        return CostCurve(added, self.variables)

    def within(self, sizes: ArrayLike, seconds: ArrayLike) -> float:
        """Return the share of measured times that lie on or under the curve."""
        fitted_s = self(np.asarray(sizes, np.float64))
        return float(np.mean(np.asarray(seconds) <= fitted_s * (1 + 1e-9)))

    @classmethod
    def fit(
        cls,
        sizes: ArrayLike,
        seconds: ArrayLike,
        *,
        quantile: float = 0.99,
        max_degree: int = 3,
        seed: int = 0,
        items: ArrayLike | None = None,
    ) -> "CostCurve":
        """Fit a curve to measured times by quantile regression.

        Small items weigh as much as large items. The degree is the lowest degree that
        fits held-out times well. Outliers, times far above all others, do not bend the
        curve, unless their true share is probably above 1 - `quantile`
        (docs/explanation/cost-curves.md).

        Parameters
        ----------
        sizes : (M,) or (M, 2)
            Sizes of the measured items, above 0 and finite.
        seconds : (M,)
            Measured times, 0 or more and finite.
        quantile
            Share of the times that should lie under the curve, between 0 and 1.
        max_degree
            Highest degree, 0 or more. A polynomial never has more coefficients than
            there are different sizes.
        seed
            Seed of the random division of the times that chooses the degree.
        items : (M,)
            Index of the item that each time belongs to. If given, the times of an item
            that is slow in every measurement are no outliers.

        Raises
        ------
        BadInput
            If there are no times, or any argument is out of its range.
        """
        sizes, seconds = measured(sizes, seconds)
        if not 0 < quantile < 1:
            raise BadInput(f"quantile is {quantile!r}; between 0 and 1 is needed")
        if max_degree < 0:
            raise BadInput(f"max_degree is {max_degree!r}; 0 or more is needed")
        own = None if items is None else np.asarray(items, np.int64)
        if own is not None and own.shape != seconds.shape:
            raise BadInput(
                f"items of shape {own.shape} came for {len(seconds)} times; one each "
                "is needed"
            )
        fitted = fit_quantile(sizes, seconds, quantile, max_degree, seed, own)
        return cls(fitted, sizes.ndim)


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """Costs of feature sets. A set pays once for a step that several features need."""

    # (m, T) float64: Coefficients of the cost curve of each feature without its steps,
    # in seconds, from the constant term on
    feature_coefficients: Floats
    # (s, T) float64: Coefficients of the cost curve of each step, in seconds
    step_coefficients: Floats
    # Positions of all steps that each feature needs, directly or not
    needs: tuple[tuple[int, ...], ...]
    # (T,) float64: Coefficients of the cost curve of the work that every feature set
    # needs, even the empty set
    overhead: Floats

    def __init__(
        self,
        feature_coefficients: ArrayLike,
        step_coefficients: ArrayLike,
        needs: Sequence[Sequence[int]],
        overhead: ArrayLike,
    ) -> None:
        features = checked(feature_coefficients, ndim=2)
        steps = checked(step_coefficients, ndim=2)
        fixed = checked(overhead, ndim=1)
        if not features.shape[1] == steps.shape[1] == len(fixed):
            raise BadInput(
                f"features have {features.shape[1]} coefficients, steps "
                f"{steps.shape[1]} and the overhead {len(fixed)}; as many are needed"
            )
        if len(needs) != len(features):
            raise BadInput(f"{len(features)} features came with {len(needs)} needs")
        for needed in needs:
            if not all(0 <= step < len(steps) for step in needed):
                raise BadInput(f"needs {list(needed)} are not among {len(steps)} steps")
        object.__setattr__(self, "feature_coefficients", features)
        object.__setattr__(self, "step_coefficients", steps)
        object.__setattr__(self, "needs", tuple(map(tuple, needs)))
        object.__setattr__(self, "overhead", fixed)

    def of(self, mask: int) -> Floats:
        """Return the coefficients (T,) of the cost curve of one feature set."""
        total: Floats = self.of_many(np.array([mask], np.uint64))[0]
        return total

    def of_many(self, masks: NDArray[np.uint64]) -> Floats:
        """Return the coefficients (C, T) of the cost curves of C feature sets.

        Costs are added in the same order for every set, so that rounding never makes a
        set cost more than its superset.
        """
        if np.any(masks >> np.uint64(len(self.needs)) if len(self.needs) < 64 else 0):
            raise BadInput(f"a mask names more than the {len(self.needs)} features")
        total = np.repeat(self.overhead[np.newaxis], len(masks), axis=0)
        for position, coefficients in enumerate(self.feature_coefficients):
            chosen = masks >> np.uint64(position) & np.uint64(1)
            total += chosen[:, np.newaxis] * coefficients
        for position, coefficients in enumerate(self.step_coefficients):
            users = sum(
                1 << user
                for user, needed in enumerate(self.needs)
                if position in needed
            )
            paid = masks & np.uint64(users) != 0
            total += paid[:, np.newaxis] * coefficients
        return total


def checked(coefficients: ArrayLike, *, ndim: int) -> Floats:
    """Return a read-only copy of coefficients, as an array with `ndim` dimensions.

    Raises BadInput for another number of dimensions, and for a coefficient that is
    negative or not finite.
    """
    array = np.array(coefficients, np.float64)
    if array.ndim != ndim or array.shape[-1] == 0:
        raise BadInput(
            f"cost coefficients of shape {array.shape} came; {ndim} dimension(s) with "
            "at least a constant are needed"
        )
    sound = (array >= 0) & (array < np.inf)
    if not sound.all():
        raise BadInput(
            "cost coefficients must be finite and not negative; "
            f"{array[~sound][0]:g} is among them"
        )
    array.flags.writeable = False
    return array


def measured(sizes: ArrayLike, seconds: ArrayLike) -> tuple[Floats, Floats]:
    """Convert sizes and measured times to arrays of float64.

    Raises BadInput if the shapes do not fit together or a number is out of range.
    """
    sizes, seconds = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    numbers = sizes.shape[1:] in ((), (2,)) and sizes.shape[:1] == seconds.shape
    if not numbers or seconds.ndim != 1 or not len(seconds):
        raise BadInput(
            f"sizes of shape {sizes.shape} and seconds of shape {seconds.shape} came; "
            "as many of both are needed, in one dimension and at least one; sizes may "
            "be pairs"
        )
    if not np.all((sizes > 0) & (sizes < np.inf)):
        raise BadInput("sizes must be finite and above 0")
    if not np.all((seconds >= 0) & (seconds < np.inf)):
        raise BadInput("seconds must be finite and not negative")
    return sizes, seconds
