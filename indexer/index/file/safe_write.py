"""Writing of files, completely or not at all, and errors with the file's path."""

import contextlib
import errno
import glob
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex
from typing import IO

from polydom.features.errors import CannotWrite

# Age from which a temporary file is abandoned. Clocks of machines differ by less.
ABANDONED_S = 24 * 3600.0


@contextlib.contextmanager
def replace_when_done(path: Path, *, durable: bool = True) -> Iterator[IO[bytes]]:
    """Open a temporary file that replaces `path` if the `with` block raises no error.

    If several processes write the same path, the last process to end wins. With
    `durable`, the file is on the disk when the block ends. Without `durable`, a
    power failure may empty the file, so the program must be able to make it again.
    """
    temporary = path.with_name(f".{path.name}.{token_hex(8)}.tmp")
    with naming(path):
        try:
            with temporary.open("wb") as file:
                yield file
                if durable:
                    file.flush()
                    os.fsync(file.fileno())
            temporary.replace(path)
        finally:
            temporary.unlink(missing_ok=True)
    if durable and os.name == "posix":
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def sweep_unfinished(place: Path) -> None:
    """Remove old temporary files that killed processes left behind.

    If `place` is a folder, they are removed from it and its subfolders; if it is a
    file, only its own temporary files are removed. Their names are `.NAME.RANDOM.tmp`.
    Files less than a day old remain.
    """
    if place.is_dir():
        found = place.rglob(".*.tmp")
    else:
        found = place.parent.glob(f".{glob.escape(place.name)}.*.tmp")
    for left in found:
        with contextlib.suppress(OSError):  # it is gone, or not ours to remove
            if time.time() - left.lstat().st_mtime > ABANDONED_S:
                shutil.rmtree(left) if left.is_dir() else left.unlink()


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn an OSError in a `with` block into `CannotWrite` with the path."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        raise cannot_write(path, error) from error


def cannot_write(path: Path, error: OSError) -> CannotWrite:
    """Return an error with the path, the reason and, if the disk is full, advice."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    cure = "; make room there, or write to another disk" if full else ""
    return CannotWrite(f"{path} cannot be written: {error.strerror or error}{cure}")
