"""`[fetches.NAME]`: calls that bring something about an item while a request waits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated

from msgspec import Meta, Struct, field

from polydom.features.errors import BadProject
from polydom.features.wording import listed

from ...index.fetches.stored_fetches import MOST_FETCHES
from .data import Data
from .features import Columns
from .numbers import NotNegative


class FetchTerms(Struct, frozen=True, forbid_unknown_fields=True):
    """One awaited call, which brings some columns of a record by a key.

    For texts and images it brings a vector of the item itself, such as a remote
    embedding, and has neither `key` nor `columns`.

    Attributes
    ----------
    key
        Columns of a request that make the key. They are no features unless a group of
        `[[features.columns]]` names them.
    columns
        Columns of the table that the call brings. Those in no group of
        `[[features.columns]]` make one feature with the name of the fetch.
    source
        File beside the project, .toml or .py, that says how the call is made. The build
        makes the call for up to 200 keys of the table, to see when its answers come.
        The server gets the call from `polydom serve --fetches`. Of texts and images,
        the build also asks for every item's vector, once, and keeps it in the cache.
    times
        CSV file with arrival times in milliseconds, instead of `from`: a column for
        each fetch, a row for calls that were sent at the same moment, and an empty cell
        if a fetch did not come. `polydom check-fetches --times` writes such a file. All
        fetches of a project name the same file. Fetches of texts and images need `from`
        even so.
    most_columns
        Of texts and images: most columns of the feature. Wider vectors are reduced by a
        principal component analysis, which the build fits on the training items. 0
        never reduces.
    price
        Price of one key, by unit, such as `{ usd = 0.002 }`. All fetches of a project
        have the same unit. The default is free.
    """

    key: list[str] = []
    columns: list[str] = []
    source: str | None = field(default=None, name="from")
    times: str | None = None
    price: dict[str, NotNegative] = {}
    most_columns: Annotated[int, Meta(ge=0)] = 64

    @property
    def of_items(self) -> bool:
        """True if the fetch brings vectors of texts or images."""
        return not self.key and not self.columns

    def left_over(self, groups: Sequence[Columns]) -> list[str]:
        """Return the columns that are in none of the groups."""
        grouped = {name for group in groups for name in group.columns}
        return [name for name in self.columns if name not in grouped]


def key_columns(fetches: Mapping[str, FetchTerms]) -> list[str]:
    """Return the columns of the fetches' keys, each once."""
    keys = (name for fetch in fetches.values() for name in fetch.key)
    return [*dict.fromkeys(keys)]


def check_fetches(
    fetches: Mapping[str, FetchTerms],
    groups: Sequence[Columns],
    data: Data,
    weights: Mapping[str, float],
) -> None:
    """Raise BadProject for fetches that contradict each other or the other tables.

    `groups` are those of `[[features.columns]]`, and `weights` those of `[costs]`.
    """
    if not fetches:
        return
    if len(fetches) > MOST_FETCHES:
        raise BadProject(
            f"[fetches] has {len(fetches)} fetches; {MOST_FETCHES} are the most"
        )
    for name, one in fetches.items():
        if not one.of_items and not (one.key and one.columns):
            lacks = "columns" if one.key else "key"
            raise BadProject(f"[fetches.{name}] has no {lacks}")
        # else the kind is known when the items are read
        if data.table is not None or data.images is not None or data.texts is not None:
            check_kind(name, one, records=data.table is not None)
    counted = [unit for unit, weight in weights.items() if weight and unit != "s"]
    if counted or not weights.get("s"):
        raise BadProject(
            "[fetches] is for budgets of seconds, and costs.weights counts "
            f"{listed(counted) or 'none'}"
        )
    units = {unit for one in fetches.values() for unit, p in one.price.items() if p}
    if len(units) > 1:
        raise BadProject(
            f"[fetches] has prices in {' and '.join(sorted(units))}; one unit is "
            "needed, since the prices of a request's fetches are added"
        )
    for fault in _faults(fetches, groups, data):
        raise BadProject(f"[fetches.{fault}")
    _check_times(fetches)


def check_kind(name: str, fetch: FetchTerms, *, records: bool) -> None:
    """Raise BadProject if a fetch does not suit the kind of the items.

    `records` is true if these are records, and false for texts and images.
    """
    if records and fetch.of_items:
        raise BadProject(
            f"[fetches.{name}] needs key and columns: which columns of a row the call "
            "brings, by which others"
        )
    if not records and not fetch.of_items:
        raise BadProject(
            f"[fetches.{name}] has a key and columns, which are of records; of texts "
            "and images, a fetch brings a vector of the item itself, by `from` alone"
        )


def _faults(
    fetches: Mapping[str, FetchTerms], groups: Sequence[Columns], data: Data
) -> Iterator[str]:
    """Yield what is wrong with single fetches, each after the name of the fetch."""
    brought_by: dict[str, str] = {}
    special = {data.label: "label", data.weight: "weight", data.time: "time"}
    special[data.group] = "group"
    if "" in fetches:
        yield '""] has no name'
    for name, fetch in fetches.items():
        for column in fetch.columns:
            if column in brought_by:
                other = brought_by[column]
                by = " twice" if other == name else f", and so does [fetches.{other}]"
                yield f"{name}] brings column {column!r}{by}"
            if column in special or column in data.ignore:
                key = special.get(column, "ignore")
                yield f"{name}] brings column {column!r}, which [data] {key} names"
            brought_by[column] = name
        if len({*fetch.key}) < len(fetch.key):
            yield f"{name}] key has a column twice"
        if data.label in fetch.key:
            yield f"{name}] key has the label, {data.label!r}, which no request has"
        named = [group.name for group in groups]
        if name in named and (left := fetch.left_over(groups)):
            yield (
                f"{name}] brings {left[0]!r}, which is in no group of "
                "[[features.columns]] and so in a feature with the name of the fetch; "
                f"a group is named {name!r}, too"
            )
    for name, fetch in fetches.items():
        for column in fetch.key:
            if column in brought_by:
                yield (
                    f"{name}] key has {column!r}, which [fetches.{brought_by[column]}] "
                    "brings; requests must bring all keys, since all fetches are sent "
                    "at once"
                )


def _check_times(fetches: Mapping[str, FetchTerms]) -> None:
    """Raise BadProject unless the arrival times of all fetches are known together."""
    for name, fetch in fetches.items():
        if fetch.of_items and fetch.source is None:
            raise BadProject(
                f"[fetches.{name}] needs `from`, a file with the call: it brings the "
                "vectors to train on"
            )
        if not fetch.of_items and (fetch.source is None) == (fetch.times is None):
            raise BadProject(
                f"[fetches.{name}] needs exactly one of `from`, a file with the call, "
                "which is then timed, and `times`, a file of arrival times"
            )
    files = {fetch.times for fetch in fetches.values()}
    if len(files) > 1:
        raise BadProject(
            "[fetches] says of some fetches `times` and of others `from`, or names "
            "several files of times; fetches are slow together, so their times must "
            "be taken together: one file of times for all fetches, or none"
        )
