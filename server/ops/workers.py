"""Several worker processes at one socket, and the parent that replaces them.

The parent loads all indexes, and runs all features and models once, before it forks the
workers. So the workers share the parent's memory, except the pages that they change.
"""

import asyncio
import contextlib
import functools
import gc
import logging
import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path

from fastapi import FastAPI

from polydom.features.errors import BadInput
from polydom.features.threads import one_thread

from ..metrics.across_workers import WorkerMetrics
from ..metrics.prometheus import samples_of
from ..settings import DRAIN_S
from .file_watch import POLL_S
from .server import ReloadingServer, ServeOptions, run
from .signal_socket import STOPS, SignalSocket, signals_of, survive_strays

# Minimum seconds between two starts of the same worker.
RESTART_S = 1.0
# Maximum seconds for a trial to load all files and run everything.
TRIAL_S = 120.0
# The signal by which a worker says that there are new orders, and the parent tells all.
_ORDERS = "SIGUSR2"
_HANDLED = (*STOPS, "SIGHUP", "SIGCHLD", _ORDERS)
# The signal that tells workers that a trial failed.
_TRIAL_FAILED = "SIGUSR1"

log = logging.getLogger("polydom")


def run_workers(
    app: FastAPI, listener: socket.socket, options: ServeOptions, count: int
) -> None:
    """Serve with `count` worker processes until a signal stops them.

    SIGHUP reloads all files. If `count` is 1, this process itself serves, and nothing
    replaces it if it dies.
    """
    if count == 1:
        run(app, listener, options)
        return
    if not hasattr(os, "fork"):
        raise BadInput("--workers above 1 needs a system that can fork")
    survive_strays()
    with tempfile.TemporaryDirectory(prefix="polydom-") as folder:
        Workers(app, listener, options, count, Path(folder)).run()


class Workers:
    """Forks workers, passes signals on to them, and replaces workers that end.

    Before a reload, a separate process, the *trial*, opens the files and runs all
    features and models. If the trial dies or hangs, no other process opens the files.
    Only this parent checks whether a file was replaced.
    """

    def __init__(
        self,
        app: FastAPI,
        listener: socket.socket,
        options: ServeOptions,
        count: int,
        folder: Path,
    ) -> None:
        self._app = app
        self._listener = listener
        self._watch = options.watch
        self._server = ReloadingServer(app, replace(options, watch=None))
        self._count = count
        self._folder = folder
        self._stop_limit_s = options.leave_s + DRAIN_S + 5
        self._numbers: dict[int, int] = {}  # numbers of workers, by process id
        self._forked_s = [-RESTART_S] * count
        self._stopping_s: float | None = None
        self._signals = SignalSocket(_HANDLED)
        self._reload_due = False
        # process id of the trial, and the time when it began
        self._trial: tuple[int, float] | None = None

    def run(self) -> None:
        """Serve until a signal stops the server and all workers have ended."""
        repository = self._server.repository
        repository.orders.path = self._folder / "orders.json"
        with one_thread():
            repository.run_once()
        # Garbage collection writes to every object that it visits. It does not visit
        # frozen objects, so their pages stay shared with the workers.
        gc.collect()
        gc.freeze()
        self._parent_lives, self._alive = os.pipe()
        try:
            with self._signals:
                self._keep_running()
        finally:
            for end in (self._parent_lives, self._alive):
                os.close(end)
            gc.unfreeze()

    def _keep_running(self) -> None:
        while not self._done():
            self._fork_missing()
            self._try_files()
            if heard := self._signals.wait(POLL_S):
                self._handle_signals(heard)
            elif self._watch is not None and self._watch.poll():
                self._reload_due = True
            self._reap()

    def _done(self) -> bool:
        if self._stopping_s is None:
            return False
        if time.monotonic() - self._stopping_s > self._stop_limit_s:
            self._signal_workers(signal.SIGKILL)
        return not self._numbers and self._trial is None

    def _handle_signals(self, numbers: set[int]) -> None:
        if numbers & signals_of(STOPS):
            self._stopping_s = self._stopping_s or time.monotonic()
            self._signal_workers(signal.SIGTERM)
            # a suspended worker must wake up to stop
            self._signal_workers(signal.SIGCONT)
            self._end_trial()
            return
        if numbers & signals_of((_ORDERS,)):
            self._signal_workers(getattr(signal, _ORDERS))
        if signal.SIGHUP in numbers:
            self._reload_due = True

    def _signal_workers(self, number: int) -> None:
        for process in self._numbers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, number)

    def _try_files(self) -> None:
        """Start a trial if a reload is due, or kill a trial that hangs."""
        if self._trial is not None:
            if time.monotonic() - self._trial[1] > TRIAL_S:
                self._end_trial()
        elif self._reload_due and self._stopping_s is None:
            self._reload_due = False
            self._trial = self._fork("trial", self._become_trial), time.monotonic()

    def _end_trial(self) -> None:
        if self._trial is not None:
            os.kill(self._trial[0], signal.SIGKILL)

    def _handle_trial(self, status: int) -> None:
        """Make all processes load the files, or log an error if the trial failed."""
        code = os.waitstatus_to_exitcode(status)
        if self._stopping_s is not None:
            return
        if code == 0:
            self._signal_workers(signal.SIGHUP)
            # signals to stop interrupt the loading, so that the server stops without
            # delay
            self._signals.run_interruptible(STOPS, self._load)
        else:
            facts = {"event": "reload_failed", "code": code}
            log.error(
                "nothing is reloaded: the process that tried the files ended with %d, "
                "and what is served stays",
                code,
                extra=facts,
            )
            self._signal_workers(getattr(signal, _TRIAL_FAILED))

    def _load(self) -> None:
        """Load the files in this process, too, for workers that it forks later."""
        self._server.repository.reopen()
        gc.collect()
        gc.freeze()

    def _reap(self) -> None:
        """Forget workers that have ended, and handle the end of a trial."""
        while self._numbers or self._trial is not None:
            process, status = os.waitpid(-1, os.WNOHANG)
            if not process:
                return
            number = self._numbers.pop(process, None)
            if number is not None and self._stopping_s is None:
                code = os.waitstatus_to_exitcode(status)
                facts = {"event": "worker_ended", "worker": number, "code": code}
                log.error("worker %d ended with %d", number, code, extra=facts)
            if self._trial is not None and process == self._trial[0]:
                self._trial = None
                self._handle_trial(status)

    def _fork_missing(self) -> None:
        if self._stopping_s is not None:
            return
        for number in sorted(set(range(self._count)) - set(self._numbers.values())):
            if time.monotonic() - self._forked_s[number] >= RESTART_S:
                self._forked_s[number] = time.monotonic()
                become = functools.partial(self._become_worker, number)
                process = self._fork(f"worker {number}", become)
                self._numbers[process] = number

    def _fork(self, name: str, become: Callable[[], object]) -> int:
        """Fork a process that calls `become`; return its id. The log shows `name`.

        Signals to the new process are held back until it calls `_unblock_signals`.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, _blocked())
        process = os.fork()
        if process:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _blocked())
            return process
        code = 1
        try:
            self._signals.leave_to_parent()
            os.close(self._alive)
            os.setpgrp()  # so that Ctrl-C reaches only the parent, which passes it on
            become()
            code = 0
        except BaseException:
            log.exception("%s failed", name)
        finally:
            os._exit(code)

    def _become_trial(self) -> None:
        """Open all files and run all code. Errors are ignored: workers report them."""
        # if memory runs out, the kernel should kill the trial, not the parent
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
        logging.disable()
        os.nice(10)
        with contextlib.suppress(Exception), one_thread():
            self._server.repository.reopen()
            self._server.repository.run_once()

    def _become_worker(self, number: int) -> None:
        _restore_default_handlers()
        self._share_metrics(number)
        tell = functools.partial(os.kill, os.getppid(), signal.SIGHUP)
        self._app.state.inference.notify_others = tell
        orders = getattr(signal, _ORDERS)
        self._app.state.tell_orders = functools.partial(os.kill, os.getppid(), orders)
        self._server.contexts += [
            self._while_parent_lives,
            _count_failed_trials,
            _follow_orders,
        ]
        self._server.when_started = _unblock_signals
        self._server.run_at(self._listener)

    def _share_metrics(self, number: int) -> None:
        peers = WorkerMetrics(self._folder, number, self._count)
        self._app.state.worker, self._app.state.others = number, peers.ask
        samples = functools.partial(samples_of, self._server.repository)
        self._server.contexts.append(lambda _: peers.telling(samples))

    @contextlib.asynccontextmanager
    async def _while_parent_lives(self, server: ReloadingServer) -> AsyncIterator[None]:
        """Stop this worker if its parent dies while the context is open."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            loop.remove_reader(self._parent_lives)
            shutil.rmtree(self._folder, ignore_errors=True)
            server.handle_exit(signal.SIGTERM, None)

        loop.add_reader(self._parent_lives, stop)
        yield
        loop.remove_reader(self._parent_lives)


@contextlib.asynccontextmanager
async def _count_failed_trials(server: ReloadingServer) -> AsyncIterator[None]:
    """Count a failed reload whenever the parent signals that a trial failed."""
    loop, number = asyncio.get_running_loop(), getattr(signal, _TRIAL_FAILED)
    loop.add_signal_handler(number, server.repository.count_failed)
    yield
    loop.remove_signal_handler(number)


@contextlib.asynccontextmanager
async def _follow_orders(server: ReloadingServer) -> AsyncIterator[None]:
    """Follow the orders about candidates whenever the parent signals new ones."""
    loop, number = asyncio.get_running_loop(), getattr(signal, _ORDERS)
    loop.add_signal_handler(number, server.repository.follow_orders)
    yield
    loop.remove_signal_handler(number)


def _restore_default_handlers() -> None:
    """Let signals end a worker that does not serve yet."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in signals_of(STOPS) - {signal.SIGINT}:
        signal.signal(number, signal.SIG_DFL)


def _blocked() -> set[signal.Signals]:
    """Return the signals that a new process blocks until `_unblock_signals`."""
    return signals_of((*_HANDLED, _TRIAL_FAILED))


def _unblock_signals() -> None:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _blocked())
