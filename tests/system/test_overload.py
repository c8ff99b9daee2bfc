"""More at once than can be answered in time, and probes among it; a real server.

The server is stopped while the requests are sent, so that it finds all of them at once.
"""

import contextlib
import json
import re
import signal
import socket
import time
import urllib.request
from collections.abc import Iterator

import pytest

from polydom.server.http.raw_request import LONGEST_HEAD, framing_of
from polydom.server.page.assets import Assets
from polydom.server.runtime.admission_control.admission import CROWDED_S, LEAST
from tests.support.indexes import records
from tests.support.processes.forked_process import ForkedProcess
from tests.support.processes.raw_http import statuses
from tests.support.processes.servers import STOP_S, serving

Server = tuple[ForkedProcess, int]
COUNT = 120
BODY = json.dumps({"record": records.PEOPLE[0]}).encode()
POST = b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
ONE = POST + b"content-length: %d\r\n\r\n%b" % (len(BODY), BODY)
PROBE = b"GET %b HTTP/1.1\r\nhost: x\r\n\r\n"
PROBES = (b"/livez", b"/readyz", b"/metrics", b"/v2/health/live", b"/v2/health/ready")
SCRIPT = f"/{Assets().folder}/index_words.js"
PAGES = (b"/", SCRIPT.encode(), b"/v1/index", b"/v1/models", b"/docs")
NEVER_REFUSED = {
    **{PROBE % path: 200 for path in (*PROBES, *PAGES)},
    b"POST /v1/admin/reload HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n": 404,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("flood")
    with serving(records.save_index(folder), "--budget-ms=5") as served:
        yield served


@contextlib.contextmanager
def stopped(process: ForkedProcess) -> Iterator[None]:
    process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.send_signal(signal.SIGCONT)


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), STOP_S)


@contextlib.contextmanager
def connected(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Connections that the server has taken."""
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(port)) for _ in range(count)]
        for connection in connections:
            connection.sendall(PROBE % b"/livez")
            reply(connection)
        time.sleep(CROWDED_S)  # until no accepted connection is remembered
        yield connections


def reply(connection: socket.socket) -> bytes:
    """One whole answer."""
    got = b""
    while True:
        head, blank, body = got.partition(b"\r\n\r\n")
        found = re.search(rb"content-length: (\d+)", head)
        if blank and found is not None and len(body) >= int(found[1]):
            return got
        more = connection.recv(1 << 16)
        assert more, got
        got += more


def flood(server: Server, sent: list[bytes], *, new: bool = False) -> list[bytes]:
    """Send each on a connection of its own; the answers in the same order."""
    process, port = server
    with contextlib.ExitStack() as stack:
        taken = connected(port, 0 if new else len(sent))
        connections = stack.enter_context(taken)
        with stopped(process):
            if new:
                connections = [stack.enter_context(connect(port)) for _ in sent]
            for connection, request in zip(connections, sent, strict=True):
                connection.sendall(request)
        return [reply(connection) for connection in connections]


def refusals(server: Server) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{server[1]}/metrics") as metrics:
        line = rb'polydom_errors_total\{code="overloaded",model=""\} (\S+)'
        found = re.search(line, metrics.read())
        return float(found[1]) if found else 0.0


@pytest.mark.parametrize("new", [False, True])
def test_flood_is_refused_at_once_and_others_are_not(server: Server, new: bool) -> None:
    before = refusals(server)
    sent = [ONE] * COUNT
    for number, request in enumerate(NEVER_REFUSED, start=1):
        sent.insert(number * COUNT // len(NEVER_REFUSED), request)
    replies = flood(server, sent, new=new)
    found = {b"200": 0, b"429": 0}
    for request, said in zip(sent, replies, strict=True):
        if request in NEVER_REFUSED:
            assert statuses(said) == [NEVER_REFUSED[request]], request
            continue
        found[said[9:12]] += 1
        if said[9:12] == b"429":
            head, _, body = said.partition(b"\r\n\r\n")
            assert b"\r\nretry-after: 1\r\n" in head + b"\r\n"
            assert json.loads(body)["code"] == "overloaded"
    assert found[b"429"] >= (1 if new else COUNT // 4)
    # while the server was stopped, those on new connections waited for too long
    assert found[b"200"] >= (0 if new else LEAST)
    assert sum(found.values()) == COUNT
    assert refusals(server) == before + found[b"429"]


def test_flood_leaves_a_server_that_answers_as_before(server: Server) -> None:
    flood(server, [ONE] * COUNT)
    time.sleep(CROWDED_S)
    with connect(server[1]) as connection:
        for _ in range(20):
            connection.sendall(ONE)
            assert statuses(reply(connection)) == [200]


LONG = POST + b"content-length: 90000\r\n\r\n" + b" " * 100


def test_rest_of_a_refused_request_is_thrown_away_and_the_next_is_answered(
    server: Server,
) -> None:
    refused = 0
    with connected(server[1], COUNT) as connections:
        with stopped(server[0]):
            for number, connection in enumerate(connections):
                connection.sendall(LONG if number % 2 else ONE)
        for connection in connections[1::2]:
            connection.sendall(b" " * (90_000 - 100 - len(BODY)) + BODY)
        for connection in connections:
            status = statuses(reply(connection))
            assert status in ([200], [429])
            refused += connection in connections[1::2] and status == [429]
        for connection in connections[1::2]:
            connection.sendall(ONE)
            assert statuses(reply(connection)) == [200]
    assert refused > COUNT // 8


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(POST + b"transfer-encoding: chunked\r\n\r\n", id="chunked"),
        pytest.param(
            POST + b"expect: 100-continue\r\ncontent-length: 9\r\n\r\n", id="expects"
        ),
        pytest.param(
            ONE.replace(b"host: x", b"host: x\r\nconnection: close"), id="closes"
        ),
        pytest.param(ONE.replace(b"HTTP/1.1", b"HTTP/1.0"), id="HTTP/1.0"),
        pytest.param(POST[:40], id="half a head"),
        pytest.param(b"what is this", id="no HTTP"),
    ],
)
def test_refused_requests_whose_end_is_not_known_are_the_last(
    server: Server, sent: bytes
) -> None:
    refused = 0
    with connected(server[1], COUNT) as connections:
        with stopped(server[0]):
            for number, connection in enumerate(connections):
                connection.sendall(sent if number % 2 else ONE)
        for connection in connections[1::2]:
            connection.settimeout(0.02)  # those that were begun may wait for more
            with contextlib.suppress(TimeoutError):
                if statuses(said := reply(connection)) == [429]:
                    refused += 1
                    assert b"\r\nconnection: close" in said
                    connection.settimeout(STOP_S)
                    assert connection.recv(1) == b""
    assert refused > COUNT // 8


def test_of_requests_in_a_row_the_first_are_refused(server: Server) -> None:
    refused = 0
    with connected(server[1], COUNT) as connections:
        with stopped(server[0]):
            for connection in connections:
                connection.sendall(ONE * 3)
        for connection in connections:
            got = b""
            while len(statuses(got)) < 3 or not got.endswith(b"}"):
                more = connection.recv(1 << 16)
                assert more
                got += more
            assert statuses(got) == sorted(statuses(got), reverse=True)
            assert set(statuses(got)) <= {200, 429}
            refused += statuses(got).count(429)
    assert refused > COUNT // 8


@pytest.mark.parametrize(
    ("head", "framing"),
    [
        (b"GET /livez HTTP/1.1", (0, True)),
        (ONE.partition(b"\r\n\r\n")[0], (len(BODY), True)),
        (b"POST / HTTP/1.1\r\nConnection: Close\r\nCONTENT-LENGTH:7", (7, False)),
        (b"POST / HTTP/1.1\r\ncontent-length: 7\r\ncontent-length: 7", None),
        (b"POST / HTTP/1.1\r\ncontent-length: 7, 7", None),
        (b"POST / HTTP/1.1\r\ncontent-length: +7", None),
        (b"POST / HTTP/1.1\r\ncontent-length: 7\r\ntransfer-encoding: x", None),
        (b"POST / HTTP/1.1\r\nconnection: upgrade", None),
        (b"POST / HTTP/1.1\r\n x: y", None),
        (b"POST / HTTP/1.1\r\nx : y", None),
        (b"POST / HTTP/1.1\nx: y", None),
        (b"POST / HTTP/1.1\r\nx: \0", None),
        (b"GET / HTTP/1.0", None),
        (b"GET / HTTP/1.1\r\nx: " + b"y" * LONGEST_HEAD, None),
        (b"", None),
    ],
)
def test_end_of_a_request_is_only_known_where_it_is_plainly_said(
    head: bytes, framing: tuple[int, bool] | None
) -> None:
    assert framing_of(head) == framing
