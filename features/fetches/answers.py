"""Checks what a fetch's call returned, and makes mappings of columns to values of it.

An answer that cannot be used fails for its key alone: keys of several requests share a
call, and one stored value must not take the columns of the others away.

The checks run for every key of every call, so they look at one value at a time only
where a look at all types of a key's values does not do.
"""

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import FetchFailed
from ..items import MAPPINGS, NEEDED, VALUE_TYPES, Value, plain_value
from ..wording import hint

LONGEST = 64 << 10  # bytes of a text in UTF-8
SHORT = LONGEST // 4  # characters that have no more than `LONGEST` bytes
LARGEST = sys.float_info.max  # of a number
Vector = NDArray[np.float32]
# A `Value` for each column of a record, or an item's `Vector` by the fetch's name
Values = Mapping[str, Any]
# What a key brings: values, None for nothing, or why its answer cannot be used.
Brought = Values | None | FetchFailed

# lists first, as to recognise another sequence takes longer
LISTS = (list, Sequence)
# Types of values that need no look at the value itself.
_SAFE = frozenset({bool, type(None)})


def read_answers(
    name: str,
    answers: Any,
    count: int,
    columns: Sequence[str],
    order: Sequence[str],
) -> list[Brought]:
    """Return a mapping for each of `count` keys, or None where there is nothing.

    For a key whose answer cannot be used, the list has a FetchFailed: the answer has
    another form, an unknown column, or a value that no record may hold. NaN and columns
    that a mapping lacks become None.

    Parameters
    ----------
    name
        Name of the fetch, for messages.
    answers
        Result of the fetch's call: one mapping, list of values, None or FetchFailed
        for each key.
    columns
        Columns to keep; () for all.
    order
        All columns that the call may bring, in the order of a list of values; () for
        any, which must come as mappings; columns whose values no record may hold are
        left out then.

    Raises
    ------
    FetchFailed
        If there is no list of answers, or their number is wrong.
    """
    _check_count(name, answers, count, "key")
    known = frozenset(order)
    cut = columns if tuple(columns) != tuple(order) else ()
    return _each(answers, lambda one: _values(name, one, cut, order, known))


def read_vectors(name: str, answers: Any, count: int, width: int) -> list[Brought]:
    """Return a mapping from the fetch's name to a vector, for each of `count` items.

    `answers` is the result of the fetch's call: `width` finite numbers for each item,
    None or a FetchFailed. An array (count, width) will do. For an item whose answer
    cannot be used, the list has a FetchFailed, and None where there is nothing. Raises
    FetchFailed if there is no list of answers, or their number is wrong.
    """
    if not isinstance(answers, np.ndarray):
        _check_count(name, answers, count, "item")
    elif answers.ndim != 2 or len(answers) != count:
        raise FetchFailed(
            f"fetch {name!r} returned an array of shape {answers.shape} to {count} "
            f"items; ({count}, {width}) is needed"
        )
    return _each(answers, lambda one: {name: _vector(name, one, width)})


def _each(answers: Iterable[Any], read: Callable[[Any], Values]) -> list[Brought]:
    """Return what `read` makes of each answer, or the FetchFailed that it raises."""
    found: list[Brought] = []
    for answer in answers:
        if answer is None or isinstance(answer, FetchFailed):
            found.append(answer)
            continue
        try:
            found.append(read(answer))
        except FetchFailed as error:
            found.append(error)
    return found


def _vector(name: str, answer: Any, width: int) -> Vector:
    """Return an answer as a vector (width,) of its own; raise FetchFailed if it cannot.

    A view would keep the answers of all items of a call alive.
    """
    try:
        given = np.asarray(answer)
        if given.dtype.kind not in "iuf":
            raise ValueError(f"an array of {given.dtype}")
        with np.errstate(over="ignore"):
            vector = np.array(given, np.float32)
    except (ValueError, TypeError) as error:
        raise FetchFailed(
            f"fetch {name!r} returned {type(answer).__name__} for an item; {width} "
            "numbers or None are needed"
        ) from error
    if vector.shape != (width,):
        raise FetchFailed(
            f"fetch {name!r} returned numbers of shape {vector.shape} for an item; "
            f"({width},) is needed"
        )
    if not np.isfinite(vector).all():
        place = int(np.flatnonzero(~np.isfinite(vector))[0])
        raise FetchFailed(
            f"fetch {name!r} returned {vector[place]} as number {place} for an item; "
            "finite numbers are needed"
        )
    return vector


def _check_count(name: str, answers: object, count: int, asked: str) -> None:
    if not isinstance(answers, LISTS) or isinstance(answers, str | bytes):
        came = type(answers).__name__
        raise FetchFailed(f"fetch {name!r} returned {came}; a list is needed")
    if len(answers) != count:
        raise FetchFailed(
            f"fetch {name!r} returned {len(answers)} answers to {count} {asked}s; one "
            f"for each {asked} is needed, in order, and None where there is nothing"
        )


def _values(
    name: str,
    answer: Any,
    cut: Sequence[str],
    order: Sequence[str],
    known: frozenset[str],
) -> Values:
    """Return the values of one key: of the columns `cut`, or of all if that is ().

    Raises FetchFailed if they cannot be used.
    """
    values = _mapping(name, answer, order, known)
    if cut:
        values = {column: values.get(column) for column in cut}
    elif len(values) < len(known):
        values = {column: values.get(column) for column in order}
    if not _SAFE.issuperset(map(type, values.values())):
        if not order:
            values = {c: v for c, v in values.items() if _is_usable(v)}
        check_values(name, values)
    return values


def _mapping(
    name: str, answer: Any, order: Sequence[str], known: frozenset[str]
) -> dict[str, Any]:
    """Return a new dictionary of the columns of one key."""
    if type(answer) is not list and isinstance(answer, MAPPINGS):
        if known and not known.issuperset(answer):
            column = next(column for column in answer if column not in known)
            raise FetchFailed(
                f"fetch {name!r} brought a column {column!r}; "
                f"{hint(str(column), list(order))}"
            )
        return dict(answer)
    if not isinstance(answer, LISTS) or isinstance(answer, str | bytes):
        raise FetchFailed(
            f"fetch {name!r} returned {type(answer).__name__} for a key; a mapping of "
            "columns to values, a list of values or None is needed"
        )
    if len(answer) != len(order):
        raise FetchFailed(
            f"fetch {name!r} returned a list of {len(answer)} values for a key; "
            f"{len(order)} are needed: {', '.join(order)}"
        )
    return dict(zip(order, answer, strict=True))


def check_values(name: str, values: dict[str, Any]) -> None:
    """Replace NaN by None, and NumPy's numbers and dates as a record does.

    Raises FetchFailed for a value that a record may not hold.
    """
    for column, value in values.items():
        kind = type(value)
        if kind is float or kind is int:
            if -LARGEST <= value <= LARGEST:
                continue
        elif kind is str:
            if len(value) <= SHORT:
                continue
        elif kind in _SAFE:
            continue
        values[column] = _usable(f"fetch {name!r}: column {column!r}", value)


def _is_usable(value: Any) -> bool:
    try:
        _usable("", value)
    except FetchFailed:
        return False
    return True


def _usable(where: str, value: Any) -> Value:
    """Return a value as a record holds it; `where` begins the message of an error."""
    plain = plain_value(value)
    if type(plain) not in VALUE_TYPES:
        raise FetchFailed(f"{where} holds a {type(value).__name__}; {NEEDED}")
    if plain is None or plain != plain:
        return None
    if isinstance(plain, str):
        size = len(plain.encode("utf-8", "surrogatepass"))
        if size > LONGEST:
            raise FetchFailed(
                f"{where} holds a text of {size:,} bytes; at most {LONGEST:,} are "
                "allowed"
            )
    elif not -LARGEST <= plain <= LARGEST:
        raise FetchFailed(
            f"{where} holds {_shown(plain)}; a finite number is needed, or None where "
            "there is none"
        )
    return plain  # type: ignore[no-any-return]


def _shown(number: float) -> str:
    # Python refuses to write integers of more than some thousands of digits
    return f"{number}" if isinstance(number, float) else "a whole number beyond 1e308"
