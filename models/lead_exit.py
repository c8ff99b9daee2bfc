"""Early exits of ensembles for more than two classes, by the lead of the best."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..features.errors import BadInput
from .classifier import Classifier
from .lattice_layout import LatticeLayout, pack_lattices
from .lattice_layout import lead_entry as lattice_entry
from .lattices import Lattices
from .layout import Layout, pack
from .linear import Linear
from .model import Rows
from .rows import take_row, take_rows
from .trees import Trees

Terms = Trees | Linear | Lattices  # the scorers that are sums of base models

# A lead this small (times the largest score, if that is above 1) may be rounding: the
# library's own order of summing decides then.
NEAR = 1e-9


@runtime_checkable
class LeadSchedule(Protocol):
    """In which order base models are evaluated, and which lead is enough.

    From `bias` on, every base model adds to the sums of K classes. After base model
    `order[t]` the best class is answered if it leads the second best by more than
    `margin[t]`; of equals the first leads.
    """

    @property
    def order(self) -> NDArray[np.int64]:
        """(T,) positions of the base models."""

    @property
    def margin(self) -> NDArray[np.float64]:
        """(T,) beyond this lead after each base model: stop."""

    @property
    def bias(self) -> NDArray[np.float64]:
        """(K,) sums before the first base model."""


class ClassSums:
    """A sum of trees, lattices or linear terms for K > 2 classes, as T base models.

    A base model is a round of boosting, which has a tree for each class, a tree of a
    forest, a lattice, or a term of a linear model.

    Attributes
    ----------
    scorer
        Trees with their divisor in the leaves, lattices, or the linear model.
    group
        Trees per base model.
    """

    def __init__(self, scorer: Terms) -> None:
        self.scorer: Terms = scorer
        self.group = 1
        if isinstance(scorer, Trees):
            self.scorer = scorer.whole()
            targets, K = scorer.targets, scorer.outputs
            rounds = len(targets) // K
            if np.array_equal(targets, np.tile(np.arange(K), rounds)):
                self.group = K

    def __reduce__(self) -> tuple[Any, ...]:
        return ClassSums, (self.scorer,)

    @property
    def size(self) -> int:
        """T, the number of base models."""
        return self.scorer.size // self.group

    @property
    def bias(self) -> NDArray[np.float64]:
        """(K,) sums before the first base model."""
        return self.scorer.base_bias()

    def base_scores(self, X: Rows) -> NDArray[np.float64]:
        """Give what each base model adds to each class for X (N, width): (N, T, K)."""
        scores = self.scorer.base_scores(X)
        if self.group == 1:
            return scores
        rounds: NDArray[np.float64] = scores.reshape(
            len(X), self.size, self.group, scores.shape[2]
        ).sum(axis=2)
        return rounds

    def layout(
        self, order: NDArray[Any], margin: NDArray[np.float64]
    ) -> Layout | LatticeLayout | None:
        """Pack base models for the kernel that stops at `margin`, where that goes."""
        scorer = self.scorer
        if isinstance(scorer, Lattices):
            return pack_lattices(scorer, order, margin)
        if not isinstance(scorer, Trees) or not scorer.packable(NEAR):
            return None
        trees = order[:, None] * self.group + np.arange(self.group)
        return pack(scorer, trees.ravel(), lead=(margin, self.group))


@dataclass(frozen=True, slots=True, eq=False)
class LeadExit:
    """An ensemble for K > 2 classes that stops where a schedule says so."""

    classifier: Classifier
    sums: ClassSums
    order: NDArray[Any]
    margin: NDArray[np.float64]
    bias: NDArray[np.float64]  # of the classes, before the first base model
    layout: Layout | LatticeLayout | None
    enter: Any  # the kernel that reads the layout, and the address it takes
    at: int

    def __repr__(self) -> str:
        return f"LeadExit({self.classifier!r}, {len(self.order)} base models)"

    def __reduce__(self) -> tuple[Any, ...]:
        return pack_lead_exit, (self.classifier, self.sums, self.order, self.margin)

    def choose(self, row: Rows) -> int:
        """Position of the chosen class of one full row (width,)."""
        layout = self.layout
        if layout is None or not layout.takes(row):
            return int(self.choices(take_row(row)[None])[0][0])
        totals = self.bias.copy()
        code: int = self.enter(row, self.at, totals)
        if code & 1:
            return int(totals.argmax())
        return self._finish_one(row, totals)

    def predict(self, X: Rows) -> NDArray[Any]:
        """(N,) labels."""
        return self.classifier.classes[self.choices(X)[0]]

    def choices(self, X: Rows) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """(N,) positions of the chosen classes, and base models used for each."""
        layout, X = self.layout, take_rows(X)
        if layout is not None and X.dtype == np.float32 and X.shape[1] >= layout.width:
            totals = np.tile(self.bias, (len(X), 1))
            codes = layout.leads(np.ascontiguousarray(X), totals)
        else:
            totals, codes = self._walk(X)
        chosen = totals.argmax(axis=1)
        open_ = codes & 1 == 0
        if layout is None:
            exact = self.classifier
            chosen[open_] = exact.head.choose(exact.scorer.raw(X[open_]))
            return chosen, codes >> 1
        for i in np.flatnonzero(open_):
            chosen[i] = self._finish_one(X[i], totals[i])
        return chosen, codes >> 1

    def _walk(self, X: Rows) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Find the totals and codes of `layout.leads` from all base scores."""
        scores = self.sums.base_scores(X)[:, self.order]
        scores[:, 0] += self.bias
        sums = scores.cumsum(axis=1)
        best = np.sort(sums, axis=2)
        stops = best[:, :, -1] - best[:, :, -2] > self.margin
        last = np.where(stops.any(axis=1), stops.argmax(axis=1), len(self.order) - 1)
        rows = np.arange(len(X))
        return sums[rows, last], 2 * (last + 1) + stops[rows, last]

    def _finish_one(self, row: Rows, totals: NDArray[np.float64]) -> int:
        """Choice for one row whose whole sums are known."""
        best, second = np.sort(totals)[[-1, -2]]
        if best - second > NEAR * max(1.0, float(np.abs(totals).max())):
            return int(totals.argmax())
        return self.classifier.choose(row)


def make_lead_exit(
    classifier: Classifier, sums: ClassSums, schedule: LeadSchedule
) -> LeadExit:
    """Make the evaluator that follows a schedule; BadInput if it is for another one."""
    order = check_order(schedule.order, sums.size)
    margin = check_limits("margin", schedule.margin, sums.size)
    check_bias(np.asarray(schedule.bias), sums.bias, classifier.classes)
    return pack_lead_exit(classifier, sums, order, margin)


def check_order(order: Any, size: int) -> NDArray[np.int64]:
    """Order of a schedule, for `size` base models; BadInput if it is for others."""
    order = np.asarray(order)
    if order.ndim != 1 or order.dtype.kind not in "iu":
        raise BadInput(
            f"the schedule's order is {order.dtype} of shape {order.shape}; it must "
            f"name {size} base models"
        )
    if len(order) != size:
        raise BadInput(
            f"the schedule orders {len(order)} base models; this ensemble has {size}"
        )
    if not np.array_equal(np.sort(order), np.arange(size)):
        raise BadInput(
            f"the schedule is not an order of {size} base models: each of 0 to "
            f"{size - 1} must be there once"
        )
    return np.ascontiguousarray(order, np.int64)


def check_limits(name: str, limits: Any, size: int) -> NDArray[np.float64]:
    """Limits of a schedule, (size,); BadInput if they are others, or NaN."""
    given: NDArray[np.float64] = np.array(limits, np.float64)
    if given.shape != (size,) or np.isnan(given).any():
        raise BadInput(
            f"the schedule's {name!r} has shape {given.shape}; it must be ({size},), "
            "a number for each base model, none of them NaN"
        )
    return given


def check_bias(
    given: NDArray[Any], own: NDArray[np.float64], classes: NDArray[Any]
) -> None:
    """Refuse the bias of a schedule that was fitted for another ensemble."""
    if given.shape != own.shape:
        raise BadInput(
            f"the schedule's bias has shape {given.shape}; this ensemble has "
            f"{len(own)} classes"
        )
    # What went through a text may have lost the last digit.
    apart = np.abs(given - own) > NEAR * np.maximum(1.0, np.abs(own))
    if apart.any():
        k = int(apart.argmax())
        raise BadInput(
            f"the schedule's bias is not this ensemble's: class {classes[k]!r} begins "
            f"at {given[k]:g} instead of {own[k]:g}"
        )


def pack_lead_exit(
    classifier: Classifier,
    sums: ClassSums,
    order: NDArray[np.int64],
    margin: NDArray[np.float64],
) -> LeadExit:
    """Pack an ensemble for K > 2 classes for checked margins, where that goes."""
    bias = sums.bias
    layout = sums.layout(order, margin)
    if isinstance(layout, LatticeLayout):
        enter, at = lattice_entry, layout.address
    else:
        enter, at = (layout.enter, layout.at) if layout is not None else (None, 0)
    return LeadExit(classifier, sums, order, margin, bias, layout, enter, at)
