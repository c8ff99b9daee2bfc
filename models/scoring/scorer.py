"""What gives raw scores: the base of linear sums, naive Bayes, trees and lattices."""

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
    """Raw scores of full rows, before link function and choice.

    Attributes
    ----------
    kind
        Name under which `load_model` finds it.
    preparation
        Takes the d inputs out of the full row.
    """

    __slots__ = ()
    kind: ClassVar[str]
    preparation: Preparation

    @property
    def columns(self) -> NDArray[np.int32]:
        """(d,) positions of the inputs in the full row."""
        return self.preparation.columns

    @property
    def width(self) -> int:
        """Columns that a full row must have."""
        return self.preparation.width

    @property
    @abstractmethod
    def outputs(self) -> int:
        """R, the number of raw scores."""

    @abstractmethod
    def raw(self, X: Rows) -> Floats:
        """Raw scores (N, R) of the full rows X (N, width)."""

    def margin_one(self, row: Rows) -> float | None:
        """Raw score of one full row, if there is one and it is to be had faster."""
        return None

    def raw_one(self, row: Rows) -> Floats:
        """Raw scores (R,) of one full row, which are those that `raw` gives."""
        raw: Floats = self.raw(take_row(row)[None])[0]
        return raw

    @abstractmethod
    def reach(self) -> float:
        """Give what no raw score of a finite float32 row exceeds."""

    @abstractmethod
    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw prepared inputs (count, d) from where they make a difference."""

    @abstractmethod
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Name the arrays that `load` reads."""

    @classmethod
    @abstractmethod
    def load(cls, stored: Stored, width: int) -> Self:
        """Make it of stored arrays; BadModel unless all that kernels rely on holds."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by the way of a model file.

        So nothing is taken for granted that a file's arrays are checked for, and
        kernels get addresses of their own. What was not packed is not packed again.
        """
        packed = getattr(self, "packed", self) is not None
        return _remake, (type(self), self.arrays(), self.width, packed)


def _remake(
    kind: type[Scorer], arrays: Mapping[str, NDArray[Any]], width: int, packed: bool
) -> Any:
    made: Any = kind.load(Stored(kind.kind, arrays), width)
    return made if packed else replace(made, packed=None)


class BaseModels(Protocol):
    """T base models, whose scores and bias add up to raw scores."""

    __slots__ = ()

    @property
    def size(self) -> int:
        """T, the number of base models."""

    @property
    def light(self) -> bool:
        """Whether to look at a sum takes longer than to add a base model's score."""

    def base_scores(self, X: Rows) -> Floats:
        """Give what each base model adds to the raw scores: (N, T, R)."""

    def base_bias(self) -> Floats:
        """Give what the raw scores start from: (R,)."""

    def bounds(self) -> tuple[Floats, Floats]:
        """Least and most (T, R) that each adds to a raw score, whatever the row.

        BadInput if there are no bounds.
        """

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Mark which columns of full rows each base model reads: (T, width)."""

    def pack(self, order: NDArray[Any], stops: Stops) -> "PackedTerms | None":
        """Pack base models in this order for kernels that stop, where there are any."""


class SumOfTerms(Scorer, BaseModels):
    """A scorer that is a sum of trees, lattices or linear terms."""

    __slots__ = ()

    @property
    def light(self) -> bool:
        """Whether to look at a sum takes longer than to add a base model's score."""
        return False

    @abstractmethod
    def margin(self) -> BaseModels:
        """Give the same terms with one raw score, the difference of at most two."""

    def rounds(self) -> tuple[BaseModels, int]:
        """Give the same terms for classes, and how many make a base model."""
        return self, 1

    def part(self, which: NDArray[Any], rest: float = 0.0) -> Self:
        """Sum only the base models at the positions `which`, in order, plus `rest`.

        BadInput if there is none, one does not exist, or the sum cannot be cut.
        """
        raise BadInput(f"a {self.kind} model cannot be cut into parts; trees can")

    def gives_shares(self) -> bool:
        """Say whether raw scores are shares of each class, which add up to 1."""
        return False


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class PackedTerms(NotCopied):
    """Base models packed for kernels, in an order and for a rule of stopping.

    Attributes
    ----------
    table
        What the kernels read.
    width
        Columns that a row must have.
    start : (R,) float64
        Sums before the first base model.
    enter
        Kernel of one row, of `at`, and of totals (R,) where it writes them; compiled
        here. It gives the answer, by limits; the code, by margins (see
        `stopping_rule.py`); of whole sums the raw score, if there is one. None where
        only many rows have a kernel.
    many
        Kernel of rows (N, width), of `at`, totals (N, R) to add to, and codes (N,).
    follow_one
        By limits, kernel of one row and of `at`, compiled here. It gives the row's sum
        and its code, in which UNDECIDED is a whole sum only where it is near the
        threshold. Else None.
    at
        Address of the table.
    """

    table: AddressTable
    width: int
    start: Floats
    enter: Any
    many: Any
    follow_one: Any
    at: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", self.table.address)
        for name in ("enter", "follow_one"):
            object.__setattr__(self, name, entry(getattr(self, name)))

    def takes(self, row: NDArray[Any]) -> bool:
        """Is this a row that the kernels can read? They do not look themselves."""
        return is_dense(row, self.width)

    def follow(self, X: NDArray[Any]) -> tuple[Floats, Codes]:
        """Totals (N, R) and codes (N,) of checked rows, by the rule they stop by."""
        totals, codes = np.empty((len(X), len(self.start))), np.zeros(len(X), np.int64)
        totals[:] = self.start
        self.many(X, self.at, totals, codes)
        return totals, codes
