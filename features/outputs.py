"""Files that a command is to write: what may not stand where they go."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from .errors import BadInput

HEAD_BYTES = 64 << 10  # by which it is told what a file holds
SHOWN = 40  # characters of a text
# How files begin that people have beside an index, and what these are.
BEGINNINGS = {
    b"\x89PDX\r\n\x1a\n": "an index",
    b"PAR1": "a Parquet file",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive",
    b"SQLite format 3": "an SQLite database",
    b"\x1f\x8b": "a gzip archive",
}


def refuse_output(
    path: Path,
    what: str,
    is_own: Callable[[Path], bool],
    *,
    read: Iterable[Path] = (),
    example: str,
    option: str = "",
) -> None:
    """Refuse a file to be that cannot be written, or would replace what is not ours.

    Parameters
    ----------
    what
        The file is to be, with its article: `an index`.
    is_own
        Whether a file that is there is such a one, which may be replaced.
    read
        Files that are read for it, which may not.
    example
        A name for such a file, told where a folder is named.
    option
        By which it is named, for the message.

    Raises
    ------
    BadInput
        If it is in no folder that may be written to, is a folder, a pipe, a device or
        a link to nothing, or holds something else; an empty file holds nothing.
    """
    named = f"{option} {path}".lstrip()
    if path.is_dir():
        raise BadInput(f"{named}: this is a folder; name a file: {path / example}")
    refuse_place(path, option)
    if path.is_symlink() and not path.exists():
        raise BadInput(
            f"{named}: this is a link to {os.readlink(path)}, which is not there; "
            "remove it, or name another file"
        )
    if not path.exists():
        return
    if not path.is_file() or _is_system(path.parent.resolve()):
        raise BadInput(f"{named}: this is a pipe or a device; name a file")
    for one in read:
        if one.exists() and path.samefile(one):
            raise BadInput(f"{named}: this file is read here; name another")
    if path.stat().st_size and not is_own(path):
        raise BadInput(
            f"{named} is not replaced by {what}, as it is {describe_file(path)}; name "
            f"another file, such as {example}, or remove it"
        )


def refuse_place(path: Path, option: str = "") -> None:
    """Refuse a file to be that is in no folder that may be written to, with BadInput.

    `option` is as for `refuse_output`.
    """
    named = f"{option} {path}".lstrip()
    if not path.parent.is_dir():
        raise BadInput(f"{named}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"{named}: nothing may be written to {path.parent}")


def _is_system(folder: Path) -> bool:
    """Whether what is in a folder is the system's, as /dev/stdout is."""
    return folder == Path("/dev") or folder.is_relative_to("/proc")


def head_of(path: Path) -> bytes:
    """Read the beginning of a file; nothing where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def describe_file(path: Path) -> str:
    """Say what a file is, by how it begins."""
    head = head_of(path)
    for beginning, what in BEGINNINGS.items():
        if head.startswith(beginning):
            return what
    text = head[: 4 * SHOWN].decode("utf-8-sig", "ignore")
    line = next(iter(text.splitlines()), "")[:SHOWN]
    if line and line.isprintable():
        return f"a text that begins {line!r}"
    return "something else"
