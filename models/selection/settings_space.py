"""Settings of learners that are worth trying, and random draws of them.

Ranges are those that users of the libraries search: rates and penalties evenly on a
logarithmic scale, shares evenly. Parameters that count iterations are no settings here;
they are what a longer training has more of.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from polydom.features.errors import BadProject

from .learners import LEARNERS
from .portfolio import Setting


@dataclass(frozen=True, slots=True)
class Range:
    """The values of one parameter: from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = True  # True if the logarithm is drawn evenly, False if the value is
    whole: bool = False  # True if values are rounded to whole numbers

    def draw(self, rng: np.random.Generator) -> float | int:
        """Draw a value; a value that is not whole has three significant digits."""
        if self.log:
            value = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        else:
            value = float(rng.uniform(self.low, self.high))
        if self.whole:
            return int(min(max(round(value), self.low), self.high))
        return min(max(float(f"{value:.3g}"), self.low), self.high)


@dataclass(frozen=True, slots=True)
class Space:
    """What may be tuned of a learner."""

    ranges: Mapping[str, Range]
    # Parameter that counts iterations, and its largest value; None if the learner is
    # trained on more and more rows instead
    iterations: tuple[str, int] | None = None
    # Parameters without which some of the ranges have no effect
    with_: Mapping[str, Any] = field(default_factory=dict)


RATE, SHARE = Range(0.01, 0.3), Range(0.4, 1.0, log=False)
LEAVES, LEAF = Range(7, 255, whole=True), Range(1, 100, whole=True)
TREES = ("n_estimators", 400)
FOREST = Space(
    {"max_features": Range(0.1, 1.0), "min_samples_leaf": Range(1, 20, whole=True)},
    ("n_estimators", 100),
)
PENALTY = {"alpha": Range(1e-3, 1e4)}
SMOOTHING = Space({"alpha": Range(1e-3, 10.0)})

SPACES: Mapping[str, Space] = {
    "logistic": Space({"C": Range(1e-4, 1e4)}),
    "linear_svm": Space({"C": Range(1e-4, 1e3)}),
    "ridge": Space(PENALTY),
    "sgd": Space({"alpha": Range(1e-7, 1e-1)}),
    "lda": Space({"shrinkage": Range(0.0, 1.0, log=False)}),
    "elastic_net": Space({"l1_ratio": Range(0.05, 1.0, log=False)}),
    "naive_bayes": Space({"var_smoothing": Range(1e-9, 1.0)}),
    "bernoulli_bayes": SMOOTHING,
    "multinomial_bayes": SMOOTHING,
    "complement_bayes": SMOOTHING,
    "tree": Space(
        {
            "max_depth": Range(2, 30, whole=True),
            "min_samples_leaf": LEAF,
            "ccp_alpha": Range(1e-6, 1e-2),
        }
    ),
    "forest": FOREST,
    "extra_trees": FOREST,
    "ada_boost": Space({"learning_rate": Range(0.05, 2.0)}, ("n_estimators", 200)),
    "boosting": Space(
        {
            "learning_rate": RATE,
            "max_depth": Range(2, 8, log=False, whole=True),
            "min_samples_leaf": LEAF,
            "subsample": SHARE,
            "max_features": SHARE,
        },
        TREES,
    ),
    "hist_boosting": Space(
        {
            "learning_rate": RATE,
            "max_leaf_nodes": LEAVES,
            "min_samples_leaf": LEAF,
            "l2_regularization": Range(1e-3, 10.0),
            "max_features": SHARE,
        },
        ("max_iter", 400),
    ),
    "lightgbm": Space(
        {
            "learning_rate": RATE,
            "num_leaves": LEAVES,
            "min_child_samples": LEAF,
            "reg_lambda": Range(1e-3, 10.0),
            "subsample": SHARE,
            "colsample_bytree": SHARE,
        },
        TREES,
        {"subsample_freq": 1},
    ),
    "xgboost": Space(
        {
            "learning_rate": RATE,
            "max_depth": Range(3, 10, log=False, whole=True),
            "min_child_weight": Range(1.0, 30.0),
            "reg_lambda": Range(1e-2, 10.0),
            "subsample": SHARE,
            "colsample_bytree": SHARE,
        },
        TREES,
    ),
    "lattices": Space(
        {
            "learning_rate": Range(0.01, 0.5),
            "l2": Range(1e-2, 100.0),
            "laplacian": Range(1e-2, 100.0),
        },
        ("epochs", 40),
    ),
}


def space_of(setting: Setting) -> Space:
    """Return what may be tuned of a learner; parameters that `setting` gives are fixed.

    A fixed number of iterations is the largest. Raises BadProject if nothing is left to
    tune.
    """
    name, fixed = str(setting["name"]), setting.keys() - {"name"}
    paths = {
        recipe[0]: own for known in LEARNERS.values() for own, recipe in known.items()
    }
    space = SPACES.get(name) or SPACES.get(paths.get(name, ""))
    if space is None:
        raise BadProject(
            f"[learner] tune_s tunes the settings of {', '.join(SPACES)}; learner "
            f"{name!r} has none to tune: leave tune_s out"
        )
    ranges = {key: one for key, one in space.ranges.items() if key not in fixed}
    if not ranges:
        raise BadProject(
            f"[learner] gives {', '.join(sorted(fixed & space.ranges.keys()))}, which "
            f"is all that tune_s would tune of {name!r}: leave tune_s or these out"
        )
    iterations = space.iterations
    if iterations is not None and iterations[0] in fixed:
        iterations = iterations[0], int(setting[iterations[0]])
    with_ = {key: one for key, one in space.with_.items() if key not in fixed}
    return Space(ranges, iterations, with_)


def draw_setting(
    setting: Setting, space: Space, rng: np.random.Generator
) -> tuple[str, Setting]:
    """Draw a setting; return what was drawn as a text, and the whole setting."""
    drawn = {name: one.draw(rng) for name, one in space.ranges.items()}
    text = ", ".join(f"{name} {value:g}" for name, value in drawn.items())
    return text, {**setting, **space.with_, **drawn}
