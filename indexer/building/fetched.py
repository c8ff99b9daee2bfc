"""The fetches of a build: which features need them, and what has come at some wait."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from msgspec import UNSET
from numpy.typing import NDArray

from ..index.fetches.stored_fetches import StoredFetch, needs_of, withheld_by
from ..index.stored_features import StoredFeature
from .costs.arrival_times import FetchTimes
from .data.fetch_keys import KeyRow, key_kind
from .project_tables.fetches import FetchTerms

log = logging.getLogger("polydom")

FEW = 6  # fetches of which all outcomes are served: 64
MOST_OUTCOMES = 1 << FEW
LEAST = 0.005  # least share of draws of an outcome that is served, of many fetches


@dataclass(frozen=True, slots=True, eq=False)
class Fetched:
    """The U fetches that bring columns which features read, and their outcomes.

    An outcome is a set of fetches that have come when the waiting ends.
    """

    stored: tuple[StoredFetch, ...]
    draws: NDArray[np.float64]  # (M, U): Joint draws of arrival times in seconds
    warnings: list[str]  # Sentences about fetches
    # Masks of the features that are withheld by some outcome, the likeliest outcome
    # first; [] without fetches
    withheld: list[int]
    # Masks of the features that each fetch is needed for
    readers: list[int]

    @classmethod
    def of(
        cls,
        terms: dict[str, FetchTerms],
        times: FetchTimes,
        features: Sequence[StoredFeature],
        key_rows: Sequence[KeyRow] = (),
    ) -> "Fetched":
        """Make the object for a project's fetches and features.

        `key_rows` are rows of the table with the columns of keys, to tell their kinds.
        Columns that no feature reads are left out, and fetches without other columns.
        """
        reads = [one.reads for one in features]
        widths = {
            one.name: one.width if one.reduced is UNSET else one.reduced.columns
            for one in features
            if one.vector_of is not UNSET
        }
        read = {name for own in reads for name in own or ()}
        stored, places, warnings = list[StoredFetch](), list[int](), [*times.warnings]
        for place, (name, one) in enumerate(terms.items()):
            brought = [name] if one.of_items else one.columns
            columns = [c for c in brought if c in read or None in reads]
            if columns:
                price = {unit: price for unit, price in one.price.items() if price}
                width = widths.get(name, UNSET)
                kinds = [key_kind(key_rows, c) for c in one.key if key_rows]
                made = StoredFetch(name, one.key, columns, price, width, kinds)
                stored.append(made)
                places.append(place)
            else:
                warnings.append(
                    f"fetch {name!r} brings no column that a feature reads, so it is "
                    "left out"
                )
        for warning in warnings:
            log.warning("%s", warning)
        draws = times.draws[:, places] if stored else np.empty((0, 0))
        needs = needs_of(features, stored)
        every = (1 << len(stored)) - 1
        masks = [withheld_by(needs, came) for came in likely_outcomes(draws)]
        readers = [withheld_by(needs, every & ~(1 << u)) for u in range(len(stored))]
        return cls(tuple(stored), draws, warnings, [*dict.fromkeys(masks)], readers)


def likely_outcomes(draws: NDArray[np.float64]) -> list[int]:
    """Return the outcomes that an index has to answer, the likeliest first.

    Of up to `FEW` fetches, these are all outcomes. Of more, they are those that at
    least the share `LEAST` of the draws (M, U) have at some wait, at most
    `MOST_OUTCOMES`. The outcomes in which nothing or everything has come are among
    them. The result is [] without fetches.
    """
    count, fetches = draws.shape
    if not fetches:
        return []
    every, most = (1 << fetches) - 1, _largest_shares(draws)
    ends = {0: count, every: count}
    if fetches <= FEW:
        wanted = range(every + 1)
        return sorted(wanted, key=lambda one: (-(most | ends).get(one, 0), one))
    likely = {one: n for one, n in most.items() if n >= LEAST * count} | ends
    return sorted(likely, key=lambda one: (-likely[one], one))[:MOST_OUTCOMES]


def _largest_shares(draws: NDArray[np.float64]) -> dict[int, int]:
    """Return, for each outcome, the number of draws with it at the best of all waits.

    The wait grows from one arrival to the next; a draw's outcome then grows.
    """
    came, has = [0] * len(draws), Counter({0: len(draws)})
    most = dict(has)
    order = np.argsort(draws, axis=None, kind="stable")
    order = order[np.isfinite(draws.ravel()[order])]
    arrivals = zip(
        draws.ravel()[order].tolist(),
        (order // draws.shape[1]).tolist(),
        (order % draws.shape[1]).tolist(),
        strict=True,
    )
    for _, together in groupby(arrivals, key=lambda arrival: arrival[0]):
        changed = set[int]()
        for _, draw, fetch in together:
            has[came[draw]] -= 1
            came[draw] |= 1 << fetch
            has[came[draw]] += 1
            changed.add(came[draw])
        for outcome in changed:
            most[outcome] = max(most.get(outcome, 0), has[outcome])
    return most
