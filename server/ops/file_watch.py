"""Watching of index files, to notice when a file is replaced."""

from collections.abc import Mapping
from pathlib import Path

POLL_S = 1.0

_Stamp = tuple[int, int, int]


class Watch:
    """Reports files that changed, by comparing their state at successive polls.

    A change is reported after a file's inode, size or time of change differs from the
    last report and was the same at two polls. So a file that is still being written is
    not reported. A missing file is only reported after it exists again. The state at
    the creation of the object counts as the first report.
    """

    def __init__(self, paths: Mapping[str, Path]) -> None:
        self._paths = dict(paths)
        self._reported = {name: _stamp(path) for name, path in self._paths.items()}
        self._seen = dict(self._reported)

    def poll(self) -> list[str]:
        """Return the names of files that changed; each change is returned once."""
        changed = []
        for name, path in self._paths.items():
            stamp = _stamp(path)
            settled, self._seen[name] = self._seen[name], stamp
            if stamp is not None and stamp == settled != self._reported[name]:
                self._reported[name] = stamp
                changed.append(name)
        return changed


def _stamp(path: Path) -> _Stamp | None:
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
