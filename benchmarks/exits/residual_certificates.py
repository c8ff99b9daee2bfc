"""LazyGBM's certificate (Mathematics 14(13):2343, 2026): stages that change nothing.

Its abstract says: a prediction is exact once "current class separation exceeds twice
the maximum possible contribution of later stages". That is followed to the letter; what
a contribution is, is **our reading**: the largest absolute leaf of any class. For two
classes, whose one raw score f counts as the class scores -f/2 and f/2, it comes to
|f| > sum of the largest |leaf|. Beside it stand bounds for each pair of classes, which
are sharper, and are what `exact_schedule` has for two.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

WIDER = 1 + 1e-12  # for sums that round


@dataclass(frozen=True, slots=True, eq=False)
class Leaves:
    """What the trees of T stages can add: their least and their largest leaves.

    Attributes
    ----------
    least, most : (T, K) float64
        By stage and class.
    """

    least: Floats
    most: Floats

    @property
    def largest(self) -> Floats:
        """(T,) largest absolute leaf of each stage."""
        found: Floats = np.maximum(-self.least, self.most).clip(0).max(axis=1)
        return found


def leaves_of(booster: object, classes: int) -> Leaves:
    """Read the leaves of a LightGBM booster; one score counts as -f/2 and f/2."""
    text: str = booster.model_to_string()  # type: ignore[attr-defined]
    lines = (line for line in text.splitlines() if line.startswith("leaf_value="))
    trees = [np.array(line.partition("=")[2].split(), np.float64) for line in lines]
    least = np.array([tree.min() for tree in trees])
    most = np.array([tree.max() for tree in trees])
    if classes == 2:
        halves = np.stack([-most, least], axis=1), np.stack([-least, most], axis=1)
        return Leaves(halves[0] / 2, halves[1] / 2)
    return Leaves(least.reshape(-1, classes), most.reshape(-1, classes))


def as_two_classes(scores: Floats) -> Floats:
    """Scores (N, T, 2) of the classes, for (N, T) of one raw score."""
    return np.stack([-scores, scores], axis=2) / 2


def certified(scores: Floats, bias: Floats, leaves: Leaves, order: Codes) -> Codes:
    """Count the stages (N,) until LazyGBM's certificate holds, T where it never does.

    `scores` (N, T, K) are what the stages add, `bias` (K,) what classes begin with.
    """
    rest = np.append(np.cumsum(leaves.largest[order][::-1])[::-1][1:], 0.0) * WIDER
    sums = np.cumsum(scores[:, order], axis=1) + bias
    best = np.sort(sums, axis=2)
    return first_stage(best[:, :, -1] - best[:, :, -2] > 2 * rest)


def certified_by_pairs(
    scores: Floats, bias: Floats, leaves: Leaves, order: Codes
) -> Codes:
    """Count the stages (N,) until no class can come to pass the best one."""
    least, most = (
        np.concatenate([np.cumsum(b[order][::-1], axis=0)[::-1][1:], b[:1] * 0])
        for b in (leaves.least, leaves.most)
    )
    slack = (WIDER - 1) * np.maximum(-least, most).clip(0).sum(axis=1)
    sums = np.cumsum(scores[:, order], axis=1) + bias
    best = sums.argmax(axis=2)
    own = np.take_along_axis(sums + least, best[:, :, None], axis=2)[:, :, 0]
    others = sums + most
    np.put_along_axis(others, best[:, :, None], -np.inf, axis=2)
    return first_stage(own > others.max(axis=2) + slack)


def first_stage(holds: NDArray[np.bool_]) -> Codes:
    """Number of stages until `holds` (N, T) is true, T where it never is."""
    holds[:, -1] = True
    stages: Codes = holds.argmax(axis=1) + 1
    return stages
