"""Compare the answers of a compiled model and of its original on random rows."""

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel, BadRow

from ..scoring.fitted_columns import FittedColumns

Floats = NDArray[np.float64]

ROWS = 12
GAPS = 0.1  # share of missing values, if the original accepts them
# Margins below NEAR may be rounding errors: XGBoost adds in float32, and the threads of
# forests in any order.
NEAR = 1e-4


def check_decisions(original: Any, model: Any, columns: NDArray[np.int32]) -> None:
    """Raise BadModel if a compiled classifier and its original choose differently.

    Both choose classes for the same random rows. Near ties are not compared. `columns`
    (d,) are the positions of the original's columns in the full row.
    """

    def differ(X: Any, theirs: NDArray[Any]) -> Any:
        scores = np.sort(model.predict_scores(X), axis=1)
        best = scores[:, -1]
        margin = best - scores[:, -2] if scores.shape[1] > 1 else best - best
        sure = ~(margin <= NEAR * np.maximum(1.0, np.abs(best)))
        return (model.predict(X) != theirs) & sure

    _compare(original, model, columns, differ)


def check_values(original: Any, model: Any, columns: NDArray[np.int32]) -> None:
    """Raise BadModel if a compiled regressor and its original predict differently.

    Both predict the same random rows. `columns` are as in `check_decisions`.
    """

    def differ(X: Any, theirs: NDArray[Any]) -> Any:
        near = NEAR * np.abs(theirs).max()
        return ~np.isclose(model.predict(X), theirs, rtol=NEAR, atol=near)

    _compare(original, model, columns, differ)


def _compare(
    original: Any,
    model: Any,
    columns: NDArray[np.int32],
    differ: Callable[[Any, NDArray[Any]], Any],
) -> None:
    X = draw_rows(model.scorer, columns, np.random.default_rng(0))
    rows, given, theirs = _predicted(original, model.fitted, X, columns)
    if theirs is None:
        return
    name = type(original).__name__
    try:
        apart = differ(given, np.asarray(theirs).reshape(-1))
    except BadRow as error:
        raise BadModel(
            f"the compiled form of {name} has no answer to a row that its predict "
            f"takes: {error}"
        ) from error
    if apart.any():
        i = int(apart.argmax())
        values = ", ".join(f"{value:.6g}" for value in rows[i, columns][:10])
        more = ", ..." if len(columns) > 10 else ""
        raise BadModel(
            f"the compiled form of {name} and its own predict disagree on "
            f"{apart.sum()} of {ROWS} drawn rows, the first being [{values}{more}]: "
            "it cannot be served"
        )


def _predicted(
    original: Any, fitted: FittedColumns | None, X: Floats, columns: NDArray[np.int32]
) -> tuple[Floats, Any, Any]:
    """Let the original model predict random rows X in the first form that it accepts.

    X is tried as a data frame and as an array. If both are refused, the same is tried
    without missing values, and last also without negative values. Returns (full rows,
    input for the compiled model, the original's predictions). The predictions are None
    if the original accepts no form.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of missing names, ranges and the like
        for rows in (X, np.nan_to_num(X), np.abs(np.nan_to_num(X))):
            for form, both in _forms(original, fitted, rows[:, columns]):
                try:
                    return rows, form if both else rows, original.predict(form)
                except Exception:  # estimators may refuse rows by any exception
                    continue
    return X, X, None


def _forms(
    original: Any, fitted: FittedColumns | None, X: Floats
) -> Iterator[tuple[Any, bool]]:
    """Yield X as a data frame, if the original has column names, and as an array.

    Each form comes with a flag: True if the compiled model must be given this form,
    False if it must be given full rows.
    """
    names = getattr(original, "feature_names_in_", None)
    if names is not None and (pandas := sys.modules.get("pandas")):
        frame = pandas.DataFrame(X, columns=names)
        places = fitted.places if fitted else ()
        if fitted and places and not isinstance(fitted.categories[0][0], bytes):
            for j, known in zip(places, fitted.categories, strict=True):
                codes = np.nan_to_num(X[:, j], nan=-1.0).clip(-1, len(known))
                codes[codes == len(known)] = -1  # unknown: some estimators refuse it
                dtype = pandas.CategoricalDtype(list(known))
                column = pandas.Categorical.from_codes(codes.astype(int), dtype=dtype)
                frame.isetitem(j, column)
        yield frame, bool(places)
    yield X, False


def draw_rows(
    scorer: Any, columns: NDArray[np.int32], rng: np.random.Generator
) -> Floats:
    """Draw random full rows (ROWS, width) for which the scorer's decisions vary."""
    X = np.zeros((ROWS, max(scorer.width, int(columns.max(initial=-1)) + 1)))
    preparation = scorer.preparation
    drawn = preparation.undo(scorer.draw_inputs(ROWS, rng))
    drawn[rng.random(drawn.shape) < GAPS] = np.nan
    drawn[0] = np.nan_to_num(drawn[0])
    X[:, preparation.columns] = drawn
    return X
