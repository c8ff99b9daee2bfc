"""The client for event loops against a real server."""

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from polydom.features.errors import BadInput
from polydom.server import AsyncClient
from polydom.server.client.aio import StreamConnection
from polydom.server.client.messages import NoAnswer
from polydom.server.schema.wire import Entry, Totals
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.processes.servers import serving

OWN = f"--features={FEATURES_FILE}"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(save_index(tmp_path_factory.mktemp("client")), OWN) as (_, port):
        yield f"http://127.0.0.1:{port}"


def test_async_client_predicts_and_keeps_its_connections(url: str) -> None:
    async def run() -> None:
        async with AsyncClient(url) as client:
            await client.wait_ready()
            asked = [client.predict(text, budget_ms=900) for text in (HAM, SPAM) * 5]
            answers = await asyncio.gather(*asked)
            assert [answer.label for answer in answers] == ["ham", "spam"] * 5
            assert 1 <= len(client._idle) <= 10
            connection = client._idle[-1]
            assert isinstance(connection, StreamConnection)
            connection._writer.transport.abort()  # as a server would that restarts
            assert (await client.predict(SPAM, budget_ms=900)).label == "spam"
            with pytest.raises(BadInput, match="must be a finite number"):
                await client.predict(HAM, budget_ms=-1)

    asyncio.run(run())


def test_async_client_streams_a_batch_both_ways(url: str) -> None:
    async def run() -> None:
        answered = 0
        seen = asyncio.Event()

        async def texts() -> AsyncIterator[str]:
            for number in range(3000):
                if number == 2999:
                    await seen.wait()  # for an answer while this still sends
                yield (HAM, SPAM)[number % 2]

        async with AsyncClient(url) as client:
            async for entry in client.predict_batch(texts(), total_budget_ms=9000):
                seen.set()
                if isinstance(entry, Entry):
                    assert entry.item == answered
                    answered += 1
            assert isinstance(entry, Totals)
            assert (entry.items, answered) == (3000, 3000)
            found = [e async for e in client.predict_batch([], total_budget_ms=1)]
            assert [type(entry) for entry in found] == [Totals]

    asyncio.run(run())


def test_async_client_raises_what_breaks_a_batch(url: str) -> None:
    async def texts() -> AsyncIterator[str]:
        yield HAM
        raise KeyError("mine")

    async def run() -> None:
        async with AsyncClient(url) as client:
            with pytest.raises(BadInput, match="no class 'eggs'"):
                async for _ in client.predict_batch(
                    [HAM], total_budget_ms=1, label="eggs", top=1
                ):
                    pass
            with pytest.raises(KeyError, match="mine"):
                async for _ in client.predict_batch(texts(), total_budget_ms=9000):
                    pass

    asyncio.run(run())


def test_async_client_waits_no_longer_than_budget_and_grace() -> None:
    async def run(url: str) -> None:
        async with AsyncClient(url, grace_s=0.05) as client:
            with pytest.raises(NoAnswer, match=r"within 0.051 s"):
                await client.predict(HAM, budget_ms=1)
            with pytest.raises(NoAnswer, match=r"for 0.051 s"):
                async for _ in client.predict_batch([HAM], total_budget_ms=1):
                    pass
            with pytest.raises(NoAnswer, match=r"ready within 0.1 s"):
                await client.wait_ready(0.1)

    async def ask(url: str) -> None:
        async with AsyncClient(url) as client:
            await client.predict(HAM)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        asyncio.run(run(url))
    with pytest.raises(NoAnswer, match="cannot be reached"):
        asyncio.run(ask(url))


def test_waiting_for_the_callers_own_items_is_no_silence() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(99))
        await reader.read()
        writer.close()
        await writer.wait_closed()

    async def chunks() -> AsyncIterator[bytes]:
        await asyncio.sleep(1.5)
        yield b"x"

    async def run() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            connection = StreamConnection(
                *await asyncio.open_connection("127.0.0.1", port)
            )
            received = connection.send_and_receive(chunks(), silence_s=1.0)
            assert await anext(received) == b"x"
            with pytest.raises(NoAnswer, match="nothing came from the server for 1 s"):
                await anext(received)
            await connection.close()

    asyncio.run(run())
