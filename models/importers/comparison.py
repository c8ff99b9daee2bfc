"""A compiled model beside its original, on rows drawn where it decides."""

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
GAPS = 0.1  # share of values that are missing, where the original takes that
# A margin this small may be rounding: XGBoost adds in float32, forests in threads.
NEAR = 1e-4


def check_decisions(original: Any, model: Any, columns: NDArray[np.int32]) -> None:
    """Raise BadModel if a compiled classifier answers drawn rows otherwise.

    `columns` (d,) are the positions in the model's full row of the original's columns.
    """

    def differ(X: Any, theirs: NDArray[Any]) -> Any:
        scores = np.sort(model.predict_scores(X), axis=1)
        best = scores[:, -1]
        margin = best - scores[:, -2] if scores.shape[1] > 1 else best - best
        sure = ~(margin <= NEAR * np.maximum(1.0, np.abs(best)))
        return (model.predict(X) != theirs) & sure

    _compare(original, model, columns, differ)


def check_values(original: Any, model: Any, columns: NDArray[np.int32]) -> None:
    """Raise BadModel if a compiled regressor's predictions of drawn rows differ."""

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
    """Rows that the original takes, as it is given them, and its predictions.

    It may want no gaps, nothing negative, or names and types that only its own data
    frame has. Of categories a frame is what both are given. None if it takes none.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows without names, out of range ...
        for rows in (X, np.nan_to_num(X), np.abs(np.nan_to_num(X))):
            for form, both in _forms(original, fitted, rows[:, columns]):
                try:
                    return rows, form if both else rows, original.predict(form)
                except Exception:  # whatever it does not like
                    continue
    return X, X, None


def _forms(
    original: Any, fitted: FittedColumns | None, X: Floats
) -> Iterator[tuple[Any, bool]]:
    """Forms of rows to try, and whether the compiled model is to read them too."""
    names = getattr(original, "feature_names_in_", None)
    if names is not None and (pandas := sys.modules.get("pandas")):
        frame = pandas.DataFrame(X, columns=names)
        places = fitted.places if fitted else ()
        if fitted and places and not isinstance(fitted.categories[0][0], bytes):
            for j, known in zip(places, fitted.categories, strict=True):
                codes = np.nan_to_num(X[:, j], nan=-1.0).clip(-1, len(known))
                codes[codes == len(known)] = -1  # is unknown, which some refuse
                dtype = pandas.CategoricalDtype(list(known))
                column = pandas.Categorical.from_codes(codes.astype(int), dtype=dtype)
                frame.isetitem(j, column)
        yield frame, bool(places)
    yield X, False


def draw_rows(
    scorer: Any, columns: NDArray[np.int32], rng: np.random.Generator
) -> Floats:
    """Draw full rows (ROWS, width) from where a scorer's inputs make a difference."""
    X = np.zeros((ROWS, max(scorer.width, int(columns.max(initial=-1)) + 1)))
    preparation = scorer.preparation
    drawn = preparation.undo(scorer.draw_inputs(ROWS, rng))
    drawn[rng.random(drawn.shape) < GAPS] = np.nan
    drawn[0] = np.nan_to_num(drawn[0])
    X[:, preparation.columns] = drawn
    return X
