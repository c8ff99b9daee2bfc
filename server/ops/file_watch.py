"""Notices when an index file is replaced, by polling."""

from collections.abc import Mapping
from pathlib import Path

POLL_S = 1.0

_Stamp = tuple[int, int, int]


class Watch:
    """Reports which files have changed since the last report.

    The first poll compares the files with their state when this object was created. A
    changed file is reported only if two polls in a row find the same inode, size and
    modification time. So a file that is still being written is not reported. A missing
    file is not reported before it exists again.
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = dict(paths)
        self._reported = {name: _stamp(path) for name, path in self._paths.items()}
        self._seen = dict(self._reported)

    def poll(self) -> list[str]:
        """Look at every file once; return the names of the files that changed."""
        changed = []
        for name, path in self._paths.items():
            stamp = _stamp(path)
            settled, self._seen[name] = self._seen[name], stamp
            if stamp is not None and stamp == settled != self._reported[name]:
                self._reported[name] = stamp
                changed.append(name)
        return changed


def _stamp(path: Path) -> _Stamp | None:
    # a file that is being replaced may be missing for a moment
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
