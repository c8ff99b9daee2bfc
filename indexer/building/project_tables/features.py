"""`[features]`: the features to choose from."""

from typing import Annotated

from msgspec import Meta, Struct

from polydom.features.errors import BadProject
from polydom.features.networks.terms import NetworkTerms
from polydom.features.tables.dates import DateOrder
from polydom.features.tables.records import ColumnKind

from .numbers import NotNegative


class Columns(Struct, frozen=True, forbid_unknown_fields=True):
    """A group of a record's columns as one feature, with the cost of the columns.

    Attributes
    ----------
    name
        Name of the feature.
    columns
        Names of the columns in the group.
    cost
        Cost of obtaining all columns of the group, by unit, such as `{ usd = 25.92 }`
        or `{ s = 0.004 }`. By default the group costs the measured seconds of reading
        it. A unit other than seconds needs a weight in `[costs]`.
    kind
        Kind of the columns, if the guess that `polydom check` shows is wrong: "number",
        "word", "date" or "text". For "text", features are computed from the columns'
        texts, and the group itself is no feature.
    missing
        Words for an empty cell of these columns, in addition to those of `[data]`.
    date_order
        Order of month and day in dates of these columns: "MDY" or "DMY".
    """

    name: str
    columns: Annotated[list[str], Meta(min_length=1)]
    cost: dict[str, NotNegative] = {}
    kind: ColumnKind | None = None
    missing: list[str] = []
    date_order: DateOrder | None = None


class Features(Struct, frozen=True, forbid_unknown_fields=True):
    """The features to choose from; by default all columns of a table.

    Attributes
    ----------
    use
        Names of ready-made and learned features. If no feature of `files` is named, all
        of them are used. A feature of texts on a table's column of free text is named
        `COLUMN: FEATURE`, such as `note: learned_words`.
    files
        Python files with the user's own features, beside the project file.
    columns
        Groups of a table's columns.
    others
        If true, each column outside all groups is a feature of its own.
    networks
        Neural networks whose pieces are features.
    """

    use: list[str] = []
    files: list[str] = []
    columns: list[Columns] = []
    others: bool = False
    networks: list[NetworkTerms] = []

    def check(self) -> None:
        """Raise BadProject for networks whose keys do not fit, or of one name."""
        named = [one.name for one in self.networks]
        for terms in self.networks:
            terms.check()
            if named.count(terms.name) > 1:
                raise BadProject(
                    f"[[features.networks]] has the name {terms.name!r} twice; the "
                    "names of a network's features begin with its own"
                )
