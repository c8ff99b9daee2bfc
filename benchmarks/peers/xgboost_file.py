"""Other libraries' trees as an XGBoost model file, which our kernels are read from."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np

# One tree: children, and in each node the input and threshold of `value < threshold`
# goes left; in a leaf, whose children are -1, what it adds.
FIELDS = "left_children", "right_children", "split_indices", "split_conditions"
Tree = dict[str, list[Any]]


def write_xgboost(path: Path, trees: list[Tree], bias: float, width: int) -> None:
    """Write trees of `FIELDS` that sum to the log-odds of the second of two classes."""
    written = [
        tree
        | {"default_left": [0] * len(tree[FIELDS[0]])}
        | {"tree_param": {"size_leaf_vector": "1"}}
        for tree in trees
    ]
    model = {"trees": written, "tree_info": [0] * len(trees)}
    learner = {
        "objective": {"name": "binary:logistic"},
        "gradient_booster": {"name": "gbtree", "model": model},
        "learner_model_param": {
            "base_score": repr(1 / (1 + math.exp(-bias))),
            "num_class": "0",
            "num_feature": str(width),
        },
    }
    path.write_text(json.dumps({"version": [3, 0, 0], "learner": learner}))


def oblivious_tree(tests: list[tuple[int, float]], values: list[float]) -> Tree:
    """Spell out a tree that asks one question per level, as CatBoost's do.

    Bit k of a leaf's number says whether test k, `value > border`, holds.
    """
    inner = len(values) - 1
    level = [(i + 1).bit_length() - 1 for i in range(inner)]
    asked = [tests[len(tests) - 1 - k] for k in level]
    above = [float(np.nextafter(np.float32(b), np.float32(np.inf))) for _, b in asked]
    leaves = [-1] * len(values)
    return {
        "left_children": [2 * i + 1 for i in range(inner)] + leaves,
        "right_children": [2 * i + 2 for i in range(inner)] + leaves,
        "split_indices": [column for column, _ in asked] + [0] * len(values),
        "split_conditions": above + values,
    }
