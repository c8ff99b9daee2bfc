"""Preparation of rows: select a model's inputs from full rows, fill and scale them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadInput, BadModel, BadRow

from .kernels.preparation import (
    AFFINE,
    AFFINES,
    BINARISE,
    CENTER,
    FILL,
    GAIN,
    HIGH,
    LOW,
    OFFSET,
    SCALE,
    SINGLE,
    prepare,
)
from .model import Floats, Rows
from .stored_arrays import Stored

# Numbers of an affine operation that does not change its input: (7,).
UNCHANGED = np.array([np.nan, 0.0, 1.0, 1.0, 0.0, -np.inf, np.inf])


@dataclass(frozen=True, slots=True, eq=False)
class Preparation:
    """Turns full rows into a model's inputs: selects columns, then applies operations.

    Inputs equal those of scikit-learn's transformers to the bit, except that norms may
    round differently.
    """

    # (d,) int32: Positions of the model's inputs in the full row
    columns: NDArray[np.int32]
    # (S,) int64: Codes of the operations; see `kernels/preparation.py`.
    operations: NDArray[np.int64]
    # (S, 7, d) float64: Numbers of each operation. An affine operation has filling (NaN
    # keeps missing values), center, scale, gain, offset, low, high. A binarising
    # operation has its threshold in the row of the center.
    table: Floats
    width: int = field(init=False)  # Minimum number of columns of a full row

    def __post_init__(self) -> None:
        object.__setattr__(self, "width", int(self.columns.max(initial=-1)) + 1)

    def __repr__(self) -> str:
        return (
            f"Preparation({len(self.columns)} columns, "
            f"{len(self.operations)} operations)"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return load_preparation, (Stored("preparation", self.arrays()), self.width)

    def apply(self, X: Rows) -> Floats:
        """Compute the inputs (N, d) of full rows X (N, width)."""
        self.check(X)
        out = np.empty((X.shape[0], len(self.columns)))
        prepare(as_rows(X), self.columns, self.operations, self.table, out)
        return out

    def reach(self) -> Floats:
        """Return upper bounds (d,) on the absolute values of the inputs.

        The bounds are valid for full rows of finite float32 numbers.
        """
        most = np.full(len(self.columns), np.finfo(np.float32).max, np.float64)
        for operation, row in zip(self.operations, self.table, strict=True):
            if operation in AFFINES:
                most = np.fmax(most, np.abs(row[FILL])) + np.abs(row[CENTER])
                most = most / np.abs(row[SCALE])
                most = most * np.abs(row[GAIN]) + np.abs(row[OFFSET])
                ends = np.clip([most, -most], row[LOW], row[HIGH])
                most = np.where(np.isfinite(most), np.abs(ends).max(axis=0), np.inf)
            else:  # 0 or 1, or a share of a norm, which may round to more than 1
                most = np.where(np.isfinite(most), 2.0, np.inf)
        return most

    def ascends(self) -> bool:
        """Return True if every input is a non-decreasing function of its column."""
        affine = np.isin(self.operations, AFFINES)
        slopes = self.table[affine][:, [SCALE, GAIN]]
        known = affine | (self.operations == BINARISE)
        return bool(known.all() and (slopes > 0).all())

    def undo(self, Z: Floats) -> Floats:
        """Return column values (N, d) that become approximately the inputs Z (N, d).

        Affine operations and thresholds are inverted; other operations are ignored.
        """
        for operation, table in zip(
            self.operations[::-1], self.table[::-1], strict=True
        ):
            if operation in AFFINES:
                with np.errstate(all="ignore"):
                    Z = (Z - table[OFFSET]) / table[GAIN]
                    Z = Z * table[SCALE] + table[CENTER]
            elif operation == BINARISE:
                Z = Z + table[CENTER]
        return np.nan_to_num(Z, nan=0.0, posinf=1e30, neginf=-1e30)

    def refuse_gaps(self, X: Rows, Z: Floats, raw: Floats) -> None:
        """Raise BadRow for the first row with a NaN or infinite input, or a NaN score.

        Z (N, d) are the inputs that `apply` made from X, `raw` (N, R) the raw scores.
        Infinite scores are accepted if the inputs are finite.
        """
        known = np.isfinite(Z)
        bad = ~known.all(axis=1) | np.isnan(raw).any(axis=1)
        if not bad.any():
            return
        i = int(bad.argmax())
        if known[i].all():
            raise BadRow(f"the numbers of row {i} overflow the model's sums")
        given = np.isfinite(X[i, self.columns])
        column = int(self.columns[int((known[i] if given.all() else given).argmin())])
        raise BadRow(
            f"row {i} has {X[i, column]} in column {column}; this model takes finite "
            "numbers only: fill what is missing, or train it behind a SimpleImputer",
            column,
        )

    def check(self, X: Rows) -> None:
        """Raise BadInput unless X is two-dimensional, with at least `width` columns."""
        width = self.width
        if X.ndim != 2 or X.shape[1] < width:
            raise BadInput(
                f"rows of shape {X.shape}; they must be (N, width) with width > "
                f"{width - 1}"
            )

    def then_binarise(self, threshold: float) -> "Preparation":
        """Return a copy with a last step: 1 if an input exceeds `threshold`, else 0."""
        return self.then(BINARISE, affine(len(self.columns), {CENTER: threshold}))

    def then_fill(self, value: float) -> "Preparation":
        """Return a copy with a last step that replaces missing inputs by `value`."""
        return self.then(AFFINE, affine(len(self.columns), {FILL: value}))

    def then(self, operation: int, row: Floats) -> "Preparation":
        """Return a copy with one more operation at the end.

        `row` (7, d) has the parameters of the operation, as made by the function
        `affine`.
        """
        last = self.operations[-1:].tolist()
        if [operation] == last == [AFFINE] and _only_fills(self.table[-1]):
            # Filling, then scaling, is a single affine operation.
            merged = row.copy()
            merged[FILL] = np.where(
                np.isnan(self.table[-1, FILL]), row[FILL], self.table[-1, FILL]
            )
            table = np.concatenate([self.table[:-1], merged[None]])
            return Preparation(self.columns, self.operations, table)
        return Preparation(
            self.columns,
            np.append(self.operations, operation),
            np.concatenate([self.table, row[None]]),
        )

    def side_by_side(self, inputs: NDArray[Any]) -> "Preparation":
        """Return a preparation for rows of only k columns, with k inputs.

        It prepares column j of such a row as this preparation prepares the input at
        position `inputs[j]`. Positions in `inputs` (k,) may repeat.
        """
        table = np.ascontiguousarray(self.table[:, :, inputs])
        columns = np.arange(len(inputs), dtype=np.int32)
        return Preparation(columns, self.operations, table)

    def keep(self, kept: NDArray[np.bool_]) -> "Preparation":
        """Return a preparation of only the inputs for which `kept` (d,) is True."""
        return Preparation(
            self.columns[kept],
            self.operations,
            np.ascontiguousarray(self.table[:, :, kept]),
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load_preparation` makes this one again."""
        return {
            "columns": self.columns,
            "operations": self.operations,
            "preparation": self.table,
        }


def as_rows(X: Rows) -> Rows:
    """Return X as a contiguous array; types other than float32 become float64."""
    if X.dtype == np.float32:
        return np.ascontiguousarray(X, np.float32)
    return np.ascontiguousarray(X, np.float64)


def plain(columns: NDArray[Any]) -> Preparation:
    """Return a preparation that selects `columns` (d,), and leaves them unchanged."""
    return Preparation(
        np.ascontiguousarray(columns, np.int32),
        np.empty(0, np.int64),
        np.empty((0, 7, len(columns))),
    )


def inputs_of(width: int, preparation: Preparation | None) -> Preparation:
    """Return `preparation` or, if it is None, a selection of the first `width` columns.

    Raises BadModel if the preparation does not have `width` inputs.
    """
    if preparation is None:
        return plain(np.arange(width))
    if len(preparation.columns) != width:
        raise BadModel(
            f"{len(preparation.columns)} inputs given for a model of {width}"
        )
    return preparation


def affine(d: int, given: Mapping[int, Any]) -> Floats:
    """Return the parameters (7, d) of an affine operation, as for `kernels.rescale`.

    `given` maps positions of rows, such as SCALE, to values. A row that is absent or
    None leaves inputs unchanged.
    """
    out = np.tile(UNCHANGED[:, None], d)
    for at, value in given.items():
        if value is not None:
            out[at] = value
    return out


def _only_fills(row: Floats) -> bool:
    return bool((row[1:] == UNCHANGED[1:, None]).all())


def load_preparation(stored: Stored, width: int) -> Preparation:
    """Load a preparation; raise BadModel if an operation or a parameter is invalid."""
    columns = stored.columns(width)
    operations = stored.array("operations", np.int64, (None,))
    table = stored.array("preparation", np.float64, (len(operations), 7, len(columns)))
    if operations.size and not (
        operations.min() >= AFFINE and operations.max() <= SINGLE
    ):
        raise stored.fail("unknown operation in its preparation")
    if not np.isfinite(table[:, CENTER : OFFSET + 1]).all():
        raise stored.fail("NaN or infinity in its preparation")
    if np.isinf(table[:, FILL]).any() or not (table[:, SCALE] != 0).all():
        raise stored.fail("an infinite filling or a scale of 0 in its preparation")
    if not (table[:, LOW] <= table[:, HIGH]).all():
        raise stored.fail("a lower limit above its upper one in its preparation")
    return Preparation(columns, operations, table)
