"""The forms that a calibration may have, and how each is fitted to held-out items.

The first is a temperature (Guo et al., 2017).

Where the model's own choice is the answer, the next forms are for two classes: a slope
for each side of the border between them, and for enough items an isotonic map
(Zadrozny and Elkan, 2002) of each side. They leave the border where it is, so that no
class has a larger score than the chosen one.

Where class weights moved the choice, or a threshold makes it, the next forms are a
temperature and an offset for each class, which for two classes is Platt's map; and for
two classes and enough items one isotonic map.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.isotonic import isotonic_regression

from polydom.models.measures import SURE, calibration_error
from polydom.models.scoring.calibration import Calibration, make_knots, make_line

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

FEWEST = 30  # items to fit a temperature to
FEWEST_OF_CLASS = 10  # items of each class to fit offsets to
FEWEST_OF_SIDE = 10  # items of each side of the border to fit slopes to
FEWEST_ISOTONIC = 1000  # items to fit an isotonic map to
IN_BIN = 50  # items in a bin of an isotonic map
MOST_BINS = 40
LARGEST_LOG = 12.0  # largest magnitude of a slope's logarithm
ROUNDING = 1e-9  # shares of pools that differ by less are equal
LEAST_ODDS = 1e-6  # least calibrated log odds of a knot of the side that it is on


class Forecast(NamedTuple):
    """Log loss and calibration error of some scores."""

    log_loss: float
    error: float


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


def forms_for(held: Held) -> list[str]:
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


def fit_form(held: Held, form: str, start: Floats | None) -> tuple[Calibration, Floats]:
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
        given = softmax(np.exp(at) * z + held.shift, axis=1)
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
