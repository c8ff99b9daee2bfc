"""Trainings in processes of their own: a crash or an overrun costs only that one."""

import multiprocessing
import queue
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from .allocation import Arm, Outcome


class TrainingDied(Exception):
    """A training's process ended, or was ended, before it answered."""


@dataclass(eq=False)
class Worker:
    """One process that holds copies of all arms and trains one at a time.

    Parameters
    ----------
    arms
        Sent to the process once, when it starts.
    limit_s
        Wall seconds a training may take; None for as long as it likes. The start of
        the process does not count.
    """

    arms: Mapping[str, Arm]
    limit_s: float | None = None
    _process: Any = field(init=False, default=None)
    _connection: Any = field(init=False, default=None)

    def ask(self, name: str, amount: int, what: str) -> Any:
        """Call an arm's method; TrainingDied if it overran or took its process along.

        Whatever the arm raised is raised here.
        """
        if self._process is None:
            self._start()
        self._connection.send((name, amount, what))
        if not self._connection.poll(self.limit_s):
            self.stop()
            raise TrainingDied(f"stopped after its {self.limit_s:g} s")
        result = self._receive()
        if isinstance(result, Exception):
            raise result
        return result

    def _receive(self) -> Any:
        try:
            return self._connection.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            self.stop()
            raise TrainingDied(f"its process ended with code {code}") from None

    def stop(self) -> None:
        """End the process, whatever it is doing."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._connection.close()
            self._process = None

    def _start(self) -> None:
        # Not forked: a forked child of a process that has used OpenMP may hang.
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(theirs, dict(self.arms)), daemon=True
        )
        self._process.start()
        theirs.close()
        self._receive()


@contextmanager
def isolated(
    arms: Mapping[str, Arm], *, jobs: int = 1, limit_s: float | None = None
) -> Iterator[dict[str, "IsolatedArm"]]:
    """Give arms that train in `jobs` processes, which end with the block.

    As with all of `multiprocessing`, a script must call this from under
    ``if __name__ == "__main__":``.
    """
    workers = [Worker(arms, limit_s) for _ in range(jobs)]
    idle: queue.SimpleQueue[Worker] = queue.SimpleQueue()
    for worker in workers:
        idle.put(worker)
    try:
        yield {name: IsolatedArm(name, idle) for name in arms}
    finally:
        for worker in workers:
            worker.stop()


@dataclass(frozen=True, slots=True, eq=False)
class IsolatedArm:
    """An arm whose trainings happen in whichever worker is idle."""

    name: str
    idle: "queue.SimpleQueue[Worker]"

    def __call__(self, amount: int) -> Outcome:
        """Train there, and validate."""
        outcome: Outcome = self._ask(amount, "__call__")
        return outcome

    def models(self, amount: int) -> list[Any]:
        """Fetch the fitted estimators; trained anew unless that worker has them."""
        models: list[Any] = self._ask(amount, "models")
        return models

    def _ask(self, amount: int, what: str) -> Any:
        worker = self.idle.get()
        try:
            return worker.ask(self.name, amount, what)
        finally:
            self.idle.put(worker)


def _serve(connection: Connection, arms: dict[str, Arm]) -> None:
    """Say that all is imported, then answer until the other end is gone.

    What an arm raises is an answer too.
    """
    connection.send("ready")
    while True:
        try:
            name, amount, what = connection.recv()
        except EOFError:
            return
        try:
            result = getattr(arms[name], what)(amount)
        except Exception as error:
            result = error
        connection.send(result)
