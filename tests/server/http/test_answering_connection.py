"""Answers that wait without an ASGI cycle; real sockets."""

import asyncio
import time
from typing import Any

import pytest

from polydom.server.http.protocol import HttpProtocol
from tests.server.http.test_protocol import (
    LATER,
    QUICK,
    LaterMirror,
    Mirror,
    Talk,
    leave,
    running,
    talk,
    talk_to,
)

WAITS = 1 << 30  # turns that no test waits for


def talk_to_waiting(ask: Talk, protocol: type[HttpProtocol] = HttpProtocol) -> Mirror:
    """Let `ask` talk while a request waits without an ASGI cycle."""

    async def main() -> Mirror:
        app = Mirror(WAITS)

        async def begin(reader: Any, writer: Any, connections: Any) -> None:
            writer.write(LATER)
            while app.later is None:
                await asyncio.sleep(0)
            await ask(reader, writer, app)
            while connections:
                await asyncio.sleep(0)

        await talk(app, begin, protocol, app.state())
        return app

    return asyncio.run(main())


def test_who_leaves_while_an_answer_waits_is_noticed() -> None:
    async def ask(reader: Any, writer: Any, app: Mirror) -> None:
        leave(writer)
        while not app.left:
            await asyncio.sleep(0)

    app = talk_to_waiting(ask)
    assert app.later is not None
    assert app.later.stopped
    assert (app.planned, app.left) == (["stopped"], 1)


def test_an_answer_that_waits_holds_back_what_comes_behind_it() -> None:
    async def ask(reader: Any, writer: Any, app: Mirror) -> None:
        writer.write(QUICK + LATER + QUICK)
        for _ in range(50):
            await asyncio.sleep(0)
        assert app.later is not None
        assert app.asked == 1
        app.turns = app.later.turns = 3
        for _ in range(4):
            await reader.readuntil(b"POST /quick hi")
        assert app.asked == 4
        writer.close()

    assert talk_to_waiting(ask).planned == []


def test_a_connection_whose_answer_waits_long_is_kept_as_long_as_others() -> None:
    class Brief(HttpProtocol):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.timeout_keep_alive = 1

    async def ask(reader: Any, writer: Any, app: Mirror) -> None:
        assert app.later is not None
        app.later.turns = 0
        await reader.readuntil(b"POST /quick hi")
        app.later = None
        writer.write(LATER)  # with the timer of the first answer
        while app.later is None:
            await asyncio.sleep(0)
        later: LaterMirror = app.later
        await asyncio.sleep(2.5)
        later.turns = 0
        answered_s = time.monotonic()
        await reader.readuntil(b"POST /quick hi")
        assert await reader.read() == b""
        assert time.monotonic() - answered_s >= 0.7

    assert talk_to_waiting(ask, Brief).planned == []


@pytest.mark.parametrize("behind", [0, 3])
def test_an_answer_that_waits_is_given_before_the_server_stops(behind: int) -> None:
    async def main() -> bytes:
        app = Mirror(WAITS)
        async with running(app, HttpProtocol, app.state()) as server:

            async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
                writer.write(LATER)
                while app.later is None:
                    await asyncio.sleep(0)
                app.turns = 2
                (connection,) = connections
                connection.data_received(QUICK * behind)
                connection.shutdown()
                app.later.turns = 2
                return bytes(await reader.read())

            return bytes(await talk_to(server, ask))

    said = asyncio.run(main())
    assert said.count(b"HTTP/1.1 200 OK") == behind + 1
    assert said.count(b"POST /quick hi") == behind + 1
    assert b"connection: close" in said or behind
