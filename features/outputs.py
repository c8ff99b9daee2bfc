"""Checks a path before a command writes to it, so that no other file is lost."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from .errors import BadInput
from .file_kinds import noun_of

HEAD_BYTES = 64 << 10  # bytes at the beginning, which tell what a file holds
SHOWN = 40  # characters of a text in a message


def refuse_output(
    path: Path,
    what: str,
    is_own: Callable[[Path], bool],
    *,
    read: Iterable[Path] = (),
    example: str,
    option: str = "",
) -> None:
    """Raise BadInput if a command must not write to a path, or cannot.

    An existing file may be replaced only if it is empty or `is_own(path)` is True, and
    if it is none of the files `read`, which the command reads. Messages contain `what`,
    the file to write as a noun with its article (`an index`); `example`, a name for
    such a file; and `option`, the option that gave the path.
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
    """Raise BadInput if the folder of `path` does not exist, or is not writable."""
    named = f"{option} {path}".lstrip()
    if not path.parent.is_dir():
        raise BadInput(f"{named}: there is no folder {path.parent}")
    if not os.access(path.parent, os.W_OK):
        raise BadInput(f"{named}: nothing may be written to {path.parent}")


def _is_system(folder: Path) -> bool:
    return folder == Path("/dev") or folder.is_relative_to("/proc")


def head_of(path: Path) -> bytes:
    """Return the first `HEAD_BYTES` of a file; b"" if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def describe_file(path: Path) -> str:
    """Describe a file by its first bytes, for a message."""
    head = head_of(path)
    if noun := noun_of(head):
        return noun
    text = head[: 4 * SHOWN].decode("utf-8-sig", "ignore")
    line = next(iter(text.splitlines()), "")[:SHOWN]
    if line and line.isprintable():
        return f"a text that begins {line!r}"
    return "something else"
