"""The interface of look-ups: from a size and a budget to the best candidate."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import Field, fields
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from polydom.features.errors import BadIndexFile

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OneSize = TypeVar("OneSize")


class Lookup(ABC, Generic[OneSize]):
    """A structure that finds the best candidate for a size and a budget; immutable.

    All fields of a look-up are arrays. A field's metadata has `form`, the array's data
    type and number of dimensions. It also has `file`, the array's name in an index
    file, if this differs from the field's name.
    """

    __slots__ = ()

    variables: ClassVar[int]  # Count of numbers in a size
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    # (K, T) float64: Coefficients of the cost polynomial of each ranked candidate, in
    # seconds (`features/costs/polynomials.py`)
    coefficients: Floats
    # (K,) int64: Candidates that are on the skyline of some size, least accurate first
    rows: Ints

    @classmethod
    @abstractmethod
    def build(
        cls, coefficients: Floats, qualities: Floats, sizes: tuple[OneSize, OneSize]
    ) -> Self:
        """Make the look-up of candidates for all sizes between two sizes.

        `coefficients` (C, T) are the candidates' cost curves, `qualities` (C,) their
        qualities.
        """

    @abstractmethod
    def best(self, size: OneSize, budget_s: float) -> int:
        """Find the row of the best candidate that fits the budget; -1 if none fits.

        The cost of the row, by `polynomials.cost_at`, never exceeds `budget_s`. A
        better candidate may be missed if its cost differs from the budget by a factor
        of less than 1 + 1e-12. For a size outside the range of the look-up, a better
        candidate may exist, but the result is -1 only if no candidate of any skyline
        fits.
        """

    @abstractmethod
    def skyline(self, size: OneSize) -> Ints:
        """Return the rows of the candidates on a size's skyline, by ascending cost."""

    @abstractmethod
    def facts(self) -> dict[str, int]:
        """Return numbers that describe the structure, such as its breakpoint count."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return all arrays, by their names in an index file."""
        return {_file_name(one): getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Self:
        """Make a look-up from named arrays; raise BadIndexFile if damaged."""
        own = {}
        for one in fields(cls):
            name, (dtype, dimensions) = _file_name(one), one.metadata["form"]
            array = arrays.get(name)
            if array is None:
                raise BadIndexFile(f"the look-up has no array {name!r}")
            if array.dtype != dtype or array.ndim != dimensions:
                raise BadIndexFile(
                    f"the look-up's {name} are {array.dtype} of {array.ndim} "
                    f"dimensions; {np.dtype(dtype)} of {dimensions} are needed"
                )
            if not array.flags.c_contiguous:
                raise BadIndexFile(f"the look-up's {name} are not contiguous")
            own[one.name] = array
        lookup = cls(**own)
        for fault, is_fine in lookup._needs().items():
            if not is_fine():
                raise BadIndexFile(f"the look-up's {fault}")
        return lookup

    @abstractmethod
    def _needs(self) -> dict[str, Callable[[], Any]]:
        """Return checks of the arrays: a function for each possible fault.

        The function returns False if the arrays have the fault.
        """

    @abstractmethod
    def check_source(
        self, coefficients: Floats, qualities: Floats, sizes: tuple[OneSize, OneSize]
    ) -> None:
        """Raise an error if the look-up was built for other candidates or sizes."""

    def _check_ranked(self, coefficients: Floats, qualities: Floats) -> None:
        """Raise BadIndexFile if the rows of the look-up do not rank the candidates.

        `coefficients` and `qualities` are the candidates' own. The rows must ascend in
        quality, end with the most accurate, and have the candidates' costs.
        """
        rows = self.rows
        if (
            rows.max() >= len(qualities)
            or len(np.unique(rows)) < len(rows)
            or not (np.diff(qualities[rows]) >= 0).all()
        ):
            raise BadIndexFile("the look-up's rows are not the index's, by quality")
        if qualities[rows[-1]] < qualities.max():
            raise BadIndexFile("the look-up's rows lack the most accurate")
        if not np.array_equal(self.coefficients, coefficients[rows]):
            raise BadIndexFile("the look-up's costs are not those of the index")


def _file_name(one: Field[Any]) -> str:
    name: str = one.metadata.get("file", one.name)
    return name
