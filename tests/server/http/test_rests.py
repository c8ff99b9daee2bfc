"""Connections that are not read for a while, as their callers were refused; sockets."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from polydom.server.http.protocol import HttpProtocol
from polydom.server.http.reply import RawReplies
from polydom.server.runtime.admission_control.admission import Admission
from polydom.server.runtime.admission_control.usual_budget import UsualBudget
from tests.server.http.test_protocol import HEAD, Echo, running, stamp

ITEM = HEAD + b"{}"
LONG_S, SHORT_S = 30.0, 0.6
LIMIT_S = 25.0  # less than LONG_S


class Told(Admission):
    """Refuses, lets connections rest and has room as a test says."""

    full = True
    rest_s = LONG_S
    places = 0

    def enter(self, read_s: float, waited_s: float = 0.0) -> bool:
        return not self.full

    def hold(self, begin: Callable[[], None], waited_s: float = 0.0) -> bool:
        return False

    def refused(self, read_s: float) -> float:
        return self.rest_s

    def room(self) -> int:
        return self.places


class Caller:
    """A connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: Any) -> None:
        self.reader, self.writer = reader, writer

    def send(self) -> None:
        self.writer.write(ITEM)

    async def refusal(self) -> None:
        assert (await self.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 429")
        await self.reader.readuntil(b"}")

    async def arrived_s(self) -> float:
        """Read an answer, which says when the request arrived."""
        return await stamp(self.reader)


def talk(
    ask: Callable[[Told, list[Caller]], Awaitable[None]], connections: int = 1
) -> None:
    """Let `ask` talk to a server over some connections."""

    async def main() -> None:
        call_soon = asyncio.get_running_loop().call_soon
        admission = Told(UsualBudget(1.0), call_soon)
        state = {"admission": admission, "replies": RawReplies(bool)}
        async with running(Echo(), HttpProtocol, state) as server:
            port = server.servers[0].sockets[0].getsockname()[1]
            callers = [
                Caller(*await asyncio.open_connection("127.0.0.1", port))
                for _ in range(connections)
            ]
            try:
                await asyncio.wait_for(ask(admission, callers), LIMIT_S)
            finally:
                for caller in callers:
                    caller.writer.close()

    asyncio.run(main())


@pytest.mark.parametrize("places", [1, 2, 9])
def test_rests_end_early_if_there_is_room(places: int) -> None:
    async def ask(admission: Told, callers: list[Caller]) -> None:
        for caller in callers:
            caller.send()
            await caller.refusal()
        admission.full = False
        for caller in callers:
            caller.send()
        answers = [asyncio.create_task(caller.arrived_s()) for caller in callers]
        done, _ = await asyncio.wait(answers, timeout=0.1)
        assert not done, "they rest"
        admission.places = places
        await asyncio.gather(*answers)

    talk(ask, connections=5)


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="needs Linux")
def test_a_budget_counts_from_when_the_request_came_into_the_kernel() -> None:
    async def ask(admission: Told, callers: list[Caller]) -> None:
        (caller,) = callers
        admission.rest_s = SHORT_S
        began_s = time.monotonic()
        caller.send()
        await caller.refusal()
        admission.full = False
        sent_s = time.monotonic()
        caller.send()
        arrived_s = await caller.arrived_s()
        assert time.monotonic() >= began_s + SHORT_S, "it rested"
        assert arrived_s < sent_s + SHORT_S / 2

    talk(ask)


@pytest.mark.skipif(not hasattr(socket, "TCP_INFO"), reason="needs Linux")
def test_who_is_refused_after_a_rest_does_not_rest_again() -> None:
    async def ask(admission: Told, callers: list[Caller]) -> None:
        (caller,) = callers
        admission.rest_s = SHORT_S
        caller.send()
        await caller.refusal()
        admission.rest_s = LONG_S
        for _ in range(2):
            caller.send()
            await caller.refusal()

    talk(ask)


def test_who_leaves_during_a_rest_holds_up_nobody() -> None:
    async def ask(admission: Told, callers: list[Caller]) -> None:
        first, second = callers
        for caller in callers:
            caller.send()
            await caller.refusal()
        first.writer.transport.abort()
        admission.full, admission.places = False, 1
        second.send()
        await second.arrived_s()

    talk(ask, connections=2)
