"""Requests for one item, and a client that sends one image after the other."""

import base64
import json
import time
from types import TracebackType
from typing import Any, Self

from polydom.features.items import Item

from .open_loop import Connection

REST = 4.0  # times as long as an answer took


def post(item: Item, query: str = "") -> bytes:
    """A whole request for one image."""
    assert isinstance(item.payload, bytes)
    head = (
        f"POST /v1/predict?{query} HTTP/1.1\r\nhost: x\r\n"
        "content-type: application/octet-stream\r\n"
        f"content-length: {len(item.payload)}\r\n\r\n"
    )
    return head.encode() + item.payload


def body_of(kind: str, sample: Any, budget_ms: float) -> bytes:
    """The JSON that asks for an item of any kind."""
    field = "image_base64" if kind == "image" else kind
    value = base64.b64encode(sample).decode() if kind == "image" else sample
    return json.dumps({field: value, "budget_ms": budget_ms}).encode()


class Client:
    """One connection to a server.

    Parameters
    ----------
    rests
        Whether it waits after each answer, so that the server has its share of a core
        that it has not for itself.
    """

    def __init__(self, port: int, rests: bool = False) -> None:
        self._connection = Connection(port)
        self._rests = rests

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.socket.close()

    def ask(
        self, item: Item, budget_ms: float, model: str | None = None
    ) -> tuple[float, dict[str, Any]]:
        """Seconds until the answer was read, and the answer."""
        query = f"budget_ms={budget_ms}" + (f"&model={model}" if model else "")
        self._connection.send(post(item, query), 0, 0.0)
        exchange = None
        while exchange is None:
            exchange = self._connection.receive()
        took_s = exchange.done_s - exchange.sent_s
        if self._rests:
            time.sleep(REST * took_s)
        return took_s, json.loads(exchange.body)
