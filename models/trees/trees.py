"""Make, store, load and evaluate ensembles of trees, as flat arrays."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadModel

from ..scoring.model import Floats, Rows
from ..scoring.preparation import Preparation, as_rows, load_preparation, plain
from ..scoring.rows import is_dense
from ..scoring.scorer import SumOfTerms
from ..scoring.stopping_rule import Stops
from ..scoring.stored_arrays import Stored
from .choose_layout import pack
from .full_rows import nodes_of_full_rows
from .kernels.walk import add_trees, find_leaves
from .nodes import (
    NODE,
    Tree,
    TreeArrays,
    check_trees,
    draw_at_thresholds,
    lay_out,
    pack_sets,
    sums_before,
)
from .one_row import PackedTrees

EPSILON = 2.0**-53  # largest relative rounding error of an addition


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Trees(TreeArrays, SumOfTerms):
    """A sum of trees: a decision tree, a random forest or boosted trees.

    Leaf values are added to `bias` in float64 in the order of the trees. The sum is
    divided by `divisor`, as in scikit-learn and LightGBM, so raw scores have the same
    bits as theirs.
    """

    # Step from full rows to inputs. If the preparation has no operations, the trees
    # read the full row itself.
    preparation: Preparation
    divisor: float
    # True if inputs are rounded to float32 before comparisons, as in scikit-learn's
    # trees, forests and GradientBoosting
    single: bool
    # The trees packed for sums of all trees; None if only plain nodes are possible
    packed: PackedTrees | None = None
    kind: ClassVar[str] = "trees"

    @property
    def width(self) -> int:
        """Minimum number of columns of a full row."""
        if self.prepared:
            return self.preparation.width
        return max(self.preparation.width, int(self.nodes["column"].max()) + 1)

    @property
    def prepared(self) -> bool:
        """True if a scaler or an imputer changes rows before the trees read them."""
        return len(self.preparation.operations) > 0

    def rows(self, X: Rows) -> Rows:
        """Turn full rows X (N, width) into the rows that the trees read.

        Rows are prepared, which may scale or fill them, rounded to float32 if `single`,
        and made contiguous.
        """
        self.preparation.check(X)
        if self.prepared:
            X = self.preparation.apply(X)
        if self.single and X.dtype != np.float32:
            X = _to_single(X)
        return as_rows(X)

    def raw(self, X: Rows) -> Floats:
        """Compute the raw scores (N, R) of full rows X (N, width)."""
        X = self.rows(X)
        if self.packed is not None and (singles := _singles(X)) is not None:
            out = self.packed.follow(singles)[0]
        else:
            out = np.tile(self.bias, (len(X), 1))
            sets = self.set_starts, self.set_bits
            add_trees(X, self.nodes, self.roots, self.targets, self.leaves, *sets, out)
        if self.divisor != 1.0:
            out /= self.divisor
        return out

    def margin_one(self, row: Rows) -> float | None:
        """Return a row's raw score, or None if no kernel can compute it.

        It cannot if the trees are not packed or have several raw scores, if rows must
        be prepared, or if the row is not a contiguous float32 array with enough
        columns.
        """
        packed = self.packed
        if packed is None or packed.enter is None or not is_dense(row, packed.width):
            return None
        margin: float = packed.enter(row, packed.at) / self.divisor
        return margin

    def with_packed(self) -> "Trees":
        """Return a copy that also has a layout for kernels, if one is possible."""
        packed = pack(self)
        if packed is not None and self.prepared:
            packed = replace(packed, enter=None)  # `enter` needs prepared rows
        return replace(self, packed=packed)

    def margin(self) -> "Trees":
        """Return trees with a single raw score, the margin, and the divisor 1.

        If these trees have two raw scores, the margin is the second minus the first.
        """
        values = self.leaves
        if self.leaves.shape[1] == 2:
            values = self.leaves[:, 1:] - self.leaves[:, :1]
        elif self.outputs == 2:
            values = values * self._signs()
        bias = self.bias[-1:] - self.bias[:-1] if self.outputs == 2 else self.bias
        return replace(
            self,
            targets=np.zeros_like(self.targets),
            leaves=np.ascontiguousarray(values / self.divisor),
            bias=bias / self.divisor,
            divisor=1.0,
            packed=None,
        )

    def rounds(self) -> "tuple[Trees, int]":
        """Return trees with the divisor 1, and the number of trees in a base model.

        If trees come in rounds of one tree for each class, a round is a base model;
        otherwise each tree is.
        """
        trees = self
        if self.divisor != 1.0:
            leaves, bias = self.leaves / self.divisor, self.bias / self.divisor
            trees = replace(self, leaves=leaves, bias=bias, divisor=1.0, packed=None)
        classes = np.tile(np.arange(self.outputs), self.size // self.outputs)
        return trees, self.outputs if np.array_equal(self.targets, classes) else 1

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTrees | None:
        """Lay trees out for kernels.

        The kernels add trees in `order` and stop by the rule `stops`. Returns None if
        rounding errors could change a decision, or if no kernel can evaluate the trees.
        """
        leaf = ~self.inner
        values = np.abs(self.leaves).max(axis=1)[self.nodes["child"][leaf]]
        sizes = np.zeros(len(self.nodes))
        sizes[leaf] = values
        largest = np.maximum.reduceat(sizes, self.roots[:-1]).sum()
        rounding = 2 * self.size * EPSILON * (largest + np.abs(self.bias).max())
        if rounding > stops.near:
            return None
        if not self.prepared:
            return pack(self, order, stops)
        nodes = nodes_of_full_rows(self, self.preparation, self.single)
        if nodes is None:
            return None
        own = plain(self.columns)
        trees = replace(self, nodes=nodes, preparation=own, packed=None)
        return pack(trees, order, stops)

    def bounds(self) -> tuple[Floats, Floats]:
        """Return the lowest and the highest score of each tree: two arrays (T, R).

        They are 0 for raw scores to which the tree adds nothing.
        """
        # Nodes are stored tree by tree, and so are leaves.
        leaf = ~self.inner
        values = self.leaves[self.nodes["child"][leaf]] / self.divisor
        starts = sums_before(np.add.reduceat(leaf, self.roots[:-1]))
        scores = self.targets[:, None] + np.arange(values.shape[1])
        least, most = np.zeros((2, self.size, self.outputs))
        np.put_along_axis(least, scores, np.minimum.reduceat(values, starts), 1)
        np.put_along_axis(most, scores, np.maximum.reduceat(values, starts), 1)
        return least, most

    def gives_shares(self) -> bool:
        """Return True if a row's raw scores are probabilities, as in random forests."""
        leaves, rounding = self.leaves, 4 * self.outputs * EPSILON
        return bool(
            leaves.shape[1] == self.outputs > 1
            and self.divisor == self.size
            and not self.bias.any()
            and ((leaves >= 0) & (leaves <= 1)).all()
            and (np.abs(leaves.sum(axis=1) - 1.0) <= rounding).all()
        )

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Return a mask (T, width) of the columns that each tree reads."""
        used = np.zeros((self.size, width), np.bool_)
        inner, read = self.inner, self.nodes["column"][self.inner]
        # With a preparation, a node's column is the position of an input, not of a
        # column in the full row.
        used[self.tree_of[inner], self.columns[read] if self.prepared else read] = True
        return used

    def part(self, which: NDArray[Any], rest: float = 0.0) -> "Trees":
        """Return only the trees at positions `which`, in that order.

        The constant `rest` is added to the raw scores.
        """
        which = np.asarray(which, np.int64)
        if not which.size or which.min() < 0 or which.max() >= self.size:
            raise BadInput(f"positions of trees must be some of 0 to {self.size - 1}")
        sizes = np.diff(self.roots)[which]
        starts = np.append(0, np.cumsum(sizes))
        moved = self.roots[:-1][which] - starts[:-1]
        nodes = self.nodes[np.arange(starts[-1]) + np.repeat(moved, sizes)]
        inner = nodes["column"] >= 0
        nodes["child"][inner] -= np.repeat(moved, sizes)[inner].astype(np.int32)
        leaves = self.leaves[nodes["child"][~inner]]
        nodes["child"][~inner] = np.arange(len(leaves))
        kept = replace(
            self,
            nodes=nodes,
            roots=starts,
            targets=self.targets[which],
            leaves=leaves,
            bias=self.bias + rest * self.divisor,
            packed=None,
        )
        return kept.with_packed()

    def _signs(self) -> Floats:
        """Return each leaf's sign (L, 1) in the margin of two raw scores.

        The sign is -1 if the leaf's tree adds to the first raw score, else 1.
        """
        first = self.targets[self.tree_of] == 0
        signs = np.ones((len(self.leaves), 1))
        signs[self.nodes["child"][~self.inner & first]] = -1.0
        return signs

    def base_scores(self, X: Rows) -> Floats:
        """Return what each tree adds to the raw scores of rows X: (N, T, R)."""
        found = np.empty((len(X), len(self.targets)), np.int32)
        sets = self.set_starts, self.set_bits
        find_leaves(self.rows(X), self.nodes, self.roots, *sets, found)
        V = self.leaves.shape[1]
        out = np.zeros((*found.shape, self.outputs))
        for t, target in enumerate(self.targets):
            out[:, t, target : target + V] = self.leaves[found[:, t]]
        if self.divisor != 1.0:
            out /= self.divisor
        return out

    def base_bias(self) -> Floats:
        """Return the bias (R,), to which the trees' scores are added."""
        return self.bias / self.divisor

    def reach(self) -> float:
        """Return an upper bound on the absolute values of raw scores."""
        most = len(self.targets) * np.abs(self.leaves).max() + np.abs(self.bias).max()
        return float(most / self.divisor)

    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw random prepared inputs (count, d), at thresholds and between them."""
        least = max(len(self.columns), int(self.nodes["column"].max()) + 1)
        drawn = draw_at_thresholds(self, rng, (count, least))
        if self.prepared:
            return drawn
        rows = np.zeros((count, self.width))
        rows[:, :least] = drawn
        return rows[:, self.columns]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load` makes these trees again.

        The nodes are stored as bytes, (M, itemsize).
        """
        return {
            **self.preparation.arrays(),
            "nodes": self.nodes.view(np.uint8).reshape(-1, NODE.itemsize),
            "roots": self.roots,
            "targets": self.targets,
            "leaves": self.leaves,
            "set_starts": self.set_starts,
            "set_bits": self.set_bits,
            "bias": self.bias,
            "sum": np.array([self.divisor, self.single], np.float64),
        }

    def __repr__(self) -> str:
        return (
            f"Trees({self.size} trees, {len(self.nodes)} nodes, {self.outputs} raw "
            f"scores, {self.preparation!r})"
        )

    @classmethod
    def load(cls, stored: Stored, width: int) -> "Trees":
        """Load trees; raise BadModel unless every row's walk would end at a leaf."""
        preparation = load_preparation(stored, width)
        bias = stored.finite("bias", (None,))
        divisor, single = stored.finite("sum", (2,)).tolist()
        if not (divisor > 0 and single in (0, 1)):
            raise stored.fail("a divisor not above 0, or a flag neither 0 nor 1")
        bytes_ = stored.array("nodes", np.uint8, (None, NODE.itemsize))
        made = cls(
            nodes=bytes_.reshape(-1).view(NODE),
            roots=stored.array("roots", np.int64, (None,)),
            targets=stored.array("targets", np.int32, (None,)),
            leaves=stored.finite("leaves", (None, None)),
            set_starts=stored.array("set_starts", np.int64, (None,)),
            set_bits=stored.array("set_bits", np.uint32, (None,)),
            bias=bias,
            preparation=preparation,
            divisor=divisor,
            single=bool(single),
        )
        columns = made.columns
        check_trees(made, np.arange(len(columns)) if made.prepared else columns, stored)
        return made.with_packed()


def _to_single(X: Rows) -> Rows:
    # Values beyond float32 become infinite, as in scikit-learn's own cast.
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


def _singles(X: Rows) -> NDArray[np.float32] | None:
    """Return X as float32; None if the conversion would change a value."""
    if X.dtype == np.float32:
        return np.ascontiguousarray(X, np.float32)
    cast = np.ascontiguousarray(_to_single(X), np.float32)
    return cast if ((cast == X) | np.isnan(X)).all() else None


def join(
    trees: Sequence[Tree],
    targets: Sequence[int],
    preparation: Preparation,
    *,
    bias: Floats,
    divisor: float = 1.0,
    single: bool,
) -> Trees:
    """Join trees to an ensemble, in the given order.

    The first value of a leaf of tree t is added to raw score `targets[t]`, the next
    value to the next raw score, and so on.
    """
    if not trees:
        raise BadModel("an ensemble without trees")
    nodes: list[NDArray[np.void]] = []
    leaves: list[Floats] = []
    sets: list[Sequence[int]] = []
    roots, leaf_count = [0], 0
    for tree in trees:
        laid, values = lay_out(tree, sets)
        inner = laid["column"] >= 0
        laid["child"] += np.where(inner, roots[-1], leaf_count)
        if not len(preparation.operations):
            laid["column"][inner] = preparation.columns[laid["column"][inner]]
        nodes.append(laid)
        leaves.append(values)
        leaf_count += len(values)
        roots.append(roots[-1] + len(laid))
    starts, bits = pack_sets(sets)
    return Trees(
        nodes=np.concatenate(nodes),
        roots=np.array(roots, np.int64),
        targets=np.array(targets, np.int32),
        leaves=np.ascontiguousarray(np.concatenate(leaves), np.float64),
        set_starts=starts,
        set_bits=bits,
        bias=np.ascontiguousarray(bias, np.float64),
        preparation=preparation,
        divisor=float(divisor),
        single=single,
    ).with_packed()
