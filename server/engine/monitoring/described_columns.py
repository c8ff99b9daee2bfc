"""Names of the columns of features, and how to show the numbers in them."""

from collections.abc import Sequence
from typing import NamedTuple

from polydom.features.extract import Extractor
from polydom.features.tables.column_features import Columns, KnownWords
from polydom.features.tables.dates import DateCodes
from polydom.features.tables.exact_numbers import Shift


class Described(NamedTuple):
    """The name of a column of the full row, and what its numbers mean."""

    # Name of the column of a table; or of the feature, with a place for wide features
    name: str
    # Words that the numbers 0, 1, ... stand for; None for numbers
    words: tuple[str, ...] | None = None
    offset: float = 0.0  # A number x stands for x / scale + offset
    scale: float = 1.0

    def shown(self, numbers: Sequence[float]) -> list[float]:
        """Return the numbers of the table that some numbers in the column stand for."""
        return [number / self.scale + self.offset for number in numbers]


def describe_column(extractor: Extractor, position: int, column: int) -> Described:
    """Describe a column of the feature at a position."""
    feature = extractor.features[position]
    function = feature.function
    if not isinstance(function, Columns):
        wide = extractor.widths[position] > 1
        return Described(f"{feature.name}[{column}]" if wide else feature.name)
    source, codes = function.sources[column], function.codes[column]
    if isinstance(codes, DateCodes):
        return Described(f"{source} ({codes.part})")
    if isinstance(codes, KnownWords):
        return Described(source, tuple(function.vocabularies[source]))
    if isinstance(codes, Shift):
        return Described(source, None, codes.offset, codes.scale)
    return Described(source)


def with_distinct_names(columns: Sequence[Described]) -> list[Described]:
    """Return the columns; a name that an earlier one has gets a number."""
    seen: dict[str, int] = {}
    found = []
    for one in columns:
        count = seen[one.name] = seen.get(one.name, 0) + 1
        name = one.name if count == 1 else f"{one.name} ({count})"
        found.append(one._replace(name=name))
    return found
