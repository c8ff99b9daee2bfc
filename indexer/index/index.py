"""The index: for every item size and budget, the most accurate candidate that fits."""

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
from numpy.typing import ArrayLike, NDArray

from polydom.features.costs.polynomials import cost_at, costs_at
from polydom.features.errors import BadIndexFile, BadInput, NothingFits, PolydomError
from polydom.features.sizes import Size, is_size, read_size, show_size

from .file.package_arrays import pack, unpack
from .file.package_checks import check_choice
from .file.pdx_file import read_file, write_file
from .file.safe_write import sweep_unfinished
from .lookup import Lookup
from .machine_speed import MachineFactors, rescale_costs
from .package import Package
from .size_lookup import SizeLookup
from .size_pair_lookup import SizePairLookup


class Candidate(NamedTuple):
    """The best candidate that fits a budget.

    Attributes
    ----------
    row
        Row of the candidate in the index.
    cost_s
        Cost at the size that was asked for: seconds, or an amount in the index's unit.
    quality
        Expected quality, in [0, 1].
    """

    row: int
    cost_s: float
    quality: float


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Index:
    """The skylines of all sizes and, with `package`, all data that a server needs.

    In an index, either each size is one number, or each is two numbers. An index is
    immutable. Threads may share it; processes may share it once it is saved.

    Attributes
    ----------
    coefficients : (C, T) float64
        Cost polynomial of each candidate in seconds, constant first
        (`features/costs/polynomials.py`).
    qualities : (C,) float64
        Expected quality of each candidate, in [0, 1], larger is better: the accuracy,
        or the measure that the package names.
    sizes
        Smallest and largest item size, `(low, high)`, for which choices are optimal.
    lookup
        Structure that finds the best candidate.
    package
        Features and models of the candidates; None if only their costs and qualities
        are known.
    version
        Checksum in hex of the file that the index was loaded from, else "".
    """

    coefficients: NDArray[np.float64]
    qualities: NDArray[np.float64]
    sizes: tuple[Size, Size]
    lookup: Lookup[Any]
    package: Package | None = None
    version: str = ""

    def __post_init__(self) -> None:
        # the look-up's arrays stay writable: kernels take longer to call otherwise
        for array in (self.coefficients, self.qualities):
            array.setflags(write=False)

    def __repr__(self) -> str:
        low, high = map(show_size, self.sizes)
        kind = f" of {self.package.kind}s" if self.package is not None else ""
        named = f", version {self.version[:12]}" if self.version else ""
        return (
            f"<Index of {len(self.qualities)} candidates{kind}, "
            f"sizes {low} to {high}{named}>"
        )

    @classmethod
    def from_candidates(
        cls,
        coefficients: ArrayLike,
        qualities: ArrayLike,
        sizes: tuple[Size, Size],
        package: Package | None = None,
    ) -> Self:
        """Index candidates by their cost curves and qualities (ICSP, section 3.2).

        Parameters
        ----------
        coefficients : (C, T)
            Cost polynomials in the item size, constant first, seconds: 1, n, n^2 ...,
            or 1, a, b, a^2, ab, b^2 ... for sizes of two numbers.
        qualities : (C,)
            Expected qualities, in [0, 1].
        sizes
            Smallest and largest item size, each one number or a pair.

        Raises
        ------
        BadInput
            If shapes disagree, if a number is out of its range, or if a cost is
            negative at a size in the range. For sizes of two numbers, no coefficient
            may be negative.

        Examples
        --------
        >>> cheap, dear = [1e-3, 0.0], [2e-3, 1e-6]
        >>> index = Index.from_candidates([cheap, dear], [0.7, 0.9], (1, 10_000))
        >>> index.best(size=500, budget_s=2e-3)
        Candidate(row=0, cost_s=0.001, quality=0.7)
        >>> index.best(size=500, budget_s=3e-3).quality
        0.9
        >>> by_b = [0.0, 0.0, 1e-6, 0.0, 0.0, 0.0]  # cost 1e-6 b
        >>> by_ab = [1e-3, 0.0, 0.0, 0.0, 2e-8, 0.0]  # cost 1e-3 + 2e-8 a b
        >>> curves = [by_b, by_ab]
        >>> index = Index.from_candidates(curves, [0.7, 0.9], ((8, 8), (4096, 4096)))
        >>> index.best(size=(100, 500), budget_s=2e-3).quality
        0.9
        >>> index.best(size=(500, 500), budget_s=2e-3).quality
        0.7
        """
        costs = np.array(coefficients, np.float64, order="C")
        gains = np.array(qualities, np.float64, order="C")
        low, high = map(read_size, sizes)
        if isinstance(low, tuple) != isinstance(high, tuple):
            raise BadInput(f"sizes are {sizes!r}; both of one number or of two")
        lookup = _kind_of(low).build(costs, gains, (low, high))
        if not is_size(low, lookup.variables):
            raise BadInput(f"sizes are {sizes!r}; they must be greater than 0")
        return cls(costs, gains, (low, high), lookup, package)

    @property
    def pairs(self) -> bool:
        """True if a size is two numbers."""
        return self.lookup.variables == 2

    def best(self, size: Size, budget_s: float) -> Candidate:
        """Find the best candidate that costs at most `budget_s` at a size.

        This solves ICSP's Problem 1 with alpha = 1 over the indexed candidates. For a
        size outside `sizes`, the result fits the budget, but there may be a better one.

        Parameters
        ----------
        size
            Item size, greater than 0, in the units of the cost curves.
        budget_s
            Seconds for features and model together; may be infinite.

        Raises
        ------
        BadInput
            If `size` is not finite, is not above 0, or has the wrong number of numbers,
            or if `budget_s` is negative or NaN.
        NothingFits
            If even the cheapest candidate costs more than `budget_s`.
        """
        if not is_size(size, self.lookup.variables):
            count = "2 numbers" if self.pairs else "1 number"
            raise BadInput(
                f"size is {size!r}; {count}, finite and greater than 0, must be given"
            )
        if not budget_s >= 0:
            raise BadInput(f"budget_s is {budget_s!r}; it must not be negative")
        row = self.lookup.best(size, budget_s)
        if row < 0:
            cheapest_s = float(costs_at(self.coefficients, size).min())
            raise NothingFits(budget_s=budget_s, cheapest_s=cheapest_s, size=size)
        return Candidate(row, self.cost_s(row, size), float(self.qualities[row]))

    def accuracy(self, row: int) -> float | None:
        """Return a candidate's expected accuracy; None if answers are numbers.

        Without a package, the accuracy is the quality.
        """
        package = self.package
        if package is None or package.measure == "accuracy":
            return float(self.qualities[row])
        return None if package.numeric else float(package.accuracies[row])

    def skyline(self, size: Size) -> NDArray[np.int64]:
        """Return the rows of the candidates on a size's skyline, by ascending cost."""
        return self.lookup.skyline(size)

    def covers(self, size: Size) -> bool:
        """Return True if a size is within `sizes`, so that choices are optimal."""
        if not isinstance(size, tuple):  # most sizes; every answer asks
            least, most = self.sizes
            return bool(least <= size <= most)  # type: ignore[operator]
        (low, high), numbers = map(_numbers, self.sizes), _numbers(size)
        return all(a <= n <= b for a, n, b in zip(low, numbers, high, strict=True))

    def cost_s(self, row: int, size: Size) -> float:
        """Return the seconds that candidate `row` costs on an item of `size`."""
        return cost_at(self.coefficients[row].tolist(), size)

    def rescaled(self, factors: MachineFactors, declared: ArrayLike) -> Self:
        """Return an index of the same candidates, with their costs on another machine.

        `factors` are ratios of that machine's times to the times of this index's
        machine. `declared` has the declared part of each feature's cost, in budget
        units, which stays the same: shape (m,), or (m + s,) with the declared parts of
        the steps after those of the features.
        """
        package = self.package
        if package is None:
            raise BadInput("bare candidates have no parts to rescale")
        before = package.costs.of_many(package.masks)
        costs = rescale_costs(package.costs, factors, np.asarray(declared, float))
        coefficients = costs.of_many(package.masks)
        # the rest of a cost is the model's; the empty set has no such rest
        coefficients += factors.models * np.maximum(self.coefficients - before, 0)
        package = replace(
            package,
            costs=costs,
            model_s=factors.models * package.model_s,
            whole_s=factors.models * package.whole_s,
            mean_s=factors.models * package.mean_s,
            overhead_s=factors.overhead * package.overhead_s,
        )
        index = self.from_candidates(coefficients, self.qualities, self.sizes, package)
        return replace(index, version=self.version)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the index to a `.pdx` file, completely or not at all."""
        meta: dict[str, Any] = {"sizes": list(self.sizes)}
        arrays: dict[str, NDArray[Any]] = {
            "coefficients": self.coefficients,
            "qualities": self.qualities,
        }
        for name, array in self.lookup.arrays().items():
            arrays[f"lookup/{name}"] = array
        if self.package is not None:
            meta["package"], more = pack(self.package)
            arrays |= more
        write_file(path, meta, arrays)
        sweep_unfinished(Path(path))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read an index into memory; later changes to the file have no effect on it.

        Raises
        ------
        BadIndexFile
            If the file was not written by `save`, is damaged, or has another format
            version.
        """
        meta, arrays, version = read_file(path)
        try:
            coefficients, qualities = arrays["coefficients"], arrays["qualities"]
            sizes = msgspec.convert(meta["sizes"], list[float | list[float]])
            low, high = map(read_size, sizes)
            lookup = _kind_of(low).from_arrays(
                {
                    name.removeprefix("lookup/"): array
                    for name, array in arrays.items()
                    if name.startswith("lookup/")
                }
            )
            package = unpack(meta["package"], arrays) if "package" in meta else None
            index = cls(coefficients, qualities, (low, high), lookup, package, version)
            index._check()
        except PolydomError as error:
            raise BadIndexFile(f"{os.fspath(path)}: {error}") from error
        except MemoryError as error:
            reason = "does not fit into memory"
            raise BadIndexFile(f"{os.fspath(path)}: {reason}") from error
        except KeyError as error:
            reason = f"damaged: {error} is missing"
            raise BadIndexFile(f"{os.fspath(path)}: {reason}") from error
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            reason = f"damaged: {type(error).__name__}: {error}"
            raise BadIndexFile(f"{os.fspath(path)}: {reason}") from error
        return index

    def _check(self) -> None:
        """Raise BadIndexFile if the arrays contradict each other or the look-up."""
        low, high = self.sizes
        count = len(self.coefficients)
        if self.coefficients.ndim != 2 or self.qualities.shape != (count,):
            raise BadIndexFile("damaged: costs and qualities differ in number")
        if self.coefficients.dtype != np.float64 or self.qualities.dtype != np.float64:
            raise BadIndexFile("damaged: costs or qualities are not float64")
        ends = is_size(low, self.lookup.variables), is_size(high, self.lookup.variables)
        if not (all(ends) and np.less_equal(low, high).all()):
            raise BadIndexFile("damaged: its sizes are no range")
        try:
            self.lookup.check_source(self.coefficients, self.qualities, self.sizes)
        except BadInput as error:
            raise BadIndexFile(f"damaged: {error}") from error
        if self.package is not None:
            check_choice(self.package, self.coefficients, self.qualities, high)


def _kind_of(size: Size) -> type[Lookup[Any]]:
    return SizePairLookup if isinstance(size, tuple) else SizeLookup


def _numbers(size: Size) -> tuple[float, ...]:
    return size if isinstance(size, tuple) else (size,)
