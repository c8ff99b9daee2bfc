"""Read a stored schedule, and join it with the model that it was fitted for."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadModel

from ..qwyc.promise import Promise
from ..qwyc.schedule import MarginSchedule, Schedule
from ..scoring.classifier import Classifier
from ..scoring.model import Floats, Model
from ..scoring.scorer import SumOfTerms
from ..scoring.stored_arrays import Stored
from .early_exits import EarlyExit, MarginExit
from .early_scores import EarlyScores
from .ensemble import Ensemble, as_ensemble
from .evaluator import digest_model


class StoredSchedule(Stored):
    """The arrays of one stored schedule; each read checks an array's type and shape."""

    def __init__(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        Stored.__init__(self, "schedule", arrays)

    def fail(self, reason: str) -> BadModel:
        """Return a BadModel error with the reason, for the caller to raise."""
        return BadModel(f"stored schedule: {reason}")

    def limits(self, name: str, count: int, never: float) -> Floats:
        """Return the schedule's array `name`, which has `count` limits.

        Raises BadModel unless each limit is finite or equals `never`.
        """
        array: Floats = self.array(name, np.float64, (count,))
        wrong = ~np.isfinite(array) & (array != never)
        if wrong.any():
            r = int(wrong.argmax())
            raise self.fail(f"{name}[{r}] is {array[r]}")
        return array


def load_early_exit(
    model: Model, arrays: Mapping[str, NDArray[Any]]
) -> EarlyExit | MarginExit:
    """Make the evaluator that follows a stored schedule.

    Parameters
    ----------
    model
        Model that the schedule was fitted for.
    arrays
        Result of `EarlyExit.arrays` or `MarginExit.arrays`.

    Raises
    ------
    BadModel
        If the model is not a sum of base models, or the arrays are not a schedule, or
        the schedule was made for another model.
    """
    stored = StoredSchedule(arrays)
    if not (isinstance(model, Classifier) and isinstance(model.scorer, SumOfTerms)):
        raise stored.fail(
            f"a {type(model).__name__} of kind {model.kind!r} has no base models to "
            "leave out"
        )
    ensemble = as_ensemble(model)
    try:
        schedule = _load_schedule(stored, ensemble)
        exits = ensemble.early_exit(schedule, _load_lines(stored, model, ensemble.size))
    except BadInput as error:
        raise stored.fail(str(error)) from error
    digest = stored.array("model", np.uint8, (8,))
    if not np.array_equal(digest, digest_model(model)):
        raise stored.fail("it was made for another model")
    return exits


def _load_schedule(
    stored: StoredSchedule, ensemble: Ensemble
) -> Schedule | MarginSchedule:
    size, classes = ensemble.size, len(ensemble.classes)
    order = stored.array("order", np.int32, (size,))
    kind = Schedule if ensemble.binary else MarginSchedule
    parts: dict[str, Any] = {
        name: stored.limits(name, size, never) for name, never in kind.never.items()
    }
    parts["promise"] = _load_promise(stored, classes)
    if not ensemble.binary:
        if (parts["margin"] < -1e-9).any():  # rounding may turn a margin of 0 negative
            raise stored.fail("a margin is below zero")
        return MarginSchedule(order, bias=stored.finite("bias", (classes,)), **parts)
    threshold = float(stored.finite("threshold", (1,))[0])
    if threshold != ensemble.threshold:
        raise stored.fail(
            f"its threshold is {threshold!r}; that of its model is "
            f"{ensemble.threshold!r}"
        )
    return Schedule(order, threshold=threshold, **parts)


def _load_lines(
    stored: StoredSchedule, model: Classifier, size: int
) -> EarlyScores | None:
    """Load `EarlyScores`; None if there are none, as in files of older versions."""
    if stored.arrays.keys().isdisjoint(("early", "partial")):
        return None
    pair = []
    for name in ("early", "partial"):
        lines = stored.finite(name, (size, 2))
        offsets, slopes = lines.T
        if (slopes < 0.0).any():
            r = int((slopes < 0.0).argmax())
            raise stored.fail(f"{name}[{r}] has the slope {slopes[r]:g}, below 0")
        with np.errstate(over="ignore", invalid="ignore"):
            widest = np.abs(offsets).max() + slopes.max() * model.scorer.reach()
            widest *= 2.0 * max(model.head.gain, 1.0)
        if not widest < np.inf:
            raise stored.fail(f"scores by {name} leave the range of float64")
        pair.append(lines)
    return EarlyScores(*pair)


def _load_promise(stored: StoredSchedule, classes: int) -> Promise | None:
    numbers = stored.finite("promise", (None,)).tolist()
    if not numbers:
        return None
    if len(numbers) not in (4, 4 * classes):  # older files have one bound for all
        raise stored.fail(
            f"its promise is {len(numbers)} numbers; it must be 4 for each of the "
            f"{classes} classes, or none"
        )
    return Promise.of(numbers)
