"""Trainings in processes of their own: a crash or an overrun costs only that one."""

import io
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from .race import Arm, TrainingOutcome
from .splits import Split

START_S = 300.0  # for a process to start, import and take its rows: minutes on disks
LOOK_S = 1.0  # between two looks whether the process still lives
# What trainings import: more than a second of a processor's.
IMPORTED = (
    f"{__package__}.arms",
    f"{__package__}.portfolio",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.metrics",
)
GUARD = 'a script must call this from under `if __name__ == "__main__":`'


class TrainingDied(Exception):
    """A training's process ended, or was ended, before it answered."""


class CannotBeSent(Exception):
    """A learner, its rows or its fitted model cannot go from process to process."""


@dataclass(eq=False)
class Worker:
    """One process that holds copies of all arms and trains one at a time.

    Parameters
    ----------
    arms
        Pickled, by name; each is loaded by the process when first asked for.
    rows
        The divisions that the arms refer to, sent to the process when it starts.
    limit_s
        Wall seconds a training may take, the start of the process not counted.
    """

    arms: Mapping[str, bytes]
    rows: Sequence[Split] = ()
    limit_s: float | None = None
    _process: Any = field(init=False, default=None)
    _connection: Any = field(init=False, default=None)
    _closed: bool = field(init=False, default=False)

    def ask(self, name: str, amount: int, what: str) -> Any:
        """Call an arm's method.

        A process found dead is replaced, once; so nobody pays for what ended it.

        Raises
        ------
        TrainingDied
            If it overran or took its process along.
        CannotBeSent
            If the arm cannot be loaded there, or what it gave cannot come back.
        Exception
            Whatever the arm raised.
        """
        if not self._begin(name, amount, what) and not self._begin(name, amount, what):
            raise TrainingDied("its process, and the next, ended before it began")
        with self._ended_after(self.limit_s):
            good, result = self._receive()
        if not good:
            raise result
        return result

    def stop(self) -> None:
        """End the process and those it started, whatever they are doing."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
            process.join()
            self._connection.close()

    def close(self) -> None:
        """Stop for good: who is waiting for an answer is told that it died."""
        self._closed = True
        self.stop()

    def _begin(self, *request: Any) -> bool:
        """Send the process a request; False if it was found dead."""
        if self._process is None:
            self._start()
        with self._ended_after(START_S), suppress(OSError, TrainingDied):
            self._connection.send(request)
            return bool(self._receive() == "begun")
        self.stop()
        return False

    def _receive(self) -> Any:
        """Wait for what the process says; TrainingDied once it is dead."""
        process, connection = self._process, self._connection
        if process is None:
            raise TrainingDied("the race has ended")
        try:
            # its own children may keep the pipe open: no end of file tells of its end
            while not connection.poll(LOOK_S):
                if not process.is_alive() and not connection.poll():
                    raise EOFError
            return connection.recv()
        except (EOFError, OSError):
            self.stop()
            raise TrainingDied(
                f"its process ended with code {process.exitcode}"
            ) from None

    @contextmanager
    def _ended_after(self, seconds: float | None) -> Iterator[None]:
        """End the process should the block take longer; the block then sees it die."""
        if seconds is None:
            yield
            return
        over = threading.Event()

        def end(process: Any = self._process) -> None:
            over.set()
            _kill(process)

        timer = threading.Timer(seconds, end)
        timer.daemon = True
        timer.start()
        try:
            yield
        except (TrainingDied, OSError):
            if over.is_set():
                raise TrainingDied(f"stopped after its {seconds:g} s") from None
            raise
        finally:
            timer.cancel()

    def _start(self) -> None:
        if self._closed:
            raise TrainingDied("the race has ended")
        try:
            rows = ForkingPickler.dumps(tuple(self.rows))
        except Exception as error:
            raise CannotBeSent(f"the rows: {type(error).__name__}: {error}") from error
        context = _context()
        self._connection, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(theirs,), daemon=True)
        process.start()
        self._process = process
        theirs.close()
        if self._closed:  # by another thread, which has seen no process yet
            self.stop()
            raise TrainingDied("the race has ended")
        with self._ended_after(START_S):
            try:
                self._receive()  # it reads from now on, so that sending cannot block
                self._connection.send_bytes(rows)
                self._connection.send(dict(self.arms))
                self._receive()
            except (OSError, TrainingDied) as error:
                self.stop()
                raise TrainingDied(
                    f"its process ended with code {process.exitcode} before it could "
                    f"train; {GUARD}"
                ) from error


@contextmanager
def isolated(
    arms: Mapping[str, Arm], *, jobs: int = 1, limit_s: float | None = None
) -> Iterator[dict[str, "IsolatedArm"]]:
    """Yield arms that train in `jobs` processes, which end with the block.

    An arm that cannot be sent to a process trains in this one where there is no
    `limit_s`; where there is, it raises `CannotBeSent`.
    """
    packer = _Packer()
    packed: dict[str, bytes] = {}
    refused: dict[str, str] = {}
    for name, arm in arms.items():
        try:
            packed[name] = packer.pack(arm)
        except Exception as error:
            refused[name] = f"{type(error).__name__}: {error}"
    workers = [Worker(packed, packer.rows, limit_s) for _ in range(jobs)]
    pool, here = WorkerPool(workers), threading.Lock()
    try:
        yield {
            name: IsolatedArm(
                name, pool, None if limit_s else arm, here, refused.get(name, "")
            )
            for name, arm in arms.items()
        }
    finally:
        for worker in workers:
            worker.close()


class WorkerPool:
    """Workers, of which each does one thing at a time."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._idle = list(workers)
        self._changed = threading.Condition()

    @contextmanager
    def worker(self, preferred: Worker | None) -> Iterator[Worker]:
        """Lend a worker, the preferred one if it is idle; wait while none is."""
        with self._changed:
            self._changed.wait_for(lambda: self._idle)
            worker = preferred if preferred in self._idle else self._idle[0]
            assert worker is not None
            self._idle.remove(worker)
        try:
            yield worker
        finally:
            with self._changed:
                self._idle.append(worker)
                self._changed.notify()


@dataclass(slots=True, eq=False)
class IsolatedArm:
    """An arm whose trainings happen in an idle worker, the one of the last if it can.

    What cannot be sent is trained by `arm` in this process, where that is allowed, and
    one at a time: CPU seconds and warnings are those of a whole process.
    """

    name: str
    workers: WorkerPool
    arm: Any | None
    here: threading.Lock
    refused: str = ""  # why it cannot be sent, as far as is known
    last: Worker | None = None

    def __call__(self, amount: int) -> TrainingOutcome:
        """Train there, and validate."""
        outcome: TrainingOutcome = self._ask(amount, "__call__")
        return outcome

    def model(self, amount: int) -> Any:
        """Fetch the fitted estimator; trained anew unless its last worker has it."""
        return self._ask(amount, "model")

    def _ask(self, amount: int, what: str) -> Any:
        try:
            if self.refused:
                raise CannotBeSent(f"not to a process of its own: {self.refused}")
            with self.workers.worker(self.last) as worker:
                self.last = worker
                return worker.ask(self.name, amount, what)
        except CannotBeSent as error:
            if self.arm is None:
                raise
            self.refused = str(error)
        with self.here:
            return getattr(self.arm, what)(amount)


class _Packer:
    """Pickles arms one by one; the rows that they share stay out, and are collected."""

    def __init__(self) -> None:
        self.rows: list[Split] = []

    def pack(self, arm: Arm) -> bytes:
        buffer = io.BytesIO()
        pickler: Any = ForkingPickler(buffer)
        pickler.dispatch_table[Split] = self._refer  # a table of its own
        pickler.dump(arm)
        return buffer.getvalue()

    def _refer(self, rows: Split) -> tuple[Any, tuple[int]]:
        known = [place for place, other in enumerate(self.rows) if other is rows]
        if not known:
            self.rows.append(rows)
        return _received, (known[0] if known else len(self.rows) - 1,)


_rows: tuple[Split, ...] = ()  # of a worker's process


def _received(place: int) -> Split:
    return _rows[place]


def _context() -> Any:
    """How processes begin, never forked from this one: it may have used OpenMP.

    Then a forked child may hang. One that has only imported is forked instead, in
    milliseconds; not on macOS, whose own libraries forbid it.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _kill(process: Any) -> None:
    """Kill a process and those of its group: a learner may have started some."""
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):  # it has ended, or leads no group yet
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _serve(connection: Connection) -> None:
    """Take the rows and the arms, then answer until the other end is gone.

    What an arm raises is an answer too.
    """
    global _rows
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    # Learners may draw from NumPy's own numbers, which would be the same in all.
    np.random.seed()  # noqa: NPY002
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection.send("started")
    _rows = ForkingPickler.loads(connection.recv_bytes())
    packed = connection.recv()
    connection.send("ready")
    arms: dict[str, Arm] = {}
    while True:
        try:
            name, amount, what = connection.recv()
        except EOFError:
            return
        connection.send("begun")
        answer = _answer(arms, packed, name, amount, what)
        try:
            connection.send(answer)
        except Exception as error:
            text = f"its {what}: {type(error).__name__}: {error}"
            connection.send((False, CannotBeSent(text)))


def _answer(
    arms: dict[str, Arm], packed: Mapping[str, bytes], name: str, amount: int, what: str
) -> tuple[bool, Any]:
    """Return True and the result, or False and the error."""
    if name not in arms:
        try:
            arms[name] = ForkingPickler.loads(packed[name])
        except Exception as error:
            text = f"not loaded there: {type(error).__name__}: {error}"
            return False, CannotBeSent(text)
    try:
        return True, getattr(arms[name], what)(amount)
    except Exception as error:
        return False, _sendable(error)


def _sendable(error: Exception) -> Exception:
    """Return the error itself, or its text where it cannot be pickled."""
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """End this process and its own when the one that started it is gone."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
