"""Read scikit-learn's fitted transformers into a `Preparation`."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel

from ..scoring.kernels.preparation import (
    AFFINE,
    CENTER,
    FILL,
    GAIN,
    HIGH,
    LARGEST_NORM,
    LOW,
    OFFSET,
    ROUNDED,
    SCALE,
    SINGLE,
    SQUARE_NORM,
    SUM_NORM,
)
from ..scoring.preparation import Preparation, affine, plain
from .known_classes import find_class, named, short

NORMS = {"max": LARGEST_NORM, "l1": SUM_NORM, "l2": SQUARE_NORM}
TRANSFORMERS = (
    "sklearn.preprocessing.StandardScaler",
    "sklearn.preprocessing.MinMaxScaler",
    "sklearn.preprocessing.MaxAbsScaler",
    "sklearn.preprocessing.RobustScaler",
    "sklearn.impute.SimpleImputer",
    "sklearn.preprocessing.Normalizer",
)


def compile_preparation(
    transformers: Sequence[Any], columns: NDArray[Any], *, rounded: bool = False
) -> Preparation:
    """Compile the fitted transformers of a Pipeline, from first to last.

    `columns` (d,) are the positions of the Pipeline's columns in the full row. If
    `rounded`, results are rounded to float32 where scikit-learn's scalers round them.
    Raises BadModel if a transformer has no compiled form.
    """
    made = plain(columns)
    for transformer in transformers:
        if transformer is not None and transformer != "passthrough":
            made = _add(made, transformer, rounded)
    return made


def _add(made: Preparation, transformer: Any, rounded: bool) -> Preparation:
    name = type(transformer).__name__
    d = len(made.columns)
    check_transformer(transformer)
    if getattr(transformer, "n_features_in_", d) != d:
        raise BadModel(
            f"{name} was fitted on {transformer.n_features_in_} columns, given {d}"
        )
    if name == "SimpleImputer":
        return _add_imputer(made, transformer)
    if name == "Normalizer":
        return made.then(NORMS[transformer.norm], affine(d, {}))
    row = {SCALE: transformer.scale_}
    if name == "StandardScaler":
        row[CENTER] = transformer.mean_ if transformer.with_mean else None
    elif name == "RobustScaler":
        row[CENTER] = transformer.center_
    elif name == "MinMaxScaler":
        row = {GAIN: transformer.scale_, OFFSET: transformer.min_}
        if transformer.clip:
            row[LOW], row[HIGH] = transformer.feature_range
    operation = AFFINE
    if rounded:
        operation = SINGLE if name == "StandardScaler" and _is_single() else ROUNDED
    return made.then(operation, affine(d, row))


@cache
def _is_single() -> bool:
    """Return True if the installed StandardScaler rounds its means to float32.

    It does so, if at all, only for rows of float32.
    """
    from sklearn.preprocessing import StandardScaler

    odd = 2.0**24 + 1  # this number is not a float32
    scaler = StandardScaler().fit([[odd]])
    return bool(scaler.transform(np.array([[odd - 1]], np.float32))[0, 0] == 0)


def check_transformer(transformer: Any) -> None:
    """Raise BadModel if the class of a transformer has no compiled form."""
    if not find_class(transformer, TRANSFORMERS):
        raise BadModel(
            f"{named(transformer, TRANSFORMERS)} in a Pipeline has no compiled form; "
            f"these have: {', '.join(short(TRANSFORMERS))}"
        )


def _add_imputer(made: Preparation, imputer: Any) -> Preparation:
    gap = imputer.missing_values
    if not (isinstance(gap, float) and np.isnan(gap)) or imputer.add_indicator:
        raise BadModel(
            "SimpleImputer has a compiled form for missing_values=NaN without "
            "add_indicator only"
        )
    fill = np.asarray(imputer.statistics_, np.float64)
    if imputer._fit_dtype == np.float32:
        fill = fill.astype(np.float32).astype(np.float64)  # the imputer rounds so, too
    made = made.then(AFFINE, affine(len(fill), {FILL: fill}))
    # The imputer drops columns in which all values were missing.
    kept = np.ones(len(fill), bool) if imputer.keep_empty_features else ~np.isnan(fill)
    return made.keep(kept)
