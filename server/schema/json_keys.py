"""Keys that an object in JSON or msgpack has twice; decoders take the last silently."""

import json
from typing import Any, NamedTuple

import msgpack
import msgspec

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


def decode_record(data: str | bytes) -> Any:
    """Read a record that came as JSON alone.

    Raises
    ------
    msgspec.DecodeError, UnicodeDecodeError, RecursionError
        If it is no JSON.
    BadItem
        If it has a column twice.
    """
    record = msgspec.json.decode(data)
    document = data.encode() if isinstance(data, str) else data
    if isinstance(record, dict) and document.count(b":") > len(record):
        refuse_twice("record", Twice(None, twice_in_json(document).any))
    return record


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
