"""When a request is stamped, and who is told that its caller left; real sockets."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn

from polydom.server.engine.request import Caller
from polydom.server.http.protocol import HttpProtocol

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n"
Talk = Callable[[Any, Any, Any], Awaitable[Any]]


class Echo:
    """Answers with its arrival stamp, once the whole body is there."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        self.callers.append(scope["state"]["caller"])
        self.asked.set()
        await self.may_answer.wait()
        body = json.dumps(scope["state"]["arrived_s"]).encode()
        length = (b"content-length", b"%d" % len(body))
        start = {"type": "http.response.start", "status": 200, "headers": [length]}
        await send(start)
        await send({"type": "http.response.body", "body": body})


async def talk(
    app: Echo, ask: Talk, protocol: type[HttpProtocol] = HttpProtocol
) -> Any:
    """Run a server with `app`, connect to it and let `ask` do the talking."""
    config = uvicorn.Config(
        app, port=0, http=protocol, lifespan="off", log_level="critical"
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    await server.startup()
    connections = server.server_state.connections
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await asyncio.wait_for(ask(reader, writer, connections), 20)
        finally:
            writer.close()
    finally:
        await server.shutdown()


async def stamp(reader: asyncio.StreamReader) -> float:
    """Read one reply; the stamp in it."""
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return float(json.loads(await reader.readexactly(length)))


def test_protocol_stamps_the_first_byte_and_not_the_last() -> None:
    async def ask(
        reader: Any, writer: Any, connections: Any
    ) -> tuple[float, float, float]:
        before_s = time.monotonic()
        writer.write(HEAD[:1])
        while not any(connection.read_s for connection in connections):
            await asyncio.sleep(0)
        late_s = time.monotonic()
        writer.write(HEAD[1:] + b"{}")
        return before_s, await stamp(reader), late_s

    async def main() -> Any:
        return await talk(Echo(), ask)

    before_s, stamped_s, late_s = asyncio.run(main())
    assert before_s <= stamped_s < late_s


def test_protocol_stamps_each_request_of_a_kept_connection_anew() -> None:
    async def ask(
        reader: Any, writer: Any, connections: Any
    ) -> tuple[float, float, float]:
        writer.write(HEAD + b"{}")
        first_s = await stamp(reader)
        between_s = time.monotonic()
        writer.write(HEAD + b"{}")
        return first_s, between_s, await stamp(reader)

    async def main() -> Any:
        return await talk(Echo(), ask)

    first_s, between_s, second_s = asyncio.run(main())
    assert first_s <= between_s <= second_s


def test_protocol_gives_pipelined_requests_the_time_of_their_read() -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> tuple[float, float]:
        writer.write((HEAD + b"{}") * 2)
        return await stamp(reader), await stamp(reader)

    async def main() -> Any:
        return await talk(Echo(), ask)

    first_s, second_s = asyncio.run(main())
    assert first_s == second_s


def test_protocol_tells_the_caller_object_that_the_connection_is_lost() -> None:
    async def main() -> list[bool]:
        app = Echo()
        app.may_answer.clear()

        async def ask(reader: Any, writer: Any, connections: Any) -> list[bool]:
            writer.write(HEAD + b"{}")
            await app.asked.wait()
            seen = [app.callers[0].gone]
            writer.transport.abort()
            while not app.callers[0].gone:
                await asyncio.sleep(0)
            app.may_answer.set()
            return [*seen, app.callers[0].gone]

        return list(await talk(app, ask))

    assert asyncio.run(main()) == [False, True]


def test_protocol_answers_garbage_as_the_rest_of_the_wire_does() -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(b"what is this\r\n\r\n")
        return bytes(await reader.read())

    async def main() -> Any:
        return await talk(Echo(), ask)

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["code"] == "bad_input"


class Strict(HttpProtocol):
    receive_s = 0.05
    head_limit = 200
    connection_limit = 1


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        pytest.param(b"", 408, "receive_timeout", id="nothing"),
        pytest.param(b"POST / HT", 408, "receive_timeout", id="half a request line"),
        pytest.param(HEAD + b"{", 408, "receive_timeout", id="half a body"),
        pytest.param(HEAD[:-2] + b"x: " + b"y" * 200, 400, "bad_input", id="long head"),
    ],
)
def test_protocol_gives_up_on_what_never_becomes_a_request(
    sent: bytes, status: int, code: str
) -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(sent)
        return bytes(await reader.read())

    async def main() -> Any:
        return await talk(Echo(), ask, Strict)

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d" % status)
    assert json.loads(body)["code"] == code


def test_protocol_is_patient_while_an_answer_is_computed() -> None:
    async def main() -> Any:
        app = Echo()
        app.may_answer.clear()

        async def ask(reader: Any, writer: Any, connections: Any) -> float:
            writer.write(HEAD + b"{}")
            await app.asked.wait()
            answer = asyncio.ensure_future(stamp(reader))
            done, _ = await asyncio.wait({answer}, timeout=3 * Strict.receive_s)
            assert not done
            app.may_answer.set()
            return await answer

        return await talk(app, ask, Strict)

    assert asyncio.run(main()) > 0


def test_protocol_turns_away_connections_over_the_limit() -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> tuple[bytes, float]:
        address = writer.get_extra_info("peername")
        refused, other = await asyncio.open_connection(*address)
        reply = await refused.read()
        other.close()
        writer.write(HEAD + b"{}")
        return bytes(reply), await stamp(reader)

    async def main() -> Any:
        class OnlyOne(HttpProtocol):
            connection_limit = 1

        return await talk(Echo(), ask, OnlyOne)

    reply, stamped_s = asyncio.run(main())
    assert reply.startswith(b"HTTP/1.1 503")
    assert b'"overloaded"' in reply
    assert stamped_s > 0


GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


@pytest.mark.parametrize("cut", [3, 20, len(GET) - 1])
def test_protocol_answers_any_number_of_requests_in_one_read(cut: int) -> None:
    count = (HttpProtocol.head_limit << 1) // len(GET)

    async def ask(reader: Any, writer: Any, connections: Any) -> int:
        while not connections:
            await asyncio.sleep(0)
        (connection,) = connections
        # as one read may bring them: the last one is cut off within its head
        connection.data_received(GET * count + GET[:cut])
        connection.data_received(GET[cut:])
        return len([await stamp(reader) for _ in range(count + 1)])

    async def main() -> Any:
        return await talk(Echo(), ask)

    assert asyncio.run(main()) == count + 1


@pytest.mark.parametrize("before", [0, 1, 3000])
def test_protocol_refuses_a_long_head_behind_any_number_of_requests(
    before: int,
) -> None:
    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        while not connections:
            await asyncio.sleep(0)
        (connection,) = connections
        connection.data_received(GET * before + GET[:-2] + b"x: ")
        for _ in range(5):
            connection.data_received(b"y" * (HttpProtocol.head_limit // 4))
        for _ in range(before):
            await stamp(reader)
        return bytes(await reader.read())

    async def main() -> Any:
        return await talk(Echo(), ask)

    head, _, body = asyncio.run(main()).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400")
    assert json.loads(body)["code"] == "bad_input"
