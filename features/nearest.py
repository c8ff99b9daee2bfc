"""Names that may be meant by one that is unknown."""

import difflib
from collections.abc import Iterable, Sequence

LISTED = 20  # names in a message


def nearest(name: str, known: Iterable[str], cutoff: float = 0.5) -> str | None:
    """Find the known name that is most alike, None where none is.

    Capitals, underscores, hyphens and spaces do not count.
    """
    plain = {_plain(one): one for one in reversed([*known])}
    close = difflib.get_close_matches(_plain(name[:80]), plain, n=1, cutoff=cutoff)
    return plain[close[0]] if close else None


def hint(name: str, known: Sequence[str], cutoff: float = 0.5) -> str:
    """Say which known name is meant, or which there are."""
    near = nearest(name, known, cutoff)
    return f"did you mean {near!r}?" if near else f"there are {listed(known)}"


def listed(names: Sequence[str]) -> str:
    """Write out names, or the first of many."""
    if not names:
        return "none"
    more = len(names) - LISTED
    shown = ", ".join(name[:80] for name in names[:LISTED])
    return f"{shown} and {more} more" if more > 0 else shown


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold()))
