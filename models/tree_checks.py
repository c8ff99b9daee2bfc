"""What stored trees must be like: the kernels that walk them check nothing."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .stored import Stored

if TYPE_CHECKING:
    from .trees import Trees


def check_order(made: "Trees", stored: Stored) -> None:
    """Refuse trees, targets and category sets that are not one after the other."""
    roots, starts, targets = made.roots, made.set_starts, made.targets
    if not len(roots) or roots[0] != 0 or roots[-1] != len(made.nodes):
        raise stored.fail("its roots do not begin at 0 and end at the last node")
    if not (roots[1:] > roots[:-1]).all():
        raise stored.fail("its roots do not ascend")
    if not len(targets) or len(targets) != len(roots) - 1:
        raise stored.fail(f"{len(roots) - 1} trees and {len(targets)} targets")
    if not made.leaves.shape[1]:
        raise stored.fail("its leaves have no value")
    room = made.outputs - made.leaves.shape[1]
    if not (targets.min() >= 0 and targets.max() <= room):
        raise stored.fail("a tree adds to a raw score that does not exist")
    if not len(starts) or starts[0] != 0 or starts[-1] != len(made.set_bits):
        raise stored.fail("its category sets do not cover their bits")
    if not (starts[1:] >= starts[:-1]).all():
        raise stored.fail("its category sets do not ascend")


def check_nodes(made: "Trees", inputs: NDArray[Any], stored: Stored) -> None:
    """Refuse nodes that are no trees, or test none of the columns `inputs`."""
    nodes = made.nodes
    column, child, category = nodes["column"], nodes["child"], nodes["category"]
    leaf = column < 0
    if not np.isin(column[~leaf], inputs).all():
        raise stored.fail(f"a node tests none of its {len(inputs)} columns")
    if np.isnan(nodes["threshold"]).any():
        raise stored.fail("a threshold is NaN")
    if not ((child[leaf] >= 0) & (child[leaf] < len(made.leaves))).all():
        raise stored.fail("a leaf has no values")
    if leaf.sum() > len(made.leaves):
        raise stored.fail("leaves share values")
    end = np.repeat(made.roots[1:], np.diff(made.roots))
    forward = (child > np.arange(len(nodes))) & (child.astype(np.int64) + 1 < end)
    if not forward[~leaf].all():
        raise stored.fail("a child does not follow its parent within its tree")
    left = child[~leaf]
    parents = np.bincount(left, minlength=len(nodes))
    parents += np.bincount(left + 1, minlength=len(nodes))
    parents[made.roots[:-1]] += 1
    if not (parents == 1).all():
        raise stored.fail("a node has no parent, or several")
    if not ((category >= -1) & (category < len(made.set_starts) - 1)).all():
        raise stored.fail("a node tests a category set that does not exist")
