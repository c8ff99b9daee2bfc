"""Rows of one array, decided by their numbers."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import index

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput

from ..scoring.address_table import NotCopied
from ..scoring.kernels.native import entry
from ..scoring.stopping_rule import UNDECIDED
from .kernels.row_by_number import TABLE, decide_bound, simd_decide_bound
from .packed import PackedTrees


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class BoundRows(NotCopied):
    """An array of rows (N, width), and what decides one of them.

    Attributes
    ----------
    rows : (N, width) float32
    table : (1,) of `TABLE`
        What the kernel reads; it lives as long as this does, and so do the rows.
    choose
        Decides a row itself.
    """

    rows: NDArray[np.float32]
    table: NDArray[np.void]
    choose: Callable[[NDArray[np.float32]], int]

    def at(self, i: int) -> int:
        """Decide row i without the kernel; BadInput if there is none."""
        try:
            i = index(i)
        except TypeError as error:
            raise BadInput(
                f"row {i!r} is of type {type(i).__name__}; its number is needed, an int"
            ) from error
        if not 0 <= i < len(self.rows):
            raise BadInput(f"there is no row {i} among {len(self.rows)}")
        return self.choose(self.rows[i])


def bind_rows(
    X: NDArray[np.float32],
    packed: object,
    choose: Callable[[NDArray[np.float32]], int],
) -> Callable[[int], int]:
    """Make a function that decides row i of X, by packed trees where there are some.

    Raises
    ------
    BadInput
        Unless X is float32, two-dimensional and without gaps, and as wide as needed.
    """
    if not isinstance(X, np.ndarray):
        raise BadInput(
            f"rows that stay where they are must be a NumPy array; this is of type "
            f"{type(X).__name__}: np.ascontiguousarray(X, np.float32) makes one"
        )
    if X.dtype != np.float32 or X.ndim != 2 or not X.flags.c_contiguous:
        raise BadInput(
            f"rows that stay where they are must be float32, (N, width) and without "
            f"gaps; this is {X.dtype}, {X.shape}, strides {X.strides}: "
            "np.ascontiguousarray(X, np.float32) makes such rows"
        )
    table = np.zeros(1, TABLE)
    bound = BoundRows(X, table, choose)
    if not isinstance(packed, PackedTrees):
        return bound.at
    if X.shape[1] < packed.width:
        raise BadInput(f"rows of {X.shape[1]} columns; {packed.width} are needed")
    fill_table(table, X, packed)
    enter = entry(simd_decide_bound if packed.vector else decide_bound)
    address = table.ctypes.data

    def choose_at(i: int) -> int:
        try:
            answer: int = enter(i | 0, address)  # of no other number is there an "or"
        except (TypeError, OverflowError):
            return bound.at(i)
        return answer if answer < UNDECIDED else bound.at(i)

    return choose_at


def fill_table(
    table: NDArray[np.void], X: NDArray[np.float32], packed: PackedTrees
) -> None:
    """Say where checked rows lie, and which trees decide them."""
    table[0] = X.ctypes.data, len(X), X.shape[1], packed.at
