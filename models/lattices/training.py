"""Train lattices: learn their calibrators and vertices by gradient descent."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..scoring.model import Floats
from .kernels.training import Model, adam, gradient, sum_rows

BATCH = 256
# Learning rates: calibrators range from 0 to 1, vertices have the scale of log odds.
CALIBRATION_RATE = 0.2
NEWTON_STEPS = 50


@dataclass(frozen=True, slots=True)
class Descent:
    """Settings of the gradient descent, as in `LatticeEnsembleClassifier`."""

    joint: bool
    simplex: bool
    epochs: int
    rate: float
    l2: float
    laplacian: float


class Learned(NamedTuple):
    """The learned parameters, in the shapes that `lattices.make_lattices` accepts."""

    calibrations: Floats
    vertices: Floats
    bias: Floats


def train_lattices(
    X: NDArray[Any],
    y: NDArray[np.int64],
    knots: Floats,
    inputs: NDArray[np.int32],
    signs: NDArray[np.int64],
    descent: Descent,
    rng: np.random.Generator,
) -> Learned:
    """Learn lattices by Adam on the log loss; after each step, restore monotonicity.

    Joint training fits the sum of all lattices. Independent training fits each lattice
    by itself, with the class frequencies as its bias, and then averages the lattices'
    scores. The average is too near the bias, because each lattice is a weak model, so
    `stretch` scales it to fit the labels.

    `X` (N, d) are rows, `knots` (d, P) keypoints, `inputs` (T, S) columns of X. `y`
    (N,) are classes 0 ... K - 1, all of which occur. `signs` (d,) are +1 if scores must
    not fall when the input rises, -1 if they must not rise, else 0.
    """
    used, positions = np.unique(inputs, return_inverse=True)
    places, parts = locate_all(np.ascontiguousarray(X[:, used]), knots[used])
    reads = positions.reshape(inputs.shape).astype(np.int32)
    K, (T, S), P = int(y.max()) + 1, inputs.shape, knots.shape[1]
    R = 1 if K == 2 else K
    learned = start(y, (T, R, S, P), signs[inputs])
    model = Model(places, parts, reads, descent.simplex, *learned[:2])
    slopes, means, squares = ([np.zeros_like(p) for p in learned] for _ in range(3))
    rate = descent.rate / (np.sqrt(T) if descent.joint else 1.0)
    rates = (CALIBRATION_RATE * descent.rate, rate, rate if descent.joint else 0.0)
    batches = -(-len(y) // BATCH)
    steps = descent.epochs * batches
    for step in range(steps):
        if step % batches == 0:
            order = rng.permutation(len(y))
        rows = order[step % batches * BATCH :][:BATCH]
        for slope in slopes:
            slope[:] = 0.0
        gradient(rows, y, descent.joint, model, learned.bias, *slopes)
        for slope in slopes:
            slope /= len(rows)
        slopes[1] += bend(learned.vertices, descent) / len(y)
        slower = 1.0 - step / steps
        for at, parameter in enumerate(learned):
            flat = (a[at].reshape(-1) for a in (slopes, means, squares))
            adam(*flat, parameter.reshape(-1), rates[at] * slower, step + 1.0)
        project(learned, signs[inputs])
    if not descent.joint:
        sums = np.empty((len(y), R))
        sum_rows(model, sums)
        scale, learned.bias[:] = stretch(sums / T, y, learned.bias)
        learned.vertices[:] *= scale / T
    return learned


def stretch(sums: Floats, y: NDArray[np.int64], bias: Floats) -> tuple[float, Floats]:
    """Fit a slope >= 0 and a bias (R,), such that slope * `sums` + bias predict `y`.

    `sums` are (N, R). This is a logistic regression, with a penalty of about the weight
    of one row, which keeps the slope near 1 and the bias near the given `bias`. Without
    the penalty, the best slope would be infinite if the sums separate all classes.
    """
    if sums.shape[1] == 1:
        sums = np.column_stack([np.zeros(len(sums)), sums])
        slope, both = stretch(sums, y, np.array([0.0, bias[0]]))
        return slope, both[1:] - both[:1]
    N, K = sums.shape
    scale = float(sums.std()) or 1.0
    sums = sums / scale
    before = np.append(scale, bias)
    found = before.copy()
    # Derivatives of each row's scores by the slope and the bias: (N, K, 1 + K).
    by = np.concatenate([sums[:, :, None], np.tile(np.eye(K), (N, 1, 1))], axis=2)
    for _ in range(NEWTON_STEPS):
        scores = by @ found
        shares = np.exp(scores - scores.max(axis=1, keepdims=True))
        shares /= shares.sum(axis=1, keepdims=True)
        wrong = shares.copy()
        wrong[np.arange(N), y] -= 1.0
        mean = np.einsum("nk,nkp->np", shares, by)
        bend = np.einsum("nk,nkp,nkq->pq", shares, by, by) - mean.T @ mean
        slope = np.einsum("nk,nkp->p", wrong, by) + found - before
        step = np.linalg.solve(bend + np.eye(1 + K), slope)
        # Far from the minimum, a full Newton step may overshoot.
        found -= step / max(1.0, np.abs(step).max())
    if found[0] <= 0.0:
        return 0.0, bias
    return float(found[0]) / scale, found[1:]


def start(
    y: NDArray[np.int64], shape: tuple[int, int, int, int], signs: NDArray[np.int64]
) -> Learned:
    """Return the parameters with which training starts; `shape` is (T, R, S, P).

    Calibrators are straight lines, lattices are 0 at all vertices, and the bias has the
    classes' log odds.
    """
    T, R, S, P = shape
    calibrations = np.empty((T, S, P + 1))
    calibrations[:, :, :P] = np.linspace(0.0, 1.0, P)
    calibrations[signs < 0, :P] = np.linspace(1.0, 0.0, P)
    calibrations[:, :, P] = 0.5
    logs = np.log(np.bincount(y) / len(y))
    bias = logs[1:] - logs[:1] if R == 1 else logs
    return Learned(calibrations, np.zeros((T, R, 2**S)), bias)


def locate_all(
    X: NDArray[Any], knots: Floats
) -> tuple[NDArray[np.int16], NDArray[np.float32]]:
    """Return (k, share), each (N, d): positions of X between the keypoints `knots`.

    Keypoint k is the last that does not exceed the value, but never the very last.
    `share`, in [0, 1], is the fraction of the way to the next keypoint. A missing value
    has k = P.
    """
    places = np.empty(X.shape, np.int16)
    parts = np.empty(X.shape, np.float32)
    P = knots.shape[1]
    for j, own in enumerate(knots):
        values = np.clip(X[:, j], own[0], own[-1])
        missing = np.isnan(values)
        values[missing] = own[0]
        found = np.clip(np.searchsorted(own, values, side="right") - 1, 0, P - 2)
        share = (values - own[found]) / (own[found + 1] - own[found])
        places[:, j] = np.where(missing, P, found)
        parts[:, j] = np.where(missing, 0.0, share)
    return places, parts


def bend(vertices: Floats, descent: Descent) -> Floats:
    """Return the gradient (T, R, V) of the penalties with respect to the vertices."""
    out: Floats = descent.l2 * vertices
    if descent.laplacian:
        for s in range(vertices.shape[2].bit_length() - 1):
            low, high = sides(vertices, s)
            rise = descent.laplacian * (high - low)
            below, above = sides(out, s)
            below -= rise
            above += rise
    return out


def project(learned: Learned, signs: NDArray[np.int64]) -> None:
    """Change learned parameters so that they are monotonic as `signs` (T, S) demand.

    Along an input with a sign, vertices must ascend: two vertices that do not are both
    replaced by their mean. Calibrated values must ascend for the sign +1, and descend
    for -1: each becomes the mean of the nearest monotonic sequences above and below.
    """
    calibrations, vertices = learned.calibrations, learned.vertices
    np.clip(calibrations, 0.0, 1.0, out=calibrations)
    for s in range(signs.shape[1]):
        bound = np.flatnonzero(signs[:, s])
        if not bound.size:
            continue
        mine = vertices[bound]
        low, high = sides(mine, s)
        mean = 0.5 * (low + high)
        np.minimum(low, mean, out=low)
        np.maximum(high, mean, out=high)
        vertices[bound] = mine
        for sign in (1, -1):
            turned = np.flatnonzero(signs[:, s] == sign)
            rising = calibrations[turned, s, :-1][:, ::sign]
            up = np.maximum.accumulate(rising, axis=1)
            down = np.minimum.accumulate(rising[:, ::-1], axis=1)[:, ::-1]
            calibrations[turned, s, :-1] = (0.5 * (up + down))[:, ::sign]


def sides(vertices: Floats, s: int) -> tuple[Floats, Floats]:
    """Return two views of vertices (T, R, V): with coordinate s = 0, and with s = 1."""
    T, R, V = vertices.shape
    pairs = vertices.reshape(T, R, V >> (s + 1), 2, 1 << s)
    return pairs[:, :, :, 0], pairs[:, :, :, 1]
