"""Fit a calibration of class scores to held-out items, if it lowers the log loss.

The forms of `calibration_forms.py` are tried from the simplest on. A form is kept only
if it surely lowers the log loss of items that it was not fitted to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.models.scoring.calibration import Calibration

from .calibration_forms import Forecast, Held, fit_form, forms_for
from .evidence import Evidence

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

MOST = 10_000  # items that are used
FOLDS = 4  # parts of the items; each is mapped by a fit to the others
# Shares of the log loss that a form must save: `REAL` by more than two standard errors
# (with one, chance would pass in one of six tries), or `LARGE` by more than one.
REAL, LARGE = 0.01, 0.2


@dataclass(frozen=True, slots=True, eq=False)
class FittedCalibration:
    """The calibration of one model; None if none helps."""

    calibration: Calibration | None
    # "prior", "temperature", "slopes", "offsets" or "isotonic"
    form: str | None = None
    # Of the scores without it (None if they are no probabilities), and with it, on
    # items that it was not fitted to
    before: Forecast | None = None
    after: Forecast | None = None

    def facts(self) -> dict[str, Any]:
        """Return plain data for `polydom inspect`."""
        own = {"before": self.before, "after": self.after}
        told = {name: one and one._asdict() for name, one in own.items()}
        return {"form": self.form, **told}


def fit_calibration(
    evidence: Evidence,
    codes: Codes,
    weights: Floats,
    groups: Codes,
    shift: Floats | None,
    seed: int,
    *,
    forced: bool = False,
) -> FittedCalibration:
    """Fit the calibration that serves a model best; none if none is surely better.

    If `forced`, there is one in any case, so that no score is 0 or 1, and margins are
    probabilities; a threshold of them is to choose the class.

    `codes`, `weights` and `groups` (N,) are those of the items of `evidence`, which the
    model was not trained on. If the model was trained with class weights, `shift` (K,)
    has the logarithm of each class's weight, which the map then always takes back. If
    there is no `shift`, and the map is not `forced`, the class with the largest score
    keeps the largest one.
    """
    rng = np.random.default_rng([seed, 5])
    if len(codes) > MOST:
        rows = np.sort(rng.choice(len(codes), MOST, replace=False))
        codes, weights, groups = codes[rows], weights[rows], groups[rows]
        evidence = evidence._replace(z=evidence.z[rows])
    held = _hold(evidence, codes, weights, shift, pinned=shift is None and not forced)
    plain = evidence.scores(None) if evidence.probable else None
    found = _choose(held, _own_scores(held, plain, shift), forms_for(held), groups, rng)
    best, form, scores = found
    before = None if plain is None else held.forecast(plain)
    if form is None and shift is not None:
        best, form = held.line(1.0, held.shift), "prior"
    elif form is None and forced:
        best = held.line(1.0, held.shift)
        scores = held.scores(best)
    elif form is None:
        return FittedCalibration(None, None, before, before)
    return FittedCalibration(best, form, before, held.forecast(scores))


def at_best_temperature(
    evidence: Evidence, codes: Codes, weights: Floats, shift: Floats | None, seed: int
) -> Floats:
    """Return the class scores (N, K) that a temperature makes of a model's own.

    Each item has the temperature of other items; all have their own scores if a
    temperature is not surely better. So models compare as if they were calibrated,
    without fitting all that `fit_calibration` fits.
    """
    held = _hold(evidence, codes, weights, shift, pinned=True)
    own = _own_scores(held, evidence.scores(None), shift)
    rng, places = np.random.default_rng([seed, 5]), np.arange(len(codes))
    return _choose(held, own, forms_for(held)[:1], places, rng)[2]


def _hold(
    evidence: Evidence,
    codes: Codes,
    weights: Floats,
    shift: Floats | None,
    *,
    pinned: bool,
) -> Held:
    back = np.zeros(evidence.z.shape[1]) if shift is None else -shift
    limit = _limit_of(evidence)
    z = np.clip(evidence.z, -limit, limit) if evidence.logs else evidence.z
    return Held(z, codes, weights / weights.mean(), back, evidence.logs, limit, pinned)


def _own_scores(held: Held, plain: Floats | None, shift: Floats | None) -> Floats:
    """Return the scores (N, K) that a form has to be better than."""
    if shift is not None:
        return held.scores(held.line(1.0, held.shift))
    if plain is not None:
        return plain
    count, classes = held.z.shape
    shares = np.bincount(held.codes, held.weights, classes) / count
    return np.tile(shares, (count, 1))


def _choose(
    held: Held,
    own: Floats,
    forms: Sequence[str],
    groups: Codes,
    rng: np.random.Generator,
) -> tuple[Calibration | None, str | None, Floats]:
    """Return the last form that is surely better than the ones before, and its scores.

    The scores (N, K) are by maps that were not fitted to the items. They are `own`, and
    the form is None, if no form is better.
    """
    best, chosen, scores, parts = None, None, own, _parts_of(groups, rng)
    for form in forms:
        fitted, crossed = _cross_fit(held, form, parts)
        if _surely_better(held.losses(scores), held.losses(crossed), groups):
            best, chosen, scores = fitted, form, crossed
    return best, chosen, scores


def _limit_of(evidence: Evidence) -> float:
    """Return the largest magnitude that counts: beyond it nothing was observed.

    Without this, the share 0, which few trees give, would be proof.
    """
    if not evidence.logs:
        return np.inf
    finite = np.abs(evidence.z[np.isfinite(evidence.z)])
    return float(finite.max(initial=1.0)) + float(np.log(2))


def _parts_of(groups: Codes, rng: np.random.Generator) -> Codes:
    """Return the part (N,), from 0 to FOLDS - 1, of each item; groups stay whole."""
    names, own = np.unique(groups, return_inverse=True)
    parts: Codes = (rng.permutation(len(names)) % FOLDS)[own]
    return parts


def _cross_fit(held: Held, form: str, parts: Codes) -> tuple[Calibration, Floats]:
    """Return the map fitted to all items, and scores (N, K) by maps of other parts."""
    fitted, start = fit_form(held, form, None)
    crossed = np.empty_like(held.z)
    for part in range(FOLDS):
        inside = np.flatnonzero(parts == part)
        if len(inside):
            other, _ = fit_form(held.only(np.flatnonzero(parts != part)), form, start)
            crossed[inside] = held.only(inside).scores(other)
    return fitted, crossed


def _surely_better(old: Floats, new: Floats, groups: Codes) -> bool:
    """Return True if new losses (N,) are really below the old ones.

    A saving of a large share needs less proof: it comes from few items to which the
    model gave almost 0, and these alone make the standard error large.
    """
    _, own = np.unique(groups, return_inverse=True)
    saved = np.bincount(own, old - new)
    error = saved.std() * np.sqrt(len(saved))
    total, loss = float(saved.sum()), float(old.sum())
    small = total > 2 * error and total > REAL * loss
    return bool(small or (total > error and total > LARGE * loss))
