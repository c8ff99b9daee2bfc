"""XGBoost's JSON model files to flat arrays, without XGBoost."""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadModel
from ._score_kernels import LARGEST_SCORE, LOGISTIC, SOFTMAX
from ._tree_kernels import MISSING_LEFT
from .classifier import Classifier
from .head import Head
from .prepare import Preparation, inputs_of
from .trees import Tree, join

OBJECTIVES = ("binary:logistic", "binary:logitraw", "multi:softprob", "multi:softmax")


def read_xgboost(
    text: str,
    preparation: Preparation | None = None,
    classes: Sequence[Any] | None = None,
) -> Classifier:
    """Compile the JSON that XGBoost's `save_model` writes.

    XGBoost adds leaf values in float32, we in float64: raw scores agree within 1e-5,
    and choices wherever classes differ by more than that. `preparation` makes its
    inputs, by default the first columns of the row; `classes` are the labels, by
    default 0 to K - 1.

    Raises
    ------
    BadModel
        If the text is no such model, or uses an objective, a booster or a kind of tree
        without compiled form.
    """
    try:
        learner = json.loads(text)["learner"]
        return _compile(learner, preparation, classes)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise BadModel(f"not an XGBoost JSON model: {error!r}") from error


def _compile(
    learner: dict[str, Any],
    preparation: Preparation | None,
    classes: Sequence[Any] | None,
) -> Classifier:
    objective = learner["objective"]["name"]
    if objective not in OBJECTIVES:
        raise BadModel(
            f"XGBoost objective {objective!r} has no compiled form; these have: "
            f"{', '.join(OBJECTIVES)}"
        )
    booster = learner["gradient_booster"]
    if booster["name"] != "gbtree":
        raise BadModel(f"XGBoost booster {booster['name']!r}; only 'gbtree' is known")
    parameters = learner["learner_model_param"]
    K = max(int(parameters["num_class"]), 1)
    width = int(parameters["num_feature"])
    trees = [_tree(tree, width) for tree in booster["model"]["trees"]]
    scorer = join(
        trees,
        _targets(booster["model"]["tree_info"], K),
        inputs_of(width, preparation),
        bias=_bias(parameters["base_score"], objective, K),
        single=True,
    )
    count = max(K, 2)
    labels = np.arange(count) if classes is None else np.asarray(classes)
    if len(labels) != count:
        raise BadModel(f"{len(labels)} labels for a model of {count} classes")
    if objective.startswith("multi:"):
        return Classifier(scorer, Head(labels, SOFTMAX, LARGEST_SCORE, K))
    return Classifier(scorer, Head(labels, LOGISTIC, LARGEST_SCORE, 1))


def _targets(tree_info: Sequence[int], K: int) -> list[int]:
    targets = [int(target) for target in tree_info]
    if not all(0 <= target < K for target in targets):
        raise BadModel(f"an XGBoost tree for a class outside the {K} there are")
    return targets


def _bias(base_score: str, objective: str, K: int) -> NDArray[np.float64]:
    """Margins from which the sums start; one number, or a list of one per class."""
    numbers = [float(word) for word in str(base_score).strip("[]").split(",")]
    if objective == "binary:logistic":
        (share,) = numbers
        numbers = [-math.log(1 / share - 1)]
    return np.broadcast_to(np.array(numbers, np.float32), K).astype(np.float64)


def _tree(tree: dict[str, Any], width: int) -> Tree:
    left = np.array(tree["left_children"], np.int64)
    right = np.array(tree["right_children"], np.int64)
    conditions = np.array(tree["split_conditions"], np.float64).astype(np.float32)
    features = np.array(tree["split_indices"], np.int64)
    defaults = np.array(tree["default_left"], np.int64)
    if len({len(a) for a in (left, right, conditions, features, defaults)}) != 1:
        raise BadModel("an XGBoost tree with fields of different lengths")
    if tree.get("categories_nodes"):
        raise BadModel("XGBoost trees with categorical splits have no compiled form")
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise BadModel("XGBoost trees with vector leaves have no compiled form")
    leaf = left < 0
    if not ((features >= 0) & (features < width))[~leaf].all():
        raise BadModel(f"an XGBoost split on a feature outside the {width} there are")
    return Tree(
        column=np.where(leaf, -1, features),
        # XGBoost goes left if value < condition, we if value <= threshold.
        threshold=np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64),
        left=left,
        right=right,
        values=np.where(leaf, conditions, 0.0).astype(np.float64)[:, None],
        flags=np.where(defaults != 0, MISSING_LEFT, 0),
    )
