"""Moves index files when a candidate is promoted or a promotion is rolled back.

At every moment the served path holds a whole index. Nothing is lost: the index that was
served is kept beside it, as `NAME.previous.pdx`.
"""

import contextlib
import os
import shutil
import tempfile
from pathlib import Path


def previous_of(path: Path) -> Path:
    """Return the path of the index that was served before the one at `path`."""
    return path.with_name(f"{path.stem}.previous.pdx")


def promote(path: Path, candidate: Path) -> bool:
    """Move the file `candidate` to `path`, and the file at `path` to `previous_of`.

    Returns False if the folders are read-only; then nothing is moved. Raises OSError if
    there is another fault.
    """
    if not all(os.access(one.parent, os.W_OK) for one in (path, candidate)):
        return False
    own = candidate
    if candidate.parent.stat().st_dev != path.parent.stat().st_dev:
        own = _copied(candidate, path)  # another file system
    os.replace(_second_of(path), previous_of(path))
    os.replace(own, path)
    if own != candidate:
        candidate.unlink()
    return True


def exchange(path: Path, other: Path) -> None:
    """Exchange the files `path` and `other` of one folder; raise OSError if it fails.

    `path` holds one of the two at every moment.
    """
    kept = _second_of(path)
    try:
        os.replace(other, path)
    except OSError:
        kept.unlink()
        raise
    os.replace(kept, other)


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
