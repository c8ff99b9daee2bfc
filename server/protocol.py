"""HTTP/1.1 by uvicorn, with the time at which each request's first byte was read."""

import time
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from .engine import Caller
from .wire import Failure, encode


class StampingProtocol(HttpToolsProtocol):
    """Adds `arrived_s` and `caller` to the state in every request's ASGI scope.

    A request's time is that of the read which brought its first byte, so of several
    requests in one read (pipelining) each has the same, and none has the time at
    which the one before it was answered.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.caller = Caller()
        self.read_s = 0.0

    def data_received(self, data: bytes) -> None:
        """Take the time, then parse."""
        self.read_s = time.monotonic()
        super().data_received(data)

    def on_message_begin(self) -> None:
        """Stamp the request that begins; the parser calls this at its first byte."""
        super().on_message_begin()
        self.scope["state"]["arrived_s"] = self.read_s
        self.scope["state"]["caller"] = self.caller

    def send_400_response(self, msg: str) -> None:
        """Answer what is no HTTP in the form of every other error."""
        body = encode(Failure(msg, "bad_input"))
        self.transport.write(
            b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n"
            b"content-type: application/json\r\n"
            b"content-length: %d\r\n\r\n%b" % (len(body), body)
        )
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Let the work for this connection know that nobody waits for it."""
        self.caller.gone = True
        super().connection_lost(exc)
