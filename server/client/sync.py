"""The blocking client, for programs without an event loop.

`Client` runs the coroutines of `AsyncClient` over blocking connections. Such a
coroutine never waits for an event loop, so a single step runs the whole coroutine.
"""

import selectors
import socket
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Iterable, Iterator
from typing import Self, TypeVar

from ..schema.rollout import RolloutAsk, RolloutsFacts
from ..schema.wire import Answer
from .aio import AsyncClient, StreamConnection
from .encode_item import AnyItem
from .messages import GRACE_S, READ_BYTES, ROLLOUT_S, FromBatch, broken, silent

_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
T = TypeVar("T")


class Client:
    """A client that sends requests to a server, and keeps its connections open.

    Threads may share a client.

    Parameters
    ----------
    url
        Address of the server, such as `http://127.0.0.1:8000`.
    token
        Bearer token; None if the server needs none.
    grace_s
        Seconds that the client waits for an answer in addition to the request's budget;
        for a request without a budget, 1 s is assumed. In a batch, the client waits
        this long, budget plus `grace_s`, whenever nothing can be sent or received.

    Examples
    --------
    ```python
    with Client("http://127.0.0.1:8000") as client:
        client.wait_ready()
        print(client.predict("WIN a prize", budget_ms=5).label)
    ```
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._client = _BlockingClient(url, token=token, grace_s=grace_s)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections to the server."""
        _run(self._client.close())

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the server is ready to answer from all its indexes.

        Raises
        ------
        NoAnswer
            If the server is not ready within `timeout_s` seconds.
        """
        _run(self._client.wait_ready(timeout_s))

    def predict(
        self,
        item: AnyItem,
        *,
        budget_ms: float | None = None,
        budget: float | None = None,
        model: str | None = None,
        on_infeasible: str | None = None,
        min_quality: float | None = None,
        exact: bool = False,
        threshold: float | None = None,
        fetch: str | None = None,
        max_price: float | None = None,
        explain: bool = False,
    ) -> Answer:
        """Classify one item.

        Parameters
        ----------
        item
            Bytes of an image or text, a text, a mapping of columns, or the path of a
            file with one of these (`.json` for columns).
        budget_ms, budget, model, on_infeasible, min_quality, exact, threshold, fetch,
        max_price, explain
            As in docs/reference/http.md.

        Raises
        ------
        PolydomError
            The server's error, of the class that the server raised.
        NoAnswer
            If the server cannot be reached, or does not answer within the budget plus
            `grace_s`.
        """
        return _run(
            self._client.predict(
                item,
                budget_ms=budget_ms,
                budget=budget,
                model=model,
                on_infeasible=on_infeasible,
                min_quality=min_quality,
                exact=exact,
                threshold=threshold,
                fetch=fetch,
                max_price=max_price,
                explain=explain,
            )
        )

    def roll_out(
        self, ask: RolloutAsk | None = None, *, timeout_s: float = ROLLOUT_S
    ) -> RolloutsFacts:
        """Order what a candidate is used for; without an order, only ask for facts.

        The client's token must be an administrator's. Raises the server's error, and
        NoAnswer after `timeout_s` seconds.
        """
        return _run(self._client.roll_out(ask, timeout_s=timeout_s))

    def predict_batch(
        self,
        items: Iterable[AnyItem],
        *,
        total_budget_ms: float | None = None,
        total_budget: float | None = None,
        count: int | None = None,
        model: str | None = None,
        on_bad_item: str | None = None,
        label: str | None = None,
        top: int | None = None,
        exact: bool = False,
        fetch: str | None = None,
        max_price: float | None = None,
    ) -> Iterator[FromBatch]:
        """Classify many items under one budget.

        The client reads `items` only as fast as the server receives them, and yields
        answers as they arrive, so a batch can be of any length.

        Parameters
        ----------
        items
            Items of one kind, as for `predict`.
        total_budget_ms, total_budget
            Budget of all items together; a time budget begins with the call.
        count
            Number of items, by which the server divides the budget; by default
            `len(items)`, if they have a length.
        model, on_bad_item, label, top, exact, fetch, max_price
            As in docs/reference/http.md.

        Yields
        ------
        An `Entry` or `ErrorEntry` for each item, in order, and `Totals` at the end.

        Raises
        ------
        PolydomError
            If the server refuses the whole batch; of the class that the server raised.
        NoAnswer
            If the server cannot be reached, or nothing can be sent or received for
            `grace_s` seconds in addition to the budget.
        """
        entries = self._client.predict_batch(
            items,
            total_budget_ms=total_budget_ms,
            total_budget=total_budget,
            count=count,
            model=model,
            on_bad_item=on_bad_item,
            label=label,
            top=top,
            exact=exact,
            fetch=fetch,
            max_price=max_price,
        )
        try:
            while True:
                yield _run(anext(entries))
        except StopAsyncIteration:
            return
        finally:
            _run(entries.aclose())


class _BlockingClient(AsyncClient):
    async def _open(self, end_s: float) -> "SocketConnection":
        address = self._address
        where = (address.host, address.port)
        connection = socket.create_connection(where, _left_s(end_s))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if address.tls is not None:
            connection = address.tls.wrap_socket(
                connection, server_hostname=address.host
            )
        return SocketConnection(connection)

    async def _sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class SocketConnection(StreamConnection):
    """A connection whose calls block the calling thread."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    async def send(self, data: bytes, end_s: float) -> None:
        """Send all bytes; raise TimeoutError at the time `end_s`."""
        self._socket.settimeout(_left_s(end_s))
        self._socket.sendall(data)

    async def receive(self, end_s: float) -> bytes:
        """Return the next bytes that arrive; b"" after the server has closed."""
        self._socket.settimeout(_left_s(end_s))
        return self._socket.recv(READ_BYTES)

    async def send_and_receive(
        self, chunks: AsyncIterator[bytes], silence_s: float
    ) -> AsyncGenerator[bytes, None]:
        """Send chunks and yield received bytes, as `StreamConnection` does."""
        self._socket.setblocking(False)
        unsent, ended = memoryview(b""), False
        with selectors.DefaultSelector() as selector:
            selector.register(self._socket, selectors.EVENT_READ)
            while True:
                if not unsent and not ended:
                    unsent = memoryview(await anext(chunks, b""))
                    ended = not unsent
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent else 0)
                selector.modify(self._socket, wanted)
                if not selector.select(silence_s):
                    raise silent(silence_s)
                data = self._receive_some()
                if data is not None:
                    yield data
                try:
                    sent = self._socket.send(unsent) if unsent else 0
                    unsent = unsent[sent:]
                except _WOULD_BLOCK:
                    pass
                except OSError:  # the server has closed its side; its response says why
                    unsent, ended = memoryview(b""), True

    def _receive_some(self) -> bytes | None:
        """Return bytes that have arrived; None if there are none.

        Return b"" after the server has closed.
        """
        try:
            data = self._socket.recv(READ_BYTES)
            # TLS may hold decrypted bytes in the socket, and a selector cannot see them
            while isinstance(self._socket, ssl.SSLSocket) and self._socket.pending():
                data += self._socket.recv(READ_BYTES)
        except _WOULD_BLOCK:
            return None
        except OSError as error:
            raise broken(error) from error
        return data

    async def close(self) -> None:
        """Close the connection."""
        self._socket.close()


def _left_s(end_s: float) -> float:
    # a timeout of 0 would make the socket non-blocking
    return max(end_s - time.monotonic(), 1e-6)


def _run(steps: Awaitable[T]) -> T:
    """Run a coroutine that never waits for an event loop, and return its result."""
    try:
        next(steps.__await__())
    except StopIteration as done:
        result: T = done.value
        return result
    raise AssertionError("a connection that blocks waited for an event loop")
