"""Keys that an object in JSON or msgpack has twice; decoders take the last silently."""

import json
from typing import Any, NamedTuple

import msgpack

from ..features.errors import BadInput, BadItem


class Twice(NamedTuple):
    """A key that the outermost object has twice, and one that another has."""

    outside: str | None = None
    inside: str | None = None

    @property
    def any(self) -> str | None:
        """Such a key of any object."""
        return self.outside or self.inside


class _Pairs:
    """Sees every object of a document, the outermost as the last."""

    def __init__(self) -> None:
        self.twice = Twice()

    def __call__(self, pairs: list[tuple[Any, Any]]) -> None:
        self.twice = Twice(key_twice(pairs), self.twice.any)


def key_twice(pairs: list[tuple[Any, Any]]) -> str | None:
    """Return the first key that comes again, None where each comes once."""
    seen = set()
    for key, _ in pairs:
        if key in seen:
            return str(key)
        seen.add(key)
    return None


def twice_in_json(document: bytes) -> Twice:
    """Find keys given twice in JSON that has been decoded without an error.

    Raises
    ------
    BadInput
        If it is nested more deeply than can be looked at.
    """
    pairs = _Pairs()
    try:
        json.loads(
            document.decode(),
            object_pairs_hook=pairs,
            parse_int=str,  # which has no limit
            parse_float=str,
        )
    except (ValueError, RecursionError) as error:
        raise BadInput("the JSON is nested too deeply, or is none") from error
    return pairs.twice


def twice_in_msgpack(document: bytes) -> Twice:
    """Find keys given twice in msgpack that has been decoded without an error.

    Raises
    ------
    BadInput
        If it is nested more deeply than can be looked at.
    """
    pairs = _Pairs()
    try:
        msgpack.unpackb(document, object_pairs_hook=pairs, strict_map_key=False)
    except (msgpack.UnpackException, ValueError, TypeError, RecursionError) as error:
        raise BadInput("the msgpack is nested too deeply, or is none") from error
    return pairs.twice


def refuse_twice(where: str, twice: Twice) -> None:
    """Raise if a key was given twice.

    Raises
    ------
    BadInput
        If it is one of the outermost object, which `where` names.
    BadItem
        If it is one of an object in that: a record's column.
    """
    if twice.outside is not None:
        raise BadInput(f"{where}: {twice.outside[:80]!r} is given twice")
    if twice.inside is not None:
        raise twice_in_record(twice.inside)


def twice_in_record(name: str) -> BadItem:
    """Make the error for a column that a record or a row holds twice."""
    return BadItem(f"column {name[:80]!r} is given twice")
