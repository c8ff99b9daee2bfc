"""Fetches in an index: which call brings which columns of a record, by which key.

An index never holds an address, a query or code. The operator of a server says by what
call a fetch is made.
"""

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..built_facts import LARGEST, Amount
from ..stored_features import StoredFeature

MOST_FETCHES = 16
MOST_DRAWS = 100_000  # joint draws of arrival times

Name = Annotated[str, msgspec.Meta(min_length=1)]
Names = Annotated[list[Name], msgspec.Meta(min_length=1)]


class StoredFetch(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One awaited call, which brings the values of some columns of a record."""

    name: Name
    key: Names  # Columns of the request that make the key; need not be features
    columns: Names  # Columns that the call brings
    # Price of one key, by unit, the same for all fetches; free if empty
    price: dict[str, Amount] = {}


def needs_of(
    features: Iterable[StoredFeature], fetches: Sequence[StoredFetch]
) -> tuple[int, ...]:
    """Return, for each feature, a mask of the fetches that bring columns it reads.

    A feature that is a function may read any column, so it needs all fetches.
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
) -> str:
    """Return the first contradiction between fetches, features and draws; "" if none.

    `arrivals` (M, U) are the joint draws of the fetches' arrival times.
    """
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
