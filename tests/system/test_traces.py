"""A real server exports spans of sampled requests, as the SDK's variables say."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from polydom.server.oip.grpc_messages import MESSAGES, SERVICE
from tests.support.indexes.served import FEATURES_FILE, SPAM
from tests.support.indexes.three_kinds import save_three
from tests.support.otel import Receiver, facts_of, needs_otel, receiving
from tests.support.processes.raw_http import JSON, request, send, statuses
from tests.support.processes.servers import STOP_S, serving
from tests.support.waiting import wait_until

SPAN = "b7ad6b7169203331"
RECORD = json.dumps({"model": "records", "record": {"age": 50}}).encode()
ITEMS = json.dumps({"items": [{"text": SPAM}, {"text": 1}], "budget_ms": 50}).encode()
TENSOR = {"name": "text", "datatype": "BYTES"}


@pytest.fixture(scope="module")
def traced(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Receiver, int, str]]:
    """A receiver, the port of a server that sends to it, and its gRPC address."""
    needs_otel()
    folder = tmp_path_factory.mktemp("traces")
    paths = save_three(folder)
    others = [f"{name}={paths[name]}" for name in ("texts", "images")]
    own = f"--features={FEATURES_FILE}"
    options = (*others, own, "--grpc-port=0", "--budget-ms=900", "--traces")
    with receiving() as receiver, pytest.MonkeyPatch.context() as patch:
        at = f"http://127.0.0.1:{receiver.port}"
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", at)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        patch.setenv("OTEL_SERVICE_NAME", "shop")
        first = f"records={paths['records']}"
        with serving(first, *options, folder=Path(folder)) as (process, port):
            address = process.stdout.readline().split()[-1]
            yield receiver, port, address


def parent(number: int, flags: str = "01") -> str:
    return f"00-{number:032x}-{SPAN}-{flags}"


def spans_of(traced: Any, number: int) -> tuple[list[Any], Any]:
    """The children and the root of a trace, once they have come."""
    receiver, trace_id = traced[0], f"{number:032x}"

    def roots() -> list[Any]:
        spans = receiver.trace(trace_id)
        return [span for span in spans if span.parent_span_id.hex() == SPAN]

    wait_until(roots)
    (root,) = roots()
    children = [span for span in receiver.trace(trace_id) if span is not root]
    assert {span.parent_span_id for span in children} <= {root.span_id}
    return children, root


@pytest.mark.parametrize(
    ("number", "path", "body", "kind", "parts"),
    [
        pytest.param(1, b"/v1/predict", RECORD, JSON, ["model"], id="record"),
        pytest.param(
            2,
            b"/v1/predict?model=texts",
            SPAM.encode(),
            b"text/plain",
            ["feature length", "feature marks", "feature words", "model"],
            id="text",
        ),
        pytest.param(
            3,
            b"/v2/models/texts/infer",
            json.dumps({"inputs": [TENSOR | {"shape": [1], "data": [SPAM]}]}).encode(),
            JSON,
            ["feature length", "feature marks", "feature words", "model"],
            id="oip",
        ),
    ],
)
def test_an_answer_is_a_span_with_its_parts(
    traced: Any, number: int, path: bytes, body: bytes, kind: bytes, parts: list[str]
) -> None:
    said = b"traceparent: " + parent(number).encode()
    reply = send(traced[1], request(path, body, said, kind=kind))
    assert statuses(reply) == [200]
    children, root = spans_of(traced, number)
    assert (root.name, root.status.code) == ("predict", 0)
    assert [span.name for span in children] == ["queue", *parts]
    facts = facts_of(root)
    assert facts["polydom.model"] == ("records" if number == 1 else "texts")
    assert facts["polydom.budget"] == pytest.approx(0.9)
    assert len(facts["polydom.version"]) == 64
    computed = [name.removeprefix("feature ") for name in parts[:-1]]
    # columns of a record were read before the work began
    assert facts["polydom.plan"] == (["person"] if number == 1 else computed)
    times = [root.start_time_unix_nano]
    for span in children:
        times += [span.start_time_unix_nano, span.end_time_unix_nano]
    assert times == sorted(times)
    assert times[-1] <= root.end_time_unix_nano
    own = b"traceparent: 00-%032x-%b-01\r\n" % (number, root.span_id.hex().encode())
    assert own in reply
    assert traced[0].services == {"shop"}


def test_several_items_are_one_span(traced: Any) -> None:
    said = b"traceparent: " + parent(10).encode()
    sent = request(b"/v1/batch?model=texts", ITEMS, said)
    assert statuses(send(traced[1], sent)) == [200]
    children, root = spans_of(traced, 10)
    facts = facts_of(root)
    assert (root.name, children) == ("batch", [])
    assert (facts["polydom.items"], facts["polydom.errors"]) == (2, 1)
    body = {"inputs": [TENSOR | {"shape": [2], "data": [SPAM, SPAM]}]}
    said = b"traceparent: " + parent(11).encode()
    sent = request(b"/v2/models/texts/infer", json.dumps(body).encode(), said)
    assert statuses(send(traced[1], sent)) == [200]
    children, root = spans_of(traced, 11)
    assert (root.name, children) == ("batch", [])
    assert facts_of(root)["polydom.items"] == 2


@pytest.mark.parametrize(
    ("number", "path", "body", "code"),
    [
        (20, b"/v1/predict", b"{", "bad_input"),
        (21, b"/v1/predict?model=nobody", RECORD, "unknown_model"),
        (22, b"/v1/batch?model=texts", b"{", "bad_input"),
        (23, b"/v2/models/nobody/infer", b"{}", "unknown_model"),
    ],
)
def test_an_error_is_a_span_with_its_code(
    traced: Any, number: int, path: bytes, body: bytes, code: str
) -> None:
    said = b"traceparent: " + parent(number).encode()
    send(traced[1], request(path, body, said))
    _, root = spans_of(traced, number)
    assert (root.status.code, facts_of(root)["error.type"]) == (2, code)
    assert root.status.message


def test_a_call_of_grpc_is_a_span(traced: Any) -> None:
    asked = MESSAGES["ModelInferRequest"](
        model_name="texts",
        inputs=[TENSOR | {"shape": [1]}],
        raw_input_contents=[b"\x01\x00\x00\x00x"],
    )
    with grpc.insecure_channel(traced[2]) as channel:
        call = channel.unary_unary(
            f"/{SERVICE}/ModelInfer",
            MESSAGES["ModelInferRequest"].SerializeToString,
            MESSAGES["ModelInferResponse"].FromString,
        )
        call(asked, STOP_S, metadata=[("traceparent", parent(30))])
        asked.model_name = "nobody"
        with pytest.raises(grpc.RpcError):
            call(asked, STOP_S, metadata=[("traceparent", parent(31))])
    assert facts_of(spans_of(traced, 30)[1])["polydom.model"] == "texts"
    assert facts_of(spans_of(traced, 31)[1])["error.type"] == "unknown_model"


def test_a_caller_that_samples_nothing_is_heard(traced: Any) -> None:
    for number, flags in ((40, "00"), (41, "01")):
        said = b"traceparent: " + parent(number, flags).encode()
        reply = send(traced[1], request(b"/v1/predict", RECORD, said))
        assert (said in reply) == (flags == "00")
    spans_of(traced, 41)
    assert not traced[0].trace(f"{40:032x}")


@pytest.mark.parametrize("path", [b"/v1/admin/reload", b"/v2/models/texts", b"/x"])
def test_what_asks_for_no_answer_has_no_span(traced: Any, path: bytes) -> None:
    said = b"traceparent: " + parent(50).encode()
    for _ in range(2):
        assert said in send(traced[1], request(path, b"{}", said))


def test_what_waits_is_sent_when_the_server_stops(tmp_path: Path) -> None:
    needs_otel()
    path = save_three(tmp_path)["records"]
    with receiving() as receiver, pytest.MonkeyPatch.context() as patch:
        at = f"http://127.0.0.1:{receiver.port}"
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", at)
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "60000")
        with serving(f"records={path}", "--traces") as (process, port):
            reply = send(port, request(b"/v1/predict", RECORD))
            assert b"traceparent: 00-" in reply
            assert not receiver.spans
            process.terminate()
            assert process.wait(STOP_S) == 0
        assert [span.name for span in receiver.spans][-1] == "predict"
        trace_id = receiver.spans[-1].trace_id.hex().encode()
        assert b"traceparent: 00-" + trace_id in reply
