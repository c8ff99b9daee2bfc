"""Batches through a real server at a real socket."""

import contextlib
import http.client
import io
import itertools
import json
import signal
import socket
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.client.messages import NoAnswer
from polydom.server.client.sync import Client
from polydom.server.schema.wire import Entry, Totals
from polydom.server.v1.batch import BATCH, RUNNING
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.planners import BUILT, index_that_says
from tests.support.processes.servers import ask, serving
from tests.support.waiting import until_ready

OWN = f"--features={FEATURES_FILE}"
JSON_LINES, MSGPACK = "application/x-ndjson", "application/x-msgpack"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("batch")
    usd = folder / "usd"
    usd.mkdir()
    money = save_index(usd, unit="usd")
    files = (save_index(folder), f"money={money}")
    with serving(files[0], files[1], OWN) as (_, port):
        yield port


def send(port: int, body: bytes, kind: str, query: str) -> tuple[int, bytes]:
    """Status and body of one batch."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("POST", f"/v1/batch{query}", body, {"content-type": kind})
        reply = connection.getresponse()
        return reply.status, reply.read()
    finally:
        connection.close()


def head(length: str) -> bytes:
    """The beginning of a batch of JSON Lines."""
    start = "POST /v1/batch?budget_ms=60000 HTTP/1.1\r\nhost: x"
    return f"{start}\r\ncontent-type: {JSON_LINES}\r\n{length}\r\n\r\n".encode()


def lines_of(texts: list[str]) -> bytes:
    return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in texts)


def answers(port: int, body: bytes, query: str) -> list[dict[str, Any]]:
    status, reply = send(port, body, JSON_LINES, query)
    assert status == 200, reply
    return [json.loads(line) for line in reply.splitlines()]


def test_batch_answers_every_item_in_order_and_sums_up(port: int) -> None:
    texts = [HAM, SPAM, "x" * 500] * 50
    *entries, totals = answers(port, lines_of(texts), "?budget_ms=9000&count=150")
    assert [entry["item"] for entry in entries] == list(range(150))
    assert [entry["label"] for entry in entries[:2]] == ["ham", "spam"]
    assert entries[0]["features"] == ["length", "marks", "words"]
    mean = sum(entry["expected_accuracy"] for entry in entries) / 150
    assert totals["expected_accuracy"] == pytest.approx(mean)
    assert (totals["items"], totals["errors"], totals["budget_met"]) == (150, 0, True)
    assert 0 < totals["spent_us"] <= totals["budget_us"] == 9e6


def test_batch_speaks_msgpack_and_one_json_object_too(port: int) -> None:
    packed = b"".join(msgpack.packb({"text": text}) for text in (HAM, SPAM))
    status, reply = send(port, packed, MSGPACK, "?budget_ms=60000")
    unpacker = msgpack.Unpacker()
    unpacker.feed(reply)
    *entries, totals = unpacker
    assert (status, [entry["label"] for entry in entries]) == (200, ["ham", "spam"])
    assert totals["items"] == 2
    body = {"items": [{"text": HAM}, {"text": SPAM}], "budget_ms": 60000}
    status, reply = send(port, json.dumps(body).encode(), "application/json", "")
    whole = json.loads(reply)
    assert [entry["label"] for entry in whole["answers"]] == ["ham", "spam"]
    assert whole["totals"]["items"] == 2
    status, reply = send(port, b'{"items":[]}', "application/json", "?budget_ms=1")
    assert (status, json.loads(reply)["answers"]) == (200, [])


def test_predict_speaks_msgpack_too(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    body = msgpack.packb({"text": SPAM, "budget_ms": 60000})
    for _ in range(3):  # the first teaches the server this head
        connection.request("POST", "/v1/predict", body, {"content-type": MSGPACK})
        reply = connection.getresponse()
        assert reply.getheader("content-type") == "application/msgpack"
        assert msgpack.unpackb(reply.read())["label"] == "spam"
    connection.request("POST", "/v1/predict", b"\xc1", {"content-type": MSGPACK})
    assert json.loads(connection.getresponse().read())["code"] == "bad_input"
    connection.close()


def test_batch_without_time_left_gets_the_cheapest_plans(port: int) -> None:
    *entries, totals = answers(port, lines_of([HAM] * 5), "?budget_ms=0")
    assert {tuple(entry["features"]) for entry in entries} == {()}
    assert (totals["budget_met"], totals["expected_accuracy"]) == (False, 0.5)


def test_batch_counts_money_where_the_index_does(port: int) -> None:
    # the plans of a text of 100 cost 0.0002, 0.0012 and 0.0092
    query = "?model=money&budget=0.0206&count=4"
    *entries, totals = answers(port, lines_of(["x" * 100] * 4), query)
    assert (
        sorted(entry["predicted"] for entry in entries)
        == pytest.approx([0.0012, 0.0012, 0.0012, 0.0092])
        or sum(entry["predicted"] for entry in entries) <= 0.0206
    )
    assert totals["spent"] == pytest.approx(sum(e["predicted"] for e in entries))
    assert (totals["budget"], totals["budget_met"]) == (0.0206, True)


@pytest.mark.parametrize("ends", [b"\n", b""])
def test_batch_answers_a_bad_item_with_an_error_in_its_place(
    port: int, ends: bytes
) -> None:
    body = lines_of([HAM]) + b'{"record":{}}\n{"text":1}\n[\n\n' + lines_of([SPAM])
    *entries, totals = answers(port, body + b"{" + ends, "?budget_ms=60000")
    codes = [entry.get("code") for entry in entries]
    assert codes == [None, "bad_item", "bad_input", "bad_input", None, "bad_input"]
    assert (totals["items"], totals["errors"]) == (6, 4)


def test_batch_stops_at_a_bad_item_if_told_to(port: int) -> None:
    body = lines_of([HAM]) + b"{}\n" + lines_of([SPAM] * 9000)
    *entries, totals = answers(port, body, "?budget_ms=60000&on_bad_item=stop")
    assert [entry.get("code") for entry in entries] == [None, "bad_item"]
    assert (totals["items"], totals["errors"]) == (2, 1)


def test_batch_ends_with_what_broke_the_stream(port: int) -> None:
    packed = msgpack.packb({"text": HAM})
    for tail, code in ((packed[:-3], "bad_input"), (b"\xc1", "bad_input")):
        _, reply = send(port, packed + tail, MSGPACK, "?budget_ms=60000")
        unpacker = msgpack.Unpacker()
        unpacker.feed(reply)
        entry, totals = unpacker
        assert (entry["label"], totals["code"], totals["items"]) == ("ham", code, 1)
    long = lines_of([HAM]) + b'{"text":"' + b"x" * (9 << 20)
    entry, totals = answers(port, long, "?budget_ms=9000")
    assert (entry["label"], totals["code"]) == ("ham", "too_large")


@pytest.mark.parametrize(
    ("query", "kind", "status", "code"),
    [
        ("", JSON_LINES, 400, "bad_input"),
        ("?budget=1", JSON_LINES, 400, "bad_input"),
        ("?budget_ms=1&budget_ms=1", JSON_LINES, 400, "bad_input"),
        ("?budget_ms=1&what=1", JSON_LINES, 400, "bad_input"),
        ("?budget_ms=1&count=-1", JSON_LINES, 400, "bad_input"),
        ("?budget_ms=1&top=3", JSON_LINES, 400, "bad_input"),
        ("?budget_ms=1&top=3&label=eggs", JSON_LINES, 400, "bad_input"),
        ("?budget_ms=1&model=none", JSON_LINES, 404, "unknown_model"),
        ("?budget_ms=1", "text/plain", 400, "bad_input"),
        ("?budget_ms=1", "application/json", 400, "bad_input"),
    ],
)
def test_batch_refuses_terms_before_it_answers(
    port: int, query: str, kind: str, status: int, code: str
) -> None:
    got, reply = send(port, b'"x"\n', kind, query)
    assert (got, json.loads(reply)["code"]) == (status, code)


def test_batch_takes_only_posts(port: int) -> None:
    status, failure = ask(port, "GET", "/v1/batch")
    assert (status, failure["code"]) == (405, "method_not_allowed")


def test_batch_lists_the_items_most_likely_of_a_class(port: int) -> None:
    texts = [HAM, "lunch?", SPAM, "call me"] * 100
    query = "?budget_ms=9000&label=spam&top=5&count=400"
    *entries, totals = answers(port, lines_of(texts), query)
    assert [entry["item"] for entry in entries] == [2, 6, 10, 14, 18]
    assert {entry["label"] for entry in entries} == {"spam"}
    assert totals["items"] == 400


def test_batch_reads_no_faster_than_its_answers_are_read(port: int) -> None:
    """A caller that reads nothing cannot send without end, and loses nothing."""
    line = lines_of([HAM])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as caller:
        caller.sendall(head("transfer-encoding: chunked"))
        block = line * 1000
        chunk = b"%x\r\n%b\r\n" % (len(block), block)
        caller.settimeout(1.0)
        with pytest.raises(TimeoutError):
            caller.sendall(chunk * 500)
        # the server is still there for others
        status, answer = ask(
            port,
            "POST",
            "/v1/predict?budget_ms=60000",
            SPAM.encode(),
            content_type="text/plain",
        )
        assert (status, answer["label"]) == (200, "spam")


def test_batch_stops_when_its_caller_leaves(port: int) -> None:
    for _ in range(10):  # more than may run at once
        with socket.create_connection(("127.0.0.1", port), timeout=20) as caller:
            caller.sendall(head("content-length: 99999999"))
            caller.sendall(lines_of([HAM] * 2000))
            assert caller.recv(100).startswith(b"HTTP/1.1 200")
    *_, totals = answers(port, lines_of([HAM]), "?budget_ms=60000")
    assert totals["items"] == 1


def test_batch_lets_single_requests_go_between(port: int) -> None:
    """While a long batch runs, requests are answered within their budgets."""
    done = threading.Event()

    def run() -> None:
        with Client(f"http://127.0.0.1:{port}") as client:
            texts = (text for text in [SPAM, "x" * 900] * 3_000)
            *_, totals = client.predict_batch(texts, total_budget_ms=60_000)
        assert getattr(totals, "items", 0) == 6_000
        done.set()

    batch = threading.Thread(target=run)
    batch.start()
    labels = []
    with Client(f"http://127.0.0.1:{port}") as client:
        while not done.is_set():
            labels.append(client.predict(SPAM, budget_ms=60000).label)
    batch.join()
    assert set(labels) == {"spam"}


def test_exits_of_batches_are_audited_and_their_promise_is_told(tmp_path: Path) -> None:
    path = tmp_path / "exits.pdx"
    index_that_says(BUILT).save(path)
    with serving(path, OWN, "--audit=1") as (_, port):
        answers(port, lines_of([HAM, SPAM] * 20), "?budget_ms=60000&count=40")
        metrics = samples_of(port)
        status, facts = ask(port, "GET", "/v1/index")
    assert metrics['polydom_exits_total{model="exits"}'] == 40
    for label in ("ham", "spam"):
        labels = f'class="{label}",model="exits"'
        assert metrics[f"polydom_exits_audited_total{{{labels}}}"] == 20
        assert metrics[f"polydom_exits_drawn_total{{{labels}}}"] == 20
    assert status == 200
    assert facts["exits"] == {
        "alpha": 0.1,
        "alphas": {},
        "sides": "both",
        "confidence": 0.9,
        "fitted": 200,
        "calibrated": 100,
        "early": 0.25,
        "saved": 0.125,
        "plans": [
            {
                "features": [],
                "early": 0.0,
                "saved": 0.0,
                "changed": 0.0,
                "classes": [],
                "scores": None,
            },
            {
                "features": ["length", "marks", "words"],
                "early": 0.5,
                "saved": 0.25,
                "changed": 0.01,
                "classes": [],
                "scores": None,
            },
        ],
    }


def samples_of(port: int) -> dict[str, float]:
    """What `/metrics` says, by name and labels."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as reply:
        lines = reply.read().decode().splitlines()
    pairs = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(number) for name, _, number in pairs}


def test_batches_that_wait_for_their_callers_hinder_no_others(port: int) -> None:
    line = lines_of([HAM])
    with contextlib.ExitStack() as stack:
        waiting, address = 0, ("127.0.0.1", port)
        for _ in range(1000):  # those before may still be computed, on a slow machine
            caller = stack.enter_context(socket.create_connection(address, timeout=20))
            caller.sendall(head("content-length: 99999") + line)
            waiting += caller.recv(100).startswith(b"HTTP/1.1 200")
            if waiting == 2 * RUNNING:
                break
        assert waiting == 2 * RUNNING
        assert len(answers(port, line, "?budget_ms=60000")) == 2


def test_batches_are_refused_while_many_are_computed(tmp_path: Path) -> None:
    app = create_app(save_index(tmp_path), features=[FEATURES_FILE])
    (endpoint,) = (r.endpoint for r in app.router.routes if r.path == BATCH)  # type: ignore[attr-defined]
    with TestClient(app) as client:
        until_ready(client)
        for _ in range(RUNNING):
            endpoint.running += 1
        sent: dict[str, Any] = {
            "content": lines_of([HAM]),
            "headers": {"content-type": JSON_LINES},
        }
        reply = client.post("/v1/batch?budget_ms=60000", **sent)
        assert (reply.status_code, reply.headers["retry-after"]) == (429, "1")
        assert reply.json()["code"] == "overloaded"
        endpoint.running -= 1
        assert client.post("/v1/batch?budget_ms=60000", **sent).status_code == 200
        assert endpoint.running == RUNNING - 1


def test_batch_ends_when_the_server_is_told_to_stop(tmp_path: Path) -> None:
    with serving(save_index(tmp_path), OWN) as (process, port):
        with Client(f"http://127.0.0.1:{port}") as client:
            texts = itertools.repeat(HAM)
            batch = client.predict_batch(texts, total_budget_ms=600_000)
            assert isinstance(next(batch), Entry)
            process.send_signal(signal.SIGTERM)
            found = Totals(
                items=0,
                errors=0,
                expected_quality=None,
                expected_accuracy=None,
                budget_met=True,
            )
            with contextlib.suppress(NoAnswer):
                for entry in batch:
                    if isinstance(entry, Totals):
                        found = entry
                        break
            batch.close()  # type: ignore[attr-defined]  # a generator
        assert found.code == "not_ready"
        process.communicate(timeout=20)
        assert process.returncode == 0


ITEMS = lines_of([HAM] * 300)
OBJECT = b'{"items": [%b]}' % b",".join(ITEMS.split(b"\n")[:-1])


@pytest.mark.parametrize("version", ["1.1", "1.0"])
@pytest.mark.parametrize(
    ("kind", "body", "query"),
    [
        (JSON_LINES, ITEMS, ""),
        (JSON_LINES, ITEMS[:-1], "&label=spam&top=300"),
        (MSGPACK, msgpack.packb({"text": HAM}) * 300, ""),
        ("application/json", OBJECT, ""),
        ("application/json", OBJECT, "&label=spam&top=300"),
    ],
)
def test_batch_of_who_sends_no_more_is_answered(
    port: int, version: str, kind: str, body: bytes, query: str
) -> None:
    """To one of HTTP/1.0 in one piece, with its length: it knows no chunks."""
    start = f"POST /v1/batch?budget_ms=60000{query} HTTP/{version}\r\nhost: x\r\n"
    start += f"content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as caller:
        caller.sendall(start.encode() + body)
        caller.shutdown(socket.SHUT_WR)
        reply = http.client.HTTPResponse(caller)
        reply.begin()
        said = reply.read()
    assert (reply.status, reply.chunked) == (200, version == "1.1")
    if kind == "application/json":
        entries = json.loads(said)["answers"]
    elif kind == MSGPACK:
        *entries, _ = msgpack.Unpacker(io.BytesIO(said))
    else:
        *entries, _ = map(json.loads, said.splitlines())
    assert len(entries) == 300
    assert sorted(entry["item"] for entry in entries) == list(range(300))


def test_batch_whose_caller_stops_within_an_item_is_left(port: int) -> None:
    for _ in range(10):  # more than may run at once
        with socket.create_connection(("127.0.0.1", port), timeout=20) as caller:
            caller.sendall(head("content-length: 99999999") + ITEMS[:-9])
            caller.shutdown(socket.SHUT_WR)
            while caller.recv(1 << 16):
                pass
    *_, totals = answers(port, lines_of([HAM]), "?budget_ms=60000")
    assert totals["items"] == 1


def test_batch_comes_as_json_where_curl_says_it_is_a_form(port: int) -> None:
    form = "application/x-www-form-urlencoded"
    status, body = send(port, OBJECT, form, "?budget_ms=900")
    assert (status, json.loads(body)["totals"]["items"]) == (200, 300)


def test_lines_may_begin_with_the_mark_of_an_editor(port: int) -> None:
    *_, totals = answers(port, b"\xef\xbb\xbf" + lines_of([HAM]), "?budget_ms=900")
    assert (totals["items"], totals["errors"]) == (1, 0)
