"""Several processes that serve at one socket, and the one that keeps them running.

They are forked from a process that has imported, mapped and run everything, so that
they share its pages: what each adds is what it writes to.
"""

import asyncio
import contextlib
import gc
import logging
import os
import select
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI
from threadpoolctl import threadpool_limits

from ..features.errors import BadInput
from .listener import DRAIN_S, Running, Server, run
from .peers import Peers
from .watch import POLL_S

# A worker that ends is started anew, but not more often than this.
RESTART_S = 1.0
_TOLD = ("SIGTERM", "SIGINT", "SIGHUP", "SIGCHLD")

log = logging.getLogger("polydom")
life = logging.getLogger("polydom.life")


def run_workers(
    app: FastAPI, listener: socket.socket, running: Running, count: int
) -> None:
    """Serve with `count` processes until SIGINT or SIGTERM; SIGHUP makes all reload.

    With one there is no other beside it that keeps it running.

    Raises
    ------
    BadInput
        If this system cannot fork, or certificate and key cannot be used.
    """
    if count == 1:
        run(app, listener, running)
        return
    if not hasattr(os, "fork"):
        raise BadInput("--workers above 1 needs a system that can fork")
    with tempfile.TemporaryDirectory(prefix="polydom-") as folder:
        Workers(app, listener, running, count, Path(folder)).run()


class Workers:
    """Forks workers, passes signals on to them, and replaces those that end.

    Parameters
    ----------
    app, listener, running
        As for `run`; the files are watched by this process alone.
    count
        How many workers there are.
    folder
        Where their sockets are (peers.py).
    """

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        running: Running,
        count: int,
        folder: Path,
    ) -> None:
        self._app = app
        self._listener = listener
        self._watch = running.watch
        self._server = Server(app, replace(running, watch=None))
        self._count = count
        self._folder = folder
        self._patience_s = running.leave_s + DRAIN_S + 5
        self._numbers: dict[int, int] = {}  # of each process that runs
        self._forked_s = [-RESTART_S] * count
        self._stopping_s: float | None = None

    def run(self) -> None:
        """Serve until told to stop and all have stopped."""
        repository = self._server.repository
        with threadpool_limits(1):
            repository.rehearse()
        # What the workers share is never looked at by their collectors, which would
        # write to it.
        gc.collect()
        gc.freeze()
        told, wake = socket.socketpair()
        wake.setblocking(False)
        self._held_open, self._alive = os.pipe()
        signals = {getattr(signal, name) for name in _TOLD}
        before = {number: signal.signal(number, _pass) for number in signals}
        signal.set_wakeup_fd(wake.fileno(), warn_on_full_buffer=False)
        try:
            self._keep_running(told)
        finally:
            signal.set_wakeup_fd(-1)
            for number, handler in before.items():
                signal.signal(number, handler)
            for end in (self._held_open, self._alive):
                os.close(end)
            told.close()
            wake.close()
            gc.unfreeze()

    def _keep_running(self, told: socket.socket) -> None:
        while not self._done():
            self._fork_missing()
            if select.select([told], [], [], POLL_S)[0]:
                for number in told.recv(4096):
                    self._obey(number)
            elif self._watch is not None and self._watch.poll():
                self._reload()
            self._bury()

    def _done(self) -> bool:
        if self._stopping_s is None:
            return False
        if time.monotonic() - self._stopping_s > self._patience_s:
            self._tell(signal.SIGKILL)
        return not self._numbers

    def _obey(self, told: int) -> None:
        if told == signal.SIGHUP:
            self._reload()
        elif told in (signal.SIGTERM, signal.SIGINT):
            self._stopping_s = self._stopping_s or time.monotonic()
            self._tell(signal.SIGTERM)

    def _reload(self) -> None:
        """Let the workers reload, and this process, of which later ones are forked."""
        self._tell(signal.SIGHUP)
        self._server.repository.reopen()
        gc.collect()
        gc.freeze()

    def _tell(self, number: int) -> None:
        for process in self._numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _bury(self) -> None:
        """Forget the workers that have ended.

        Others are waited for too: what features started, and as a container's first
        process whatever was left behind there.
        """
        while self._numbers:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            number = self._numbers.pop(process, None)
            if number is not None and self._stopping_s is None:
                code = os.waitstatus_to_exitcode(status)
                facts = {"event": "worker_ended", "worker": number, "code": code}
                log.error("worker %d ended with %d", number, code, extra=facts)

    def _fork_missing(self) -> None:
        if self._stopping_s is not None:
            return
        for number in sorted(set(range(self._count)) - set(self._numbers.values())):
            if time.monotonic() - self._forked_s[number] >= RESTART_S:
                self._forked_s[number] = time.monotonic()
                self._fork(number)

    def _fork(self, number: int) -> None:
        """Start a worker; signals wait until it is one."""
        blocked = {getattr(signal, name) for name in _TOLD}
        signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        process = os.fork()
        if process:
            self._numbers[process] = number
            signal.pthread_sigmask(signal.SIG_UNBLOCK, blocked)
            return
        code = 1
        try:
            self._become_worker(number, blocked)
            code = 0
        except BaseException:
            log.exception("worker %d failed", number)
        finally:
            os._exit(code)

    def _become_worker(self, number: int, blocked: set[signal.Signals]) -> None:
        signal.set_wakeup_fd(-1)
        os.close(self._alive)
        os.setpgrp()  # what is typed at a terminal is for the parent to pass on
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        server, parent = self._server, os.getppid()
        server.beside.append(self._while_parent_lives)
        peers = Peers(self._folder, number, self._count)
        self._app.state.peers = peers
        state = self._app.state
        state.oip.tell_others = lambda: os.kill(parent, signal.SIGHUP)
        if hasattr(state, "admin"):
            state.admin.tell_others = state.oip.tell_others
        server.beside.append(lambda server: peers.telling(server.samples))
        server.when_started = lambda: signal.pthread_sigmask(
            signal.SIG_UNBLOCK, blocked
        )
        server.run_at(self._listener)

    @contextlib.asynccontextmanager
    async def _while_parent_lives(self, server: Server) -> AsyncIterator[None]:
        """Stop where the parent is gone: nobody else would stop this process."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.remove_reader(self._held_open)
            shutil.rmtree(self._folder, ignore_errors=True)
            server.handle_exit(signal.SIGTERM, None)

        loop.add_reader(self._held_open, stop)
        yield
        loop.remove_reader(self._held_open)


def _pass(*_: object) -> None:
    """Do nothing: the signal's number was written to the socket that is waited for."""
