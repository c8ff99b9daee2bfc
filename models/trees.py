"""Tree ensembles as flat arrays."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadModel
from ._tree_kernels import NODE, add_trees, find_leaves
from .layout import Layout, pack
from .model import Rows
from .prepare import Preparation, as_rows, load_preparation
from .stored import Stored, reduced
from .tree_checks import check_nodes, check_order
from .tree_nodes import lay_out, pack_sets

EPSILON = 2.0**-53  # what one addition can round, as a share of its sum


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """One binary tree as its library numbers it; node 0 is the root.

    Attributes
    ----------
    column : (n,) int
        Input that a node tests; below 0 in a leaf.
    threshold : (n,) float64
        A row goes left if its value is <= threshold.
    left, right : (n,) int
        Children; meaningless in a leaf.
    values : (n, V) float64
        What a leaf adds to the raw scores; only the rows of leaves count.
    flags : (n,) int
        See `_tree_kernels`.
    sets : mapping node -> categories
        Nodes which test membership instead of a threshold.
    """

    column: NDArray[Any]
    threshold: NDArray[Any]
    left: NDArray[Any]
    right: NDArray[Any]
    values: NDArray[np.float64]
    flags: NDArray[Any]
    sets: Mapping[int, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Trees:
    """A sum of trees: decision tree, forest or boosting.

    Leaf values are added to `bias` in float64 in the order of the trees, as
    scikit-learn and LightGBM do, then divided by `divisor`: raw scores are bit-equal
    to theirs.

    Attributes
    ----------
    preparation
        Takes the inputs out of the full row. Without operations the trees read the
        full row itself, else the prepared one.
    nodes : (M,) of `_tree_kernels.NODE`
        Breadth first per tree, siblings side by side, children after their parent.
    roots : (T + 1,) int64
        First node of each tree, and M.
    targets : (T,) int32
        First raw score to which a tree's values are added.
    leaves : (L, V) float64
        V values per leaf: K in a forest, 1 in boosting.
    set_starts, set_bits : (B + 1,) int64, (W,) uint32
        Category sets, 32 categories per word.
    bias : (R,) float64
    divisor : float
    single : bool
        Inputs are rounded to float32 before they are compared, as scikit-learn's
        trees, forests and GradientBoosting do.
    """

    preparation: Preparation
    nodes: NDArray[np.void]
    roots: NDArray[np.int64]
    targets: NDArray[np.int32]
    leaves: NDArray[np.float64]
    set_starts: NDArray[np.int64]
    set_bits: NDArray[np.uint32]
    bias: NDArray[np.float64]
    divisor: float
    single: bool
    layout: Layout | None = None
    kind: ClassVar[str] = "trees"

    @property
    def columns(self) -> NDArray[np.int32]:
        """(d,) positions of the inputs in the full row."""
        return self.preparation.columns

    @property
    def width(self) -> int:
        """Columns that a full row must have."""
        if len(self.preparation.operations):
            return self.preparation.width
        return max(self.preparation.width, int(self.nodes["column"].max()) + 1)

    @property
    def outputs(self) -> int:
        """R, the number of raw scores."""
        return len(self.bias)

    @property
    def size(self) -> int:
        """T, the number of trees."""
        return len(self.targets)

    def rows(self, X: Rows) -> Rows:
        """Make the rows that the nodes' columns refer to."""
        self.preparation.check(X)
        if len(self.preparation.operations):
            X = self.preparation.apply(X)
        if self.single and X.dtype != np.float32:
            X = _to_single(X)
        return as_rows(X)

    def raw(self, X: Rows) -> NDArray[np.float64]:
        """Raw scores (N, R) of the full rows X (N, width)."""
        X = self.rows(X)
        if self.layout is not None:
            singles = _singles(X)
            if singles is not None:
                return self._packed_raw(self.layout, singles)
        out = np.tile(self.bias, (len(X), 1))
        add_trees(
            X,
            self.nodes,
            self.roots,
            self.targets,
            self.leaves,
            self.set_starts,
            self.set_bits,
            out,
        )
        if self.divisor != 1.0:
            out /= self.divisor
        return out

    def raw_one(self, row: Rows) -> NDArray[np.float64]:
        """Raw scores (1, R) of one full row (width,)."""
        return self.raw(row[None])

    def margin_one(self, row: Rows) -> float | None:
        """Raw score of one full row, if there is one and the row suits the layout."""
        layout = self.layout
        if layout is None or not layout.one_margin or not layout.takes(row):
            return None
        margin: float = layout.enter(row, layout.at) / self.divisor
        return margin

    def _packed_raw(
        self, layout: Layout, X: NDArray[np.float32]
    ) -> NDArray[np.float64]:
        if self.outputs == 1:
            out = layout.margins(X)[:, None]
        else:
            out = np.tile(self.bias, (len(X), 1))
            layout.add(X, out)
        if self.divisor != 1.0:
            out /= self.divisor
        return out

    def packed(self) -> "Trees":
        """Give the same trees a layout for single rows, where there is one for them."""
        return replace(self, layout=pack(self))

    def margin(self) -> "Trees":
        """Give the same trees as one raw score per row, with base scores divided.

        Of two raw scores it is the difference, of one raw score the score itself.
        There are at most two raw scores.
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
            layout=None,
        )

    def whole(self) -> "Trees":
        """Give the same trees with the divisor in their leaves and bias."""
        if self.divisor == 1.0:
            return self
        return replace(
            self,
            leaves=self.leaves / self.divisor,
            bias=self.bias / self.divisor,
            divisor=1.0,
            layout=None,
        )

    def packable(self, near: float) -> bool:
        """Say if sums further than `near` from a tie may decide, whatever their order.

        Rows are not prepared then, and the leaves are not so large that adding trees
        in another order rounds otherwise by that much.
        """
        if len(self.preparation.operations):
            return False
        ends = self.nodes["column"] < 0
        leaf = np.where(ends, self.nodes["child"], 0)
        sizes = np.where(ends, np.abs(self.leaves).max(axis=1)[leaf], 0.0)
        largest = np.maximum.reduceat(sizes, self.roots[:-1]).sum()
        rounding = 2 * self.size * EPSILON * (largest + np.abs(self.bias).max())
        return bool(rounding <= near)

    def _signs(self) -> NDArray[np.float64]:
        """-1 for the leaves (L, 1) of trees that speak for the first of two classes."""
        target = np.repeat(self.targets, np.diff(self.roots))
        ends = self.nodes["column"] < 0
        signs = np.ones((len(self.leaves), 1))
        signs[self.nodes["child"][ends & (target == 0)]] = -1.0
        return signs

    def base_scores(self, X: Rows) -> NDArray[np.float64]:
        """Give what each tree adds to the raw scores: (N, T, R)."""
        found = np.empty((len(X), len(self.targets)), np.int32)
        find_leaves(
            self.rows(X),
            self.nodes,
            self.roots,
            self.set_starts,
            self.set_bits,
            found,
        )
        V = self.leaves.shape[1]
        out = np.zeros((*found.shape, self.outputs))
        for t, target in enumerate(self.targets):
            out[:, t, target : target + V] = self.leaves[found[:, t]]
        if self.divisor != 1.0:
            out /= self.divisor
        return out

    def base_bias(self) -> NDArray[np.float64]:
        """Give what the raw scores start from: (R,)."""
        return self.bias / self.divisor

    def reach(self) -> float:
        """Give what no raw score exceeds."""
        most = len(self.targets) * np.abs(self.leaves).max() + np.abs(self.bias).max()
        return float(most / self.divisor)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays that `load` reads; the nodes as bytes, (M, itemsize)."""
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

    def __reduce__(self) -> tuple[Any, ...]:
        return reduced(self, packed=self.layout is not None)

    @classmethod
    def load(cls, stored: Stored, width: int) -> "Trees":
        """Read trees; BadModel unless every walk over any row ends at a leaf."""
        preparation = load_preparation(stored, width)
        bias = stored.finite("bias", (None,))
        divisor, single = stored.finite("sum", (2,)).tolist()
        if not (divisor > 0 and single in (0, 1)):
            raise stored.fail("a divisor not above 0, or a flag neither 0 nor 1")
        bytes_ = stored.array("nodes", np.uint8, (None, NODE.itemsize))
        made = cls(
            preparation,
            bytes_.reshape(-1).view(NODE),
            stored.array("roots", np.int64, (None,)),
            stored.array("targets", np.int32, (None,)),
            stored.finite("leaves", (None, None)),
            stored.array("set_starts", np.int64, (None,)),
            stored.array("set_bits", np.uint32, (None,)),
            bias,
            divisor,
            bool(single),
        )
        prepared = len(preparation.operations) > 0
        inputs = np.arange(len(made.columns)) if prepared else made.columns
        check_order(made, stored)
        check_nodes(made, inputs, stored)
        return made.packed()


def _to_single(X: Rows) -> Rows:
    # Values beyond float32 become infinite, as they do in scikit-learn's own cast.
    with np.errstate(over="ignore"):
        return X.astype(np.float32)


def _singles(X: Rows) -> NDArray[np.float32] | None:
    """X as float32, or None if that would change a value."""
    if X.dtype == np.float32:
        return np.ascontiguousarray(X, np.float32)
    cast = np.ascontiguousarray(_to_single(X), np.float32)
    return cast if ((cast == X) | np.isnan(X)).all() else None


def join(
    trees: Sequence[Tree],
    targets: Sequence[int],
    preparation: Preparation,
    *,
    bias: NDArray[np.float64],
    divisor: float = 1.0,
    single: bool,
) -> Trees:
    """Lay trees out one after the other, in the order in which they are summed.

    `Tree.column` counts the preparation's inputs; without operations it is replaced
    by the position in the full row.
    """
    if not trees:
        raise BadModel("an ensemble without trees")
    nodes: list[NDArray[np.void]] = []
    leaves: list[NDArray[np.float64]] = []
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
        preparation,
        np.concatenate(nodes),
        np.array(roots, np.int64),
        np.array(targets, np.int32),
        np.ascontiguousarray(np.concatenate(leaves), np.float64),
        starts,
        bits,
        np.ascontiguousarray(bias, np.float64),
        float(divisor),
        single,
    ).packed()
