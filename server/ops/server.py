"""Runs one server process: opens its socket, and serves until a signal ends it."""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI

from polydom.features.errors import BadInput

from ..errors import ReloadFailed
from ..http.accept_queue import AcceptQueue
from ..http.protocol import HttpProtocol
from ..http.reply import RawReplies
from ..runtime.admission_control.admission import ACCEPTED
from ..runtime.repository import Repository
from ..runtime.work_queue import run_in_thread
from ..settings import DRAIN_S, KEEP_ALIVE_S
from .file_watch import POLL_S, Watch
from .signal_socket import survive_strays

BACKLOG = 2048

lifecycle = logging.getLogger("polydom.life")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Options of a server's process that do not affect answers."""

    # Watch over index files, to reload replaced ones; None for no watch
    watch: Watch | None = None
    # Seconds after a signal to stop in which the server still takes connections, but
    # says "not ready", so that load balancers notice
    leave_s: float = 0.0
    # PEM files of the certificate and its key, for TLS
    certificate: Path | None = None
    key: Path | None = None


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address; raise BadInput if that is impossible.

    For port 0, the system chooses a free port.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot listen at {host}, port {port}: {reason}") from error


def free_port(host: str, port: int) -> int:
    """Return `port`, or a free port for 0; raise BadInput if the port is in use."""
    with listen(host, port) as probe:
        found: int = probe.getsockname()[1]
        return found


def run(
    app: FastAPI, listener: socket.socket, options: ServeOptions = ServeOptions()
) -> None:
    """Serve `app` until SIGTERM, SIGINT or SIGQUIT; then finish open requests."""
    survive_strays()
    ReloadingServer(app, options).run_at(listener)


class ReloadingServer(uvicorn.Server):
    """Uvicorn's server, which also reloads on SIGHUP and when a file is replaced.

    The constructor raises BadInput if the certificate or key cannot be used. Each
    function in `contexts` gets the server and returns a context manager, which is open
    while the server serves. `when_started` is called when the server accepts
    connections and handles signals.
    """

    def __init__(self, app: FastAPI, options: ServeOptions) -> None:
        config = uvicorn.Config(
            app,
            http=HttpProtocol,
            ws="none",
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            timeout_keep_alive=KEEP_ALIVE_S,
            timeout_graceful_shutdown=DRAIN_S,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.key,
        )
        if options.key is not None and options.certificate is None:
            raise BadInput("--ssl-keyfile needs --ssl-certfile")
        try:
            config.load()
        except (OSError, ValueError) as error:  # SSLError is an OSError
            key = f", --ssl-keyfile {options.key}" if options.key else ""
            raise BadInput(
                f"--ssl-certfile {options.certificate}{key}: {error}; a certificate "
                "and its key, as PEM, are needed"
            ) from error
        super().__init__(config)
        self.repository: Repository = app.state.repository
        self._when_stopping: list[Callable[[], None]] = app.state.when_stopping
        self.contexts: list[
            Callable[[ReloadingServer], contextlib.AbstractAsyncContextManager[None]]
        ] = []
        self.options = options
        self.when_started: Callable[[], object] = bool
        self._stopping = False
        self._taking = set[asyncio.Task[object]]()

    def run_at(self, listener: socket.socket) -> None:
        """Serve connections to `listener` until a signal stops the server."""
        # after its graceful stop, uvicorn raises the signal again
        before = signal.signal(signal.SIGTERM, lambda *_: None)
        with contextlib.suppress(KeyboardInterrupt):
            self.run(sockets=[listener])
        signal.signal(signal.SIGTERM, before)

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        """Serve, handle signals and watch files, while all `contexts` are open."""
        async with contextlib.AsyncExitStack() as stack:
            loop = self._loop = asyncio.get_running_loop()
            if hasattr(signal, "SIGHUP"):  # missing on Windows
                requested = asyncio.Event()
                loop.add_signal_handler(signal.SIGHUP, requested.set)
                stack.callback(loop.remove_signal_handler, signal.SIGHUP)
                reloading = asyncio.create_task(self._reload_on_request(requested))
                stack.callback(reloading.cancel)
            if hasattr(signal, "SIGQUIT"):  # uvicorn only knows SIGTERM
                stop = partial(self.handle_exit, signal.SIGTERM, None)
                loop.add_signal_handler(signal.SIGQUIT, stop)
                stack.callback(loop.remove_signal_handler, signal.SIGQUIT)
            if self.options.watch is not None:
                watching = self._reload_replaced(self.options.watch)
                stack.callback(asyncio.create_task(watching).cancel)
            for context in self.contexts:
                await stack.enter_async_context(context(self))
            address = [str(s.getsockname()) for s in sockets or ()]
            names = list(self.repository.names())
            facts = {"event": "start", "address": address, "models": names}
            lifecycle.info("starting", extra=facts)
            await super().serve(sockets)
            lifecycle.info("stopped", extra={"event": "stop"})

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to accept connections and to handle signals.

        In each turn, the event loop accepts only one connection from each socket. So
        uvicorn gets several copies of each socket, to accept several connections in a
        turn.
        """
        for given in sockets or ():
            # copies share this mode, and accepting must not block
            given.setblocking(False)
        copies = [s.dup() for s in sockets or () for _ in range(ACCEPTED - 1)]
        await super().startup([*sockets, *copies] if sockets else None)
        state = self.lifespan.state
        if "admission" in state and not self.config.is_ssl:
            more = BACKLOG, asyncio.get_running_loop().call_later
            queue = AcceptQueue(sockets or (), self._take, self._refusal, *more)
            state["admission"].shorten_queue = queue.shorten
        self.when_started()

    def _refusal(self) -> bytes:
        replies: RawReplies = self.lifespan.state["replies"]
        return replies.refusal(self.server_state.default_headers, keeps=False)

    def _take(self, connection: socket.socket) -> None:
        """Serve an accepted connection."""
        protocol = partial(
            HttpProtocol,
            config=self.config,
            server_state=self.server_state,
            app_state=self.lifespan.state,
            _loop=self._loop,
        )
        taking = self._loop.connect_accepted_socket(protocol, connection)
        task = self._loop.create_task(taking)
        self._taking.add(task)
        task.add_done_callback(self._taking.discard)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop HTTP and gRPC at the same time, and finish open requests."""
        for stop in self._when_stopping:
            stop()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Report "not ready" for `leave_s` seconds, then stop.

        A second signal stops the server at once.
        """
        self.repository.leaving = True
        stop = partial(super().handle_exit, sig, frame)
        if self._stopping or not self.options.leave_s:
            stop()
        else:
            self._stopping = True
            later = partial(self._loop.call_later, self.options.leave_s, stop)
            self._loop.call_soon_threadsafe(later)

    async def reload(self, names: Iterable[str | None]) -> None:
        """Load the files of the named models again; the name None means all models.

        If a file cannot be served, nothing is raised: the repository logs the error.
        """
        for name in names:
            with contextlib.suppress(ReloadFailed):
                await self.repository.reload(name)

    async def _reload_on_request(self, requested: asyncio.Event) -> None:
        while True:
            await requested.wait()
            requested.clear()  # a request during the reload causes another one
            await self.reload([None])

    async def _reload_replaced(self, watch: Watch) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            await self.reload(await run_in_thread(watch.poll))
