"""Cost curves: seconds as a polynomial of an item's size, fitted to measured times.

Coefficients are never negative, so that a curve never falls and a larger feature set
never costs less. The curve follows a high quantile of the times and not their mean,
since a plan that holds on average breaks its budget half the time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import BadInput

if TYPE_CHECKING:
    from .measure import Timings

Floats = NDArray[np.float64]

FOLDS = 4  # of the times, for choosing the degree
CLOSE = 0.01  # relative held-out loss that is not worth a degree
REWEIGHTINGS = 3
TINY = 1e-6  # smallest weight's denominator, relative to the longest time


@dataclass(frozen=True, slots=True, eq=False)
class CostCurve:
    """Seconds as a polynomial of the item size n > 0, without negative coefficients.

    Attributes
    ----------
    coefficients : (degree + 1,) float64
        Constant first; read-only.

    Raises
    ------
    BadInput
        If a coefficient is negative or not finite, or there is none.

    Examples
    --------
    >>> curve = CostCurve([1e-3, 2e-6]) + CostCurve([1e-3])
    >>> curve(500)
    0.003
    """

    coefficients: Floats

    def __init__(self, coefficients: ArrayLike) -> None:
        object.__setattr__(self, "coefficients", checked(coefficients, ndim=1))

    @property
    def degree(self) -> int:
        """Largest power of n."""
        return len(self.coefficients) - 1

    @overload
    def __call__(self, size: float) -> float: ...
    @overload
    def __call__(self, size: Floats) -> Floats: ...
    def __call__(self, size: float | Floats) -> float | Floats:
        """Seconds for an item of this size, or for each of an array of sizes."""
        seconds: float | Floats = 0.0
        for coefficient in reversed(self.coefficients.tolist()):
            seconds = seconds * size + coefficient
        return seconds

    def __add__(self, other: "CostCurve") -> "CostCurve":
        """Cost of doing both."""
        return CostCurve(sum_padded([self.coefficients, other.coefficients]))

    def within(self, sizes: ArrayLike, seconds: ArrayLike) -> float:
        """Share of measured times that are at most what the curve says."""
        sizes, seconds = np.asarray(sizes, float), np.asarray(seconds, float)
        return float(np.mean(seconds <= self(sizes) * (1 + 1e-9)))

    @classmethod
    def fit(
        cls,
        sizes: ArrayLike,
        seconds: ArrayLike,
        *,
        quantile: float = 0.99,
        max_degree: int = 3,
        seed: int = 0,
    ) -> "CostCurve":
        """Fit measured times by quantile regression.

        Errors count relative to what the item should cost, so that small items weigh
        as much as large ones. The degree is the lowest whose held-out loss is not
        clearly above the best one's.

        Parameters
        ----------
        sizes, seconds : (M,)
            Measured items; sizes above 0, seconds 0 or more, both finite.
        quantile
            Share of the times that should lie under the curve, between 0 and 1.
        max_degree
            0 or more; also bounded by the number of different sizes.
        seed
            Of the split for choosing the degree.

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
        if not seconds.any():
            return cls([0.0])
        scale = local_medians(sizes, seconds)
        highest = min(max_degree, len(np.unique(sizes)) - 1)
        degree = choose_degree(sizes, seconds, scale, quantile, highest, seed)
        for _ in range(REWEIGHTINGS):
            curve = cls(quantile_fit(sizes, seconds, scale, quantile, degree))
            scale = np.maximum(curve(sizes), TINY * seconds.max())
        return curve


@dataclass(frozen=True, slots=True, eq=False)
class CostTable:
    """What feature sets cost, when a step is paid once however many features need it.

    Attributes
    ----------
    feature_coefficients : (m, degree + 1) float64
        Cost curve of each feature without its steps, constant first, seconds.
    step_coefficients : (s, degree + 1) float64
        Cost curve of each step.
    needs : tuple of m tuples of int
        Positions of the steps that each feature needs, also indirectly.
    overhead : (degree + 1,) float64
        Paid always, even for the empty set.
    """

    feature_coefficients: Floats
    step_coefficients: Floats
    needs: tuple[tuple[int, ...], ...]
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

    @classmethod
    def fit(
        cls,
        timings: "Timings",
        needs: Sequence[Sequence[int]],
        *,
        overhead_s: float = 0.0,
        quantile: float = 0.99,
        max_degree: int = 3,
        seed: int = 0,
    ) -> Self:
        """Fit the curve of every feature and step; see `CostCurve.fit`.

        Parameters
        ----------
        timings
            What `measure` found.
        needs
            `Extractor.needs` of the extractor that was measured.
        overhead_s
            Seconds that every plan costs, whatever the item's size.
        """

        def fit_columns(seconds: Floats) -> Floats:
            rows = np.zeros((seconds.shape[1], max_degree + 1))
            for row, column in zip(rows, seconds.T, strict=True):
                curve = CostCurve.fit(
                    timings.sizes,
                    column,
                    quantile=quantile,
                    max_degree=max_degree,
                    seed=seed,
                )
                row[: curve.degree + 1] = curve.coefficients
            return rows

        return cls(
            fit_columns(timings.feature_s),
            fit_columns(timings.step_s),
            needs,
            [overhead_s, *[0.0] * max_degree],
        )

    def of(self, mask: int) -> Floats:
        """Cost polynomial (degree + 1,) of one feature set; see `of_many`."""
        total: Floats = self.of_many(np.array([mask], np.uint64))[0]
        return total

    def of_many(self, masks: NDArray[np.uint64]) -> Floats:
        """Cost polynomials (C, degree + 1) of feature sets (C,), given as bit masks.

        Each is the sum of the overhead, the set's features and all steps they need. The
        terms are added in the same order for every set: the costs of a set and of its
        supersets compare as they should, down to the last bit.
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

    def feature_s(self, order: Sequence[int], size: float) -> Floats:
        """Seconds that each feature adds when computed in this order on this size.

        A step is paid by the first feature that needs it; the overhead by none.
        """
        powers = float(size) ** np.arange(len(self.overhead))
        paid: set[int] = set()
        seconds = np.empty(len(order))
        for place, position in enumerate(order):
            fresh = [step for step in self.needs[position] if step not in paid]
            paid.update(fresh)
            own = self.feature_coefficients[position]
            seconds[place] = (own + self.step_coefficients[fresh].sum(axis=0)) @ powers
        return seconds


def checked(coefficients: ArrayLike, *, ndim: int) -> Floats:
    """Copy coefficients, which must be finite and not negative, read-only."""
    array = np.array(coefficients, np.float64)
    if array.ndim != ndim or array.shape[-1] == 0:
        raise BadInput(
            f"cost coefficients of shape {array.shape} came; {ndim} dimension(s) with "
            "at least a constant are needed"
        )
    if not np.all((array >= 0) & (array < np.inf)):
        raise BadInput(f"cost coefficients must be finite and not negative: {array}")
    array.flags.writeable = False
    return array


def sum_padded(rows: Sequence[Floats]) -> Floats:
    """Add coefficients of different degrees."""
    total = np.zeros(max(map(len, rows)))
    for row in rows:
        total[: len(row)] += row
    return total


def measured(sizes: ArrayLike, seconds: ArrayLike) -> tuple[Floats, Floats]:
    """Check measured times and the sizes that they belong to."""
    sizes, seconds = np.asarray(sizes, np.float64), np.asarray(seconds, np.float64)
    if sizes.ndim != 1 or sizes.shape != seconds.shape or not len(sizes):
        raise BadInput(
            f"sizes of shape {sizes.shape} and seconds of shape {seconds.shape} came; "
            "as many of both are needed, in one dimension and at least one"
        )
    if not np.all((sizes > 0) & (sizes < np.inf)):
        raise BadInput("sizes must be finite and above 0")
    if not np.all((seconds >= 0) & (seconds < np.inf)):
        raise BadInput("seconds must be finite and not negative")
    return sizes, seconds


def local_medians(sizes: Floats, seconds: Floats) -> Floats:
    """For each time, the median of those at similar sizes."""
    order = np.argsort(sizes, kind="stable")
    medians = np.empty_like(seconds)
    for near in np.array_split(order, np.clip(len(order) // 8, 1, 32)):
        medians[near] = np.median(seconds[near])
    floor: float = TINY * seconds.max()
    return np.maximum(medians, floor)


def choose_degree(
    sizes: Floats,
    seconds: Floats,
    scale: Floats,
    quantile: float,
    highest: int,
    seed: int,
) -> int:
    """Lowest degree whose held-out loss is within a standard error of the best."""
    if highest == 0 or len(sizes) < 2 * FOLDS:
        return highest
    fold = np.random.default_rng(seed).permutation(len(sizes)) % FOLDS
    losses = np.empty((highest + 1, len(sizes)))
    for held in range(FOLDS):
        out, kept = fold == held, fold != held
        for degree in range(highest + 1):
            coefficients = quantile_fit(
                sizes[kept], seconds[kept], scale[kept], quantile, degree
            )
            error = (seconds[out] - CostCurve(coefficients)(sizes[out])) / scale[out]
            losses[degree, out] = np.maximum(quantile * error, (quantile - 1) * error)
    means = losses.mean(axis=1)
    excess = losses - losses[np.argmin(means)]
    noise = excess.std(axis=1) / np.sqrt(len(sizes))
    close = excess.mean(axis=1) <= np.maximum(noise, CLOSE * means.min() + 1e-9)
    return int(np.argmax(close))


def quantile_fit(
    sizes: Floats, seconds: Floats, scale: Floats, quantile: float, degree: int
) -> Floats:
    """Non-negative coefficients (degree + 1,) with the least pinball loss, exactly.

    The loss of a time y under a curve f is `max(q e, (q - 1) e)` with
    `e = (y - f) / scale`. Solved as the dual linear program (Koenker and Bassett,
    Regression Quantiles, 1978), which has one bounded variable per time and only
    degree + 1 constraints; sizes are scaled to [0, 1], without which the cube of a
    million pixels would drown the constant.
    """
    from scipy.optimize import linprog

    powers = np.arange(degree + 1)
    design = (sizes / sizes.max())[:, np.newaxis] ** powers / scale[:, np.newaxis]
    units = design.max(axis=0)
    result = linprog(
        -seconds / scale,
        A_ub=(design / units).T,
        b_ub=np.zeros(degree + 1),
        bounds=(quantile - 1, quantile),
        method="highs",
    )
    if result.status != 0:
        raise BadInput(f"the times cannot be fitted: {result.message}")
    scaled = np.maximum(-np.asarray(result.ineqlin.marginals, np.float64), 0)
    found: Floats = scaled / (units * sizes.max() ** powers)
    return found
