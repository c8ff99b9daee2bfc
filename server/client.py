"""Clients of a polydom server, for programs with and without an event loop.

Answers to a batch come while its items are still being sent. Usual HTTP libraries send
all of a request before they read any of the response, and would wait for the server
while it waits for them; so these speak HTTP/1.1 over sockets, with the parser that the
server has.
"""

import contextlib
import selectors
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Self

from .batch_wire import Totals
from .client_batch import LAST_CHUNK, BatchAnswer, batch_head, batch_terms, chunked
from .client_wire import (
    GRACE_S,
    READ_BYTES,
    Address,
    AnyItem,
    FromBatch,
    NoAnswer,
    Response,
    packer_of,
    patience_s,
    read_answer,
)
from .schema_predict import Answer

PAUSE_S = 0.05
_WOULD_BLOCK = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class Client:
    """Asks a server; its connections are kept open between requests.

    Threads may share one.

    Parameters
    ----------
    url
        Such as `http://127.0.0.1:8000`.
    token
        Where the server asks for one.
    grace_s
        How many seconds longer than its budget an answer is waited for.

    Examples
    --------
    ::

        with Client("http://127.0.0.1:8000") as client:
            client.wait_ready()
            print(client.predict("WIN a prize", budget_ms=5).label)
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8000",
        *,
        token: str | None = None,
        grace_s: float = GRACE_S,
    ) -> None:
        self._address = Address(url, token)
        self._grace_s = grace_s
        self._idle: list[socket.socket] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        while self._idle:
            self._idle.pop().close()

    def wait_ready(self, timeout_s: float = 60.0) -> None:
        """Wait until the server's indexes are warm.

        Raises
        ------
        NoAnswer
            If they are not within `timeout_s` seconds.
        """
        end_s = time.monotonic() + timeout_s
        request = self._address.request("GET", "/readyz", {}, b"", "")
        while True:
            left_s = end_s - time.monotonic()
            with contextlib.suppress(NoAnswer):
                if self._ask(request, max(left_s, PAUSE_S))[0] == 200:
                    return
            if left_s <= 0:
                raise NoAnswer(f"the server was not ready within {timeout_s:g} s")
            time.sleep(PAUSE_S)

    def predict(
        self,
        item: AnyItem,
        *,
        budget_ms: float | None = None,
        budget: float | None = None,
        model: str | None = None,
        on_infeasible: str | None = None,
        min_accuracy: float | None = None,
    ) -> Answer:
        """Classify one item.

        Parameters
        ----------
        item
            An image's or text's bytes, a text, a mapping of columns, or the path of a
            file with one of them (`.json` for columns).
        budget_ms, budget, model, on_infeasible, min_accuracy
            As in docs/wire-format.md.

        Raises
        ------
        PolydomError
            What the server raised, of the same class.
        NoAnswer
            If it cannot be reached, or gives none by `grace_s` after the budget.
        """
        request = self._address.predict(
            item,
            budget_ms=budget_ms,
            budget=budget,
            model=model,
            on_infeasible=on_infeasible,
            min_accuracy=min_accuracy,
        )
        return read_answer(*self._ask(request, patience_s(budget_ms, self._grace_s)))

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
    ) -> Iterator[FromBatch]:
        """Classify many items under one budget.

        Items are taken from the iterable no faster than the server reads them, and
        answers are given as they come: it may be of any length.

        Parameters
        ----------
        items
            All of one kind, as for `predict`.
        total_budget_ms, total_budget
            For all of them together; time runs from the call on.
        count
            How many there are; if not given, `len(items)` where there is such. The
            server gives out the budget better where it knows.
        model, on_bad_item, label, top
            As in docs/wire-format.md.

        Yields
        ------
        An `Entry` or `ErrorEntry` for each item, in order, and `Totals` at the end.

        Raises
        ------
        PolydomError
            As `predict`.
        """
        terms = batch_terms(
            items, total_budget_ms, total_budget, count, model, on_bad_item, label, top
        )
        patience = patience_s(total_budget_ms, self._grace_s)
        rest = iter(items)
        first = next(rest, None)
        kind, pack = packer_of("" if first is None else first)
        packed = (pack(item) for item in chain([] if first is None else [first], rest))
        head = batch_head(self._address, terms, kind)
        connection = self._connect(patience)
        with contextlib.closing(connection):
            yield from _duplex(connection, head, chunked(packed), kind, patience)

    def _ask(self, request: bytes, timeout_s: float) -> tuple[int, bytes]:
        """Send a request, read its response; again if an idle connection was dead."""
        while True:
            fresh = not self._idle
            connection = self._connect(timeout_s) if fresh else self._idle.pop()
            response = Response()
            try:
                connection.settimeout(timeout_s)
                connection.sendall(request)
                body = []
                while not response.complete:
                    response.feed(connection.recv(READ_BYTES))
                    body.append(response.take())
            except (OSError, NoAnswer) as error:
                connection.close()
                late = isinstance(error, TimeoutError)
                if fresh or response.touched or late:
                    raise _no_answer(error, timeout_s) from error
                continue
            except BaseException:
                connection.close()
                raise
            if response.lasting:
                self._idle.append(connection)
            else:
                connection.close()
            return response.status, b"".join(body)

    def _connect(self, timeout_s: float) -> socket.socket:
        address = self._address
        try:
            raw = socket.create_connection((address.host, address.port), timeout_s)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if address.tls is None:
                return raw
            return address.tls.wrap_socket(raw, server_hostname=address.host)
        except OSError as error:
            raise _no_answer(error, timeout_s) from error


def _duplex(
    connection: socket.socket,
    head: bytes,
    chunks: Iterator[bytes],
    kind: str,
    patience: float,
) -> Iterator[FromBatch]:
    """Send and receive at the same time, whatever is possible first."""
    connection.setblocking(False)
    answer = BatchAnswer(kind)
    unsent, ended = memoryview(head), False
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while not answer.complete:
            if not unsent:
                chunk = next(chunks, b"")
                ended = ended or chunk == LAST_CHUNK
                unsent = memoryview(chunk)
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if unsent else 0)
            selector.modify(connection, wanted)
            if not selector.select(patience):
                raise NoAnswer(f"nothing came from the server for {patience:g} s")
            data = _receive(connection)
            if data is not None:
                for entry in answer.feed(data):
                    if isinstance(entry, Totals) and not ended:
                        # nothing more is read
                        chunks, ended = iter((LAST_CHUNK,)), True
                    yield entry
            with contextlib.suppress(*_WOULD_BLOCK):
                try:
                    unsent = unsent[connection.send(unsent) :] if unsent else unsent
                except (BrokenPipeError, ConnectionResetError):
                    unsent, chunks = memoryview(b""), iter(())
    answer.check()


def _receive(connection: socket.socket) -> bytes | None:
    """Return what is there, b"" at the end, None where nothing is."""
    try:
        data = connection.recv(READ_BYTES)
        # decrypted already, so that no selector tells of it
        while isinstance(connection, ssl.SSLSocket) and connection.pending():
            data += connection.recv(READ_BYTES)
    except _WOULD_BLOCK:
        return None
    except OSError as error:
        raise NoAnswer(f"the connection broke: {error}") from error
    return data


def _no_answer(error: Exception, timeout_s: float) -> NoAnswer:
    if isinstance(error, NoAnswer):
        return error
    if isinstance(error, TimeoutError):
        return NoAnswer(f"no answer came within {timeout_s:g} s")
    return NoAnswer(f"the server cannot be reached: {error}")
