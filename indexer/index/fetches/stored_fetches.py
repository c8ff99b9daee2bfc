"""Fetches in an index: which call brings which columns of a record, by which key.

A fetch of texts or images has no key, and one column of its own name: the vector.

An index never holds an address, a query or code. The operator of a server says by what
call a fetch is made.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from polydom.features.extract import Extractor, with_needs
from polydom.features.feature import Feature, FetchedStep
from polydom.features.fetches.fetch import MOST_COLUMNS
from polydom.features.items import Kind

from ..built_facts import LARGEST, Amount
from ..stored_features import StoredFeature

MOST_FETCHES = 16
MOST_DRAWS = 100_000  # joint draws of arrival times

Name = Annotated[str, msgspec.Meta(min_length=1)]
Names = Annotated[list[Name], msgspec.Meta(min_length=1)]
KeyKind = Literal["text", "whole number", "number", "boolean"]


class StoredFetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One awaited call: it brings columns of a record, or the vector of another item.

    A fetch of texts or images has no key, and its column is its own name.
    """

    name: Name
    key: list[Name]  # Columns of the request that make the key; need not be features
    columns: Names  # Columns that the call brings
    # Price of one key, by unit, the same for all fetches; free if empty
    price: dict[str, Amount] = {}
    # Numbers in the vector of a text or an image
    width: Annotated[int, msgspec.Meta(ge=1, le=MOST_COLUMNS)] | UnsetType = UNSET
    # What the table of the build holds in each column of the key; empty if unknown
    key_kinds: list[KeyKind] = []


def needs_of(
    features: Iterable[StoredFeature], fetches: Sequence[StoredFetch]
) -> tuple[int, ...]:
    """Return, for each feature, a mask of the fetches that bring columns it reads.

    A feature of records that is a function may read any column, so it needs all
    fetches.
    """
    columns = [frozenset(fetch.columns) for fetch in fetches]
    reads = (one.reads for one in features)
    return tuple(
        sum(
            1 << u
            for u, brought in enumerate(columns)
            if own is None or not brought.isdisjoint(own)
        )
        for own in reads
    )


def withheld_by(needs: Sequence[int], came: int) -> int:
    """Return a mask of the features that need a fetch which is not in `came`.

    `needs` is the result of `needs_of`, and `came` a mask of fetches.
    """
    return sum(1 << k for k, own in enumerate(needs) if own & ~came)


def fault_of(
    fetches: Sequence[StoredFetch],
    features: Sequence[StoredFeature],
    arrivals: NDArray[np.float64],
    kind: Kind,
) -> str:
    """Return the first contradiction between fetches, features and draws; "" if none.

    `arrivals` (M, U) are the joint draws of the fetches' arrival times, and `kind` is
    that of the items.
    """
    if not all(_is_for(fetch, kind) for fetch in fetches):
        return f"a fetch is not for {kind} items"
    vectors = bool(fetches) and kind != "record"
    if any((one.fetched is UNSET) == vectors for one in features):
        return "a feature does not say which fetches it needs, or there are none"
    reads = [one.reads for one in features]
    read = {column for own in reads for column in own or ()}
    brought = [column for fetch in fetches for column in fetch.columns]
    keys = {column for fetch in fetches for column in fetch.key}
    if len(fetches) > MOST_FETCHES:
        return f"it has {len(fetches)} fetches; {MOST_FETCHES} are the most"
    if len({fetch.name for fetch in fetches}) < len(fetches):
        return "two fetches have the same name"
    if any(len({*fetch.key}) < len(fetch.key) for fetch in fetches):
        return "the key of a fetch has a column twice"
    if any(one.key_kinds and len(one.key_kinds) != len(one.key) for one in fetches):
        return "the kinds of a key's columns are not those of the key"
    if len({*brought}) < len(brought):
        return "a column is brought twice"
    # the price of a request is one number
    if len({unit for fetch in fetches for unit, p in fetch.price.items() if p}) > 1:
        return "the prices of its fetches have several units"
    if keys.intersection(brought):
        return "a column that is brought is part of a key"
    if None not in reads and not read.issuperset(brought):
        return "a fetch brings a column that no feature reads"
    if arrivals.ndim != 2 or arrivals.shape[1] != len(fetches):
        return "its arrival times are not its fetches'"
    if fetches and not 1 <= len(arrivals) <= MOST_DRAWS:
        return f"it has {len(arrivals):,} draws of arrival times"
    never = np.isinf(arrivals)
    if not ((arrivals >= 0) & (never | (arrivals <= LARGEST))).all():  # nor NaN
        return "an arrival time is no time"
    return ""


def fault_of_vectors(
    extractor: Extractor,
    features: Sequence[StoredFeature],
    fetches: Sequence[StoredFetch],
) -> str:
    """Return what is wrong with the vectors that features need; "" if nothing.

    `features` are those of the extractor, as an index describes them.
    """
    widths = {fetch.name: fetch.width for fetch in fetches}
    if any(widths.get(one.name) != one.width for one in extractor.fetched):
        return "its features need vectors of other fetches"
    needed = [one.fetched or [] for one in features]
    if [names_of_vectors(one) for one in extractor.features] != needed:
        return "its features need other vectors than it says"
    return ""


def names_of_vectors(feature: Feature) -> list[str]:
    """Return the names of the fetches whose vectors a feature needs."""
    steps = with_needs([feature])
    return [one.name for one in steps if isinstance(one, FetchedStep)]


def _is_for(fetch: StoredFetch, kind: Kind) -> bool:
    if kind == "record":
        return bool(fetch.key) and fetch.width is UNSET
    # a column of another name would tell a server that another fetch is needed
    own = not fetch.key and fetch.columns == [fetch.name]
    return own and fetch.width is not UNSET
