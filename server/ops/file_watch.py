"""Notices when an index file is replaced, by polling."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

POLL_S = 1.0

_Stamp = tuple[int, int, int]


class Watch:
    """Reports which files have changed since the last report.

    The first poll compares the files with their state when this object was created. A
    changed file is reported only if two polls in a row find the same inode, size and
    modification time. So a file that is still being written is not reported. A missing
    file is not reported before it exists again. The files are the models' `paths` and
    those of their `candidates`, by the model's name.
    """

    def __init__(
        self,
        paths: Mapping[str, Path],
        candidates: Mapping[str, Path] = MappingProxyType({}),
    ) -> None:
        self._paths = [*paths.items(), *candidates.items()]
        self._reported = {path: _stamp(path) for _, path in self._paths}
        self._seen = dict(self._reported)

    def poll(self) -> list[str]:
        """Look at every file once; return the models whose files changed."""
        changed = dict[str, None]()
        for name, path in self._paths:
            stamp = _stamp(path)
            settled, self._seen[path] = self._seen[path], stamp
            if stamp is not None and stamp == settled != self._reported[path]:
                self._reported[path] = stamp
                changed[name] = None
        return [*changed]


def _stamp(path: Path) -> _Stamp | None:
    # a file that is being replaced may be missing for a moment
    try:
        facts = path.stat()
    except OSError:
        return None
    return facts.st_ino, facts.st_size, facts.st_mtime_ns
