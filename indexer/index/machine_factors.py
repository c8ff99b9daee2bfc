"""How much slower one machine is than another, and what that makes of costs."""

from dataclasses import replace
from math import comb
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from polydom.features.costs.curve import CostTable

from .machine_times import MachineTimes

Floats = NDArray[np.float64]

CONFIDENCE = 0.95
SLOWEST = 8.0
FASTEST = 1 / SLOWEST


class MachineFactors(NamedTuple):
    """How many times as long each part takes here as where the index was built.

    Attributes
    ----------
    overhead, models
        One for all.
    steps : (s,)
    features : (m,)
        1 where seconds are declared.
    """

    overhead: float
    steps: Floats
    features: Floats
    models: float


def compare(build: MachineTimes, parts: Floats, models: Floats) -> MachineFactors:
    """Find the factors by which this machine is slower than the build's.

    Each is `upper_median` of the ratios of all rounds and samples: noise makes it
    larger, and it is below 1 only where clearly more than half of the calls were
    faster. Medians are compared, and quantiles of the same calls assumed to be in the
    same proportion. Where large items slow down more than small ones, one factor does
    not describe it.

    Parameters
    ----------
    build
        Times of the same calls when the index was built.
    parts, models
        Times here, as `time_features` and `time_models` give them.

    Returns
    -------
    MachineFactors between `FASTEST` and `SLOWEST`.
    """
    steps = build.step_s.shape[1]
    steps_s, features_s = parts[:, :, 1 : 1 + steps], parts[:, :, 1 + steps :]
    return MachineFactors(
        _factor(parts[:, :, 0] / build.overhead_s),
        np.array([_factor(r) for r in np.moveaxis(steps_s / build.step_s, 2, 0)]),
        np.array([_factor(r) for r in np.moveaxis(features_s / build.feature_s, 2, 0)]),
        _factor(models / build.model_s),
    )


def rescale_costs(
    costs: CostTable, factors: MachineFactors, declared: Floats
) -> CostTable:
    """Multiply what was measured by the factors, and leave what was declared.

    `declared` (m,) or (m + s,) is the part of each feature's constant that is no
    measured time, then of each step's.
    """
    features = costs.feature_coefficients
    m = len(features)
    steps = declared[m:] if len(declared) > m else np.zeros(len(factors.steps))
    return replace(
        costs,
        feature_coefficients=_scaled(features, factors.features, declared[:m]),
        step_coefficients=_scaled(costs.step_coefficients, factors.steps, steps),
        overhead=factors.overhead * costs.overhead,
    )


def _scaled(coefficients: Floats, factors: Floats, declared: Floats) -> Floats:
    """Multiply rows by their factors, but for what was declared of their constants."""
    fixed = np.zeros_like(coefficients)
    fixed[:, 0] = np.minimum(declared, coefficients[:, 0])
    scaled: Floats = fixed + factors[:, np.newaxis] * (coefficients - fixed)
    return scaled


def _factor(ratios: Floats) -> float:
    if np.isnan(ratios).all():
        return 1.0
    return float(np.clip(upper_median(ratios.ravel()), FASTEST, SLOWEST))


def upper_median(values: Floats, confidence: float = CONFIDENCE) -> float:
    """Return a value that the median of what these were drawn from is hardly above.

    It is the smallest of the values (N,), at least one, that lies below that median
    with a probability of at most 1 - `confidence`, whatever the distribution (the sign
    test's bound: k of N values are below the median with the probability of k heads of
    N coins). Fewer than five values give their largest.
    """
    count = len(values)
    rank, tail = count, 1 / 2**count
    while tail + comb(count, rank - 1) / 2**count <= 1 - confidence:
        rank -= 1
        tail += comb(count, rank) / 2**count
    return float(np.partition(values, rank - 1)[rank - 1])
