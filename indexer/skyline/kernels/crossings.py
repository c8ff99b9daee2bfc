"""Find the sizes at which one cost curve is below another, by exact signs.

The sign of the difference of two curves is exact for float64 coefficients and sizes. If
rounding could change a sign, it is computed with expansions (Shewchuk, Adaptive
precision floating-point arithmetic, 1997). A crossing is the first float64 at which the
cheaper of two curves is not cheaper any more, so all curves through one point cross at
the same size. Two curves that only touch do not cross.
"""

import numpy as np
from numba import boolean, float64, int64
from numba.types import Tuple, UniTuple
from numpy.typing import NDArray

from polydom.models.scoring.kernels.cached_njit import OPTIONS, njit
from polydom.models.scoring.kernels.native import FLOATS

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FLOATS_OUT, FLOATS_2D_OUT, INTS_OUT = float64[::1], float64[:, ::1], int64[::1]

UNIT = 2.0**-53
SPLITTER = 134217729.0  # 2 ** 27 + 1, halves a float64's digits (Dekker)


@njit(UniTuple(float64, 2)(float64, float64), **OPTIONS)
def exact_sum(a: float, b: float) -> tuple[float, float]:
    """Return (rounded sum, rounding error); their sum is exactly a + b (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


@njit(UniTuple(float64, 2)(float64, float64), **OPTIONS)
def exact_product(a: float, b: float) -> tuple[float, float]:
    """Return (rounded product, rounding error); their sum is exactly a * b (Dekker)."""
    product = a * b
    a_high = SPLITTER * a - (SPLITTER * a - a)
    b_high = SPLITTER * b - (SPLITTER * b - b)
    a_low, b_low = a - a_high, b - b_high
    error = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + (
        a_low * b_low
    )
    return product, error


@njit(int64(FLOATS_OUT, int64, float64), **OPTIONS)
def add_exactly(parts: Floats, count: int, value: float) -> int:
    """Add `value` to an exact sum; return the new number of its parts.

    The sum is that of `parts[:count]`, which is changed in place. The parts ascend in
    magnitude, their digits do not overlap, and none is 0. So the last part has the sign
    of the sum.
    """
    kept = 0
    for k in range(count):
        value, error = exact_sum(value, parts[k])
        if error != 0.0:
            parts[kept] = error
            kept += 1
    if value != 0.0:
        parts[kept] = value
        kept += 1
    return kept


@njit(int64(FLOATS_2D_OUT, int64, float64), **OPTIONS)
def exact_sign(terms: Floats, degree: int, n: float) -> int:
    """Do the same as `sign_at`, by Horner's rule in exact arithmetic."""
    value = np.empty(4 << degree)
    product = np.empty(4 << degree)
    count = 0
    for k in range(degree, -1, -1):
        grown = 0
        for i in range(count):
            high, low = exact_product(value[i], n)
            grown = add_exactly(product, grown, low)
            grown = add_exactly(product, grown, high)
        grown = add_exactly(product, grown, terms[k, 1])
        count = add_exactly(product, grown, terms[k, 0])
        value, product = product, value
    if count == 0:
        return 0
    return 1 if value[count - 1] > 0.0 else -1


@njit(int64(FLOATS_2D_OUT, int64, float64), **OPTIONS)
def sign_at(terms: Floats, degree: int, n: float) -> int:
    """Return the exact sign of a polynomial at n: -1, 0 or 1.

    `terms` (degree + 1, 2) has the coefficients, the constant first. Each coefficient
    is stored as the sum of two numbers.
    """
    value = 0.0
    size = 0.0
    for k in range(degree, -1, -1):
        value = value * n + terms[k, 0]
        size = size * n + abs(terms[k, 0])
    if abs(value) > 4 * (degree + 1) * UNIT * size:
        return 1 if value > 0.0 else -1
    sign: int = exact_sign(terms, degree, n)
    return sign


@njit(float64(FLOATS_2D_OUT, int64, float64, float64, int64), **OPTIONS)
def first_change(
    terms: Floats, degree: int, low: float, high: float, sign: int
) -> float:
    """Return the first float in (low, high] at which the sign of a polynomial changes.

    The sign must be `sign` at `low`, differ from `sign` at `high`, and change only
    once.
    """
    while True:
        middle = low + (high - low) / 2
        if middle <= low or middle >= high:
            return high
        if sign_at(terms, degree, middle) == sign:
            low = middle
        else:
            high = middle


@njit(int64(FLOATS_2D_OUT, int64, FLOATS_OUT, int64, FLOATS_OUT, INTS_OUT), **OPTIONS)
def signs_between(
    terms: Floats, degree: int, cuts: Floats, pieces: int, starts: Floats, signs: Ints
) -> int:
    """Split a range of sizes into runs in which a polynomial keeps its sign.

    The first and last of `cuts[: pieces + 1]`, which must ascend, are the ends of the
    range. From each cut to the next, the polynomial must be monotone. The kernel writes
    the start and the sign, -1 or 1, of each run to `starts` and `signs`, and returns
    the number of runs. This number is 0 if the polynomial is 0 everywhere.
    """
    runs = 0
    held = cuts[0]  # a size inside the current run
    for piece in range(pieces):
        low, high = cuts[piece], cuts[piece + 1]
        at_low, at_high = sign_at(terms, degree, low), sign_at(terms, degree, high)
        middle = low + (high - low) / 2
        for step in range(2):
            sign, seen = (at_low, low) if step == 0 else (at_high, high)
            if at_low == 0 and at_high == 0 and step == 0:
                sign, seen = sign_at(terms, degree, middle), middle
            if sign == 0:
                continue
            if runs == 0:
                starts[0], signs[0] = cuts[0], sign
                runs = 1
            elif signs[runs - 1] != sign:
                starts[runs] = first_change(terms, degree, held, seen, signs[runs - 1])
                signs[runs] = sign
                runs += 1
            held = seen
    return runs


RUNS = Tuple((FLOATS_OUT, INTS_OUT))


@njit(RUNS(FLOATS, FLOATS, float64, float64), **OPTIONS)
def compare(
    first: Floats, second: Floats, low: float, high: float
) -> tuple[Floats, Ints]:
    """Split [low, high] into runs of sizes at which one cost curve is below the other.

    Returns the runs' (starts, signs). A sign is -1 if `first` costs less than `second`
    in the run, 1 if `first` costs more. The first run starts at `low`, and the last run
    ends at `high`. If the curves are equal, there are no runs.
    """
    count = first.shape[0]
    terms = np.empty((count, 2))
    for k in range(count):
        terms[k, 0], terms[k, 1] = exact_sum(first[k], -second[k])
    degree = count - 1
    while degree > 0 and terms[degree, 0] == 0.0:
        degree -= 1
    derivative = np.empty((count, 2))
    cuts = np.empty(count + 2)
    cuts[0] = low
    starts, signs = np.empty(count), np.empty(count, np.int64)
    pieces = 1
    runs = 0
    # From the highest derivative down: a derivative is monotone between the sign
    # changes of the next higher derivative.
    for order in range(degree, -1, -1):
        for k in range(degree - order + 1):
            factor = 1.0
            for step in range(order):
                factor *= k + order - step
            product, error = exact_product(terms[k + order, 0], factor)
            derivative[k, 0], derivative[k, 1] = exact_sum(
                product, error + factor * terms[k + order, 1]
            )
        cuts[pieces] = high
        runs = signs_between(derivative, degree - order, cuts, pieces, starts, signs)
        for k in range(1, runs):
            cuts[k] = starts[k]
        pieces = max(runs, 1)
    return starts[:runs], signs[:runs]


@njit(int64(FLOATS, FLOATS, float64, float64), **OPTIONS)
def certain_order(first: Floats, second: Floats, low: float, high: float) -> int:
    """Compare two cost curves quickly on a range of sizes [low, high].

    Return -1 if `first` is certainly below `second` at all sizes, 1 if it is certainly
    above at all sizes, else 0. On wide ranges, the result is often 0 although one curve
    is below the other.
    """
    # The difference is a rising part less a falling part, each bounded by its ends.
    up_low = up_high = down_low = down_high = 0.0
    for k in range(first.shape[0] - 1, -1, -1):
        rise = max(first[k] - second[k], 0.0)
        fall = max(second[k] - first[k], 0.0)
        up_low = up_low * low + rise
        up_high = up_high * high + rise
        down_low = down_low * low + fall
        down_high = down_high * high + fall
    margin = 1.0 + 8 * (first.shape[0] + 1) * UNIT
    if up_low > down_high * margin:
        return 1
    if down_low > up_high * margin:
        return -1
    return 0


@njit(boolean(FLOATS, FLOATS, float64, float64), **OPTIONS)
def ever_cheaper(first: Floats, second: Floats, low: float, high: float) -> bool:
    """Return True if `first` costs less than `second` somewhere in [low, high]."""
    order: int = certain_order(first, second, low, high)
    if order != 0:
        return order < 0
    _, signs = compare(first, second, low, high)
    return bool(np.any(signs < 0))
