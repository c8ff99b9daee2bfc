"""A program in a process of its own, forked from one that has imported what it needs.

To import that takes most of the time until a server answers or a command has done what
it does, and tests start hundreds.
"""

import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

_FORKING = get_context("forkserver")
# pytest: a process imports what its parent was started as
_IMPORTED = ["pytest", "tests.support.processes.polydom_imports"]
_FORKING.set_forkserver_preload(_IMPORTED)
PROGRAMS = ("polydom", "python")


def also_import(*modules: str) -> None:
    """Have modules imported beforehand as well, if no program was forked by now."""
    _IMPORTED.extend(modules)
    _FORKING.set_forkserver_preload(_IMPORTED)


def _become(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path | None,
    outputs: tuple[Connection | Path, Connection | Path],
) -> None:
    """Be this program."""
    from polydom.server.__main__ import run

    for number, output in enumerate(outputs, start=1):
        with output.open("w") if isinstance(output, Path) else output as stream:
            os.dup2(stream.fileno(), number)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder or os.curdir)
    program, *arguments = words
    try:
        if program == "polydom":
            sys.argv = [program, *arguments]
            run()
        elif arguments[0] == "-m":
            sys.argv = arguments[1:]
            sys.path[:0] = environment.get("PYTHONPATH", os.curdir).split(os.pathsep)
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path[0] = os.fspath(Path(arguments[0]).parent.resolve())
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        # as other programs end: pools stop their processes, for which multiprocessing
        # would wait
        threading._shutdown()  # type: ignore[attr-defined]


def _reading(pipe: Connection) -> TextIO:
    with pipe:
        return os.fdopen(os.dup(pipe.fileno()))


class ForkedProcess:
    """A program with these arguments; what `subprocess.Popen` is for others.

    Parameters
    ----------
    words
        `polydom` and its arguments, or `python`, a file or `-m` and a module, and its
        arguments.
    folder
        Where it runs; None for where this process does.
    log
        File for what it writes to stderr; None for a pipe, as that of stdout.
    environment
        What it has beside the variables of this process.
    """

    def __init__(
        self,
        words: Sequence[str],
        folder: Path | None = None,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        (out, its_out), (err, its_err) = (_FORKING.Pipe(duplex=False) for _ in "12")
        variables = {**os.environ, **(environment or {})}
        given = (words, variables, folder, (its_out, log or its_err))
        self._process = _FORKING.Process(target=_become, args=given)
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
            raise subprocess.TimeoutExpired("polydom", timeout)
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


def run_forked(
    words: Sequence[str], folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; what `subprocess.run` is for others."""
    with tempfile.TemporaryDirectory() as place:
        outputs = Path(place, "out"), Path(place, "err")
        given = (words, {**os.environ}, folder, outputs)
        process = _FORKING.Process(target=_become, args=given)
        process.start()
        process.join()
        assert process.exitcode is not None
        said = (output.read_text("utf-8") for output in outputs)
        return subprocess.CompletedProcess(words, process.exitcode, *said)
