"""Whatever is sent, the server says what is wrong and goes on answering others."""

import contextlib
import gzip
import json
import random
import re
import socket
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path

import msgpack
import pytest

from polydom.server.app import describe_routes
from polydom.server.errors import STATUSES
from polydom.server.http.bearer_tokens import OPEN_PATHS
from tests.support.indexes.served import FEATURES_FILE, SPAM
from tests.support.indexes.three_kinds import picture, save_three
from tests.support.processes.raw_http import INSIDE, failure, request, send, statuses
from tests.support.processes.servers import STOP_S, ask, serving
from tests.support.waiting import wait_until

PREDICT, BATCH = b"/v1/predict", b"/v1/batch?budget_ms=50"
INFER = b"/v2/models/texts/infer"
DEEP = b"[" * 100_000 + b"]" * 100_000
TOKEN = "a-token-of-some-user-of-models"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server of three kinds of items, whose log has no traceback but a feature's."""
    folder = tmp_path_factory.mktemp("hostile")
    first, *others = (f"{name}={path}" for name, path in save_three(folder).items())
    own, log = f"--features={FEATURES_FILE}", folder / "log"
    with serving(first, *others, own, "--budget-ms=900", log=log) as (_, port):
        yield port
        is_well(port)
    said = log.read_text("utf-8")
    assert said.count("Traceback") == said.count("feature 'words' failed")


@pytest.fixture(scope="module", autouse=True)
def slow(port: int) -> dict[int, bytes]:
    """What slow callers get in the end, who send a byte now and then.

    They do so from the first test on: in the head, a body, a chunk and a batch, and
    behind a whole request. All other tests are the others meanwhile.
    """
    length = b"content-type: application/json\r\ncontent-length: 99999\r\n\r\n"
    batch = b"POST " + BATCH + b" HTTP/1.1\r\nhost: x\r\n" + length
    starts = [GET, POST + length, CHUNKED + b"1;", batch, ONE + GET]
    replies: dict[int, bytes] = {}

    def drip(number: int) -> None:
        with socket.create_connection(("127.0.0.1", port), STOP_S) as connection:
            connection.sendall(starts[number])
            connection.settimeout(0.2)
            got, more = b"", b"some"
            while more:
                try:
                    more = connection.recv(1 << 16)
                    got += more
                except TimeoutError:
                    with contextlib.suppress(OSError):  # the answer may be on its way
                        connection.sendall(b"a")
                except ConnectionResetError:
                    break
            replies[number] = got

    for number in range(len(starts)):
        threading.Thread(target=drip, args=(number,), daemon=True).start()
    return replies


def is_well(port: int, **headers: str) -> None:
    """Ask what anybody could ask."""
    body = json.dumps({"text": SPAM}).encode()
    status, answer = ask(port, "POST", "/v1/predict", body, **headers)
    assert (status, answer.get("label")) == (200, "spam"), answer


GET = b"GET /livez HTTP/1.1\r\nhost: x\r\n"
POST = b"POST /v1/predict HTTP/1.1\r\nhost: x\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", id="HTTP/2"
        ),
        pytest.param(bytes.fromhex("16030100c8010000c40303") + bytes(200), id="TLS"),
        pytest.param(b"CONNECT a.b:443 HTTP/1.1\r\nhost: a.b\r\n\r\n", id="a tunnel"),
        pytest.param(b"BREW /livez HTTP/1.1\r\nhost: x\r\n\r\n", id="no such method"),
        pytest.param(b"GET /\xff HTTP/1.1\r\nhost: x\r\n\r\n", id="no ASCII"),
        pytest.param(b"GET http://x:99999/ HTTP/1.1\r\n\r\n", id="a port too high"),
        pytest.param(b"GET /livez HTTP/9.9\r\nhost: x\r\n\r\n", id="HTTP/9.9"),
        pytest.param(GET + b"x: a\0b\r\n\r\n", id="NUL in a header"),
        pytest.param(GET + b"x: a\r\n b\r\n\r\n", id="a folded header"),
        pytest.param(GET + b"x : a\r\n\r\n", id="a space before the colon"),
        pytest.param(GET + b"x: " + b"a" * 70_000 + b"\r\n\r\n", id="a long header"),
        pytest.param(GET + b"x: a\r\n" * 11_000 + b"\r\n", id="many headers"),
        pytest.param(GET + b"x: " + b"a" * (4 << 20), id="an endless header"),
        pytest.param(b"GET /" + b"a" * (4 << 20), id="an endless path"),
        pytest.param(POST + b"content-length: -1\r\n\r\n", id="negative length"),
        pytest.param(POST + b"content-length: %d\r\n\r\n" % 10**30, id="huge length"),
        pytest.param(POST + b"content-length: 1, 1\r\n\r\na", id="a list of lengths"),
        pytest.param(POST + b"content-length: 1\r\n" * 2 + b"\r\na", id="two lengths"),
        pytest.param(
            POST + b"content-length: 1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
            id="a length, and chunked",
        ),
        pytest.param(POST + b"transfer-encoding: gzip\r\n\r\na", id="not chunked"),
        pytest.param(CHUNKED + b"zz\r\n", id="no size of a chunk"),
        pytest.param(CHUNKED + b"-1\r\n", id="negative chunk"),
        pytest.param(CHUNKED + b"f" * 18 + b"\r\n", id="huge chunk"),
        pytest.param(CHUNKED + b"1\r\naXX0\r\n\r\n", id="a chunk too long"),
        pytest.param(CHUNKED + b"1;" + b"a" * (4 << 20), id="an endless extension"),
        pytest.param(CHUNKED + b"0\r\nx: " + b"a" * (4 << 20), id="an endless trailer"),
    ],
)
def test_what_is_no_request_is_refused(port: int, sent: bytes) -> None:
    assert failure(send(port, sent)) == (400, "bad_input")
    is_well(port)


def text_input(**changed: object) -> bytes:
    given = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["a"]}
    return json.dumps({"inputs": [given | changed]}).encode()


COLUMNS = [f"{k:x}" for k in range(600_000)]
MANY = b'{"record":{"%b":1}}' % '":1,"'.join(COLUMNS).encode()
MANY_PACKED = msgpack.packb({"record": dict.fromkeys(COLUMNS, 1)})
MANY_ITEMS = b'{"items":[%b1]}' % (b"1," * 4_000_000)
BOMB = gzip.compress(bytes(64 << 20), 1)
PACKED = b"content-encoding: gzip"


def claiming(side: int, kind: bytes = b"\x08\x02") -> bytes:
    """A small and valid PNG, but for what its header says: sides, depth and colours."""
    png = picture(20)
    header = b"IHDR" + struct.pack(">II", side, side) + kind + png[26:29]
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


IMAGES = PREDICT + b"?model=images&on_infeasible=cheapest&min_quality=0.9"


@pytest.mark.parametrize(
    ("sent", "status", "code"),
    [
        pytest.param(request(PREDICT, b'{"text":' + DEEP + b"}"), 400, "bad_input"),
        pytest.param(request(PREDICT, DEEP), 400, "bad_input"),
        pytest.param(
            request(PREDICT, b"\x91" * 100_000, kind=b"application/msgpack"),
            400,
            "bad_input",
        ),
        pytest.param(request(BATCH, b'{"items":[' + DEEP + b"]}"), 400, "bad_input"),
        pytest.param(request(INFER, DEEP), 400, "bad_input"),
        pytest.param(
            request(INFER, b'{"inputs":[],"parameters":{"a":' + DEEP + b"}}"),
            400,
            "bad_input",
        ),
        pytest.param(
            request(b"/v2/repository/index", b'{"a":' + b"[" * 16_000), 400, "bad_input"
        ),
        pytest.param(request(INFER, text_input(data=[[["a"]]])), 400, "bad_input"),
        pytest.param(request(INFER, text_input(shape=[10**30])), 400, "bad_input"),
        pytest.param(request(INFER, text_input(shape=[2**20] * 8)), 400, "bad_input"),
        pytest.param(request(INFER, text_input(shape=[1] * 10**6)), 400, "bad_input"),
        pytest.param(request(INFER, text_input(shape=[-1])), 400, "bad_input"),
        pytest.param(request(PREDICT, BOMB, PACKED), 413, "too_large"),
        pytest.param(request(PREDICT, gzip.compress(BOMB), PACKED), 400, "bad_input"),
        pytest.param(request(INFER, BOMB, PACKED), 413, "too_large"),
        pytest.param(request(BATCH, BOMB, PACKED), 415, "unsupported_encoding"),
        pytest.param(request(PREDICT, b"a" * (30 << 20)), 413, "too_large"),
        pytest.param(request(INFER, b"a" * (30 << 20)), 413, "too_large"),
        pytest.param(request(BATCH, b"a" * (30 << 20)), 413, "too_large"),
        pytest.param(
            request(IMAGES, claiming(100_000), kind=b"image/png"), 400, "bad_item"
        ),
        pytest.param(
            request(IMAGES, claiming(5_000), kind=b"image/png"), 400, "bad_item"
        ),
        pytest.param(
            request(IMAGES, claiming(5_000, b"\x10\x06"), kind=b"image/png"),
            400,
            "bad_item",
        ),
        pytest.param(request(PREDICT + b"?model=records", MANY), 400, "bad_item"),
        pytest.param(request(PREDICT, MANY), 400, "bad_item"),
        pytest.param(
            request(PREDICT, MANY_PACKED, kind=b"application/msgpack"), 400, "bad_item"
        ),
        pytest.param(request(BATCH, MANY_ITEMS), 400, "bad_input"),
        pytest.param(
            request(INFER, text_input(data=[""] * 2_000_000)), 400, "bad_input"
        ),
        pytest.param(
            request(INFER, b'{"inputs":[%b0]}' % (b"{}," * 2_000_000)), 400, "bad_input"
        ),
        pytest.param(request(IMAGES, b"\x89PNG", kind=b"image/png"), 400, "bad_item"),
        pytest.param(
            request(PREDICT, b'{"text":"a","budget_ms":NaN}'), 400, "bad_input"
        ),
        pytest.param(
            request(PREDICT, b'{"text":"a","budget_ms":1e999}'), 400, "bad_input"
        ),
        pytest.param(
            request(PREDICT, b'{"text":"a"}', b"x-budget-ms: nan"), 400, "bad_input"
        ),
        pytest.param(
            request(PREDICT, b'{"text":"a"}', b"x-budget-ms: \xff"), 400, "bad_input"
        ),
        pytest.param(
            request(PREDICT + b"?budget_ms=inf", b'{"text":"a"}'), 400, "bad_input"
        ),
        pytest.param(
            request(PREDICT + b"?budget_ms=" + b"9" * 9_999, b'{"text":"a"}'),
            400,
            "bad_input",
        ),
        pytest.param(request(b"/v1/batch?budget_ms=inf", b""), 400, "bad_input"),
        pytest.param(
            request(BATCH + b"&count=" + b"9" * 9_999, b'{"items":[]}'),
            400,
            "bad_input",
        ),
        pytest.param(request(PREDICT, b'{"text":"\xff"}'), 400, "bad_input"),
        pytest.param(request(PREDICT, b'{"text":"\\ud800"}'), 400, "bad_input"),
        pytest.param(request(PREDICT, b"\xff", kind=b"text/plain"), 400, "bad_item"),
        pytest.param(request(PREDICT, b'{"text":"a\\u0000"}'), 422, "bad_feature"),
        pytest.param(request(PREDICT, b"{}", kind=b"image/\xff"), 400, "bad_item"),
        pytest.param(request(PREDICT, b"{}", kind=b"a/b"), 400, "bad_input"),
        pytest.param(request(BATCH, b"{}", kind=b"a/\xff"), 400, "bad_input"),
        pytest.param(
            request(PREDICT + b"?model=%ed%a0%80%00", b"{}"), 404, "unknown_model"
        ),
        pytest.param(request(b"/%00%ff%zz", b""), 404, "not_found"),
    ],
)
def test_what_no_answer_is_for_is_refused(
    port: int, sent: bytes, status: int, code: str
) -> None:
    assert failure(send(port, sent)) == (status, code)
    is_well(port)


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (b"application/jsonl", b'{"text":' + DEEP + b"}\n"),
        (b"application/jsonl", b"a" * (9 << 20)),
        (b"application/msgpack", b"\x91" * 100_000),
        (b"application/msgpack", b"\xc1"),
        (b"application/msgpack", b"\xdd\xff\xff\xff\xff"),
        (b"application/msgpack", b"\xdb\xff\xff\xff\xff"),
    ],
)
def test_items_of_a_batch_are_refused_in_it(
    port: int, kind: bytes, item: bytes
) -> None:
    reply = send(port, request(BATCH, item, kind=kind))
    assert statuses(reply) == [200]
    assert b"error" in reply
    assert b"expected_accuracy" in reply
    assert not INSIDE.search(reply.partition(b"\r\n\r\n")[2].decode("latin-1"))
    is_well(port)


@pytest.mark.parametrize("path", describe_routes()["paths"])
def test_wrong_methods_are_told_the_right_ones(port: int, path: str) -> None:
    described = describe_routes()["paths"][path]
    filled = path.format(name="texts", version="1", number="0").encode()
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE", "OPTIONS"):
        if method.lower() in described:
            continue
        start = f"{method} ".encode() + filled
        reply = send(port, start + b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        if path.startswith("/v1/admin"):
            assert failure(reply) == (404, "not_found")
            continue
        assert failure(reply) == (405, "method_not_allowed")
        (allowed,) = re.findall(rb"\r\nallow: ([^\r]*)", reply)
        known = ["get", "head"] if "get" in described else list(described)
        assert allowed.decode().lower().split(", ") == known


@pytest.mark.parametrize(
    "path", ["/", "/docs", "/nothing", *describe_routes()["paths"]]
)
def test_head_is_answered_as_get_without_a_body(port: int, path: str) -> None:
    filled = path.format(name="texts", version="1", number="0").encode()
    said = [
        send(port, b"%b %b HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n" % one)
        for one in ((b"GET", filled), (b"HEAD", filled))
    ]
    (got, body), (head, nothing) = (one.split(b"\r\n\r\n", 1) for one in said)
    assert not nothing
    if path != "/metrics":  # counts what was asked before
        assert b"\r\ncontent-length: %d\r\n" % len(body) in head + b"\r\n"
    for line in got.splitlines():
        assert line.startswith((b"date:", b"content-length:")) or line in head


def test_tokens_that_are_none_are_refused(tmp_path: Path) -> None:
    paths = save_three(tmp_path)
    (tmp_path / "tokens").write_text(TOKEN)
    options = (f"--features={FEATURES_FILE}", f"--token-file={tmp_path / 'tokens'}")
    with serving(paths["texts"], *options, "--budget-ms=900") as (_, port):
        for given in (b"", b"Bearer", b"Bearer \xff", b"Bearer " + b"a" * 60_000):
            for target in (
                PREDICT,
                BATCH,
                INFER,
                b"/v1/index",
                b"/metrics",
                b"/nothing",
            ):
                line = b"authorization: " + given
                reply = send(port, request(target, b"a" * (9 << 20), line))
                assert failure(reply) == (401, "unauthorized")
                assert TOKEN.encode() not in reply
        for path in OPEN_PATHS:
            assert ask(port, "GET", path)[0] == 200
        is_well(port, authorization=f"Bearer {TOKEN}")


ONE = request(PREDICT, json.dumps({"text": SPAM}).encode(), close=False)
RECORD = request(
    PREDICT + b"?model=records", b'{"record": {"color": "red"}}', close=False
)


def test_garbage_behind_requests_is_answered_after_them(port: int) -> None:
    for garbage in (b"what is this\r\n\r\n", CHUNKED + b"zz\r\n", b"\0\1\2"):
        for before in (1, 2, 5):
            reply = send(port, ONE * before + garbage + ONE)
            assert statuses(reply) == [200] * before + [400]
    is_well(port)


def test_other_protocols_that_are_offered_are_not_taken_up(port: int) -> None:
    for offer in (b"h2c", b"websocket"):
        lines = (b"Upgrade: " + offer, b"Connection: Upgrade", b"HTTP2-Settings: AAMA")
        body = json.dumps({"text": SPAM}).encode()
        offering = request(PREDICT, body, *lines, close=False)
        for pieces in ([offering], [offering[: -len(body)], body]):
            reply = send(port, *pieces, request(PREDICT, body))
            assert statuses(reply) == [200, 200]
        in_pieces = send(port, offering[:40], offering[40:], request(PREDICT, body))
        assert statuses(in_pieces)[0] in (200, 400)  # as the reads happen to be


def test_headers_behind_a_body_are_not_those_before_it(port: int) -> None:
    body = json.dumps({"text": SPAM}).encode()
    chunked = b"transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    sent = POST + b"content-type: application/json\r\n" + chunked
    sent += b"%x\r\n%b\r\n0\r\nx-budget-ms: nan\r\n\r\n" % (len(body), body)
    assert statuses(send(port, sent)) == [200]


@pytest.mark.parametrize("rest", [0, 1, 100])
def test_callers_who_leave_at_any_point_are_forgotten(port: int, rest: int) -> None:
    batch = request(BATCH, b'{"text": "a"}\n' * 99, kind=b"application/jsonl")
    infer = request(INFER, text_input())
    for sent in (ONE, ONE * 3, batch, infer, ONE[:30], batch[:-50], GET):
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", port), STOP_S) as connection:
                connection.sendall(sent)
                connection.settimeout(STOP_S)
                if rest and sent.endswith((b"}", b"\n")) and sent != GET:
                    connection.recv(rest)
                linger = struct.pack("ii", 1, 0)  # a reset, not an orderly end
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    is_well(port)


def test_mutated_requests_never_break_the_server(port: int) -> None:
    random_ = random.Random(11)
    image = request(PREDICT + b"?model=images", picture(20), kind=b"image/png")
    lines = request(BATCH, b'{"text": "a"}\n' * 3, kind=b"application/jsonl")
    pack = request(PREDICT, b"\x81\xa4text\xa1a", kind=b"application/msgpack")
    seeds = [ONE, RECORD, image, lines, pack, request(INFER, text_input())]
    seeds += [request(PREDICT, gzip.compress(b'{"text": "a"}'), PACKED)]
    known = {100, 200, 405, *(status.number for status in STATUSES)}
    last = GET + b"connection: close\r\n\r\n"
    for round_ in range(1500):
        sent = bytearray(random_.choice(seeds))
        for _ in range(random_.randint(1, 4)):
            at, length = random_.randrange(len(sent)), random_.randint(0, 9)
            how = random_.randrange(4)
            if how == 0:
                sent[at : at + length] = random_.randbytes(length)
            elif how == 1:
                del sent[at : at + length]
            elif how == 2:
                sent[at:at] = sent[at : at + length]
            else:
                sent[at : at + length] = random_.choice(
                    [
                        b"\r\n",
                        b"0",
                        b"-1",
                        b"\0",
                        b'"',
                        b"99999999999",
                        b"{",
                        b"%",
                        b"/",
                    ]
                )
            if not sent:
                break
        with socket.create_connection(("127.0.0.1", port), STOP_S) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(sent + last)
            reply = b""
            connection.settimeout(0.01)  # some have made their bodies longer
            with contextlib.suppress(OSError):
                while more := connection.recv(1 << 16):
                    reply += more
        assert set(statuses(reply)) <= known, bytes(sent)
        assert b"Traceback" not in reply
        if round_ % 100 == 0:
            is_well(port)


def test_slow_callers_are_given_up_while_others_are_answered(
    port: int, slow: dict[int, bytes]
) -> None:
    def given_up() -> bool:
        is_well(port)
        return len(slow) == 5

    wait_until(given_up)
    assert [statuses(slow[number]) for number in range(4)] == [[408]] * 4
    assert statuses(slow[4]) == [200, 408]
