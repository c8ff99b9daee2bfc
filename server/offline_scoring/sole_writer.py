"""The right to write somewhere, which one process has at a time."""

from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from polydom.features.errors import BadInput
from polydom.indexer.index.safe_write import naming


class SoleWriter:
    """Holds that right; the system takes it from a process that ends, however that is.

    Parameters
    ----------
    path
        A file that is locked meanwhile, and gone afterwards.
    output
        What is written, for messages.

    Raises
    ------
    BadInput
        If another process has it.
    CannotWrite
        If the file cannot be made.
    """

    def __init__(self, path: Path, output: Path) -> None:
        self._path = path
        self._lock = FileLock(path)
        with naming(output):
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise BadInput(f"{output}: another run is writing there") from error

    def end(self) -> None:
        """Give it up, and remove the file.

        That is done while it is locked. Who has opened it by then, and locks it later,
        finds that it has no name any more, and does not take that for the right. Where
        no open file can be removed, the lock's own release does it.
        """
        with suppress(OSError):
            self._path.unlink()
        self._lock.release()
