"""A compiled model beside its original, on rows drawn where it decides."""

import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadModel, BadRow

Floats = NDArray[np.float64]

ROWS = 12
GAPS = 0.1  # share of values that are missing, where the original takes that
# A margin this small may be rounding: XGBoost adds in float32, forests in threads.
NEAR = 1e-4


def check_decisions(
    original: Any, model: Any, scorer: Any, columns: NDArray[np.int32]
) -> None:
    """Raise BadModel if a compiled classifier answers drawn rows otherwise.

    Rows are drawn for its `scorer`; `columns` (d,) are the positions in the model's
    full row of the original's columns.
    """

    def differ(X: Floats, theirs: NDArray[Any]) -> Any:
        scores = np.sort(model.predict_scores(X), axis=1)
        best = scores[:, -1]
        margin = best - scores[:, -2] if scores.shape[1] > 1 else best - best
        sure = ~(margin <= NEAR * np.maximum(1.0, np.abs(best)))
        return (model.predict(X) != theirs) & sure

    _compare(original, scorer, columns, differ)


def check_values(original: Any, model: Any, columns: NDArray[np.int32]) -> None:
    """Raise BadModel if a compiled regressor's predictions of drawn rows differ."""

    def differ(X: Floats, theirs: NDArray[Any]) -> Any:
        near = NEAR * np.abs(theirs).max()
        return ~np.isclose(model.predict(X), theirs, rtol=NEAR, atol=near)

    _compare(original, model.scorer, columns, differ)


def _compare(
    original: Any,
    scorer: Any,
    columns: NDArray[np.int32],
    differ: Callable[[Floats, NDArray[Any]], Any],
) -> None:
    X = draw_rows(scorer, columns, np.random.default_rng(0))
    given, theirs = _predicted(original, X, columns)
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
        values = ", ".join(f"{value:.6g}" for value in given[i, columns][:10])
        more = ", ..." if len(columns) > 10 else ""
        raise BadModel(
            f"the compiled form of {name} and its own predict disagree on "
            f"{apart.sum()} of {ROWS} drawn rows, the first being [{values}{more}]: "
            "it cannot be served"
        )


def _predicted(
    original: Any, X: Floats, columns: NDArray[np.int32]
) -> tuple[Floats, Any]:
    """Rows that the original takes, and its predictions; None if it takes none.

    It may want no gaps, nothing negative, or names and types that only its own data
    frame has.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # rows without names, out of range ...
        for rows in (X, np.nan_to_num(X), np.abs(np.nan_to_num(X))):
            for form in _forms(original, rows[:, columns]):
                try:
                    return rows, original.predict(form)
                except Exception:  # whatever it does not like
                    continue
    return X, None


def _forms(original: Any, X: Floats) -> Iterator[Any]:
    names = getattr(original, "feature_names_in_", None)
    if names is not None and (pandas := sys.modules.get("pandas")):
        yield pandas.DataFrame(X, columns=names)
    yield X


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
