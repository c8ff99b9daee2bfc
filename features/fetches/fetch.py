"""A fetch: one awaited call that brings something about an item from elsewhere.

For a record it brings columns, by a key of other columns. For a text or an image it
brings a vector, such as a remote embedding, and the item itself is the key.

How long a fetch takes is not a cost: nothing is computed meanwhile. A fetch has a
distribution of arrival times, which `timing` measures.
"""

import inspect
import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypedDict, Unpack, get_args, overload

import numpy as np

from ..errors import BadFetch, BadItem, FetchFailed
from ..feature import Feature, FetchedStep
from ..items import Kind
from ..networks.pooled import Projection
from ..wording import listed
from .answers import Brought, read_answers, read_vectors

# A `Value` for each of a record's key columns, or one text or one image
Key = tuple[Any, ...]
Call = Callable[[Sequence[Any], float], Awaitable[Sequence[Any]]]
Close = Callable[[], Awaitable[None]]
Columns = tuple[str, ...]

MOST = 10_000  # keys in a call, and calls at once
LONGEST_S = 60.0  # that a call may take
MOST_COLUMNS = 4_096
# Least and most of each term that is a number
RANGES: Mapping[str, tuple[float, float]] = {
    "at_most_ms": (0.001, LONGEST_S * 1e3),
    "keep_s": (0, math.inf),
    "batch": (1, MOST),
    "at_once": (1, MOST),
    "hedge": (0, 0.5),
    "width": (1, MOST_COLUMNS),
}
KINDS: Sequence[str] = get_args(Kind)
FLOATS = frozenset({float})
WHOLE = 2.0**63  # from here on, a whole number stays a float


@dataclass(frozen=True, eq=False)
class Fetch:
    """An awaited call that brings the values of some columns, by a key.

    A fetch of texts or images brings a vector of `width` numbers for each instead. Its
    key is the item, and its call takes the items themselves.

    A fetch of an operator's .toml file brings whatever there is, and may not know its
    key: `bound_to` returns the fetch that knows both, which is the fetch to bring an
    index's keys with.
    """

    name: str
    # Columns of a record whose values make a key; () if `bound_to` must say so
    key: Columns
    # Columns that the fetch brings; () for any, until `bound_to` says so
    columns: Columns
    # Takes keys, and the seconds that the most hurried request has left. Returns for
    # each key, in order, a mapping of columns to values, a list of values in the order
    # of `columns`, None if there is nothing, or a FetchFailed if it failed for the key.
    call: Call
    at_most_s: float = 1.0  # Seconds after which a call counts as one that never ends
    keep_s: float = 0.0  # Seconds for which values may be used again
    batch: int = 128  # Most keys in one call
    at_once: int = 64  # Most calls at the same time
    close: Close | None = None  # Closes connections; a later call opens them again
    # Opens a connection, if there is none; None if only a call can
    open: Close | None = field(default=None, kw_only=True)
    # Returns a fetch with connections of its own, for a key and columns; raises
    # BadFetch. None if the call is a function of the user's.
    connect: Callable[[Columns, Columns], "Fetch"] | None = None
    # All columns of the user's function, in the order of its lists of values
    order: Columns = field(default=(), kw_only=True)
    # Share of calls that a server may send a second time if they take long. A repeated
    # call must be safe: it must neither change anything nor cost anything.
    hedge: float = field(default=0.0, kw_only=True)
    # Kind of the items, and the numbers that it brings for a text or an image
    kind: Kind = field(default="record", kw_only=True)
    width: int = field(default=0, kw_only=True)

    def __post_init__(self) -> None:
        """Raise BadFetch if a term is out of its range."""
        _check_names(self, "key", self.key)
        _check_names(self, "columns", self.columns)
        if self.kind not in KINDS:
            raise BadFetch(
                f"fetch {self.name!r} has kind={self.kind!r}; {listed(KINDS)} is needed"
            )
        if self.kind != "record":
            self._check_vector()
        elif self.width:
            raise BadFetch(
                f"fetch {self.name!r} has a width; that is for texts and images, with "
                'kind="text" or kind="image"'
            )
        both = [name for name in self.columns if name in self.key]
        if both:
            raise BadFetch(
                f"fetch {self.name!r} brings {both[0]!r}, which is a part of its key"
            )
        for term, value in (
            ("at_most_ms", self.at_most_s * 1e3),
            ("keep_s", self.keep_s),
            ("batch", self.batch),
            ("at_once", self.at_once),
            ("hedge", self.hedge),
        ):
            least, most = RANGES[term]
            if not least <= value <= most or value == math.inf:
                needed = f"{least:g} or more" + (
                    "" if most == math.inf else f", and at most {most:g},"
                )
                raise BadFetch(
                    f"fetch {self.name!r}: {term} is {value:g}; {needed} is needed"
                )

    def _check_vector(self) -> None:
        if self.key or self.columns:
            raise BadFetch(
                f"fetch {self.name!r} is for {self.kind} items, so it has no key and "
                "no columns: it brings a vector for the item itself"
            )
        is_whole = isinstance(self.width, int) and self.width is not True
        if not (is_whole and 1 <= self.width <= MOST_COLUMNS):
            raise BadFetch(
                f"fetch {self.name!r}: width is {self.width!r}; a whole number from 1 "
                f"to {MOST_COLUMNS} is needed"
            )

    def bound_to_items(self, kind: Kind, width: int | None = None) -> "Fetch":
        """Return this fetch, if it brings a vector of `width` numbers for such items.

        `width` is None for any. Raises BadFetch if the fetch is for another kind of
        items, or of another width.
        """
        if self.kind != kind:
            raise BadFetch(
                f"fetch {self.name!r} is for {self.kind} items; one for {kind} items "
                f'is needed: @fetch(kind="{kind}", width=...)'
            )
        if width not in (None, self.width):
            raise BadFetch(
                f"fetch {self.name!r} brings {self.width} numbers; {width} are needed"
            )
        return self

    def bound_to(self, key: Sequence[str], columns: Sequence[str]) -> "Fetch":
        """Return this fetch for an index's key columns and wanted columns.

        `bring` of the result brings exactly `columns`. Raises BadFetch if the fetch has
        another key, lacks a column, or is for texts or images.
        """
        if self.kind != "record":
            raise BadFetch(
                f"fetch {self.name!r} is for {self.kind} items; one for records is "
                "needed, with a key and columns"
            )
        if self.connect is not None:
            return self.connect(tuple(key), tuple(columns))
        if self.key != tuple(key):
            raise BadFetch(
                f"fetch {self.name!r} has the key {', '.join(self.key)}; the key "
                f"{', '.join(key)} is needed, in this order"
            )
        for name in columns:
            if name not in self.columns:
                raise BadFetch(
                    f"fetch {self.name!r} does not bring {name!r}; it brings "
                    f"{listed(self.columns)}"
                )
        return replace(self, columns=tuple(columns))

    async def bring(self, keys: Sequence[Key], left_s: float) -> list[Brought]:
        """Call for keys; return for each the values by column, or None for nothing.

        Keys that are equal are sent alike: 17.0 as 17. A value is a finite number, a
        text of at most 64 KiB, a boolean or None. A column that the call did not bring
        is None, as is NaN. For a key whose answer is not of that form, the list has a
        FetchFailed with a sentence: the other keys of the call have their values. A
        fetch of texts or images brings the vector by the name of the fetch.

        The call is not limited in time here. Raises FetchFailed, with a sentence, if
        the call raises an error, or does not return a list with an answer for each key.
        """
        vectors = self.kind != "record"
        keys = [k if FLOATS.isdisjoint(map(type, k)) else _whole(k) for k in keys]
        try:
            asked = [key[0] for key in keys] if vectors else keys
            answers = await self.call(asked, left_s)
        except FetchFailed:
            raise
        except Exception as error:  # the user's function may raise anything
            raise FetchFailed(
                f"fetch {self.name!r} raised {type(error).__name__}: {error}"
            ) from error
        if vectors:
            return read_vectors(self.name, answers, len(keys), self.width)
        order = self.order or self.columns
        return read_answers(self.name, answers, len(keys), self.columns, order)


@dataclass(frozen=True, eq=False)
class ItemFetch(FetchedStep):
    """A fetch of texts or images: the step whose result is the vector that it brings.

    Features may need it. `fetch` is the call.
    """

    fetch: Fetch = field(kw_only=True)


class Terms(TypedDict, total=False):
    """Keyword arguments of `fetch` that do not depend on the kind of items."""

    name: str | None
    at_most_ms: float
    keep_s: float
    batch: int
    at_once: int
    hedge: float
    close: Close | None


@overload
def fetch(
    *, key: Sequence[str], columns: Sequence[str], **terms: Unpack[Terms]
) -> Callable[[Call], Fetch]: ...
@overload
def fetch(
    *, kind: Literal["text", "image"], width: int, **terms: Unpack[Terms]
) -> Callable[[Call], ItemFetch]: ...
def fetch(
    *,
    key: Sequence[str] = (),
    columns: Sequence[str] = (),
    kind: Kind = "record",
    width: int = 0,
    name: str | None = None,
    at_most_ms: float = 1000.0,
    keep_s: float = 0.0,
    batch: int = 128,
    at_once: int = 64,
    hedge: float = 0.0,
    close: Close | None = None,
) -> Callable[[Call], Fetch] | Callable[[Call], ItemFetch]:
    """Make a fetch of an asynchronous function; use it as a decorator.

    The function takes a list of keys, each a tuple of values, and the seconds that the
    most hurried request has left. It returns a list with an answer for each key, in
    order: a mapping of columns to values, a list of values in the order of `columns`,
    None if there is nothing, or a FetchFailed if it failed for this key alone.

    With a `kind`, it takes a list of texts or of encoded images instead, and returns a
    vector of `width` numbers for each, or an array (items, width). A vector that is
    None has not come. The result is a step, which features may need.

    Parameters
    ----------
    key
        Of records: columns whose values make a key, in order.
    columns
        Of records: columns that the function brings.
    kind
        Kind of the items, for texts and images, instead of a key and columns.
    width
        Of texts and images: numbers in the vector that the function brings for each.
    name
        Name of the fetch; None for the function's name.
    at_most_ms
        Milliseconds after which a call counts as one that never ends.
    keep_s
        Seconds for which values may be used again for the same key.
    batch
        Most keys in one call.
    at_once
        Most calls at the same time.
    hedge
        Share of calls, at most 0.5, that a server may send a second time if they take
        longer than the others; the first answer counts. Only for calls that are safe
        to repeat: a call that writes or costs must not be hedged. Fetches with a price
        never are.
    close
        Asynchronous function without arguments that closes connections.

    Raises
    ------
    BadFetch
        If the function is not an ``async def`` of two arguments, or a term is out of
        its range.

    Examples
    --------
    >>> @fetch(key=["customer_id"], columns=["n_orders"])
    ... async def orders(keys, left_s):
    ...     return [{"n_orders": 3} for key in keys]
    >>> orders.name, orders.columns
    ('orders', ('n_orders',))

    >>> @fetch(kind="text", width=2)
    ... async def embedding(texts, left_s):
    ...     return [[len(text), text.count(" ")] for text in texts]
    >>> embedding.width
    2
    """

    def decorate(function: Call) -> Any:
        known = name or getattr(function, "__name__", None)
        if not isinstance(known, str):
            raise BadFetch(f"{function!r} has no name of its own; give one with name=")
        _check_function(known, function)
        if kind == "record" and not (width or (key and columns)):
            raise BadFetch(f"fetch {known!r} has no {'columns' if key else 'key'}")
        made = Fetch(
            known,
            _as_names(known, "key", key),
            _as_names(known, "columns", columns),
            function,
            at_most_s=at_most_ms / 1e3,
            keep_s=keep_s,
            batch=batch,
            at_once=at_once,
            hedge=hedge,
            close=close,
            order=_as_names(known, "columns", columns),
            kind=kind,
            width=width,
        )
        if kind == "record":
            return made
        step = fetched_step(known, kind, width)
        return ItemFetch(**vars(step), fetch=made)

    return decorate


def fetched_step(name: str, kind: Kind, width: int) -> FetchedStep:
    """Return the step whose result is the vector that a fetch brings for an item."""
    version = f"fetch {name} of {width}"  # so that fingerprints differ
    return FetchedStep(name, kind, (), _arrived, version=version, width=width)


def fetched_feature(
    name: str, kind: Kind, width: int, projection: Projection | None = None
) -> Feature:
    """Return the feature of a fetch's name, which has the numbers of its vector.

    If there is a `projection`, it reduces the vector.
    """
    step = fetched_step(name, kind, width)
    return Feature(name, kind, (step,), projection or _as_it_is)


def _arrived(vector: Any) -> Any:
    """Return a copy of a vector that a fetch has brought; raise BadItem if it has not.

    A feature that changes it must not change what a server keeps for other requests.
    """
    if not isinstance(vector, np.ndarray):
        raise BadItem("a fetch has brought no vector for it")
    return vector.copy()


def _as_it_is(vector: Any) -> Any:
    return vector


def _whole(key: Key) -> Key:
    """Return a key with whole numbers as int: a column with gaps has them as float."""
    return tuple(
        int(value)
        if isinstance(value, float) and value.is_integer() and abs(value) < WHOLE
        else value
        for value in key
    )


def _check_function(name: str, function: Any) -> None:
    called = function if inspect.isroutine(function) else type(function).__call__
    if not any(map(inspect.iscoroutinefunction, (function, called))):
        raise BadFetch(
            f"fetch {name!r} is no asynchronous function; begin it with `async def`"
        )
    try:
        inspect.signature(function).bind((), 0.0)
    except TypeError as error:
        raise BadFetch(
            f"fetch {name!r} will receive 2 arguments, keys and left_s: {error}"
        ) from error


def _as_names(name: str, term: str, given: Sequence[str]) -> Columns:
    if isinstance(given, str):
        raise BadFetch(f"fetch {name!r} has {term}={given!r}; a list is needed")
    return tuple(given)


def _check_names(fetch: Fetch, term: str, names: Columns) -> None:
    wrong = [name for name in names if not isinstance(name, str) or not name]
    if wrong:
        raise BadFetch(
            f"fetch {fetch.name!r}: {term} has {wrong[0]!r}; names of columns are "
            "needed"
        )
    if len({*names}) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadFetch(f"fetch {fetch.name!r}: {term} has {twice!r} twice")
    if len(names) > MOST_COLUMNS:
        raise BadFetch(
            f"fetch {fetch.name!r}: {term} has {len(names)} columns; at most "
            f"{MOST_COLUMNS} are allowed"
        )
