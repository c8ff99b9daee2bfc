"""Boosting in stages: the first rounds know only the first columns."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models import compile
from polydom.models.early_exit.ensemble import Ensemble

Rows = NDArray[np.float32] | NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Staged:
    """A boosted ensemble whose base models come stage by stage.

    A base model is a tree, for more than two classes a round.

    Attributes
    ----------
    fitted
        The library's own classifier, with the trees of all stages.
    ensemble
        The same, compiled.
    stages
        Base models of each stage, as slices of 0..T: as many as it has rounds, or
        fewer where LightGBM finds nothing to split by.
    columns
        Columns that come with each stage.
    """

    fitted: Any
    ensemble: Ensemble
    stages: tuple[slice, ...]
    columns: tuple[tuple[int, ...], ...]

    def uses(self, width: int) -> NDArray[np.bool_]:
        """Which columns each base model may read: (T, width), for `fit_schedule`.

        Those of its stage and of all before. `ensemble.uses` is what it does read,
        which another training, of a fold of the rows, does not share.
        """
        uses = np.zeros((self.ensemble.size, width), np.bool_)
        for stage, columns in zip(self.stages, self.columns, strict=True):
            uses[stage.start :, list(columns)] = True
        return uses


def train_staged(
    learner: Any,
    X: Rows,
    y: NDArray[Any],
    stages: Sequence[Sequence[int]],
    rounds: Sequence[int],
) -> Staged:
    """Boost on the first stage's columns, go on with the second's besides, and so on.

    Each stage corrects what those before it leave, so that a row that stops after the
    first has a whole small model's answer and needs none of the later columns. A plain
    booster's first rounds read the best columns, whatever they cost.

    Parameters
    ----------
    learner
        An unfitted `GradientBoostingClassifier` of scikit-learn, or LightGBM's
        `LGBMClassifier`. Its number of rounds is not used; it is not changed.
    X
        (N, d) rows.
    y
        (N,) labels.
    stages
        Columns that each stage adds, in 0..d - 1, each once; cheap ones first.
        Columns in none are never read.
    rounds
        Of boosting in each stage, at least 1.

    Notes
    -----
    Columns that are still to come are constant while a stage is trained, and no tree
    splits on a constant.
    """
    fit = FITS[type(learner).__name__]
    columns = tuple(tuple(int(column) for column in stage) for stage in stages)
    fitted, stops, seen = None, [0], np.zeros_like(X)
    for own, count in zip(columns, rounds, strict=True):
        seen[:, own] = X[:, own]
        fitted = fit(learner, fitted, seen, y, stops[-1], count)
        stops.append(_rounds_of(fitted))
    ensemble = compile(fitted)
    slices = (slice(a, b) for a, b in pairwise(stops))
    return Staged(fitted, ensemble, tuple(slices), columns)


def _go_on(
    learner: Any, before: Any, X: Rows, y: NDArray[Any], done: int, count: int
) -> Any:
    """Fit scikit-learn's booster, or add rounds to the one that was fitted before."""
    from sklearn.base import clone

    fitted = clone(learner).set_params(warm_start=True) if before is None else before
    return fitted.set_params(n_estimators=done + count).fit(X, y)


def _start_from(
    learner: Any, before: Any, X: Rows, y: NDArray[Any], done: int, count: int
) -> Any:
    """Fit LightGBM from the trees that were fitted before on."""
    from sklearn.base import clone

    fresh = clone(learner).set_params(n_estimators=count)
    return fresh.fit(X, y, init_model=before)


def _rounds_of(fitted: Any) -> int:
    """Count the rounds of boosting that a classifier has."""
    if hasattr(fitted, "booster_"):
        return int(fitted.booster_.current_iteration())
    return len(fitted.estimators_)


FITS: dict[str, Callable[..., Any]] = {
    "GradientBoostingClassifier": _go_on,
    "LGBMClassifier": _start_from,
}
