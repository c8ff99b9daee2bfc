"""A real server gives the ids of a request back, whatever answers it."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from polydom.server.oip.grpc_messages import MESSAGES, SERVICE
from tests.support.indexes.served import FEATURES_FILE, SPAM
from tests.support.indexes.three_kinds import save_three
from tests.support.processes.raw_http import JSON, request, send, statuses
from tests.support.processes.servers import STOP_S, serving

PARENT = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
IDS = b"x-request-id: a-1", b"TraceParent: " + PARENT
BACK = {b"x-request-id": b"a-1", b"traceparent": PARENT}
RECORD = json.dumps({"model": "records", "record": {"age": 50}}).encode()
ITEMS = json.dumps({"items": [{"text": SPAM}], "budget_ms": 50}).encode()
TENSOR = {"name": "text", "shape": [1], "datatype": "BYTES", "data": [SPAM]}
INFER = b"/v2/models/texts/infer"


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, str]]:
    """A server of three kinds of items: its port, and the address of its gRPC."""
    folder = tmp_path_factory.mktemp("ids")
    paths = save_three(folder)
    first = f"records={paths['records']}"
    others = [f"{name}={paths[name]}" for name in ("texts", "images")]
    own = f"--features={FEATURES_FILE}"
    options = (*others, own, "--grpc-port=0", "--budget-ms=900")
    with serving(first, *options, folder=Path(folder)) as (process, port):
        line = process.stdout.readline()
        yield port, line.split()[-1]


def ids_in(reply: bytes) -> dict[bytes, bytes]:
    head = reply.partition(b"\r\n\r\n")[0] + b"\r\n"
    found = re.findall(rb"\r\n(x-request-id|traceparent): ([^\r]*)", head)
    assert len(dict(found)) == len(found)
    return dict(found)


@pytest.mark.parametrize(
    ("path", "body", "kind", "status"),
    [
        pytest.param(b"/v1/predict", RECORD, JSON, 200, id="record"),
        pytest.param(b"/v1/predict?model=texts", b"x", b"text/plain", 200, id="text"),
        pytest.param(b"/v1/predict", b"{", JSON, 400, id="error"),
        pytest.param(b"/v1/predict", b"\x80", b"application/msgpack", 400, id="packed"),
        pytest.param(b"/v1/batch?model=texts", ITEMS, JSON, 200, id="batch"),
        pytest.param(
            INFER, json.dumps({"inputs": [TENSOR]}).encode(), JSON, 200, id="oip"
        ),
        pytest.param(INFER, b"{}", JSON, 400, id="oip error"),
        pytest.param(b"/nowhere", b"{}", JSON, 404, id="nothing there"),
        pytest.param(b"/livez", b"", JSON, 405, id="other method"),
    ],
)
def test_ids_come_back(
    ports: tuple[int, str], path: bytes, body: bytes, kind: bytes, status: int
) -> None:
    reply = send(ports[0], request(path, body, *IDS, kind=kind))
    assert statuses(reply) == [status], reply
    assert ids_in(reply) == BACK


def test_every_request_of_a_connection_has_ids_of_its_own(
    ports: tuple[int, str],
) -> None:
    """Direct answers and those of the application, read together and one by one."""
    text = b"/v1/predict?model=texts"
    sent = [
        request(b"/v1/predict", RECORD, b"x-request-id: 1", close=False),
        request(b"/v1/predict", RECORD, close=False),
        request(text, b"x", b"x-request-id: 3", kind=b"text/plain", close=False),
        request(b"/nowhere", b"{}", close=False),
        request(b"/nowhere", b"{}", b"x-request-id: 5", close=False),
        request(b"/v1/predict", RECORD, b"x-request-id: a b", close=False),
        b"GET /livez HTTP/1.1\r\nhost: x\r\nx-request-id: 7\r\n\r\n",
        request(b"/v1/predict", RECORD, b"x-request-id: 8"),
    ]
    expected = [b"1", None, b"3", None, b"5", None, b"7", b"8"]
    together = send(ports[0], b"".join(sent))
    parts = together.split(b"HTTP/1.1 ")[1:]
    assert [ids_in(part).get(b"x-request-id") for part in parts] == expected
    with socket.create_connection(("127.0.0.1", ports[0]), STOP_S) as connection:
        replies = connection.makefile("rb")
        for one, said in zip(sent, expected, strict=True):
            connection.sendall(one)
            head = b"".join(iter(replies.readline, b"\r\n"))
            length = re.search(rb"content-length: (\d+)", head)
            assert length is not None
            replies.read(int(length[1]))
            assert ids_in(head).get(b"x-request-id") == said


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(b"x-request-id: " + b"x" * 129, id="too long"),
        pytest.param(b"x-request-id: " + b"x" * 10_000, id="10 kB"),
        pytest.param(b"x-request-id: caf\xc3\xa9", id="not ASCII"),
        pytest.param(b"x-request-id: a b", id="space"),
        pytest.param(b"x-request-id: a\x01", id="control character"),
        pytest.param(b"x-request-id: a\r\nx-request-id: b", id="twice"),
        pytest.param(b"x-request-id:", id="empty"),
        pytest.param(b"traceparent: " + PARENT.upper(), id="upper case"),
        pytest.param(b"traceparent: ff" + PARENT[2:], id="wrong version"),
        pytest.param(b"traceparent: 00-" + b"0" * 32 + PARENT[35:], id="zeros"),
        pytest.param(b"traceparent: " + PARENT + b"-x", id="longer"),
    ],
)
def test_other_ids_are_ignored_and_never_given_back(
    ports: tuple[int, str], line: bytes
) -> None:
    reply = send(ports[0], request(b"/v1/predict", RECORD, line))
    if b"\x01" in line:  # the parser takes no control characters
        assert statuses(reply) in ([200], [400])
    else:
        assert statuses(reply) == [200]
    assert ids_in(reply) == {}


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\nset-cookie: a=b"])
def test_no_header_is_smuggled_into_a_reply(ports: tuple[int, str], end: bytes) -> None:
    line = b"x-request-id: a" + end + b"x-evil: 1"
    reply = send(ports[0], request(b"/v1/predict", RECORD, line))
    head = reply.partition(b"\r\n\r\n")[0]
    assert b"x-evil" not in head
    assert b"set-cookie" not in head


def test_ids_behind_a_chunked_body_are_not_read(ports: tuple[int, str]) -> None:
    head = b"POST /v1/predict HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    body = b"%x\r\n%b\r\n0\r\nx-request-id: late\r\n\r\n" % (len(RECORD), RECORD)
    chunked = b"content-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n"
    reply = send(ports[0], head + chunked + body)
    assert statuses(reply) == [200]
    assert ids_in(reply) == {}


def test_grpc_gives_ids_back_in_its_last_metadata(ports: tuple[int, str]) -> None:
    sent = (("x-request-id", "a-1"), ("traceparent", PARENT.decode()))
    asked = MESSAGES["ModelInferRequest"](
        model_name="texts",
        inputs=[{"name": "text", "shape": [1], "datatype": "BYTES"}],
        raw_input_contents=[b"\x01\x00\x00\x00x"],
    )
    expected = {name.decode(): value.decode() for name, value in BACK.items()}
    with grpc.insecure_channel(ports[1]) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            MESSAGES["ModelInferRequest"].SerializeToString,
            MESSAGES["ModelInferResponse"].FromString,
        )
        _, done = call.with_call(asked, STOP_S, metadata=sent)
        assert dict(done.trailing_metadata()) == expected
        asked.model_name = "nobody"
        with pytest.raises(grpc.RpcError) as failed:
            call(asked, STOP_S, metadata=sent)
        assert expected.items() <= dict(failed.value.trailing_metadata()).items()
        _, done = call.with_call(
            MESSAGES["ModelInferRequest"](
                model_name="texts",
                inputs=[{"name": "text", "shape": [1], "datatype": "BYTES"}],
                raw_input_contents=[b"\x01\x00\x00\x00x"],
            ),
            STOP_S,
        )
        assert not done.trailing_metadata()
