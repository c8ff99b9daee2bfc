"""Train in separate processes, so that a crash or an overrun costs only one training.

A worker process has copies of all arms, and trains one at a time. A training that takes
too long is killed together with the processes that it started. If the process of the
race is killed, all its workers end. No library's process pool does all this.
"""

import io
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from .race import Arm, TrainingOutcome
from .splits import Split

START_S = 300.0  # limit for a process to start, import and get rows; disks are slow
LOOK_S = 1.0  # seconds between two checks that the process is alive
# Modules that trainings need. Importing them takes a CPU second, so it is done once.
IMPORTED = (
    f"{__package__}.arms",
    f"{__package__}.portfolio",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "sklearn.metrics",
)
GUARD = 'a script must call this from under `if __name__ == "__main__":`'


class TrainingDied(Exception):
    """Raised if the process of a training ended, or was killed, before its result."""


class CannotBeSent(Exception):
    """Raised if a learner, its rows or its model cannot be sent between processes."""


@dataclass(eq=False)
class Worker:
    """A process that has copies of all arms and trains one at a time.

    `arms` are pickled. `rows` are the splits that they refer to, sent once for all
    arms. `limit_s` is the maximum number of wall seconds of one training.
    """

    arms: Mapping[str, bytes]
    rows: Sequence[Split] = ()
    limit_s: float | None = None
    _process: Any = field(init=False, default=None)
    _connection: Any = field(init=False, default=None)
    _closed: bool = field(init=False, default=False)

    def ask(self, name: str, amount: int, method: str) -> Any:
        """Call a method of arm `name` with `amount` in the process; return its result.

        An error that the method raises is raised here. If the process was dead before
        the call, a new process is tried, once. Raises TrainingDied if the training
        takes too long or its process dies, and CannotBeSent if the arm or the result
        cannot be sent.
        """
        request = name, amount, method
        if not self._begin(request) and not self._begin(request):
            raise TrainingDied("its process, and the next, ended before it began")
        good, result = self._receive(self.limit_s)
        if not good:
            raise result
        return result

    def stop(self) -> None:
        """Kill the process and all processes that it started."""
        process, self._process = self._process, None
        if process is not None:
            _kill(process)
            process.join()
            self._connection.close()

    def close(self) -> None:
        """Kill the process for good: no new process takes over.

        A thread that is waiting for a result gets the error `TrainingDied`.
        """
        self._closed = True
        self.stop()

    def _begin(self, request: tuple[str, int, str]) -> bool:
        """Send a request to the process; return False if the process is dead."""
        if self._process is None:
            self._start()
        with suppress(OSError, TrainingDied):
            self._connection.send(request)
            return bool(self._receive(START_S) == "begun")
        self.stop()
        return False

    def _receive(self, limit_s: float | None) -> Any:
        """Return the next message of the process.

        Raises TrainingDied if the process ends or is too slow.
        """
        process, connection = self._process, self._connection
        if process is None:
            raise TrainingDied("the race has ended")
        start_s = time.monotonic()
        try:
            # Children of the process may keep the pipe open, so the end of the process
            # is not always seen as the end of the file.
            while not connection.poll(_wait_s(start_s, limit_s)):
                if limit_s is not None and time.monotonic() - start_s >= limit_s:
                    self.stop()
                    raise TrainingDied(f"stopped after its {limit_s:g} s")
                if not process.is_alive() and not connection.poll():
                    raise EOFError
            return connection.recv()
        except (EOFError, OSError):
            self.stop()
            raise TrainingDied(
                f"its process ended with code {process.exitcode}"
            ) from None

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
        if self._closed:  # another thread closed before this process existed
            self.stop()
            raise TrainingDied("the race has ended")
        try:
            self._receive(START_S)  # after this the process reads: sending cannot block
            self._connection.send_bytes(rows)
            self._connection.send(dict(self.arms))
            self._receive(START_S)
        except (OSError, TrainingDied) as error:
            self.stop()
            raise TrainingDied(
                f"its process ended with code {process.exitcode} before it could "
                f"train; {GUARD}"
            ) from error


def _wait_s(start_s: float, limit_s: float | None) -> float:
    if limit_s is None:
        return LOOK_S
    return max(min(LOOK_S, start_s + limit_s - time.monotonic()), 0.0)


@contextmanager
def isolated(
    arms: Mapping[str, Arm], *, jobs: int = 1, limit_s: float | None = None
) -> Iterator[dict[str, "IsolatedArm"]]:
    """Yield arms that train in `jobs` worker processes instead of this process.

    The workers end with the `with` block. A training that takes more than `limit_s`
    wall seconds is killed.
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
    """A pool that lends workers to threads, each worker to one thread at a time."""

    def __init__(self, workers: Sequence[Worker]) -> None:
        self._idle = list(workers)
        self._changed = threading.Condition()

    @contextmanager
    def worker(self, preferred: Worker | None) -> Iterator[Worker]:
        """Wait for an idle worker, and lend it to this thread until the block ends.

        If `preferred` is among the idle workers, it is chosen.
        """
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
    """An arm that trains in a worker process, preferably the same one each time.

    If it cannot be sent to a worker, the local `arm` trains in this process; if `arm`
    is None, the training fails.
    """

    name: str
    workers: WorkerPool
    arm: Any | None
    here: threading.Lock
    refused: str = ""  # Reason why the arm cannot be sent; empty if none is known
    last: Worker | None = None

    def __call__(self, amount: int) -> TrainingOutcome:
        """Train on `amount` examples or iterations in a worker; return the outcome."""
        outcome: TrainingOutcome = self._ask(amount, "__call__")
        return outcome

    def model(self, amount: int) -> Any:
        """Return the fitted estimator; train it again if its worker has ended."""
        return self._ask(amount, "model")

    def _ask(self, amount: int, method: str) -> Any:
        try:
            if self.refused:
                raise CannotBeSent(f"not to a process of its own: {self.refused}")
            with self.workers.worker(self.last) as worker:
                self.last = worker
                return worker.ask(self.name, amount, method)
        except CannotBeSent as error:
            if self.arm is None:
                raise
            self.refused = str(error)
        with self.here:
            return getattr(self.arm, method)(amount)


class _Packer:
    """Pickles arms without their splits, which it collects in `rows`, each once."""

    def __init__(self) -> None:
        self.rows: list[Split] = []

    def pack(self, arm: Arm) -> bytes:
        buffer = io.BytesIO()
        pickler: Any = ForkingPickler(buffer)
        pickler.dispatch_table[Split] = self._refer  # changes only this pickler
        pickler.dump(arm)
        return buffer.getvalue()

    def _refer(self, rows: Split) -> tuple[Any, tuple[int]]:
        known = [place for place, other in enumerate(self.rows) if other is rows]
        if not known:
            self.rows.append(rows)
        return _received, (known[0] if known else len(self.rows) - 1,)


_rows: tuple[Split, ...] = ()  # shared rows; set in the process of a worker


def _received(place: int) -> Split:
    return _rows[place]


def _context() -> Any:
    """Return a multiprocessing context that never forks this process.

    OpenMP may be in use in this process, and does not survive a fork.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(list(IMPORTED))
    return context


def _kill(process: Any) -> None:
    if hasattr(os, "killpg"):
        with suppress(ProcessLookupError):  # the process has ended or has no group yet
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()


def _serve(connection: Connection) -> None:
    global _rows
    if hasattr(os, "setpgrp"):
        os.setpgrp()
    # Learners may use NumPy's global generator; after a fork, all would draw the same.
    np.random.seed()  # noqa: NPY002
    threading.Thread(target=_end_with_parent, daemon=True).start()
    connection.send("started")
    _rows = ForkingPickler.loads(connection.recv_bytes())
    packed = connection.recv()
    connection.send("ready")
    arms: dict[str, Arm] = {}
    while True:
        try:
            name, amount, method = connection.recv()
        except EOFError:
            return
        # imports of the learner's library are part of the start, not of its training
        failure = _load(arms, packed, name)
        connection.send("begun")
        answer = failure or _answer(arms[name], amount, method)
        try:
            connection.send(answer)
        except Exception as error:
            text = f"its {method}: {type(error).__name__}: {error}"
            connection.send((False, CannotBeSent(text)))


def _load(
    arms: dict[str, Arm], packed: Mapping[str, bytes], name: str
) -> tuple[bool, Any] | None:
    """Unpickle an arm if it is not in `arms`; return the answer if this fails."""
    if name in arms:
        return None
    try:
        arms[name] = ForkingPickler.loads(packed[name])
    except Exception as error:
        text = f"not loaded there: {type(error).__name__}: {error}"
        return False, CannotBeSent(text)
    return None


def _answer(arm: Arm, amount: int, method: str) -> tuple[bool, Any]:
    try:
        return True, getattr(arm, method)(amount)
    except Exception as error:
        return False, _sendable(error)


def _sendable(error: Exception) -> Exception:
    try:
        ForkingPickler.loads(ForkingPickler.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    if hasattr(os, "killpg"):
        os.killpg(0, signal.SIGKILL)
    os._exit(1)
