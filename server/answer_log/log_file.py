"""Files that lines are appended to: one that others may move, or some in a folder."""

import contextlib
import gzip
import os
import shutil
import sys
import threading
from datetime import UTC, datetime
from pathlib import Path

from polydom.features.errors import BadInput

# Callers' data is in these files and folders, so only their owner may read them.
FILE_MODE, FOLDER_MODE = 0o600, 0o700
PLAIN, PACKED = ".jsonl", ".jsonl.gz"
_PART = ".part"
STANDARD_OUTPUT = Path("-")


class LogFile:
    """Appends lines to a file, or to standard output if the path is `-`.

    If the file was moved or removed since the last lines, the next lines go into a new
    file with the old name, as `logging.handlers.WatchedFileHandler` does it. So
    programs that rotate logs need no signal. Only one thread may use this object.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0  # Bytes of the file
        self._file: int | None = None
        self._stamp = (0, 0)
        self._torn = False

    def write(self, lines: bytes) -> None:
        """Append whole lines; raise OSError if that fails."""
        file = self._open()
        # a line break ends what a failed call, or a process that was killed, left
        left = memoryview(b"\n" + lines if self._torn else lines)
        self._torn = True
        while left:
            count = os.write(file, left)
            self.size += count
            left = left[count:]
        self._torn = False

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self.path != STANDARD_OUTPUT:
            os.close(self._file)
        self._file = None

    def _open(self) -> int:
        if self.path == STANDARD_OUTPUT:
            return sys.stdout.fileno()
        if self._file is not None:
            try:
                facts = self.path.stat()
                if (facts.st_dev, facts.st_ino) == self._stamp:
                    return self._file
            except FileNotFoundError:
                pass
            self.close()
        self._file = _open(self.path)
        facts = os.fstat(self._file)
        self.size, self._torn = facts.st_size, _ends_amid_line(self.path)
        self._stamp = facts.st_dev, facts.st_ino
        return self._file


class LogFolder:
    """Appends lines to files in a folder, the newest of which is written.

    A file that would get more than `file_bytes` bytes is compressed, and the next one
    begins. Of this `worker`, the newest `most_files` files are kept. A folder that was
    removed is made again. Only one thread may use this object.
    """

    def __init__(
        self, folder: Path, worker: int, file_bytes: int, most_files: int
    ) -> None:
        self._folder = folder
        self._start = f"answers-{worker}-"
        self._file_bytes = file_bytes
        self._most_files = most_files
        self._file: LogFile | None = None
        self._packing: threading.Thread | None = None

    def write(self, lines: bytes) -> None:
        """Append whole lines; raise OSError if that fails."""
        full = self._file and self._file.size + len(lines) > self._file_bytes
        if full:
            self._end_file()
        if self._file is None:
            self._folder.mkdir(FOLDER_MODE, exist_ok=True)
            self._tidy(compresses=bool(full))
            now = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
            self._file = LogFile(self._folder / f"{self._start}{now}{PLAIN}")
        try:
            self._file.write(lines)
        except FileNotFoundError:
            self._folder.mkdir(FOLDER_MODE, exist_ok=True)
            self._file.write(lines)

    def close(self) -> None:
        """Close the file that is written, and wait until full ones are compressed."""
        self._end_file()
        if self._packing is not None:
            self._packing.join()

    def _end_file(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file = None

    def _tidy(self, *, compresses: bool) -> None:
        """In a thread, delete the oldest files, and compress the others if asked to.

        The first file of a process compresses none: the process that it replaces may
        still write into its own.
        """
        if self._packing is None or not self._packing.is_alive():
            ended = sorted(files_in(self._folder, self._start))
            surplus = max(len(ended) + 1 - self._most_files, 0)  # with the next file
            kept = ended[surplus:] if compresses else []
            self._packing = threading.Thread(
                target=_delete_and_compress,
                args=(ended[:surplus], kept),
                name="polydom-pack",
                daemon=True,
            )
            self._packing.start()


def _delete_and_compress(old: list[Path], kept: list[Path]) -> None:
    # after an error, the next file is another occasion
    with contextlib.suppress(OSError):
        for path in old:
            path.unlink(missing_ok=True)
        for path in kept:
            if path.name.endswith(PLAIN):
                compress(path)


def files_in(folder: Path, start: str = "answers-") -> list[Path]:
    """Return the files of recorded answers in a folder, plain or compressed."""
    names = {path.name for path in folder.iterdir() if path.name.startswith(start)}
    packed = {name for name in names if name.endswith(PACKED)}
    plain = {name for name in names if name.endswith(PLAIN)}
    # a process that was killed may have left a file both plain and compressed
    return [
        *(folder / name for name in packed),
        *(folder / name for name in plain if f"{name}.gz" not in packed),
    ]


def compress(path: Path) -> None:
    """Replace a file by its compressed copy, whose name ends in `.gz`."""
    packed = path.with_name(f"{path.name}.gz")
    part = packed.with_name(f"{packed.name}{_PART}")
    part.unlink(missing_ok=True)  # left by a process that was killed
    with (
        path.open("rb") as source,
        os.fdopen(_open(part), "wb") as raw,
        gzip.GzipFile(path.name, "wb", 1, raw) as target,
    ):
        shutil.copyfileobj(source, target, 1 << 18)
    part.replace(packed)
    path.unlink()


def check_file(option: str, path: Path) -> None:
    """Create a file if it is missing; raise BadInput if that is impossible."""
    if path == STANDARD_OUTPUT:
        if sys.stdout is None or sys.stdout.closed:
            raise BadInput(f"{option} {path}: standard output is closed")
        return
    if path.is_fifo() or path.is_socket() or path.is_block_device():
        raise BadInput(f"{option} {path}: this is not a plain file")
    try:
        os.close(_open(path))
    except (OSError, ValueError) as error:
        raise BadInput(f"{option} {path}: {_reason(error)}") from error


def check_folder(option: str, folder: Path) -> None:
    """Create a folder for files if it is missing; raise BadInput if it is unusable."""
    trial = folder / f".trial-{os.getpid()}"
    try:
        if folder.exists() and not folder.is_dir():
            raise BadInput(f"{option} {folder}: this is a file; a folder is needed")
        folder.mkdir(FOLDER_MODE, exist_ok=True)
        os.close(_open(trial))
        trial.unlink()
    except (OSError, ValueError) as error:
        raise BadInput(f"{option} {folder}: {_reason(error)}") from error


def _ends_amid_line(path: Path) -> bool:
    """Return True if a file ends amid a line."""
    with contextlib.suppress(OSError), path.open("rb") as file:
        file.seek(-1, os.SEEK_END)  # an error if the file is empty, or has no end
        return file.read(1) not in (b"\n", b"")
    return False


def _open(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)


def _reason(error: Exception) -> str:
    said = getattr(error, "strerror", None) or str(error)
    return said[:1].lower() + said[1:]
