"""Finds the items in a folder, in which each file is an item."""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..file_kinds import IMAGES, START, cure_for, format_of, is_text
from ..items import Kind

ENDINGS: Mapping[Kind, Sequence[str]] = {
    "image": (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".webp"),
    "text": (".txt", ".text", ".md"),
    "record": (".json",),
}
# Endings of text files that are tables and not items.
OF_TABLES = (".csv", ".tsv", ".jsonl", ".ndjson")
# Files and folders that programs leave in the user's folders.
OF_PROGRAMS = frozenset(
    {
        "__macosx",
        "__pycache__",
        "@eadir",
        "#recycle",
        "$recycle.bin",
        "desktop.ini",
        "ehthumbs.db",
        "icon\r",
        "lost+found",
        "system volume information",
        "thumbs.db",
    }
)
HIDDEN = "hidden, or a program's own"


class FoundFiles(NamedTuple):
    """The files of a folder that are items, and the reasons why other files are not."""

    files: list[Path]  # Paths of the items, sorted by name
    # Reason for each file that is no item, by its path in the folder. A hidden folder
    # has one entry.
    left_out: dict[str, str]
    # Names of the folders at the top, without hidden ones. They are the classes.
    folders: list[str]

    def reasons(self) -> list[tuple[str, str]]:
        """Return (file, reason) once for each reason why files are no items.

        The file is an example. The reason ends with the number of other files, if any,
        as in `empty (and 2 more)`.
        """
        examples: dict[str, list[str]] = {}
        for name, why in sorted(self.left_out.items()):
            examples.setdefault(why, []).append(name)
        return [
            (first, f"{why} (and {len(more):,} more)" if more else why)
            for why, (first, *more) in examples.items()
        ]

    def remarks(self) -> list[str]:
        """Return a sentence with an example for each reason why files are no items."""
        return [f"left out {name}: {why}" for name, why in self.reasons()]


def find_files(folder: Path, kind: Kind, *, encoded: bool = False) -> FoundFiles:
    """Find the items of a kind in a folder and in all folders below.

    Hidden files and folders are left out. Images are recognised by their content or the
    ending of their name, and records by the ending. A file is a text if its content is
    text and its ending names no table, record or image. If `encoded` is True, the
    encoding of texts is known, and files with an ending of texts, such as `.txt`, are
    accepted without a look at their content.
    """
    files: list[Path] = []
    left_out: dict[str, str] = {}
    folders: list[str] = []
    for path, is_folder, why in _entries(folder):
        name = path.relative_to(folder)
        if is_folder and why is None:
            folders += [readable(name)] if len(name.parts) == 1 else []
            continue
        why = why or _why_no_item(path, kind, encoded)
        if why is None:
            files.append(path)
        else:
            left_out[readable(name)] = why
    return FoundFiles(sorted(files), left_out, sorted(folders))


def _entries(folder: Path) -> Iterator[tuple[Path, bool, str | None]]:
    """Yield (path, is_folder, reason) for all files and folders below a folder.

    The reason says why an entry is left out, or is None. Links are followed, except to
    a folder that contains the link.
    """
    left: list[tuple[Path, tuple[tuple[int, int], ...]]]
    left = [(folder, (_identity(folder),))]
    while left:
        place, above = left.pop()
        try:
            entries = [*os.scandir(place)]
        except OSError as error:
            yield place, True, _unreadable(error)
            continue
        for entry in entries:
            path = place / entry.name
            is_folder = entry.is_dir()
            if is_hidden(entry.name):
                yield path, is_folder, HIDDEN
            elif not is_folder:
                yield path, False, None if entry.is_file() else _why_no_file(path)
            elif (own := _identity(path)) in above:
                yield path, True, "a link to a folder that it is in"
            else:
                left.append((path, (*above, own)))
                yield path, True, None


def _identity(folder: Path) -> tuple[int, int]:
    told = folder.stat()
    return told.st_dev, told.st_ino


def is_hidden(name: str) -> bool:
    """Return True for names that begin with a dot, and names of programs' own files."""
    return name.startswith(".") or name.casefold() in OF_PROGRAMS


def _why_no_file(path: Path) -> str:
    return "no file of bytes" if path.exists() else "a link to nothing"


def _unreadable(error: OSError) -> str:
    return f"unreadable ({error.strerror or error})"


def _why_no_item(path: Path, kind: Kind, encoded: bool) -> str | None:
    """Return why a file is no item of a kind; None if it is an item.

    A damaged image or record counts as an item here; its reader refuses it later.
    """
    is_usual = has_usual_ending(path, kind)
    if kind == "record" or (is_usual and (kind == "image" or encoded)):
        return None if is_usual else "no record"
    others = (*ENDINGS["image"], *ENDINGS["record"], *OF_TABLES)
    if kind == "text" and path.suffix.lower() in others:
        return "no text, as its ending says"
    try:
        with path.open("rb") as file:
            start = file.read(START if kind == "text" else 64)
    except OSError as error:
        return _unreadable(error)
    name = format_of(start)
    if kind == "image" and name not in IMAGES:
        return cure_for(name) or "no image"
    if kind == "text" and not is_text(start):
        return f"no text, but {name or 'bytes'}"
    if kind == "text" and not (start or is_usual):
        return "empty"
    return None


def has_usual_ending(path: Path, kind: Kind) -> bool:
    """Return True if a file's name ends as is usual for the kind, such as `.jpg`."""
    return path.suffix.lower() in ENDINGS[kind]


def readable(path: str | bytes | os.PathLike[str]) -> str:
    r"""Return a path as text, in which bytes that are not UTF-8 become escapes.

    On most systems, names of files can have any bytes.

    Examples
    --------
    >>> readable(os.fsdecode(b"caf\xe9.txt"))
    'caf\\xe9.txt'
    """
    return os.fsencode(path).decode("utf-8", "backslashreplace")
