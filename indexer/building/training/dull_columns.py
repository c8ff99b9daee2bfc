"""Columns of equal or empty cells: warnings, and a mask to leave them out."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.extract import Extractor
from polydom.features.tables.column_features import Columns

from ..data.dataset import Rows

log = logging.getLogger("polydom")

Floats = NDArray[np.float32]


def say_dull_columns(
    extractor: Extractor, values: Floats, trained: Sequence[Rows], *, everywhere: bool
) -> None:
    """Warn of table columns in which all cells are equal, or all are empty.

    `values` (N, width) are feature values, and `trained` has the rows of each training.
    A column is named if it is constant in the rows of a training. If it is constant in
    all N rows, it is named only if `everywhere` is true.
    """
    names = {
        place: name
        for position, feature in enumerate(extractor.features)
        if isinstance(feature.function, Columns)
        for place, name in enumerate(
            feature.function.sources, extractor.columns(position).start
        )
    }
    if not names:
        return
    whole = _dull(values)
    by_part = [_dull(values[rows]) for rows in trained]
    for place, name in names.items():
        parts = sum(bool(one[place]) for one in by_part)
        if whole[place] and everywhere:
            is_empty = bool(np.isnan(values[:1, place]).all())
            what = "is empty" if is_empty else "holds one value only"
            log.warning("column %r %s, so no model depends on it", name, what)
        elif parts and not whole[place]:
            log.warning(
                "column %r holds one value or none in the rows of %d of %d trainings, "
                "whose models do not depend on it",
                name,
                parts,
                len(trained),
            )


def _dull(values: Floats) -> NDArray[np.bool_]:
    """Return a mask (width,): True for a column with equal values in all N rows."""
    low, high = np.fmin.reduce(values), np.fmax.reduce(values)
    has_gaps = np.isnan(values).any(axis=0)
    dull: NDArray[np.bool_] = np.where(
        np.isnan(low), has_gaps, ~has_gaps & (low == high)
    )
    return dull


def varying_columns(estimator: Any, X: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return a mask (d,): True for a column of X (N, d) with at least two values.

    NaN counts as a value, except for a pipeline, which replaces NaN by a number.
    """
    low, high = np.fmin.reduce(X), np.fmax.reduce(X)
    differ: NDArray[np.bool_] = low < high  # False for NaN: an empty column
    if not hasattr(estimator, "steps"):
        differ |= np.isnan(X).any(axis=0) & ~np.isnan(low)
    return differ
