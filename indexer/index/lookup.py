"""What an index is searched by: arrays that give the best candidate for a budget."""

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
    """What an index is searched by: a dataclass of nothing but arrays.

    The metadata of a field are the array's form, its type and number of dimensions.
    `SizeLookup` is for sizes of one number, `SizePairLookup` for sizes of two. They
    are immutable: threads may share them, and processes their arrays.

    Attributes
    ----------
    variables
        Numbers in a size.
    coefficients : (K, T) float64
        Cost polynomial of each ranked candidate, seconds (`polynomials.py`).
    rows : (K,) int64
        Candidates that are on the skyline of some size, least accurate first.
    """

    __slots__ = ()

    variables: ClassVar[int]
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    coefficients: Floats
    rows: Ints

    @classmethod
    @abstractmethod
    def build(
        cls, coefficients: Floats, qualities: Floats, sizes: tuple[OneSize, OneSize]
    ) -> Self:
        """Index candidates for all sizes in a range.

        Parameters
        ----------
        coefficients : (C, T)
            Cost polynomials, seconds.
        qualities : (C,)
            In [0, 1].
        sizes
            The smallest and the largest size.

        Raises
        ------
        BadInput
            If such candidates cannot be indexed.
        """

    @abstractmethod
    def best(self, size: OneSize, budget_s: float) -> int:
        """Row of the most accurate candidate that fits, -1 if none does.

        The row's cost, as `polynomials.cost_at` has it, never exceeds `budget_s`, and
        no more accurate candidate fits: up to rounding, so that one within a relative
        1e-12 of the budget may be missed. Outside the sizes the look-up was built for,
        what it gives fits but may not be the best; it never says -1 if a candidate of
        any skyline fits.
        """

    @abstractmethod
    def skyline(self, size: OneSize) -> Ints:
        """Rows on the skyline of a size, by ascending cost and quality."""

    @staticmethod
    @abstractmethod
    def covers(sizes: tuple[OneSize, OneSize], size: OneSize) -> bool:
        """Say whether a size lies in a range."""

    @abstractmethod
    def facts(self) -> dict[str, int]:
        """How finely the sizes are divided."""

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Everything the look-up is made of, for a file."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[np.generic]]) -> Self:
        """Make a look-up of what `arrays` gave, without copying them.

        Raises
        ------
        BadIndexFile
            If an array is missing or its contents could lead the search astray.
        """
        for one in fields(cls):
            name, (dtype, dimensions) = one.name, one.metadata["form"]
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
        lookup = cls(**{one.name: arrays[one.name] for one in fields(cls)})
        for fault, is_fine in lookup._needs().items():
            if not is_fine():
                raise BadIndexFile(f"the look-up's {fault}")
        return lookup

    @abstractmethod
    def _needs(self) -> dict[str, Callable[[], Any]]:
        """List what must hold that no search is led astray, in order, by its fault."""

    @abstractmethod
    def check_source(
        self, coefficients: Floats, qualities: Floats, sizes: tuple[OneSize, OneSize]
    ) -> None:
        """Refuse to look up other candidates than these, or for other sizes.

        Raises
        ------
        BadInput
            If such candidates cannot be indexed.
        BadIndexFile
            If what `build` copies from its arguments is not in the look-up.
        """

    def _check_ranked(self, coefficients: Floats, qualities: Floats) -> None:
        """Refuse `rows` that are not some candidates, by ascending quality."""
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
