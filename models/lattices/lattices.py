"""Ensembles of lattices: interpolated look-up tables over a few inputs each."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..scoring.model import Floats, Rows
from ..scoring.preparation import Preparation, as_rows, load_preparation
from ..scoring.scorer import PackedTerms, SumOfTerms
from ..scoring.stopping_rule import Never, Stops
from ..scoring.stored_arrays import Stored
from .kernels.plain import PARTS, base
from .one_row import pack_lattices

MOST_INPUTS = 10
MOST_LATTICES = 2**20
MOST_UNITS = 2**30  # limit on vertices, so that all sums are whole numbers below 2^52


@dataclass(frozen=True, slots=True, eq=False)
class Lattices(SumOfTerms):
    """A sum of lattices, the base models of the QWYC paper (its appendix D.1).

    A piecewise-linear calibrator maps each of a lattice's S inputs to [0, 1]. A missing
    value has a calibrated value of its own, and values beyond the outer keypoints are
    clipped. A lattice interpolates between all its 2^S vertices. Alternatively, it
    interpolates between the S + 1 vertices of the simplex that contains its inputs
    (Lovasz's extension), which is several times as fast. If all calibrators of an input
    ascend, and all vertices ascend along it, then raw scores never fall as the input
    rises, to the last bit.
    """

    preparation: Preparation  # Step from full rows to the d inputs
    knots: Floats  # (d, P) float64: Keypoints of each input, ascending
    inputs: NDArray[np.int32]  # (T, S) int32: Inputs of each lattice, in 0..d - 1.
    # (T, S, P + 2) int32: Calibrated values, in units of 2^-20, at each keypoint, and
    # twice for a missing input
    calibrations: NDArray[np.int32]
    # (T, R, 2^S) int32: Vertices in units of `unit`; bit s of a vertex's index is its
    # coordinate s
    vertices: NDArray[np.int32]
    # (R,) float64: Raw scores before the first lattice, whole numbers of units
    bias: Floats
    unit: float  # Unit of vertices and bias, a power of two
    simplex: bool = False  # True if lattices interpolate on simplices
    # The lattices packed for one row at a time; None if only the plain kernels can run
    packed: PackedTerms | None = None
    kind: ClassVar[str] = "lattices"

    @property
    def outputs(self) -> int:
        """The number R of raw scores."""
        return len(self.bias)

    @property
    def size(self) -> int:
        """The number T of lattices."""
        return len(self.inputs)

    def raw(self, X: Rows) -> Floats:
        """Compute the raw scores (N, R) of full rows X (N, width)."""
        if self.packed is not None:
            self.preparation.check(X)
            return self.packed.follow(as_rows(X))[0]
        sums: Floats = self._evaluate(X, whole=True)[:, 0] + self.bias
        return sums

    def margin(self) -> "Lattices":
        """Return these lattices: with two classes, the only raw score is the margin."""
        return self

    def base_scores(self, X: Rows) -> Floats:
        """Return the scores (N, T, R) that each lattice adds to the sums of rows X."""
        return self._evaluate(X, whole=False)

    def base_bias(self) -> Floats:
        """Return the raw scores (R,) before the first lattice is added."""
        return self.bias

    def margin_one(self, row: Rows) -> float | None:
        """Return one row's raw score; None if R > 1 or no kernel can read the row."""
        packed = self.packed
        if packed is None or self.outputs > 1 or not packed.takes(row):
            return None
        total = np.empty(1)
        packed.enter(row, packed.at, total)
        return float(total[0] + self.bias[0])

    def with_packed(self) -> "Lattices":
        """Return the same lattices, packed for single rows if possible."""
        everything = np.arange(self.size)
        return replace(self, packed=pack_lattices(self, everything, Never()))

    def pack(self, order: NDArray[Any], stops: Stops) -> PackedTerms | None:
        """Pack lattices, in `order`, for a kernel that applies the rule `stops`.

        Return None if no kernel can evaluate the lattices.
        """
        return pack_lattices(self, order, stops)

    def bounds(self) -> tuple[Floats, Floats]:
        """Return each lattice's smallest and largest vertex: two arrays (T, R)."""
        ends = self.vertices.min(axis=2), self.vertices.max(axis=2)
        return ends[0] * self.unit, ends[1] * self.unit

    def columns_used(self, width: int) -> NDArray[np.bool_]:
        """Return a mask (T, width): True for the columns that each lattice reads."""
        used = np.zeros((self.size, width), np.bool_)
        used[np.arange(self.size)[:, None], self.columns[self.inputs]] = True
        return used

    def _evaluate(self, X: Rows, whole: bool) -> Floats:
        columns = self.columns
        if len(self.preparation.operations):
            X = self.preparation.apply(X)
            columns = np.arange(len(columns), dtype=np.int32)
        else:
            self.preparation.check(X)
        out = np.empty((len(X), 1 if whole else self.size, self.outputs))
        base(
            as_rows(X),
            columns,
            self.knots,
            self.inputs,
            self.calibrations,
            self.vertices,
            self.simplex,
            whole,
            out,
        )
        out *= self.unit
        return out

    def reach(self) -> float:
        """Return an upper bound on the absolute values of raw scores."""
        most = self.size * float(np.abs(self.vertices).max())
        return most * self.unit + float(np.abs(self.bias).max())

    def draw_inputs(self, count: int, rng: np.random.Generator) -> Floats:
        """Draw random prepared inputs (count, d) for which decisions vary."""
        low, high = self.knots[:, 0], self.knots[:, -1]
        return low + (high - low) * rng.uniform(-0.1, 1.1, (count, len(low)))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays from which `load` makes these lattices again."""
        return {
            **self.preparation.arrays(),
            "knots": self.knots,
            "inputs": self.inputs,
            "calibrations": self.calibrations,
            "vertices": self.vertices,
            "bias": self.bias,
            "unit": np.array([self.unit]),
            "simplex": np.array([self.simplex], np.uint8),
        }

    def __repr__(self) -> str:
        kind = "simplex" if self.simplex else "multilinear"
        return (
            f"Lattices({self.size} lattices of {self.inputs.shape[1]} inputs, {kind}, "
            f"{self.outputs} raw scores, {self.preparation!r})"
        )

    @classmethod
    def load(cls, stored: Stored, width: int) -> "Lattices":
        """Make lattices from stored arrays; BadModel if these are not safe to read."""
        preparation = load_preparation(stored, width)
        d = len(preparation.columns)
        knots = _load_knots(stored, d)
        inputs = stored.array("inputs", np.int32, (None, None))
        T, S = inputs.shape
        if not (0 < T <= MOST_LATTICES and 0 < S <= MOST_INPUTS):
            raise stored.fail(
                f"{T} lattices over {S} inputs; it takes 1 to {MOST_LATTICES} over "
                f"1 to {MOST_INPUTS}"
            )
        _check_range(stored, "inputs", inputs, 0, d - 1)
        shape = (T, S, knots.shape[1] + 2)
        calibrations = stored.array("calibrations", np.int32, shape)
        _check_range(stored, "calibrations", calibrations, 0, int(PARTS))
        bias, unit = stored.finite("bias", (None,)), stored.finite("unit", (1,))[0]
        if len(bias) in (0, 2):
            raise stored.fail(f"{len(bias)} raw scores; it gives 1, or 3 and more")
        vertices = stored.array("vertices", np.int32, (T, len(bias), 2**S))
        _check_range(stored, "vertices", vertices, -MOST_UNITS, MOST_UNITS)
        with np.errstate(over="ignore"):
            widest = 2.0**52 * unit
        if np.frexp(unit)[0] != 0.5 or not (np.abs(bias) <= widest).all():
            raise stored.fail("its unit is no power of two, or too small for its bias")
        if not np.array_equal(np.rint(bias / unit) * unit, bias):
            raise stored.fail("its bias is no whole number of units")
        simplex = stored.array("simplex", np.uint8, (1,))
        _check_range(stored, "simplex", simplex, 0, 1)
        numbers = (knots, inputs, calibrations, vertices, bias)
        made = cls(preparation, *numbers, float(unit), bool(simplex[0]))
        return made.with_packed()


def make_lattices(
    preparation: Preparation,
    knots: Floats,
    inputs: NDArray[Any],
    calibrations: Floats,
    vertices: Floats,
    bias: Floats,
    simplex: bool = False,
) -> Lattices:
    """Make lattices from learned parameters, rounded to whole numbers of units.

    Rounding does not change the order of numbers, so monotonic lattices stay monotonic.
    """
    # The unit is so large that bias and vertices stay within their ranges.
    largest = max(np.abs(vertices).max(), np.abs(bias).max() / 2**20, 1e-100)
    unit = float(2.0 ** (np.ceil(np.log2(largest)) - 30))
    parts = np.rint(np.concatenate([calibrations, calibrations[..., -1:]], -1) * PARTS)
    return Lattices(
        preparation,
        np.ascontiguousarray(knots, np.float64),
        np.ascontiguousarray(inputs, np.int32),
        parts.astype(np.int32),
        np.rint(vertices / unit).astype(np.int32),
        np.rint(bias / unit) * unit,
        unit,
        simplex,
    )


def _load_knots(stored: Stored, d: int) -> Floats:
    knots = stored.finite("knots", (d, None))
    with np.errstate(over="ignore"):
        gaps = np.diff(knots)
    if not d or knots.shape[1] < 2 or not ((gaps > 0) & (gaps < np.inf)).all():
        raise stored.fail("each input needs 2 keypoints or more, ascending")
    return knots


def _check_range(
    stored: Stored, name: str, array: NDArray[Any], low: int, high: int
) -> None:
    if not (array.min() >= low and array.max() <= high):
        raise stored.fail(f"array {name!r} leaves the range {low} to {high}")
