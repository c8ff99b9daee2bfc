"""Fit a calibration of class scores to held-out items, if it lowers the log loss.

Forms are tried from the simplest on. The first is a temperature (Guo et al., 2017).

Where the model's own choice is the answer, the next forms are for two classes: a slope
for each side of the border between them, and for enough items an isotonic map
(Zadrozny and Elkan, 2002) of each side. They leave the border where it is, so that no
class has a larger score than the chosen one.

Where class weights moved the choice, or a threshold makes it, the next forms are a
temperature and an offset for each class, which for two classes is Platt's map; and for
two classes and enough items one isotonic map.

A form is kept only if it surely lowers the log loss of items that it was not fitted to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from sklearn.isotonic import isotonic_regression

from polydom.models.measures import SURE, calibration_error
from polydom.models.scoring.calibration import Calibration, make_knots, make_line

from .evidence import Evidence, softmax

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

FEWEST = 30  # items to fit a temperature to
FEWEST_OF_CLASS = 10  # items of each class to fit offsets to
FEWEST_OF_SIDE = 10  # items of each side of the border to fit slopes to
FEWEST_ISOTONIC = 1000  # items to fit an isotonic map to
MOST = 10_000  # items that are used
FOLDS = 4  # parts of the items; each is mapped by a fit to the others
IN_BIN = 50  # items in a bin of an isotonic map
MOST_BINS = 40
LARGEST_LOG = 12.0  # largest magnitude of a slope's logarithm
ROUNDING = 1e-9  # shares of pools that differ by less are equal
LEAST_ODDS = 1e-6  # least calibrated log odds of a knot of the side that it is on
# Shares of the log loss that a form must save: `REAL` by more than two standard errors
# (with one, chance would pass in one of six tries), or `LARGE` by more than one.
REAL, LARGE = 0.01, 0.2


class Forecast(NamedTuple):
    """Log loss and calibration error of some scores."""

    log_loss: float
    error: float


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


@dataclass(frozen=True, slots=True, eq=False)
class Held:
    """N held-out items with evidence of one model."""

    z: Floats  # (N, K), finite
    codes: Codes  # (N,): Classes
    weights: Floats  # (N,): Weights, of mean 1
    # (K,): Logarithms of what class weights did to the shares of the classes
    shift: Floats
    logs: bool
    limit: float
    pinned: bool  # True if the class with the largest score must keep the largest score

    @property
    def odds(self) -> Floats:
        """Log odds (N,) of the second of two classes."""
        odds: Floats = self.z[:, 1] - self.z[:, 0]
        return odds

    def only(self, rows: NDArray[Any]) -> "Held":
        """Return some of the items."""
        part = self.z[rows], self.codes[rows], self.weights[rows]
        return Held(*part, self.shift, self.logs, self.limit, self.pinned)

    def line(self, slope: float, offsets: Floats) -> Calibration:
        """Return the linear map with a slope and offsets (K,)."""
        return make_line(slope, offsets, logs=self.logs, limit=self.limit)

    def knots(self, knots: Floats, slopes: tuple[float, float]) -> Calibration:
        """Return the map of two classes with knots (2, M) and slopes beyond them."""
        return make_knots(knots, slopes, logs=self.logs, limit=self.limit)

    def scores(self, calibration: Calibration) -> Floats:
        """Return the calibrated scores (N, K)."""
        scores = np.exp(self.z) if self.logs else np.empty_like(self.z)
        calibration.apply(self.z, 1.0, scores)
        return scores

    def losses(self, scores: Floats) -> Floats:
        """Return the log loss (N,) of each item by scores (N, K)."""
        given = scores[np.arange(len(self.codes)), self.codes]
        return self.weights * -np.log(np.clip(given, SURE, 1.0))

    def forecast(self, scores: Floats) -> Forecast:
        """Return the log loss and the calibration error of scores (N, K)."""
        error = calibration_error(self.codes, scores, self.weights)
        return Forecast(float(self.losses(scores).mean()), error)


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
    found = _choose(held, _own_scores(held, plain, shift), _forms(held), groups, rng)
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
    return _choose(held, own, _forms(held)[:1], places, rng)[2]


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


def _forms(held: Held) -> list[str]:
    """Return the forms for which there are enough items, the simplest first."""
    count, classes = held.z.shape
    counts = np.bincount(held.codes, minlength=classes)
    if count < FEWEST or np.count_nonzero(counts) < 2:
        return []
    forms = ["temperature"]
    if counts.min() < FEWEST_OF_CLASS or (held.pinned and classes > 2):
        return forms
    if not held.pinned:
        forms.append("offsets")
    elif min(map(len, _sides_of(held.odds))) >= FEWEST_OF_SIDE:
        forms.append("slopes")
    if classes == 2 and count >= FEWEST_ISOTONIC:
        forms.append("isotonic")
    return forms


def _sides_of(odds: Floats) -> tuple[Codes, Codes]:
    """Return the rows below and above the border, by their log odds (N,)."""
    return np.flatnonzero(odds < 0), np.flatnonzero(odds > 0)


def _parts_of(groups: Codes, rng: np.random.Generator) -> Codes:
    """Return the part (N,), from 0 to FOLDS - 1, of each item; groups stay whole."""
    names, own = np.unique(groups, return_inverse=True)
    parts: Codes = (rng.permutation(len(names)) % FOLDS)[own]
    return parts


def _cross_fit(held: Held, form: str, parts: Codes) -> tuple[Calibration, Floats]:
    """Return the map fitted to all items, and scores (N, K) by maps of other parts."""
    fitted, start = _fit(held, form, None)
    crossed = np.empty_like(held.z)
    for part in range(FOLDS):
        inside = np.flatnonzero(parts == part)
        if len(inside):
            other, _ = _fit(held.only(np.flatnonzero(parts != part)), form, start)
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


def _fit(held: Held, form: str, start: Floats | None) -> tuple[Calibration, Floats]:
    """Fit one form; return it with the numbers from which another fit may start."""
    free = form != "temperature" and not held.pinned
    numbers = _fit_line(held, start) if free else np.zeros(held.z.shape[1])
    if not free:
        numbers[0] = _fit_slope(held, 0.0 if start is None else float(start[0]))
    slope, offsets = float(np.exp(numbers[0])), held.shift.copy()
    offsets[1:] += numbers[1:]
    slopes, knots = (slope, slope), None
    if form != "temperature" and held.pinned:
        sides = (held.only(rows) for rows in _sides_of(held.odds))
        own = [_fit_slope(side, numbers[0]) for side in sides]
        slopes, knots = (float(np.exp(own[0])), float(np.exp(own[1]))), np.zeros((2, 1))
    if form == "isotonic":
        pool = _fit_sides if held.pinned else _pool
        found = pool(held.odds, held.codes, held.weights)
        knots = found if found.shape[1] > 1 else knots
    if knots is None:
        return held.line(slope, offsets), numbers
    return held.knots(knots, slopes), numbers


def _targets_of(held: Held) -> Floats:
    """Return smoothed labels (N, K) times the items' shares of all weight.

    Smoothed labels let no score become 1, also if all items are answered right. The
    other classes get the weight of less than one item in all; Platt (1999) gives one
    item for each class, which of many classes would make scores too small.
    """
    count, classes = held.z.shape
    spread = 1 / (held.weights.sum() + 2)
    targets = np.full((count, classes), spread / max(classes - 1, 1))
    targets[np.arange(count), held.codes] = 1 - spread
    targets *= held.weights[:, None] / count
    return targets


def _fit_slope(held: Held, start: float) -> float:
    """Return the logarithm of the slope that minimises the log loss of the targets.

    The log loss is convex in the slope. So Newton's steps find it; a step that leaves
    the interval in which the slope must be is replaced by half of the interval.
    """
    z, shares = held.z, held.weights / max(len(held.z), 1)
    wanted = float(np.sum(_targets_of(held) * z))
    low, high = -LARGEST_LOG, LARGEST_LOG
    at, last = start, np.inf
    while abs(at - last) > 1e-6:
        given = softmax(np.exp(at) * z + held.shift)
        means = np.sum(given * z, axis=1)
        rise = float(shares @ means) - wanted
        bend = float(shares @ (np.sum(given * z * z, axis=1) - means**2))
        low, high = (low, at) if rise > 0 else (at, high)
        slope = np.exp(at) - rise / bend if bend > 0 else 0.0
        at, last = float(np.log(slope)) if slope > 0 else np.inf, at
        if not low < at < high:
            at = (low + high) / 2
    return at


def _fit_line(held: Held, start: Floats | None) -> Floats:
    """Return the logarithm of a slope, then offsets of classes 1 to K - 1: (K,).

    They minimise the log loss of the targets.
    """
    z, targets, classes = held.z, _targets_of(held), held.z.shape[1]

    def loss(numbers: Floats) -> tuple[float, Floats]:
        slope, offsets = np.exp(numbers[0]), held.shift.copy()
        offsets[1:] += numbers[1:]
        w = slope * z + offsets
        w -= w.max(axis=1, keepdims=True)
        power = np.exp(w)
        total = power.sum(axis=1, keepdims=True)
        logs = w - np.log(total)
        rest = targets.sum(axis=1, keepdims=True) * power / total - targets
        gradient = [slope * np.sum(rest * z), *rest.sum(axis=0)[1:]]
        return -float(np.sum(targets * logs)), np.array(gradient)

    first = np.zeros(classes) if start is None else start
    bounds = [(-LARGEST_LOG, LARGEST_LOG), *[(-50.0, 50.0)] * (classes - 1)]
    found: Floats = minimize(loss, first, jac=True, method="L-BFGS-B", bounds=bounds).x
    return found


def _pool(z: Floats, codes: Codes, weights: Floats) -> Floats:
    """Return mean log odds z of M pools and log odds of their items' classes (2, M).

    Items are put into bins in the order of z, each with one more item of the mean
    share. Isotonic regression makes neighbours one pool of which the later has no
    larger share of the second class.
    """
    order = np.argsort(z, kind="stable")
    z, hits, weights = z[order], (codes[order] == 1) * weights[order], weights[order]
    size = max(IN_BIN, len(z) // MOST_BINS)
    starts = np.unique(np.searchsorted(z, z[::size], side="left"))
    share = float((hits.sum() + 1) / (weights.sum() + 2))  # not 0 or 1
    sums = [np.add.reduceat(column, starts) for column in (hits, weights, weights * z)]
    hits, counts = sums[0] + share, sums[1] + 1
    shares = isotonic_regression(hits / counts, sample_weight=counts)
    pools = np.flatnonzero(np.diff(shares, prepend=-1.0) > ROUNDING)
    hits, counts, weights, totals = (
        np.add.reduceat(one, pools) for one in (hits, counts, *sums[1:])
    )
    return np.array([totals / weights, np.log(hits / (counts - hits))])


def _fit_sides(z: Floats, codes: Codes, weights: Floats) -> Floats:
    """Return knots (2, M) of a rising map of log odds z (N,) that leaves 0 at 0.

    Pools of one side whose items are mostly of the other class get almost 0.
    """
    below, above = _sides_of(z)
    left, right = (
        _fit_side(sign * z[rows], codes[rows] ^ int(sign < 0), weights[rows])
        for sign, rows in ((-1.0, below), (1.0, above))
    )
    return np.hstack([-left[:, ::-1], np.zeros((2, 1)), right])


def _fit_side(z: Floats, codes: Codes, weights: Floats) -> Floats:
    """Return knots (2, M) above 0 for log odds z (N,) above 0."""
    if not len(z):
        return np.empty((2, 0))
    odds, mapped = _pool(z, codes, weights)
    mapped = np.maximum(mapped, LEAST_ODDS)
    # of knots of the same height, the last one
    last = np.append(np.diff(mapped) > 0, True)
    return np.array([odds[last], mapped[last]])
