"""One tree of an XGBoost model file."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadModel
from .nodes import MISSING_LEFT, NOT_BELOW_ZERO, Tree

# XGBoost's own limit.
MOST_CATEGORIES = 1 << 24


def read_tree(tree: dict[str, Any], width: int, weight: np.float32) -> Tree:
    """Read a tree over `width` inputs whose leaves count `weight` times, as in dart.

    Raises
    ------
    BadModel
        If its fields do not fit together, or it has leaves of several values.
    """
    left, right = _whole(tree, "left_children"), _whole(tree, "right_children")
    features = _whole(tree, "split_indices")
    defaults = _whole(tree, "default_left")
    with np.errstate(over="ignore"):
        conditions = np.asarray(tree["split_conditions"], np.float64).astype("f4")
    fields = left, right, features, defaults, conditions
    if len({field.shape for field in fields}) != 1 or left.ndim != 1:
        raise BadModel("an XGBoost tree with fields of different lengths")
    if int(tree["tree_param"].get("size_leaf_vector", 1)) > 1:
        raise BadModel("XGBoost trees with vector leaves have no compiled form")
    leaf = left < 0
    if not ((features >= 0) & (features < width))[~leaf].all():
        raise BadModel(f"an XGBoost split on a feature outside the {width} there are")
    if not np.isfinite(conditions[leaf]).all() or np.isnan(conditions).any():
        raise BadModel("an XGBoost tree with a leaf or a threshold that is no number")
    sets = _sets(tree, leaf)
    flags = np.where(defaults != 0, MISSING_LEFT, 0)
    flags[list(sets)] |= NOT_BELOW_ZERO
    return Tree(
        column=np.where(leaf, -1, features),
        # XGBoost goes left if value < condition, we if value <= threshold.
        threshold=np.nextafter(conditions, np.float32(-np.inf)).astype(np.float64),
        left=left,
        right=right,
        values=np.where(leaf, conditions * weight, 0.0).astype(np.float64)[:, None],
        flags=flags,
        sets=sets,
    )


def _whole(tree: dict[str, Any], name: str) -> NDArray[np.int64]:
    with np.errstate(invalid="ignore"):  # what is too large for one is out of range
        return np.asarray(tree[name]).astype(np.int64)


def _sets(tree: dict[str, Any], leaf: NDArray[np.bool_]) -> dict[int, Sequence[int]]:
    """Categories that go right, by node; a split on one category is a set of one."""
    types = _whole(tree, "split_type") if "split_type" in tree else np.zeros(len(leaf))
    if types.shape != leaf.shape:
        raise BadModel("an XGBoost tree with fields of different lengths")
    nodes = np.flatnonzero((types == 1) & ~leaf).tolist()
    names = ("nodes", "segments", "sizes")
    placed = [_whole(tree, f"categories_{name}").tolist() for name in names if nodes]
    found = dict(_cut(tree, *placed)) if nodes else {}
    if set(nodes) != set(found):
        raise BadModel("an XGBoost split on categories without a set of them")
    return found


def _cut(
    tree: dict[str, Any], nodes: list[int], starts: list[int], sizes: list[int]
) -> list[tuple[int, Sequence[int]]]:
    members = _whole(tree, "categories")
    if not ((members >= 0) & (members < MOST_CATEGORIES)).all():
        raise BadModel(f"an XGBoost category outside 0 to {MOST_CATEGORIES - 1}")
    ends = [start + size for start, size in zip(starts, sizes, strict=True)]
    if min([*starts, *sizes], default=0) < 0 or max(ends, default=0) > len(members):
        raise BadModel("an XGBoost set of categories that does not exist")
    spans = zip(nodes, starts, ends, strict=True)
    return [(node, members[start:end].tolist()) for node, start, end in spans]
