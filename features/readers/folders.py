"""Folders of files, each of which is an item."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ..items import Kind

ENDINGS: Mapping[Kind, Sequence[str]] = {
    "image": (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"),
    "text": (".txt", ".text", ".md"),
    "record": (".json",),
}


def files_of(folder: Path, kind: Kind) -> list[Path]:
    """Find the files of a kind in a folder and all below it, sorted by name."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.suffix.lower() in ENDINGS[kind] and path.is_file()
    )


def readable(path: str | bytes | os.PathLike[str]) -> str:
    r"""Write out a path, or part of one, where no bytes but UTF-8 can go.

    Names of files can have any on most systems. Those that are no UTF-8 become escapes.

    Examples
    --------
    >>> readable(os.fsdecode(b"caf\xe9.txt"))
    'caf\\xe9.txt'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")
