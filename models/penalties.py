"""Complexity penalties: how far a class's empirical risk may be from its true one.

A penalty is a function of the examples seen, decreasing to 0. They are for losses in
[0, 1] and known up to the constant `scale`, as in OBMS, section 2.1.
"""

import math
from collections.abc import Callable

from ..features.errors import BadInput

Penalty = Callable[[float], float]


def vc(dimension: float, *, scale: float = 1.0) -> Penalty:
    """Penalise by the VC dimension d: scale * sqrt(d / n) (OBMS, equation 4)."""
    if not (dimension > 0 and scale > 0):
        raise BadInput(f"dimension {dimension}, scale {scale}; both must be above 0")
    return lambda n: scale * math.sqrt(dimension / n)


def norm_bounded(norm: float, radius: float, *, scale: float = 1.0) -> Penalty:
    """Penalise linear functions with ||w|| <= norm on ||x|| <= radius.

    Twice their Rademacher complexity, 2 norm radius / sqrt(n), for a loss that changes
    by at most `scale` per unit of w.x.
    """
    return vc((2 * norm * radius) ** 2, scale=scale)


def tree(leaves: int, features: int, *, scale: float = 1.0) -> Penalty:
    """Penalise binary trees by their size: a VC dimension of order L log2(L D)."""
    return vc(tree_dimension(leaves, features), scale=scale)


def boosting(rounds: int, leaves: int, features: int, *, scale: float = 1.0) -> Penalty:
    """Penalise weighted votes of T trees of VC dimension d.

    Their dimension is at most 2 (d + 1)(T + 1) log2(e (T + 1)) (Freund and Schapire,
    1997, theorem 8).
    """
    dimension = tree_dimension(leaves, features)
    votes = 2 * (dimension + 1) * (rounds + 1) * math.log2(math.e * (rounds + 1))
    return vc(votes, scale=scale)


def tree_dimension(leaves: int, features: int) -> float:
    """Return L log2(L D), at least 1, for binary trees of L leaves on D columns."""
    if leaves < 1 or features < 1:
        raise BadInput(f"{leaves} leaves on {features} columns; at least 1 of each")
    return max(leaves * math.log2(leaves * features), 1.0)
