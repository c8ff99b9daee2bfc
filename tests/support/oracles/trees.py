"""Slow twins of trees."""

import math
from collections.abc import Sequence

from polydom.models.trees.nodes import Tree


def tree_value(tree: Tree, row: Sequence[float]) -> float:
    """Walk one tree from its root, one plain sentence of its rules at a time."""
    node = 0
    while tree.column[node] >= 0:
        value, flags = row[tree.column[node]], int(tree.flags[node])
        if math.isnan(value) and flags & 2:
            value = 0.0
        if math.isnan(value):
            left = bool(flags & 1)
        elif node in tree.sets:
            allowed = -1 < value < 2**31 and not (flags & 16 and value % 1)
            allowed = allowed and not (flags & 32 and value < 0)
            found = allowed and int(value) in tree.sets[node]
            left = found == bool(flags & 8)
        elif flags & 4 and abs(value) <= 1e-35:
            left = bool(flags & 1)
        else:
            left = value <= tree.threshold[node]
        node = int(tree.left[node] if left else tree.right[node])
    return float(tree.values[node, 0])
