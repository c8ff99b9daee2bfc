"""Find the candidates on the skyline of each item size."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .kernels.crossings import ever_cheaper
from .kernels.envelope import envelope_intervals

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Skylines:
    """The skylines of all sizes in a range, as intervals of sizes for each candidate.

    A candidate is on the skyline of a size if it is more accurate than all candidates
    that cost no more at that size. Of equal candidates, only the first row is on the
    skyline. A size at which the skyline changes has the skyline of the sizes just above
    it.
    """

    # (S,) int64: Candidate of each interval; ordered by row, then by size
    rows: NDArray[np.int64]
    # `starts` and `ends`: (S,) float64: First size of each interval, and the first size
    # after it; the end is infinite for an interval up to the end of the range
    starts: Floats
    ends: Floats
    sizes: tuple[float, float]  # Range of sizes, `(low, high)`

    @property
    def breakpoints(self) -> Floats:
        """Sizes inside the range at which the skyline changes, ascending."""
        changes = np.unique(np.concatenate([self.starts, self.ends]))
        return changes[(changes > self.sizes[0]) & (changes < np.inf)]


def skylines(
    coefficients: Floats, accuracies: Floats, sizes: tuple[float, float]
) -> Skylines:
    """Return the skylines of all sizes in the range `sizes`.

    `coefficients` (C, d + 1) are the cost curves, polynomials of degree d, of C
    candidates. Candidates are added, the most accurate first, to a lower envelope of
    cost curves. Each is on the skyline where it lowers the envelope: there it costs
    less than all candidates that are at least as accurate. The result is that of ICSP's
    algorithm 3, a sweep of sizes.
    """
    check_candidates(coefficients, accuracies, sizes)
    order = np.argsort(-accuracies, kind="stable")
    rows, starts, ends = envelope_intervals(
        np.ascontiguousarray(coefficients[order]), accuracies[order], *sizes
    )
    rows = order[rows]
    by_row = np.lexsort([starts, rows])
    return Skylines(rows[by_row], starts[by_row], ends[by_row], sizes)


def check_candidates(
    coefficients: Floats, accuracies: Floats, sizes: tuple[float, float]
) -> None:
    """Raise BadInput for wrong shapes, numbers out of range, or a negative cost."""
    check_numbers(coefficients, accuracies, "d + 1")
    if coefficients.size == 0:
        raise BadInput("no candidates: at least one, with one coefficient, is needed")
    low, high = sizes
    if not 0 <= low <= high < np.inf:
        raise BadInput(f"sizes are ({low!r}, {high!r}); 0 <= low <= high is needed")
    # A polynomial without a negative coefficient is nowhere negative at sizes >= 0.
    doubtful = np.flatnonzero((coefficients < 0).any(axis=1))
    nothing = np.zeros(coefficients.shape[1])
    fine = np.ones(len(accuracies), bool)
    for row in doubtful:
        curve = np.ascontiguousarray(coefficients[row])
        fine[row] = not ever_cheaper(curve, nothing, low, high)
    check_rows(fine, f"a negative cost at a size from {low:g} to {high:g}")


def check_numbers(coefficients: Floats, accuracies: Floats, terms: str) -> None:
    """Raise BadInput unless costs are finite and accuracies are in [0, 1].

    `coefficients` must have the shape (C, T), and `accuracies` (C,). In an error
    message, T is called `terms`.
    """
    if coefficients.ndim != 2 or accuracies.shape != coefficients.shape[:1]:
        raise BadInput(
            f"costs of shape {coefficients.shape} and accuracies of shape "
            f"{accuracies.shape}; (C, {terms}) and (C,) are needed"
        )
    finite = np.asarray(np.isfinite(coefficients).all(axis=1))
    check_rows(finite, "a cost that is not finite")
    inside = np.logical_and(accuracies >= 0, accuracies <= 1)
    check_rows(inside, "an accuracy outside [0, 1]")


def check_rows(fine: NDArray[np.bool_], fault: str) -> None:
    """Raise BadInput if a candidate is not `fine`.

    The error names the first such candidate and the `fault`.
    """
    if not fine.all():
        raise BadInput(f"candidate {int(np.argmin(fine))} has {fault}")
