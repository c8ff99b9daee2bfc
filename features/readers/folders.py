"""Folders of files, each of which is an item."""

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
