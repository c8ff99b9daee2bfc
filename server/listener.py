"""Listening at an address, and serving there until told to stop."""

import contextlib
import signal
import socket

import uvicorn
from starlette.types import ASGIApp

from ..features.errors import BadInput
from .protocol import StampingProtocol

BACKLOG = 2048
# Above the 60 s of usual proxies, which would else reuse what is being closed.
KEEP_ALIVE_S = 65
DRAIN_S = 30


def listen(host: str, port: int) -> socket.socket:
    """Open a socket that listens at an address; port 0 takes a free one.

    Raises
    ------
    BadInput
        If the address cannot be listened at.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot listen at {host}, port {port}: {reason}") from error


def run(app: ASGIApp, listener: socket.socket) -> None:
    """Serve at a listening socket until SIGINT or SIGTERM, then finish and return."""
    config = uvicorn.Config(
        app,
        http=StampingProtocol,
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=DRAIN_S,
    )
    # uvicorn raises the signal that stopped it again, once it has stopped gracefully
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    with contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listener])
    signal.signal(signal.SIGTERM, before)
