"""Costs of base models that share features: each feature is paid for only once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Rows = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ModelCosts:
    """The costs of T base models and of the F features that they read."""

    own: Floats  # (T,) float64: Cost of evaluating each base model, > 0
    # (F,) float64: Cost of computing each feature once, >= 0. F is 0 if all features
    # are known.
    features: Floats
    uses: Flags  # (T, F) bool: True for the features that each base model reads

    @classmethod
    def check(
        cls,
        models: int,
        own: Sequence[float] | Floats | None,
        features: Sequence[float] | Floats | None = None,
        uses: Flags | None = None,
    ) -> Self:
        """Make the costs of `models` base models from arguments of `fit_schedule`.

        `own` is its argument `costs`, and `features` its `feature_costs`. Raises
        BadInput if an argument is invalid.
        """
        if (features is None) != (uses is None):
            raise BadInput("feature_costs and uses must be given together")
        of_models = np.ones(models) if own is None else _numbers("costs", own)
        if of_models.shape != (models,):
            raise BadInput(
                f"costs have shape {of_models.shape}; they must be ({models},), one "
                "per base model"
            )
        _refuse("costs", of_models, of_models > 0, "above 0")
        if features is None or uses is None:
            return cls(of_models, np.zeros(0), np.zeros((models, 0), np.bool_))
        of_features, flags = _numbers("feature_costs", features), np.asarray(uses)
        if of_features.ndim != 1 or flags.shape != (models, len(of_features)):
            raise BadInput(
                f"feature_costs and uses have shapes {of_features.shape} and "
                f"{flags.shape}; they must be (F,) and ({models}, F)"
            )
        if flags.dtype != np.bool_:
            raise BadInput(f"uses is of type {flags.dtype}; it must be bool")
        _refuse("feature_costs", of_features, of_features >= 0, "at least 0")
        return cls(of_models, of_features, flags)

    @property
    def whole(self) -> float:
        """Total cost of all base models, and of all features that any of them reads."""
        return float(self.own.sum() + self.features[self.uses.any(axis=0)].sum())

    def next(self, models: Rows, done: Flags) -> Floats:
        """Return the cost (L,) of each of `models`, if it were used next.

        The cost includes the features that the base model reads, except those that
        `done` (F,) marks as computed.
        """
        costs: Floats = self.own[models] + (self.uses[models] & ~done) @ self.features
        return costs

    def along(self, order: Rows) -> Floats:
        """Return the costs (T,) of the base models, if used in `order`.

        The cost of a feature is included in that of the first base model that reads it.
        """
        uses = self.uses[order]
        first = uses & (np.cumsum(uses, axis=0) == 1)
        costs: Floats = self.own[order] + first @ self.features
        return costs


class Stage(NamedTuple):
    """The features to compute next, and the base models that can then be evaluated."""

    # Features to compute first, ascending; may be empty in the first stage
    features: tuple[int, ...]
    # `start` and `stop`: first position of the schedule in this stage, and the position
    # after the last
    start: int
    stop: int


def cut_stages(order: Rows, uses: Flags) -> tuple[Stage, ...]:
    """Split an order of base models into stages.

    A new stage begins at each base model that reads a feature not computed before.

    Parameters
    ----------
    order : (T,)
        Base models in the order of evaluation, T >= 1.
    uses : (T, F) bool
        True for the features that each base model reads.

    Examples
    --------
    >>> uses = np.array([[True, False], [True, True], [False, False]])
    >>> cut_stages(np.array([2, 0, 1]), uses)
    (Stage(features=(), start=0, stop=1), Stage(features=(0,), start=1, stop=2), \
Stage(features=(1,), start=2, stop=3))
    """
    done = np.logical_or.accumulate(uses[order], axis=0)
    before = np.vstack([np.zeros(done.shape[1], np.bool_), done[:-1]])
    new = done & ~before
    starts = np.union1d([0], np.flatnonzero(new.any(axis=1)))
    stops = [*starts[1:].tolist(), len(order)]
    return tuple(
        Stage(tuple(np.flatnonzero(new[start]).tolist()), start, stop)
        for start, stop in zip(starts.tolist(), stops, strict=True)
    )


def _numbers(name: str, values: Sequence[float] | Floats) -> Floats:
    try:
        return np.ascontiguousarray(values, np.float64)
    except (TypeError, ValueError):
        raise BadInput(f"{name} must be numbers") from None


def _refuse(name: str, values: Floats, right: Flags, needed: str) -> None:
    sound = np.isfinite(values) & right
    if not sound.all():
        k = int(np.argmin(sound))
        raise BadInput(f"{name}[{k}] is {values[k]}; it must be finite and {needed}")
