"""Moves index files when a candidate is promoted or a promotion is rolled back.

At every moment the served path holds a whole index.
"""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from polydom.features.errors import BadIndexFile
from polydom.indexer.index.file.pdx_file import read_version


def previous_of(path: Path) -> Path:
    """Return the path of the index that was served before the one at `path`."""
    return path.with_name(f"{path.stem}.previous.pdx")


def version_at(path: Path) -> str | None:
    """Return the version of the index file at `path`; None if it cannot be read."""
    with contextlib.suppress(BadIndexFile, OSError):
        return read_version(path)
    return None


def put(new: Path, path: Path, old: Path) -> None:
    """Move the file `new` to `path`, and the file at `path` to `old`, beside it.

    If `old` is `new`, the two files change places. If OSError is raised because the
    folders are read-only, a file is missing or the disk is full, no file was moved.
    """
    made = []
    try:
        # a link may be relative to its folder, and another file system needs a copy
        if new.is_symlink() or new.parent.stat().st_dev != path.parent.stat().st_dev:
            made.append(_copied(new, path))
        source = made[0] if made else new
        made.append(kept := _second_of(path))
        os.replace(source, path)
    except OSError:
        for file in made:
            file.unlink(missing_ok=True)
        raise
    os.replace(kept, old)
    if new not in (source, old):
        with contextlib.suppress(OSError):  # its folder may be read-only
            new.unlink()


def _second_of(path: Path) -> Path:
    """Return a second name of a file, or a copy if it cannot have one."""
    if not path.is_symlink():
        new = _temporary(path)
        with contextlib.suppress(OSError):
            os.link(path, new)
            return new
    return _copied(path, path)


def _copied(source: Path, beside: Path) -> Path:
    new = _temporary(beside)
    try:
        with source.open("rb") as old, new.open("xb") as file:
            shutil.copyfileobj(old, file)
            file.flush()
            os.fsync(file.fileno())
    except BaseException:
        new.unlink(missing_ok=True)
        raise
    return new


def _temporary(path: Path) -> Path:
    """Return a name in the folder of `path` that no file has."""
    return Path(
        tempfile.mktemp(prefix=f".{path.stem}-", suffix=".tmp", dir=path.parent)
    )
