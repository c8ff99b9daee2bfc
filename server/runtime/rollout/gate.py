"""What decides whether a new index is good enough to be served."""

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol


class Gate(Protocol):
    """Refuses new indexes that are worse than the served ones. Its methods block."""

    def keep(self, served: Mapping[str, Path]) -> None:
        """Keep copies of the files of the served indexes, by version."""

    def passed(self, old: str, new: str) -> bool:
        """Return True if the index `new` was compared with `old`, and is not worse."""

    def refuse_worse(self, model: str, old: str, path: Path, new: str) -> None:
        """Compare the served index `old` with the index `new` in the file `path`.

        `old` and `new` are versions. Raises WorseIndex if the new index is worse, and
        ReloadFailed if they cannot be compared.
        """
