"""One edit after the other of every array and every fact of an index file."""

import copy
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.support.edited_files.edits import Arrays, Meta

MISSING = object()
# What any fact is replaced by.
OTHERS: tuple[Any, ...] = (
    *(MISSING, None, True, "", "x", [], {}, [[]], {"x": 1}),
    *(-1, 0, 1, 0.5, 7, 2**63 - 1, -1e-9, 1e308, float("nan"), float("inf")),
)
ENDS = 2  # elements of a long list that are edited: the first and the last
Path = tuple[str | int, ...]


class Edit(NamedTuple):
    """What was changed, in words, and what makes the file's content then."""

    where: str
    what: str
    content: Callable[[], tuple[Meta, Arrays]]


def edits_of(meta: Meta, arrays: Arrays) -> Iterator[Edit]:
    """Edit one thing of a file after the other."""
    for name, array in arrays.items():
        for what, changed in edits_of_array(array):
            if changed is not None and _same(changed, array):
                continue
            yield Edit(name, what, partial(_with_array, meta, arrays, name, changed))
    for path, value in paths_in(meta):
        for what, other in edits_of_fact(value):
            content = partial(_with_fact, meta, arrays, path, other)
            yield Edit(".".join(map(str, path)), what, content)


def _with_array(
    meta: Meta, arrays: Arrays, name: str, changed: NDArray[Any] | None
) -> tuple[Meta, Arrays]:
    """Put another array in the place of one, or none."""
    if changed is None:
        return meta, {k: v for k, v in arrays.items() if k != name}
    return meta, {k: changed if k == name else v for k, v in arrays.items()}


def _with_fact(
    meta: Meta, arrays: Arrays, path: Path, other: Any
) -> tuple[Meta, Arrays]:
    """Put something else in the place of a fact, or nothing."""
    changed = copy.deepcopy(meta)
    inside: Any = changed
    for key in path[:-1]:
        inside = inside[key]
    if other is MISSING:
        del inside[path[-1]]
    else:
        inside[path[-1]] = other
    return changed, arrays


def edits_of_array(array: NDArray[Any]) -> Iterator[tuple[str, NDArray[Any] | None]]:
    """Yield what an array may be instead, None where it lacks; each with its name."""
    yield "missing", None
    yield "an axis more", array[np.newaxis]
    with np.errstate(over="ignore"):
        yield "other", array.astype("<f4" if array.dtype == np.float64 else "<f8")
    if array.ndim and len(array):
        yield "emptied", array[:0].copy()
        yield "shorter", array[:-1].copy()
        yield "longer", np.concatenate([array, array[-1:]])
        yield "all as the first", np.repeat(array[:1], len(array), axis=0)
        yield "reversed", array[::-1].copy()
    if not array.size:
        yield "one", np.ones((1,) * max(array.ndim, 1), array.dtype)
        return
    yield "zeros", np.zeros_like(array)
    numbers: list[float] = [-1, 0, 1, 2]
    if array.dtype.kind == "f":
        numbers += [0.5, np.nan, np.inf, -np.inf, 1e-300, 1e300, -1e300]
    for place in {0, array.size - 1}:
        for number in numbers:
            if array.dtype.kind == "u" and number < 0:
                number = np.iinfo(array.dtype).max
            changed = array.copy()
            with np.errstate(over="ignore", under="ignore"):
                changed.reshape(-1)[place] = number
            yield f"[{place}] = {number:g}", changed
    if array.dtype.kind == "f":
        yield "negative", -array
        with np.errstate(over="ignore"):
            thrice = 3 * array
        yield "thrice", thrice


def paths_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield where the facts in plain data are, and each of them."""
    if path:
        yield path, value
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from paths_in(inner, (*path, key))
    elif isinstance(value, list):
        for place in sorted({*range(len(value))[:1], *range(len(value))[-1:]}):
            yield from paths_in(value[place], (*path, place))


def edits_of_fact(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a fact may be instead; each with its name."""
    for other in OTHERS:
        if other is MISSING or repr(other) != repr(value):
            yield "missing" if other is MISSING else repr(other), other
    if isinstance(value, list) and value:
        yield "twice", [*value, *value]
        yield "shorter", value[:-1]
        if value[::-1] != value:
            yield "reversed", value[::-1]
    if isinstance(value, float | int) and not isinstance(value, bool):
        if value:
            yield "its negative", -value
        yield "as text", str(value)
        if value:
            yield "thrice", 3 * value


def _same(one: NDArray[Any], other: NDArray[Any]) -> bool:
    return one.dtype == other.dtype and np.array_equal(one, other)
