"""Base classes of scorers (trees, lattices, linear sums), which compute raw scores."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from .address_table import AddressTable, NotCopied
from .kernels.native import entry
from .model import Floats, Rows
from .preparation import Preparation
from .rows import is_dense, take_row
from .stopping_rule import Codes, Stops
from .stored_arrays import Stored


class Scorer(ABC):
    """Base class of scorers, which compute a model's raw scores from full rows."""

    __slots__ = ()
    kind: ClassVar[str]
    preparation: Preparation

    @property
    def columns(self) -> NDArray[np.int32]:
        """Positions (d,) of the model's inputs among the columns of a full row."""
        return self.preparation.columns

    @property
    def width(self) -> int:
        """Minimum number of columns of a full row."""
        return self.preparation.width

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Number R of raw scores."""

    @abstractmethod
    def raw(self, X: Rows) -> Floats:
        """Compute the raw scores (N, R) of full rows X (N, width)."""

    def margin_one(self, row: Rows) -> float | None:
        """Return a row's only raw score; None if R > 1 or the row suits no kernel."""
        return None

    def raw_one(self, row: Rows) -> Floats:
        """Compute the raw scores (R,) of one full row, as `raw` does."""
        raw: Floats = self.raw(take_row(row)[None])[0]
        return raw

    @abstractmethod
    def reach(self) -> float:
        """Return an upper bound on absolute raw scores, for finite float32 rows."""

    @abstractmethod
    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw random prepared inputs (count, d) that lead to different decisions."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load` makes this scorer again."""

    @classmethod
    @abstractmethod
    def load(cls, stored: Stored, width: int) -> Self:
        """Load a scorer; raise BadModel if kernels cannot safely read its arrays."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle or copy only the stored arrays; `load` then packs them for kernels."""
        packed = getattr(self, "packed", self) is not None
        return _remake, (type(self), self.arrays(), self.width, packed)


def _remake(
    kind: type[Scorer], arrays: Mapping[str, NDArray[Any]], width: int, packed: bool
) -> Any:
    made: Any = kind.load(Stored(kind.kind, arrays), width)
    return made if packed else replace(made, packed=None)


class BaseModels(Protocol):
    """A sum of T base models: raw scores are a bias plus the base models' scores."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """Number T of base models."""

    @property
    def light(self) -> bool:
        """True if adding a base model is faster than comparing the sum with a limit."""

    def base_scores(self, X: Rows) -> Floats:
        """Return what each base model adds to the raw scores of rows X: (N, T, R)."""

    def base_bias(self) -> Floats:
        """Return the raw scores (R,) to which the base models' scores are added."""

    def bounds(self) -> tuple[Floats, Floats]:
        """Return each base model's smallest and largest score: two arrays (T, R).

        Raises BadInput if scores have no bounds.
        """

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Return a mask (T, width) of the columns that each base model reads."""

    def pack(self, order: NDArray[Any], stops: Stops) -> "PackedTerms | None":
        """Pack base models for a kernel; return None if no kernel can evaluate them.

        The kernel adds base models in `order`, and stops by the rule `stops`.
        """


class SumOfTerms(Scorer, BaseModels):
    """Base class of scorers that add up trees, lattices or linear terms."""

    __slots__ = ()

    @property
    def light(self) -> bool:
        """True if adding a term is faster than comparing the sum with a limit."""
        return False

    @abstractmethod
    def margin(self) -> BaseModels:
        """Return base models whose only raw score is the margin of two classes.

        If this scorer has a single raw score, it is the margin. If it has two, the
        margin is the second minus the first.
        """

    def rounds(self) -> tuple[BaseModels, int]:
        """Return the terms, and the number of consecutive terms in one base model.

        In boosting with a tree for each of K classes, a round of K trees is one base
        model. The terms add to one raw score per class.
        """
        return self, 1

    def part(self, which: NDArray[Any], rest: float = 0.0) -> Self:
        """Return a scorer of only the base models at positions `which`.

        The constant `rest` is added to the raw scores. Raises BadInput unless the base
        models are trees.
        """
        raise BadInput(f"a {self.kind} model cannot be cut into parts; trees can")

    def gives_shares(self) -> bool:
        """Return True if a row's raw scores are class probabilities, which sum to 1."""
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedTerms(NotCopied):
    """Base models packed for kernels, with a fixed order and stopping rule."""

    table: AddressTable  # Arrays for the kernels
    width: int  # Minimum number of columns of a row
    start: Floats  # (R,) float64: Sums before the first base model
    # Kernel of one row, with the arguments row, `at`, and for margins totals (R,) to
    # write. For limits it returns the answer, for margins the code (see
    # `stopping_rule.py`), for whole sums the raw score. None if only `many` exists.
    # The constructor compiles the kernel.
    enter: Any
    # Kernel of rows (N, width), with the arguments rows, `at`, totals (N, R) to add to,
    # and codes (N,) to write
    many: Any
    # Kernel of one row for limits, with the arguments row and `at`. It returns code and
    # sum; the code is UNDECIDED only if the whole sum is near the threshold. None for
    # other rules. The constructor compiles the kernel.
    follow_one: Any
    # Kernel of a part of one row's evaluation, with the arguments row, `at`, `first`,
    # `end`, and totals (R,) to add to. It adds the base models at positions `first` to
    # `end` - 1 of the order, and returns a code, which counts all base models before
    # `end`. `first` is a multiple of `step`; `end`, too, or it is the number of all
    # base models. None for whole sums, and for linear terms: thousands of them take a
    # few microseconds.
    add_part: Any = None
    step: int = 1
    at: int = field(init=False)  # Address of the table

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", self.table.address)
        for name in ("enter", "follow_one", "add_part"):
            object.__setattr__(self, name, entry(getattr(self, name)))

    def takes(self, row: NDArray[Any]) -> bool:
        """Return True if the kernels, which check nothing, can safely read `row`."""
        return is_dense(row, self.width)

    def follow(self, X: NDArray[Any]) -> tuple[Floats, Codes]:
        """Evaluate rows X (N, width), which the caller has checked.

        Returns the sums (N, R) at which rows stopped, and codes (N,), which
        `stopping_rule.py` explains.
        """
        totals, codes = np.empty((len(X), len(self.start))), np.zeros(len(X), np.int64)
        totals[:] = self.start
        self.many(X, self.at, totals, codes)
        return totals, codes
