"""Posts over kept connections, to services that answer byte for byte as tests say."""

import asyncio
import contextlib
import socketserver
import ssl
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httptools
import pytest
import uvloop

from polydom.features.fetches import connections
from polydom.features.fetches.connections import Connections, Reply, Target

SECONDS = 60
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
REPLY = Reply(200, "", b"ok")
LOOPS = {"uvloop": uvloop.new_event_loop, "asyncio": asyncio.new_event_loop}


class Service(socketserver.ThreadingTCPServer):
    """Answers each request by the next of the `answers`, in pieces.

    It closes a connection whose request has no answer, and after an answer in `lasts`.
    """

    daemon_threads = True

    def __init__(self, *answers: Sequence[bytes], lasts: bool = False) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.lasts = [*answers], lasts
        self.requests: list[bytes] = []
        self.connections = 0
        self.tls: ssl.SSLContext | None = None

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    @contextlib.contextmanager
    def serving(self) -> Iterator[str]:
        thread = threading.Thread(target=self.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"
        finally:
            self.shutdown()
            thread.join()
            self.server_close()


class Handler(socketserver.StreamRequestHandler):
    server: Service

    def setup(self) -> None:
        if self.server.tls is not None:
            self.request = self.server.tls.wrap_socket(self.request, server_side=True)
        super().setup()
        self.server.connections += 1

    def finish(self) -> None:
        with contextlib.suppress(OSError):
            super().finish()
        self.request.close()  # for TLS it is another one than the server's

    def handle(self) -> None:
        with contextlib.suppress(OSError):
            while self.read() and self.server.answers:
                for piece in self.server.answers.pop(0):
                    self.wfile.write(piece)
                    time.sleep(0.001)  # so that pieces come one by one
                if self.server.lasts:
                    break

    def read(self) -> bool:
        lines = list[bytes]()
        while (line := self.rfile.readline()) not in (b"", b"\r\n"):
            lines.append(line)
        if lines:
            lengths = (one for one in lines if one.startswith(b"content-length: "))
            body = self.rfile.read(int(next(lengths).partition(b": ")[2]))
            self.server.requests.append(b"".join([*lines, b"\r\n", body]))
        return bool(lines)


@pytest.fixture(params=LOOPS)
def run(request: pytest.FixtureRequest) -> Any:
    def run_in_loop(use: Callable[[], Awaitable[Any]]) -> Any:
        async def in_time() -> Any:
            return await asyncio.wait_for(use(), SECONDS)

        with asyncio.Runner(loop_factory=LOOPS[request.param]) as runner:
            return runner.run(in_time())

    return run_in_loop


async def ask(service: Service, *bodies: bytes) -> list[Reply]:
    """What a service answers to bodies that are sent one after the other."""
    async with using(service, 9) as pool:
        return [await pool.post(body, 99) for body in bodies]


@contextlib.asynccontextmanager
async def using(service: Service, most: int) -> AsyncIterator[Connections]:
    with service.serving() as address:
        pool = Connections(Target.of(address, {}), most)
        try:
            yield pool
        finally:
            await pool.close()


def test_a_connection_serves_one_request_after_the_other(run: Any) -> None:
    service = Service([OK], [OK], [OK])
    assert run(lambda: ask(service, b"1", b"", b"333")) == 3 * [REPLY]
    assert service.connections == 1
    heads = [one.partition(b"\r\n\r\n")[0].split(b"\r\n") for one in service.requests]
    assert [one.partition(b"\r\n\r\n")[2] for one in service.requests] == [
        b"1",
        b"",
        b"333",
    ]
    assert heads[2] == [
        b"POST / HTTP/1.1",
        b"host: 127.0.0.1:%d" % service.port,
        b"accept: */*",
        b"user-agent: polydom",
        b"content-length: 3",
    ]


@pytest.mark.parametrize(
    ("answer", "reply"),
    [
        ([OK[k : k + 1] for k in range(len(OK))], REPLY),
        (
            [
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\no",
                b"\r\n1\r\nk\r\n0\r\n\r\n",
            ],
            REPLY,
        ),
        ([b"HTTP/1.1 204 Nothing\r\n\r\n"], Reply(204, "", b"")),
        ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], REPLY),
        ([b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK], REPLY),
        (
            [b"HTTP/1.1 429 Wait\r\nRetry-After: 7\r\ncontent-length: 0\r\n\r\n"],
            Reply(429, "7", b""),
        ),
    ],
    ids=range(6),
)
def test_answers_may_have_any_form(run: Any, answer: list[bytes], reply: Reply) -> None:
    service = Service(answer, [OK])
    assert run(lambda: ask(service, b"1", b"2")) == [reply, REPLY]
    assert service.connections == 1


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
        OK + OK,  # the second would be taken for that of the next request
        OK + b"more",
    ],
    ids=range(4),
)
def test_a_connection_that_may_be_out_of_step_is_not_used_again(
    run: Any, answer: bytes
) -> None:
    service = Service([answer], [OK])
    assert run(lambda: ask(service, b"1", b"2")) == 2 * [REPLY]
    assert service.connections == 2


@pytest.mark.parametrize("framing", [b"", b"connection: close\r\n"])
def test_a_body_may_end_with_the_connection(run: Any, framing: bytes) -> None:
    head = b"HTTP/1.1 200 OK\r\n%b\r\n" % framing
    service = Service([head, b"o", b"k"], [OK], lasts=True)
    assert run(lambda: ask(service, b"1", b"2")) == 2 * [REPLY]
    assert service.connections == 2


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ([], ConnectionResetError),
        ([b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok"], ConnectionResetError),
        ([b"HTTP/1.1 200 OK\r\n"], ConnectionResetError),
        ([b"SSH-2.0-OpenSSH\r\n"], httptools.HttpParserError),
        ([b"HTTP/1.1 101 Other\r\nupgrade: x\r\n\r\n"], httptools.HttpParserError),
        ([b"HTTP/1.1 200 OK\r\n", *(99 * [999 * b"a: b\r\n"])], Exception),
        (99 * [b"HTTP/1.1 100 On\r\na: %b\r\n\r\n" % (999 * b"a")], Exception),
    ],
    ids=range(7),
)
def test_an_answer_that_is_none_is_an_error(
    run: Any, answer: list[bytes], error: type[Exception]
) -> None:
    service = Service(answer, lasts=True)
    with pytest.raises(error) as raised:
        run(lambda: ask(service, b""))
    if error is Exception:
        assert "the head of the answer is too long" in str(raised.value)


def test_a_long_body_is_not_read_to_its_end(run: Any) -> None:
    endless = [b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n" + 99 * b"x"]
    service = Service([*endless, b"xx"], [OK])
    first, second = run(lambda: ask(service, b"1", b"2"))
    assert first.status == 200
    assert 99 < len(first.body) <= 101
    assert second.body == b"ok"
    assert service.connections == 2


def test_no_more_connections_are_open_than_allowed(run: Any) -> None:
    service = Service(*(20 * [[OK]]))

    async def use() -> list[Reply]:
        async with using(service, 3) as pool:
            asked = (pool.post(b"%d" % k, 9) for k in range(20))
            return await asyncio.gather(*asked)

    assert run(use) == 20 * [REPLY]
    assert 1 <= service.connections <= 3
    assert len(service.requests) == 20


def test_a_call_that_is_cancelled_leaves_no_answer_to_the_next(run: Any) -> None:
    release = threading.Event()

    class Slow(list[bytes]):
        """Pieces of an answer that come when the caller has gone."""

        def __iter__(self) -> Iterator[bytes]:
            release.wait(SECONDS)
            return super().__iter__()

    service = Service(Slow([OK.replace(b"ok", b"no")]), [OK])

    async def use() -> Reply:
        async with using(service, 1) as pool:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await pool.post(b"late", 9)
            release.set()
            service.answers = [[OK]]
            return await pool.post(b"next", 9)

    assert run(use) == REPLY
    assert service.connections == 2


def test_a_connection_that_was_closed_meanwhile_is_not_used(run: Any) -> None:
    service = Service([OK], [OK], lasts=True)

    async def use() -> list[Reply]:
        async with using(service, 9) as pool:
            first = await pool.post(b"", 9)
            await asyncio.sleep(0.1)  # if it is not closed by then, the post fails
            return [first, await pool.post(b"", 9)]

    assert run(use) == 2 * [REPLY]
    assert service.connections == 2


def test_a_connection_that_was_idle_for_long_is_not_used(
    run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "KEPT_S", 0.0)
    service = Service([OK], [OK])
    assert run(lambda: ask(service, b"1", b"2")) == 2 * [REPLY]
    assert service.connections == 2


def test_certificates_are_checked(
    run: Any, pem: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem / "certificate", pem / "key")
    service = Service([OK], [OK])
    service.tls = tls
    with pytest.raises(ssl.SSLCertVerificationError):
        run(lambda: ask(service, b"1"))
    assert not service.requests
    monkeypatch.setenv("SSL_CERT_FILE", str(pem / "certificate"))
    service = Service([OK], [OK])
    service.tls = tls
    assert run(lambda: ask(service, b"1", b"2")) == 2 * [REPLY]
    assert service.connections == 1


@pytest.mark.parametrize(
    ("address", "line", "host"),
    [
        ("http://h", "/", "h"),
        ("http://H:80/a%20b/c d?x=é&y=%2F#z", "/a%20b/c%20d?x=%C3%A9&y=%2F", "h"),
        ("http://h:8080/?q", "/?q", "h:8080"),
        ("https://h:443/a", "/a", "h"),
        ("https://[::1]:9/a", "/a", "[::1]:9"),
        ("http://bücher.example/", "/", "xn--bcher-kva.example"),
    ],
)
def test_address_is_sent_as_ascii(address: str, line: str, host: str) -> None:
    head = Target.of(address, {}).head.decode()
    assert head.startswith(f"POST {line} HTTP/1.1\r\nhost: {host}\r\n")


def test_headers_are_sent_after_a_password_of_the_address() -> None:
    target = Target.of("http://me:a%3Ab@h/", {"x": "ü"})
    assert target.host == "h"
    assert b"\r\nauthorization: Basic bWU6YTpi\r\nx: \xc3\xbc\r\n" in target.head
    own = Target.of("http://me:x@h/", {"authorization": "Bearer 1", "host": "other"})
    assert own.head.count(b"authorization") == own.head.count(b"host: ") == 1
    assert b"host: other\r\n" in own.head
    assert b"authorization: Bearer 1\r\n" in own.head


@pytest.mark.parametrize("address", ["http:///x", "http://h:65536/", "http://:80"])
def test_address_needs_a_host_and_a_port(address: str) -> None:
    with pytest.raises(ValueError, match=r"host|[Pp]ort"):
        Target.of(address, {})
