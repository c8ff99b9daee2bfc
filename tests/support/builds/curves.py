"""Drawn candidates whose cost curves meet, touch and coincide more than chance would.

Coefficients are small integers or floats; every curve is 0 or more on `SIZES`.
"""

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

SIZES = (0.0, 4.0)

Candidates = tuple[NDArray[np.float64], NDArray[np.float64]]


@st.composite
def curve(draw: st.DrawFn) -> list[float]:
    """One cost polynomial of degree up to 3."""
    kind = draw(st.sampled_from(["coarse", "fine", "touching", "through"]))
    if kind == "coarse":
        return draw(st.lists(st.integers(0, 4).map(float), min_size=4, max_size=4))
    if kind == "fine":
        return draw(st.lists(st.floats(1e-6, 4), min_size=4, max_size=4))
    at = draw(st.sampled_from([0.0, 1.0, 1.5, 2.0, 3.0, 4.0, 0.1, 1 / 3]))
    steep = float(draw(st.integers(0, 3)))
    if kind == "touching":  # height + steep * (n - at) ** 2
        height = float(draw(st.integers(1, 3)))
        return [height + steep * at * at, -2 * steep * at, steep, 0.0]
    # 20 + steep * (n - at): all of these meet in one point
    sign = draw(st.sampled_from([-1.0, 1.0]))
    return [20 - sign * steep * at, sign * steep, 0.0, 0.0]


@st.composite
def candidates(draw: st.DrawFn, most: int = 9) -> Candidates:
    """Coefficients (C, 4) and accuracies (C,), often tied."""
    curves = draw(st.lists(curve(), min_size=1, max_size=most))
    coarse = st.sampled_from([0.5, 0.6, 0.7, 0.8])
    accuracies = [draw(coarse | st.floats(0, 1)) for _ in curves]
    return np.array(curves), np.array(accuracies)


RECTANGLE = ((1.0, 0.5), (8.0, 32.0))


@st.composite
def pair_candidates(draw: st.DrawFn, most: int = 12) -> Candidates:
    """Coefficients (C, 6) in two numbers, often alike, and accuracies, often tied."""
    coarse = st.integers(0, 3).map(float)
    fine = coarse | st.floats(1e-6, 4)
    number = draw(st.sampled_from([coarse, fine]))
    terms = st.lists(number, min_size=6, max_size=6)
    curves = draw(st.lists(terms, min_size=1, max_size=most))
    levels = st.sampled_from([0.5, 0.6, 0.7, 0.8])
    accuracies = [draw(levels | st.floats(0, 1)) for _ in curves]
    return np.array(curves), np.array(accuracies)
