"""When a request is stamped, and who is told that its caller left; real sockets."""

import asyncio
import contextlib
import json
import re
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.server.engine.request import Caller
from polydom.server.http.known_heads import KnownHeads
from polydom.server.http.parsing_connection import PIECE
from polydom.server.http.protocol import HttpProtocol
from polydom.server.http.raw_request import Later, RawRequest
from polydom.server.http.reply import RawReplies
from polydom.server.runtime.admission_control.admission import Admission, HeldBytes
from polydom.server.runtime.admission_control.usual_budget import UsualBudget
from tests.support.examples import few

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


@contextlib.asynccontextmanager
async def running(
    app: Any, protocol: type[HttpProtocol], state: dict[str, Any] | None = None
) -> AsyncIterator[uvicorn.Server]:
    """A server of `app`; `state` is what that offers the protocol."""
    config = uvicorn.Config(
        app,
        port=0,
        http=protocol,
        lifespan="off",
        log_level="critical",
        access_log=False,  # otherwise everything goes through ASGI
    )
    server = uvicorn.Server(config)
    config.load()
    server.lifespan = config.lifespan_class(config)
    server.lifespan.state.update({"application": app, **(state or {})})
    await server.startup()
    try:
        yield server
    finally:
        await server.shutdown()


async def talk_to(server: uvicorn.Server, ask: Talk) -> Any:
    """Connect and let `ask` do the talking."""
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        connections = server.server_state.connections
        return await asyncio.wait_for(ask(reader, writer, connections), 20)
    finally:
        writer.close()


async def talk(
    app: Any,
    ask: Talk,
    protocol: type[HttpProtocol] = HttpProtocol,
    state: dict[str, Any] | None = None,
) -> Any:
    """Run a server with `app`, connect to it and let `ask` do the talking."""
    async with running(app, protocol, state) as server:
        return await talk_to(server, ask)


def leave(writer: Any) -> None:
    """Reset a connection; an orderly end may come from who still reads."""
    linger = struct.pack("ii", 1, 0)
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


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
            leave(writer)
            while not app.callers[0].gone:
                await asyncio.sleep(0)
            app.may_answer.set()
            return [*seen, app.callers[0].gone]

        return list(await talk(app, ask))

    assert asyncio.run(main()) == [False, True]


SLOW = b"POST /quick?slow=1 HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\nhi"
QUICK = SLOW.replace(b"?slow=1", b"")
LATER = SLOW.replace(b"slow", b"later")
HANDED = SLOW.replace(b"slow=1", b"later=handed")


@pytest.mark.parametrize(
    ("sent", "answers"),
    [
        pytest.param(SLOW, 1, id="one"),
        pytest.param(SLOW.replace(b"1.1", b"1.0"), 1, id="HTTP/1.0"),
        pytest.param(SLOW.replace(b"x\r", b"x\r\nConnection: close\r"), 1, id="close"),
        pytest.param(QUICK * 20, 20, id="quick ones"),
        pytest.param(SLOW * 20, 20, id="slow ones"),
        pytest.param(LATER * 20, 20, id="later ones"),
        pytest.param(HANDED * 20, 20, id="later ones that need the application"),
        pytest.param(LATER.replace(b"1.1", b"1.0"), 1, id="later, HTTP/1.0"),
        pytest.param(LATER + QUICK[:-1], 1, id="later and half"),
        pytest.param(
            HANDED.replace(b"x\r", b"x\r\nConnection: close\r"), 1, id="later, close"
        ),
        pytest.param((QUICK + SLOW + LATER + HANDED) * 5, 20, id="all"),
        pytest.param(SLOW + QUICK[:-1], 1, id="one and half"),
        pytest.param(QUICK + SLOW[:20], 1, id="one and a head"),
        pytest.param(SLOW[:-1], 0, id="half a body"),
        pytest.param(QUICK[:-1], 0, id="half of what is quick"),
        pytest.param(SLOW[:20], 0, id="half a head"),
        pytest.param(b"", 0, id="nothing"),
    ],
)
@pytest.mark.parametrize("turns", [0, 20])
def test_protocol_answers_what_came_whole_to_who_sends_no_more(
    sent: bytes, answers: int, turns: int
) -> None:
    """And closes then; who stops within a request has left, which is noticed."""

    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(sent)
        writer.write_eof()
        said = bytes(await reader.read())
        while connections:
            await asyncio.sleep(0)
        return said

    async def main() -> Any:
        app = Mirror(turns)
        return await talk(app, ask, state=app.state())

    said = asyncio.run(main())
    assert said.count(b"HTTP/1.1 200 OK") == said.count(b"POST /quick hi") == answers


def test_protocol_answers_whoever_reads_slowly_and_sends_no_more() -> None:
    class Long:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            for _ in range(50):
                body = {"type": "http.response.body", "body": b"x" * 100_000}
                await send({**body, "more_body": True})
            await send({"type": "http.response.body"})

    async def ask(reader: Any, writer: Any, connections: Any) -> int:
        writer.write(GET)
        writer.write_eof()
        got = 0
        while piece := await reader.read(10_000):
            got += piece.count(b"x")
        return got

    async def main() -> Any:
        return await talk(Long(), ask)

    assert asyncio.run(main()) == 5_000_000


def test_protocol_refuses_items_and_neither_reads_nor_orders() -> None:
    class Full(Admission):
        def enter(self, now_s: float, waited_s: float = 0.0) -> bool:
            return False

        def hold(self, begin: Callable[[], None], waited_s: float = 0.0) -> bool:
            return False

    item, order = HEAD + b"{}", HEAD.replace(b"/ ", b"/v1/admin/reload ") + b"{}"

    async def ask(reader: Any, writer: Any, connections: Any) -> list[bytes]:
        said = []
        for request in (item, GET, item, order, item, item + order + item):
            writer.write(request)
            for _ in range(request.count(b"HTTP/1.1")):
                head = await reader.readuntil(b"\r\n\r\n")
                length = head.partition(b"content-length: ")[2].partition(b"\r\n")[0]
                await reader.readexactly(int(length))
                said.append(head[9:12])
        return said

    async def main() -> Any:
        call_soon = asyncio.get_running_loop().call_soon
        state = {"admission": Full(UsualBudget(1.0), call_soon)}
        return await talk(Echo(), ask, state=state | {"replies": RawReplies(bool)})

    # requests behind others begin when their turn comes
    assert asyncio.run(main()) == [
        *[b"429", b"200", b"429", b"200", b"429"],
        *[b"200", b"200", b"200"],
    ]


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


class LaterMirror(Later):
    """Gives `said` some turns of the loop later."""

    def __init__(self, said: object, turns: int) -> None:
        self.said, self.turns = said, turns
        self.stopped = False

    def begin(self, done: Callable[[object], object]) -> None:
        if self.stopped:
            return
        if self.turns <= 0:
            done(self.said)
            return
        self.turns -= 1
        asyncio.get_running_loop().call_soon(self.begin, done)

    def stop(self) -> object:
        assert not self.stopped
        self.stopped = True
        return "stopped"


class Mirror:
    """Answers with what was asked, some turns of the loop later."""

    def __init__(self, turns: int = 0) -> None:
        self.asked = 0
        self.turns = turns
        self.later: LaterMirror | None = None  # the latest
        self.planned: list[object] = []  # what the protocol gave to the application
        self.left = 0  # callers that left

    def direct(self, request: RawRequest) -> object:
        self.asked += 1
        said = b"POST /quick " + request.body
        if b"later" in request.query:
            handed = b"handed" in request.query
            self.later = LaterMirror("handed" if handed else said, self.turns)
            return self.later
        return None if b"slow" in request.query else said

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.asked += 1
        self.planned.append(scope["state"].pop("planned", None))
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left += 1
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        for _ in range(self.turns):
            await asyncio.sleep(0)
        said = f"{scope['method']} {scope['path']} ".encode() + body
        headers = [(b"content-length", b"%d" % len(said))]
        start = {"type": "http.response.start", "status": 200, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": said})

    def state(self, budget_s: float = 60.0) -> dict[str, Any]:
        """All that an application offers."""
        call_soon = asyncio.get_running_loop().call_soon
        return {
            "heads": KnownHeads(),
            "admission": Admission(UsualBudget(budget_s), call_soon),
            "replies": RawReplies(bool),
            "direct": {(b"POST", b"/quick"): self.direct},
            "unparsed_bytes": HeldBytes(1 << 20),
        }


def in_chunks(body: bytes, size: int, trailer: bytes) -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    chunks = [b"%x;e=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces]
    return b"".join(chunks) + b"0\r\n" + trailer + b"\r\n"


texts = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from([b"\r\n\r\n", GET, b"\n", b"0", b"a" * 900])).map(
        b"".join
    ),
)
queries = ["", "?slow=1", "?q=1", "?later=1", "?later=handed"]
paths = st.sampled_from(["/x", *(f"/quick{query}" for query in queries)])


LAST = b"GET /last HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" + GET


def mirrored(method: str, path: str) -> bytes:
    """Begin an answer, without its headers."""
    return f"HTTP/1.1 200 OK\r\n{method} {path.partition('?')[0]} ".encode()


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes]:
    """One that keeps the connection, and the answer to it."""
    lines, go_on = b"", b""
    if draw(st.booleans()):
        lines += b"X-Y: " + b"z" * draw(st.sampled_from([1, 9, PIECE, 5 * PIECE]))
        lines += b"\r\n"
    empty = b"\r\n" * draw(st.sampled_from([0, 0, 0, 1, 2]))
    path = draw(paths)
    kind = draw(st.sampled_from(["GET", "length", "chunks", "expect"]))
    if kind == "GET":
        start = f"GET {path} HTTP/1.1\r\nhost: x\r\n".encode()
        return empty + start + lines + b"\r\n", mirrored("GET", path)
    body = draw(texts)
    start = f"POST {path} HTTP/1.1\r\nHost: x\r\n".encode() + lines
    if kind == "chunks":
        trailer = draw(st.sampled_from([b"", b"a: b\r\n", b"a:\r\nb: c\r\n"]))
        coded = in_chunks(body, draw(st.integers(1, 200)), trailer)
        sent = start + b"Transfer-Encoding: chunked\r\n\r\n" + coded
    else:
        if kind == "expect":
            start += b"expect: 100-continue\r\n"
            go_on = b"HTTP/1.1 100 Continue\r\n\r\n"
        sent = start + b"Content-Length:  %d \r\n\r\n%b" % (len(body), body)
    return empty + sent, go_on + mirrored("POST", path) + body


def test_any_split_of_any_requests_gives_the_same_answers() -> None:
    """Each piece is a read, and the loop turns a few times before the next."""

    @settings(max_examples=few(150), deadline=None)
    @given(
        st.lists(requests(), max_size=30),
        st.lists(st.tuples(st.integers(1, 3 * PIECE), st.integers(0, 3)), min_size=1),
        st.integers(0, 2),
    )
    def check(
        asked: list[tuple[bytes, bytes]], splits: list[tuple[int, int]], turns: int
    ) -> None:
        data, app.turns = b"".join(sent for sent, _ in asked) + LAST, turns
        got = runner.run(talk_to(server, partial(send_split, data, splits)))
        # what begins an answer is not what the requests above are made of
        got = re.sub(
            rb"(HTTP/1\.1 200 OK\r\n)(?:[a-z-]+: [^\r\n]*\r\n)*\r\n", rb"\1", got
        )
        assert got == b"".join(answer for _, answer in asked) + mirrored("GET", "/last")

    async def start() -> uvicorn.Server:
        return await stack.enter_async_context(running(app, HttpProtocol, app.state()))

    app, stack = Mirror(), contextlib.AsyncExitStack()
    with asyncio.Runner() as runner:
        server = runner.run(start())
        check()
        runner.run(stack.aclose())


async def send_split(
    data: bytes,
    splits: list[tuple[int, int]],
    reader: Any,
    writer: Any,
    connections: Any,
) -> bytes:
    """All that is answered to bytes that come in such pieces, with so many turns."""
    while not connections:
        await asyncio.sleep(0)
    (connection,) = connections
    at = number = 0
    while at < len(data) and not connection.transport.is_closing():
        size, pause = splits[number % len(splits)]
        connection.data_received(data[at : at + size])
        at, number = at + size, number + 1
        for _ in range(pause):
            await asyncio.sleep(0)
    got = bytes(await reader.read())
    while connections:
        await asyncio.sleep(0)
    return got


def test_protocol_begins_a_request_once_those_before_are_answered() -> None:
    class Counting(Admission):
        entered = 0

        def enter(self, read_s: float, waited_s: float = 0.0) -> bool:
            self.entered += 1
            return super().enter(read_s, waited_s)

        def enter_behind(self, now_s: float) -> None:
            self.entered += 1
            super().enter_behind(now_s)

    app, admission = Echo(), Counting(UsualBudget(1.0), bool)

    async def ask(reader: Any, writer: Any, connections: Any) -> None:
        writer.write((HEAD + b"{}") * 20_000)
        await app.asked.wait()
        (connection,) = connections
        for _ in range(50):
            await asyncio.sleep(0)
        begun, entered = len(app.callers), admission.entered
        unread, reads = (
            len(connection._flow.unparsed),
            connection.transport.is_reading(),
        )
        app.may_answer.set()
        assert (begun, entered, reads) == (1, 1, False)
        assert 0 < unread < 300_000
        for _ in range(100):
            await stamp(reader)
        assert len(app.callers) <= admission.entered

    async def main() -> None:
        nonlocal app, admission
        app = Echo()
        app.may_answer.clear()
        soon = asyncio.get_running_loop().call_soon
        admission = Counting(UsualBudget(60.0), soon)
        state = {"admission": admission, "replies": RawReplies(bool)}
        await talk(app, ask, state=state)

    asyncio.run(main())


CHUNKED = HEAD.replace(b"content-length: 2", b"transfer-encoding: chunked")
# What many callers send as fast as it is taken: first, then again and again.
ATTACKS = {
    "requests": (b"", GET),
    "records": (b"", HEAD.replace(b"/", b"/quick", 1) + b"{}"),
    "a request and a byte of the next": (b"G", GET[1:] + b"G"),
    "tiny chunks": (CHUNKED, b"1\r\na\r\n"),
    "empty lines in chunks": (CHUNKED, b"ff00\r\n" + b"\r\n" * 0x7F80 + b"\r\n"),
    "extensions of chunks": (CHUNKED, b"1;eeee\r\na\r\n"),
    "headers behind a body": (CHUNKED + b"0\r\n", b"a:\r\n"),
    "headers": (GET[:-2], b"a:\r\n"),
    "heads of many headers": (b"", GET[:-2] + b"a:\r\n" * 15_000 + b"\r\n"),
    "empty lines": (b"", b"\r\n"),
}


@pytest.mark.parametrize("kind", ATTACKS)
def test_protocol_takes_short_turns_whatever_many_callers_send(kind: str) -> None:
    """The loop's own time counts, so no stalled machine does; nobody reads answers."""
    first, then = ATTACKS[kind]
    data = then * max(1, 100_000 // len(then))
    longest_s = 0.0

    async def attack(address: tuple[str, int]) -> None:
        _, writer = await asyncio.open_connection(*address[:2])
        writer.write(first)
        try:
            for _ in range(4):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass  # refused and cut off
        finally:
            writer.transport.abort()

    async def ask(reader: Any, writer: Any, connections: Any) -> None:
        nonlocal longest_s
        address = writer.get_extra_info("peername")
        attacks = [asyncio.ensure_future(attack(address)) for _ in range(10)]
        for number in range(100):
            began_s = time.thread_time()
            await asyncio.sleep(0)
            longest_s = max(longest_s, time.thread_time() - began_s)
            if number % 10 == 0:
                writer.write(GET)
                await stamp_or_mirror(reader)
        for task in attacks:
            task.cancel()
        await asyncio.gather(*attacks, return_exceptions=True)

    async def stamp_or_mirror(reader: Any) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        assert await reader.readexactly(len("GET / ")) == b"GET / "

    async def main() -> None:
        app = Mirror()
        await talk(app, ask, state=app.state(0.05))

    asyncio.run(main())
    assert longest_s < 0.1


def test_protocol_holds_so_many_bytes_behind_requests_and_no_more() -> None:
    app, held, refused = Echo(), HeldBytes(0), list[int]()

    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(HEAD + b"{}")
        await app.asked.wait()
        (connection,) = connections
        connection.data_received(GET)
        connection.data_received(b"x" * 1000)
        app.may_answer.set()
        said = bytes(await reader.read())
        assert held.held == 0
        return said

    async def main() -> Any:
        nonlocal app, held
        app, held = Echo(), HeldBytes(1000)
        app.may_answer.clear()
        state = {
            "unparsed_bytes": held,
            "replies": RawReplies(refused.append),
        }
        return await talk(app, ask, state=state)

    assert asyncio.run(main()).startswith(b"HTTP/1.1 429")
    assert refused == [1]


def test_protocol_cuts_off_who_reads_nothing() -> None:
    class Impatient(HttpProtocol):
        unread_s = 0.1

    class Long:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            start = {"type": "http.response.start", "status": 200, "headers": []}
            await send(start)
            for _ in range(400):
                body = {"type": "http.response.body", "body": b"x" * 100_000}
                await send({**body, "more_body": True})
            await send({"type": "http.response.body"})

    async def ask(reader: Any, writer: Any, connections: Any) -> None:
        writer.write(GET)
        while not connections:
            await asyncio.sleep(0.01)
        (connection,) = connections
        while connections:
            await asyncio.sleep(0.01)
        assert connection.caller.gone

    async def main() -> None:
        await talk(Long(), ask, Impatient)

    asyncio.run(main())


def test_protocol_answers_what_came_before_it_stops() -> None:
    count = 50

    async def ask(reader: Any, writer: Any, connections: Any) -> bytes:
        writer.write(GET)
        await stamp_of(reader)
        (connection,) = connections
        connection.data_received(GET * count)
        connection.shutdown()
        return bytes(await reader.read())

    async def stamp_of(reader: Any) -> None:
        await reader.readuntil(b"GET / ")

    async def main() -> Any:
        app = Mirror(2)
        return await talk(app, ask, state=app.state())

    assert asyncio.run(main()).count(b"HTTP/1.1 200 OK") == count
