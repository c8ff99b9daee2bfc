"""The log of answers: a bounded queue, and one thread that writes what is in it."""

import logging
import threading
import time
from collections import Counter, deque
from dataclasses import dataclass
from pathlib import Path
from random import random

from msgspec import UNSET

from polydom.features.errors import BadInput

from ..engine.monitoring.rare_log import RareLog
from ..engine.request import Caller
from ..errors import Failure
from ..schema.request_ids import RequestIds, with_request_id
from .line import Entrance, Entry, ReadItem, line_of, with_item
from .log_file import STANDARD_OUTPUT, LogFile, LogFolder, check_file, check_folder

# Entries, and bytes of their items, that may wait to be written. Further ones are
# dropped.
MOST_WAITING = 1 << 14
MOST_HELD = 64 << 20
# Seconds between two looks at the queue.
PAUSE_S = 0.05
# Lines that are encoded before they are written. While it writes, the thread holds no
# interpreter lock, so the event loop waits no longer than for this many lines.
AT_ONCE = 64
# Maximum seconds to write what waits when the server stops.
STOP_S = 5.0

log = logging.getLogger("polydom")


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
    """Writes a line about each answer, in a thread.

    The event loop adds entries, and never waits for the thread. Entries that do not fit
    into the queue are dropped, and so are lines that cannot be written. `dropped`
    counts them by "access" and "record".
    """

    def __init__(self, options: LogOptions) -> None:
        self.options = options
        self.dropped = Counter({"access": 0, "record": 0})
        self._share = options.share if options.record else 0.0
        self.logs_all = options.access is not None  # True if there is an access log
        self._waiting: deque[Entry] = deque()
        # bytes of items that were ever added, and that the thread has taken
        self._held = self._taken = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._failures = RareLog(time.monotonic)
        self._files: dict[str, LogFile | LogFolder] = {}

    @property
    def begun(self) -> bool:
        """True if the thread was ever started."""
        return self._thread is not None

    def start(self, worker: int = 0) -> None:
        """Start the thread of the process with this number among the workers."""
        options = self.options
        if options.access is not None:
            self._files["access"] = LogFile(options.access)
        if options.record is not None:
            limits = options.file_bytes, options.most_files
            self._files["record"] = LogFolder(options.record, worker, *limits)
        self._thread = threading.Thread(
            target=self._run, name="polydom-answer-log", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Write what waits, for at most `STOP_S` seconds, and end the thread."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(STOP_S)

    def draws(self) -> bool:
        """Return True if the next answer is to be recorded; then its entry has an item.

        Answers are drawn at random, with equal probability.
        """
        return random() < self._share

    def add(self, entry: Entry) -> None:
        """Give an entry to the thread, or drop it if too much waits."""
        if not (self.logs_all and entry.logged) and entry.item is None:
            return
        held = self._held + entry.held
        if len(self._waiting) < MOST_WAITING and held - self._taken <= MOST_HELD:
            self._held = held
            self._waiting.append(entry)
        else:
            self._count_dropped([entry])

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

    def _count_dropped(self, entries: list[Entry]) -> None:
        if self.logs_all:
            self.dropped["access"] += sum(entry.logged for entry in entries)
        self.dropped["record"] += sum(entry.item is not None for entry in entries)

    def _run(self) -> None:
        stopped = False
        while not stopped:
            stopped = self._stopping.wait(PAUSE_S)
            epoch_s = time.time() - time.monotonic()
            while self._waiting:
                count = min(len(self._waiting), AT_ONCE)
                self._write([self._waiting.popleft() for _ in range(count)], epoch_s)
        for file in self._files.values():
            file.close()

    def _write(self, entries: list[Entry], epoch_s: float) -> None:
        lines: dict[str, list[bytes]] = {name: [] for name in self._files}
        for entry in entries:
            self._taken += entry.held
            try:
                line = line_of(entry, epoch_s)
                if entry.logged and self.logs_all:
                    lines["access"].append(line)
                if entry.item is not None:
                    lines["record"].append(with_item(line, entry.item))
            except Exception:  # the thread must go on
                self._count_dropped([entry])
                if (more := self._failures.add("line")) is not None:
                    log.exception("a line about an answer cannot be written%s", more)
        for name, own in lines.items():
            if own:
                self._append(name, own)

    def _append(self, name: str, lines: list[bytes]) -> None:
        try:
            self._files[name].write(b"\n".join(lines) + b"\n")
        except (OSError, ValueError) as error:  # ValueError: standard output is closed
            self.dropped[name] += len(lines)
            if (more := self._failures.add(name)) is not None:
                options = self.options
                where = options.access if name == "access" else options.record
                log.error(
                    "lines for %s are dropped%s: %s",
                    "standard output" if where == STANDARD_OUTPUT else where,
                    more,
                    getattr(error, "strerror", None) or error,
                    extra={"event": "lines_dropped", "file": name},
                )
