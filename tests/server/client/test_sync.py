"""The client against a real server, and against one that fails it."""

import asyncio
import contextlib
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polydom.features.errors import BadInput, BadItem, NothingFits
from polydom.server import AsyncClient, Client
from polydom.server.client.messages import FromBatch, NoAnswer
from polydom.server.client.sync import SocketConnection
from polydom.server.errors import Unauthorized
from polydom.server.schema.wire import Entry, ErrorEntry, Totals
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.processes.servers import POLYDOM, serving

OWN = f"--features={FEATURES_FILE}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(save_index(tmp_path_factory.mktemp("client")), OWN) as (_, port):
        yield f"http://127.0.0.1:{port}"


def test_client_predicts_texts_bytes_and_files(url: str, tmp_path: Path) -> None:
    (tmp_path / "spam.txt").write_text(SPAM)
    with Client(url) as client:
        client.wait_ready()
        for item in (SPAM, SPAM.encode(), tmp_path / "spam.txt"):
            answer = client.predict(item, budget_ms=900)
            assert (answer.label, answer.budget_us) == ("spam", 9e5)
        assert client.predict("", budget_ms=0).features == ()


def test_client_keeps_its_connection(url: str) -> None:
    with Client(url) as client:
        client.predict(HAM)
        (connection,) = client._client._idle
        client.predict(HAM)
        assert client._client._idle == [connection]
    assert client._client._idle == []


def test_client_asks_again_where_an_idle_connection_was_closed(url: str) -> None:
    with Client(url) as client:
        client.predict(HAM)
        (connection,) = client._client._idle
        assert isinstance(connection, SocketConnection)
        connection._socket.shutdown(socket.SHUT_RDWR)
        assert client.predict(HAM, budget_ms=900).label == "ham"


@pytest.mark.parametrize("listed", [True, False])
def test_client_counts_the_items_where_it_can(listed: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Client(f"http://127.0.0.1:{listener.getsockname()[1]}", grace_s=0.1)
        items = [SPAM, HAM] if listed else iter([SPAM, HAM])
        with contextlib.suppress(NoAnswer):
            next(client.predict_batch(items, total_budget_ms=5.0))
        with listener.accept()[0] as connection:
            head = connection.recv(4096).partition(b"\r\n\r\n")[0]
    query = b"budget_ms=5.0&count=2" if listed else b"budget_ms=5.0"
    assert head.startswith(b"POST /v1/batch?%b HTTP/1.1\r\n" % query)
    assert b"transfer-encoding: chunked" in head


def test_client_raises_what_the_server_raised(url: str) -> None:
    with Client(url) as client:
        with pytest.raises(BadInput, match="must be a finite number"):
            client.predict(HAM, budget_ms=-1)
        with pytest.raises(BadItem, match="classifies one text"):
            client.predict({"a": 1})
        with pytest.raises(NothingFits, match="are left"):
            client.predict(HAM, budget_ms=0, on_infeasible="error")
        with pytest.raises(BadInput, match="not int"):
            client.predict(7)  # type: ignore[arg-type]
        assert client.predict(HAM).label == "ham"


def test_client_gives_its_token(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text("a-token-long-enough-to-be-one\n")
    with serving(save_index(tmp_path), OWN, f"--token-file={tokens}") as (_, port):
        url = f"http://127.0.0.1:{port}"
        with Client(url) as client, pytest.raises(Unauthorized):
            client.predict(HAM)
        with Client(url, token="a-token-long-enough-to-be-one") as client:
            assert client.predict(SPAM, budget_ms=900).label == "spam"
            *_, totals = client.predict_batch([HAM], total_budget_ms=900)
            assert isinstance(totals, Totals)


def test_client_streams_a_batch_both_ways(url: str) -> None:
    """Items are sent until an answer to one of them has come, and 20,000 in all."""
    sent = answered = 0

    def texts() -> Iterator[str]:
        nonlocal sent
        while sent < 20_000 or not answered:
            sent += 1
            yield (SPAM, HAM)[sent % 2]

    with Client(url) as client:
        for entry in client.predict_batch(texts(), total_budget_ms=20_000):
            if isinstance(entry, Entry):
                assert entry.item == answered
                answered += 1
    assert isinstance(entry, Totals)
    assert (entry.items, entry.errors, answered) == (sent, 0, sent)


def test_client_gives_errors_in_their_places_and_the_number_of_items(url: str) -> None:
    with Client(url) as client:
        found = list(client.predict_batch([HAM, {"a": 1}, SPAM], total_budget_ms=900))
        kinds = [type(entry) for entry in found]
        assert kinds == [Entry, ErrorEntry, Entry, Totals]
        (totals,) = client.predict_batch([], total_budget_ms=1)
        assert isinstance(totals, Totals)
        terms: Any = {"label": "spam", "top": 1}
        listed = client.predict_batch([HAM, SPAM], total_budget_ms=900, **terms)
        assert [getattr(entry, "item", None) for entry in listed] == [1, None]


def test_client_raises_what_ends_a_batch_before_it_begins(url: str) -> None:
    with Client(url) as client:
        with pytest.raises(BadInput, match="total_budget_ms"):
            list(client.predict_batch([HAM]))
        with pytest.raises(BadInput, match="no class 'eggs'"):
            list(client.predict_batch([HAM], total_budget_ms=1, label="eggs", top=1))


def test_client_may_leave_a_batch(url: str) -> None:
    with Client(url) as client:
        for entry in client.predict_batch([HAM] * 9000, total_budget_ms=60_000):
            assert isinstance(entry, Entry)
            break
        assert client.predict(SPAM, budget_ms=900).label == "spam"


def test_clients_stop_sending_when_the_server_reads_no_more(url: str) -> None:
    def texts() -> Iterator[str | dict[str, int]]:
        yield from [HAM] * 500
        yield {"a": 1}
        while True:
            yield HAM

    terms: Any = {"total_budget_ms": 20_000, "on_bad_item": "stop"}

    async def ask() -> list[FromBatch]:
        async with AsyncClient(url) as client:
            return [entry async for entry in client.predict_batch(texts(), **terms)]

    with Client(url) as client:
        found = list(client.predict_batch(texts(), **terms))
    for *answers, error, totals in (found, asyncio.run(ask())):
        assert {type(answer) for answer in answers} == {Entry}
        assert isinstance(error, ErrorEntry)
        assert isinstance(totals, Totals)
        assert (len(answers), totals.items) == (500, 501)


def test_client_lets_the_items_own_error_through(url: str) -> None:
    def texts() -> Iterator[str]:
        yield HAM
        raise KeyError("mine")

    with Client(url) as client, pytest.raises(KeyError, match="mine"):
        list(client.predict_batch(texts(), total_budget_ms=900))


def replies(text: bytes, count: int = 1) -> str:
    """The address of a server that answers so, whatever is asked."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        with listener:
            for _ in range(count):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(9999)
                    connection.sendall(text)

    threading.Thread(target=run, daemon=True).start()
    return f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (b"", "closed before"),
        (b"SSH-2.0-OpenSSH\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\n{", "closed before"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}", "no answer of polydom"),
        (b"HTTP/1.1 502 Bad\r\ncontent-length: 2\r\n\r\n<>", "status 502"),
        # nobody goes there with the token
        (b"HTTP/1.1 307 R\r\nlocation: //x\r\ncontent-length: 0\r\n\r\n", "307"),
    ],
)
def test_client_says_what_is_no_answer(reply: bytes, message: str) -> None:
    with Client(replies(reply)) as client, pytest.raises(NoAnswer, match=message):
        client.predict(HAM)


def test_client_waits_no_longer_than_budget_and_grace() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Client(url, grace_s=0.05) as client:
            with pytest.raises(NoAnswer, match=r"within 0.051 s"):
                client.predict(HAM, budget_ms=1)
            with pytest.raises(NoAnswer, match=r"for 0.051 s"):
                list(client.predict_batch([HAM], total_budget_ms=1))
            with pytest.raises(NoAnswer, match=r"ready within 0.1 s"):
                client.wait_ready(0.1)
    with Client(url) as client, pytest.raises(NoAnswer, match="cannot be reached"):
        client.predict(HAM)


def test_client_waits_so_long_for_the_whole_answer_and_not_for_each_byte() -> None:
    """The server sends a head without an end, a little more of it all the time."""
    gone = threading.Event()

    def run(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):
            connection.sendall(b"HTTP/1.1 200 OK\r\nx: ")
            while not gone.wait(0.02):
                connection.sendall(b"x")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=run, args=(listener,), daemon=True).start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        late = pytest.raises(NoAnswer, match=r"within 0.201 s")
        with Client(url, grace_s=0.2) as client, late:
            client.predict(HAM, budget_ms=1)
        gone.set()


def test_clients_ask_over_tls(
    pem: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    options = [f"--ssl-certfile={pem / 'certificate'}", f"--ssl-keyfile={pem / 'key'}"]
    monkeypatch.setenv("SSL_CERT_FILE", str(pem / "certificate"))
    command = [*POLYDOM, "serve", str(save_index(tmp_path)), OWN, "--port=0", *options]
    texts = [HAM, SPAM] * 2000

    async def ask(url: str) -> None:
        async with AsyncClient(url) as client:
            for _ in range(2):
                assert (await client.predict(SPAM, budget_ms=900)).label == "spam"
            batch = client.predict_batch(texts, total_budget_ms=9000)
            assert len([entry async for entry in batch]) == len(texts) + 1

    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = process.stdout.readline().split()[-1]
            with Client(url) as client:
                client.wait_ready()
                for _ in range(2):
                    assert client.predict(SPAM, budget_ms=900).label == "spam"
                batch = client.predict_batch(texts, total_budget_ms=9000)
                assert len(list(batch)) == len(texts) + 1
            asyncio.run(ask(url))
        finally:
            process.terminate()


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf")])
def test_a_budget_that_is_none_is_named_as_it_was_given(amount: float) -> None:
    with Client("http://127.0.0.1:1") as client:  # nobody is asked
        for name in ("budget_ms", "budget"):
            with pytest.raises(BadInput, match=f"^{name} is {amount!r}; it must be"):
                client.predict(HAM, **{name: amount})  # type: ignore[arg-type]
        for name in ("total_budget_ms", "total_budget"):
            with pytest.raises(BadInput, match=f"^{name} is {amount!r}; it must be"):
                next(client.predict_batch([HAM], **{name: amount}))  # type: ignore[arg-type]
