"""Slow twins of lattices."""

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction

from tests.support.oracles.early_exit import Numbers


def calibrated_value(value: float, knots: Sequence[float], outputs: Numbers) -> float:
    """A piecewise-linear calibrator; the last of `outputs` is a missing value's."""
    if math.isnan(value):
        return float(outputs[len(knots)])
    if value <= knots[0]:
        return float(outputs[0])
    for k, (low, high) in enumerate(itertools.pairwise(knots)):
        if value <= high:
            share = (value - low) / (high - low)
            return float(outputs[k] + share * (outputs[k + 1] - outputs[k]))
    return float(outputs[len(knots) - 1])


def interpolated(vertices: Numbers, inputs: Sequence[float]) -> float:
    """Multilinear interpolation: every vertex times the product of its weights."""
    total = 0.0
    for v, height in enumerate(vertices):
        weight = 1.0
        for s, x in enumerate(inputs):
            weight *= x if v >> s & 1 else 1.0 - x
        total += weight * height
    return total


def on_simplex(vertices: Sequence[int], inputs: Sequence[Fraction]) -> Fraction:
    """Lovasz's extension: the mean height of the vertices over all levels in 0..1.

    At a level the vertex is the one of the inputs that are above it.
    """
    levels = sorted({Fraction(0), Fraction(1), *inputs})
    total = Fraction(0)
    for low, high in itertools.pairwise(levels):
        v = sum(1 << s for s, x in enumerate(inputs) if x >= high)
        total += (high - low) * vertices[v]
    return total
