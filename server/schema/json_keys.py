"""Keys that an object in JSON or msgpack has twice; decoders take the last silently."""

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import msgpack
import numpy as np
from msgspec import Raw

from polydom.features.errors import BadInput, BadItem


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
        seen, again = set(), None
        for key, _ in pairs:
            if key in seen and again is None:
                again = str(key)
            seen.add(key)
        self.twice = Twice(again, self.twice.any)


def twice_in_json(document: bytes, *, packed: bool = False) -> Twice:
    """Find keys given twice in what has been decoded without an error.

    It is JSON, or msgpack where it is `packed`; BadInput is raised where it is nested
    more deeply than can be looked at.
    """
    pairs = _Pairs()
    try:
        if packed:
            msgpack.unpackb(document, object_pairs_hook=pairs, strict_map_key=False)
        else:
            json.loads(
                document.decode(),
                object_pairs_hook=pairs,
                parse_int=str,  # which has no limit
                parse_float=str,
            )
    except (msgpack.UnpackException, ValueError, TypeError, RecursionError) as error:
        kind = "msgpack" if packed else "JSON"
        raise BadInput(f"the {kind} is nested too deeply, or is none") from error
    return pairs.twice


def outside(document: bytes, parts: Iterable[Raw]) -> bytes:
    """Return a document in JSON with a 0 in the place of each of these parts of it.

    The parts are those that a decoder left as they were in this very document, in the
    order in which they come.
    """
    pieces, end = [], 0
    for part in parts:
        start = _address(part) - _address(document)
        pieces += [document[end:start], b"0"]
        end = start + len(bytes(part))
    return b"".join([*pieces, document[end:]])


def _address(data: bytes | Raw) -> int:
    """Where bytes lie in memory; a decoder leaves parts in their document's."""
    address: int = np.frombuffer(data, np.uint8).ctypes.data
    return address


def refuse_twice(where: str, twice: Twice) -> None:
    """Raise if a key was given twice: BadInput for one of the outermost object.

    That is what `where` names. An object in it is a record, its key a column: BadItem.
    """
    if twice.outside is not None:
        raise BadInput(f"{where}: {twice.outside[:80]!r} is given twice")
    if twice.inside is not None:
        raise twice_in_record(twice.inside)


def twice_in_record(name: str) -> BadItem:
    """Make the error for a column that a record or a row holds twice."""
    return BadItem(f"column {name[:80]!r} is given twice")
