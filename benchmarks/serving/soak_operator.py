"""What an operator does to a server in a soak, in a thread: chores that come again."""

import shutil
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgpack

from polydom.indexer import Index
from polydom.server.client.sync import Client
from polydom.server.schema.rollout import RolloutAsk

from ..new_process import memory_kb
from .indexes.usual_requests import TEXTS

ADMIN = "a-token-of-the-soak"
NEXT, PREVIOUS = "records.next.pdx", "records.previous.pdx"
ACCESS, RECORDED, TOKENS = "access.log", "recorded", "admin-tokens"
LOGS_KEPT = 2
BATCH, BATCH_MS = 64, 500
ANSWER_S = 60.0


class Sample(NamedTuple):
    """What the system says of the server's process."""

    at_s: float
    rss_mib: float
    threads: int
    files: int  # open file descriptors
    logs_mib: float  # of all logs together


@dataclass
class Chore:
    """A function that is called again and again, with the number of its calls."""

    every_s: float
    first_s: float
    do: Callable[[int], object]
    count: int = 0


def other_version(path: Path, target: Path) -> None:
    """Write an index that answers alike, with another checksum."""
    index = Index.load(path)
    assert index.package is not None
    package = replace(index.package, meta={**index.package.meta, "seed": 1})
    replace(index, package=package).save(target)


def put(source: Path, target: Path) -> None:
    """Replace a file at once, as `polydom build` does."""
    made = target.with_suffix(".made")
    shutil.copy(source, made)
    made.replace(target)


@dataclass
class Operator:
    """Replaces indexes, promotes and rolls back, scrapes, sends batches, rotates logs.

    Parameters
    ----------
    folder
        The served indexes, and all logs.
    batch
        Items for the batches.
    """

    folder: Path
    port: int
    pid: int
    batch: list[dict[str, Any]]
    samples: list[Sample] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    refused: int = 0  # batches, with 429
    began_s: float = field(default_factory=time.monotonic)

    def reload(self, number: int) -> None:
        """Replace the index of texts by its other version, and reload all."""
        put(self.folder / f"texts_{number % 2}.pdx", self.folder / TEXTS)
        self._post("/v1/admin/reload", b"")

    def roll_out(self, number: int) -> None:
        """Promote the candidate; the next time go back, and try it in shadow again."""
        if number % 2 == 0:
            self.order("promote")
            return
        self.order("roll_back")
        put(self.folder / PREVIOUS, self.folder / NEXT)
        self._post("/v1/admin/reload?model=records", b"")
        self.order("shadow")

    def order(self, mode: Any) -> None:
        with Client(f"http://127.0.0.1:{self.port}", token=ADMIN) as client:
            client.roll_out(RolloutAsk(mode), timeout_s=ANSWER_S)

    def scrape(self, _: int = 0) -> dict[str, float]:
        """Read the metrics: the sum of each name over all labels."""
        totals: dict[str, float] = {}
        for line in self._ask("/metrics").decode().splitlines():
            if not line.startswith("#"):
                named, value = line.rsplit(" ", 1)
                name = named.partition("{")[0]
                totals[name] = totals.get(name, 0.0) + float(value)
        return totals

    def send_batch(self, _: int) -> None:
        """Ask for many records in one request of msgpack."""
        body = b"".join(map(msgpack.packb, self.batch))
        path = f"/v1/batch?budget_ms={BATCH_MS}&count={len(self.batch)}"
        unpacker = msgpack.Unpacker()
        try:
            unpacker.feed(self._post(path, body, "application/msgpack"))
        except urllib.error.HTTPError as error:
            if error.code != 429:
                raise
            self.refused += 1
            return
        *entries, totals = unpacker
        if len(entries) != len(self.batch) or totals["errors"]:
            raise ValueError(f"a batch had {totals}")

    def rotate(self, number: int) -> None:
        """Move the access log away, and delete older ones."""
        log = self.folder / ACCESS
        log.replace(log.with_suffix(f".{number}"))
        log.with_suffix(f".{number - LOGS_KEPT}").unlink(missing_ok=True)

    def look(self, _: int) -> None:
        """Add a sample."""
        process, recorded = Path(f"/proc/{self.pid}"), self.folder / RECORDED
        logs = [*self.folder.glob("access.*"), *recorded.glob("*")]
        self.samples.append(
            Sample(
                time.monotonic() - self.began_s,
                memory_kb("VmRSS", self.pid) / 1024,
                len([*(process / "task").iterdir()]),
                len([*(process / "fd").iterdir()]),
                sum(size_of(log) for log in logs) / 2**20,
            )
        )

    @contextmanager
    def at_work(self, minute_s: float) -> Iterator[None]:
        """Do all chores at their times while the context is open."""
        minutes = (
            (1 / 2, 1 / 4, self.reload),
            (1, 3 / 4, self.roll_out),
            (1 / 12, 0, self.scrape),
            (1 / 12, 1 / 24, self.send_batch),
            (1 / 2, 1 / 2, self.rotate),
            (1 / 30, 0, self.look),
        )
        chores = [
            Chore(every * minute_s, first * minute_s, do)
            for every, first, do in minutes
        ]
        self.look(0)
        done = threading.Event()
        thread = threading.Thread(target=partial(self._work, chores, done))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _work(self, chores: list[Chore], done: threading.Event) -> None:
        while not done.wait(0.01):
            for chore in chores:
                now_s = time.monotonic() - self.began_s
                if now_s < chore.first_s + chore.count * chore.every_s:
                    continue
                try:
                    chore.do(chore.count)
                except Exception as error:  # whatever it is, the soak goes on
                    said = "; ".join([str(error), *getattr(error, "__notes__", ())])
                    self.failures.append(f"{now_s:.0f} s: {chore.do.__name__}: {said}")
                chore.count += 1

    def _post(self, path: str, body: bytes, kind: str = "application/json") -> bytes:
        headers = {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind}
        return self._ask(path, data=body, headers=headers, method="POST")

    def _ask(self, path: str, **request: Any) -> bytes:
        url = f"http://127.0.0.1:{self.port}{path}"
        asked = urllib.request.Request(url, **request)
        try:
            with urllib.request.urlopen(asked, timeout=ANSWER_S) as reply:
                said: bytes = reply.read()
        except urllib.error.HTTPError as error:
            error.add_note(error.read().decode())
            raise
        return said


def size_of(path: Path) -> int:
    """Bytes of a file; 0 if it was just deleted."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
