"""A server in a process of its own, forked from one that has imported what it needs.

To import that takes most of the time until a server answers, and tests start a hundred.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

_FORKING = get_context("forkserver")
# pytest: a process imports what its parent was started as
_FORKING.set_forkserver_preload(["pytest", "tests.support.server_imports"])


def _serve(
    arguments: Sequence[str],
    environment: dict[str, str],
    folder: Path | None,
    log: Path | None,
    pipes: tuple[Connection, Connection],
) -> None:
    """Be the command `polydom serve`."""
    from polydom.server.__main__ import run

    for number, pipe in enumerate(pipes, start=1):
        os.dup2(pipe.fileno(), number)
        pipe.close()
    if log is not None:
        with log.open("w") as file:
            os.dup2(file.fileno(), 2)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder or os.curdir)
    sys.argv = ["polydom", "serve", *arguments]
    run()


def _reading(pipe: Connection) -> TextIO:
    with pipe:
        return os.fdopen(os.dup(pipe.fileno()))


class ServerProcess:
    """`polydom serve` with these arguments; what `subprocess.Popen` is for others.

    Parameters
    ----------
    arguments
        Those of `polydom serve`.
    folder
        Where it runs; None for where this process does.
    log
        File for what it writes to stderr; None for a pipe, as that of stdout.
    """

    def __init__(
        self, arguments: Sequence[str], folder: Path | None, log: Path | None
    ) -> None:
        (out, its_out), (err, its_err) = (_FORKING.Pipe(duplex=False) for _ in "12")
        given = (arguments, {**os.environ}, folder, log, (its_out, its_err))
        self._process = _FORKING.Process(target=_serve, args=given)
        self._process.start()
        its_out.close()
        its_err.close()
        self.stdout, self.stderr = _reading(out), _reading(err)

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """None while it runs; minus the number of the signal that ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; `subprocess.TimeoutExpired` where that takes longer."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired("polydom serve", timeout)
        return self._process.exitcode

    def communicate(self, timeout: float) -> tuple[str, str]:
        """Wait for its end; what it wrote and nobody has read."""
        self.wait(timeout)
        if self.stdout.closed:
            return "", ""
        with self.stdout, self.stderr:
            return self.stdout.read(), self.stderr.read()

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
