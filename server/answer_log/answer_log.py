"""The log of answers: which of them are written down, and where."""

import time
from dataclasses import dataclass
from pathlib import Path
from random import random

from msgspec import UNSET

from polydom.features.errors import BadInput

from ..engine.request import Caller
from ..errors import Failure
from ..schema.request_ids import RequestIds, with_request_id
from .line import Entrance, Entry, ReadItem, line_of, recorded_line_of
from .line_writer import LineWriter
from .log_file import STANDARD_OUTPUT, LogFile, LogFolder, check_file, check_folder

# Maximum seconds to write what waits when the server stops.
STOP_S = 5.0
# Seconds by which the machine's clock may differ before the times of lines follow it.
CLOCK_S = 0.001

# Headers that give a new id of a request back to the caller; none if it had an id.
NewId = tuple[tuple[bytes, bytes], ...]


def name_request(caller: Caller) -> tuple[RequestIds, NewId]:
    """Give the request of a caller an id, if it has none.

    Returns its ids, and the headers that give a new id back to the caller.
    """
    ids = caller.ids
    if ids is not None and ids.request_id:
        return ids, ()
    caller.ids = ids = with_request_id(ids)
    return ids, ((b"x-request-id", ids.request_id),)


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Where lines about answers go.

    Attributes
    ----------
    access
        File of the access log, `-` for standard output; None for no access log.
    record
        Folder of recorded answers, which have their items; None to record nothing.
    share
        Share of the answers that are recorded, in (0, 1].
    file_bytes
        Size in bytes from which a file of recorded answers is full.
    most_files
        Number of files of recorded answers that each worker keeps.
    """

    access: Path | None = None
    record: Path | None = None
    share: float = 1.0
    file_bytes: int = 64 << 20
    most_files: int = 16

    def __post_init__(self) -> None:
        """Raise BadInput for values out of range, and for unusable files."""
        if not 0 < self.share <= 1:
            raise BadInput(f"--record-share {self.share:g}: above 0, up to 1 is needed")
        if self.file_bytes < 1 or self.most_files < 1:
            raise BadInput("--record-mb and --record-files need to be 1 or more")
        if self.access is not None:
            check_file("--access-log", self.access)
        if self.record is not None:
            check_folder("--record", self.record)


class AnswerLog:
    """Gives the entries about answers to the access log and to the recorded answers.

    Each has a thread of its own, so that neither waits for the other's file. See
    `LineWriter` for what is dropped.
    """

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self._share = options.share if options.record else 0.0
        self.logs_all = options.access is not None  # True if there is an access log
        to_console = options.access == STANDARD_OUTPUT
        name = "standard output" if to_console else str(options.access)
        self._offset_s = 0.0
        self._access = LineWriter(name, line_of, self._epoch_s)
        record = str(options.record)
        self._record = LineWriter(record, recorded_line_of, self._epoch_s)

    @property
    def dropped(self) -> dict[str, int]:
        """Return the numbers of lines that were dropped, of "access" and "record"."""
        return {"access": self._access.dropped, "record": self._record.dropped}

    def start(self, worker: int = 0) -> None:
        """Start the threads of the process with this number among the workers."""
        options = self.options
        if options.access is not None:
            self._access.start(LogFile(options.access))
        if options.record is not None:
            limits = options.file_bytes, options.most_files
            self._record.start(LogFolder(options.record, worker, *limits))

    def stop(self) -> None:
        """Write what waits, for at most `STOP_S` seconds, and end the threads."""
        until_s = time.monotonic() + STOP_S
        for writer in (self._record, self._access):
            writer.begin_stop()
        for writer in (self._record, self._access):
            writer.join(max(until_s - time.monotonic(), 0.0))

    def _epoch_s(self) -> float:
        """Return the time since 1970 at which the monotonic clock was 0.

        It changes only if the machine's clock is set, so that both lines about an
        answer have the same time.
        """
        offset_s = time.time() - time.monotonic()
        if abs(offset_s - self._offset_s) > CLOCK_S:
            self._offset_s = offset_s
        return self._offset_s

    def draws(self) -> bool:
        """Return True if the next answer is to be recorded; then its entry has an item.

        Answers are drawn at random, with equal probability.
        """
        return random() < self._share

    def add(self, entry: Entry) -> None:
        """Give an entry to the threads that write it."""
        if self.logs_all and entry.logged:
            self._access.add(entry)
        if entry.item is not None:
            self._record.add(entry)

    def failed(
        self,
        ids: RequestIds,
        entrance: Entrance,
        model: str,
        arrived_s: float,
        status: int,
        failure: Failure,
        item: ReadItem | None = None,
        held: int = 0,
    ) -> None:
        """Add an entry about an error; `model` is empty if none was reached.

        The item of the request, if `item` can read one, is recorded if it is drawn.
        """
        if not self.draws():
            item, held = None, 0
        elapsed_us = round((time.monotonic() - arrived_s) * 1e6, 1)
        entry = Entry(
            ids,
            arrived_s,
            entrance,
            model or UNSET,
            UNSET,
            failure,
            status,
            elapsed_us,
            item,
            held,
        )
        self.add(entry)
