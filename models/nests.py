"""Ready nested model classes for a choice under a budget, from the smallest up.

Training is taken to cost in proportion to a class's dimension times its examples
(OBMS, Example 1): a quantum that trains the largest class on `rows` examples trains
class i on rows d_K / d_i.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .budgeted import ModelClass
from .penalties import boosting, tree, vc

Nest = dict[str, ModelClass]


def polynomial_degrees(
    degrees: Sequence[int], features: int, *, rows: int = 100, scale: float = 1.0
) -> Nest:
    """Nest linear classifiers on all monomials up to each degree."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    dimensions = {d: math.comb(features + d, d) for d in degrees}
    return _nest(
        {f"degree {degree}": dimension for degree, dimension in dimensions.items()},
        [vc(dimension, scale=scale) for dimension in dimensions.values()],
        [
            make_pipeline(
                StandardScaler(), PolynomialFeatures(degree), LogisticRegression()
            )
            for degree in degrees
        ],
        rows,
    )


def feature_counts(
    counts: Sequence[int], *, rows: int = 100, scale: float = 1.0
) -> Nest:
    """Nest linear classifiers on the first columns, so many of them."""
    from sklearn.compose import ColumnTransformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return _nest(
        {f"{count} columns": count + 1 for count in counts},
        [vc(count + 1, scale=scale) for count in counts],
        [
            make_pipeline(
                ColumnTransformer([("first", StandardScaler(), slice(0, count))]),
                LogisticRegression(),
            )
            for count in counts
        ],
        rows,
    )


def tree_depths(
    depths: Sequence[int], features: int, *, rows: int = 100, scale: float = 1.0
) -> Nest:
    """Nest decision trees up to each depth."""
    from sklearn.tree import DecisionTreeClassifier

    return _nest(
        {f"depth {depth}": depth for depth in depths},
        [tree(2**depth, features, scale=scale) for depth in depths],
        [DecisionTreeClassifier(max_depth=depth) for depth in depths],
        rows,
    )


def boosting_lengths(
    lengths: Sequence[int],
    features: int,
    *,
    leaves: int = 8,
    rows: int = 100,
    scale: float = 1.0,
) -> Nest:
    """Nest boosted trees of so many rounds."""
    from sklearn.ensemble import GradientBoostingClassifier

    return _nest(
        {f"{length} rounds": length for length in lengths},
        [boosting(length, leaves, features, scale=scale) for length in lengths],
        [
            GradientBoostingClassifier(n_estimators=length, max_leaf_nodes=leaves)
            for length in lengths
        ],
        rows,
    )


def _nest(
    costs: Mapping[str, int],
    penalties: Sequence[Callable[[float], float]],
    learners: Sequence[Any],
    rows: int,
) -> Nest:
    """Put classes together; `costs` are what one example costs each, in proportion."""
    most = max(costs.values())
    return {
        name: ModelClass(rows * most // cost, penalty, learner)
        for (name, cost), penalty, learner in zip(
            costs.items(), penalties, learners, strict=True
        )
    }
