"""More rows to fit a schedule on, made from those there are; no labels needed."""

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.rows import as_numbers


def swap_columns(
    rows: NDArray[np.float32], *, copies: int = 3, swaps: float = 1.0, seed: int = 0
) -> NDArray[np.float32]:
    """Add copies in which some columns come from other rows.

    An ensemble is surer of the rows it was trained on than of fresh ones, so a
    schedule fitted on those alone stops too early. Rows it has never seen, with about
    `swaps` columns each drawn from another row, behave more like fresh ones.

    Parameters
    ----------
    rows
        (N, width) inputs of the ensemble: of a frame with categories its `rows`.
    copies
        Altered copies of all rows, >= 0.
    swaps
        Mean number of columns that another row's value takes, in (0, width].
    seed
        Of the draws.

    Returns
    -------
    ((1 + copies) * N, width) rows, the original ones first.
    """
    rows = as_numbers(rows, "rows")
    if rows.ndim != 2 or 0 in rows.shape:
        raise BadInput(f"rows have shape {rows.shape}; they must be (N, width)")
    if copies < 0:
        raise BadInput(f"copies is {copies!r}; it must be at least 0")
    if not 0 < swaps <= rows.shape[1]:
        raise BadInput(
            f"swaps is {swaps!r}; it must be above 0 and at most the {rows.shape[1]} "
            "columns"
        )
    draws = np.random.default_rng(seed)
    out = np.tile(rows, (1 + copies, 1))
    for k in range(1, 1 + copies):
        altered = out[k * len(rows) : (k + 1) * len(rows)]
        for j in range(rows.shape[1]):
            taken = np.flatnonzero(draws.random(len(rows)) < swaps / rows.shape[1])
            altered[taken, j] = rows[draws.integers(0, len(rows), len(taken)), j]
    return out
