"""What is answered without a cycle is answered as by the route, to the byte."""

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from hypothesis import given, settings
from hypothesis import strategies as st

from polydom.features.errors import PolydomError
from polydom.indexer.index.index import Index
from polydom.server.app import create_app
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Outcome, Request
from polydom.server.errors import describe
from polydom.server.http.connection import REQUEST, WAITING
from polydom.server.http.headers import type_and_budget_in
from polydom.server.http.protocol import HttpProtocol
from polydom.server.http.raw_request import RawRequest
from polydom.server.metrics.counts import Metrics
from polydom.server.runtime.admission_control.admission import HeldBytes
from polydom.server.runtime.repository import Repository
from polydom.server.runtime.served_model import ServedModel
from polydom.server.runtime.translator import Translator
from polydom.server.runtime.work_queue import WorkQueue
from polydom.server.schema.wire import encode
from polydom.server.settings import Settings
from polydom.server.v1.decode import decode_request
from polydom.server.v1.predict import LONGEST_BODY, Planned, Predict
from tests.support.examples import few
from tests.support.indexes import records, served

NOW_S = 50.0
JSON = (b"content-type", b"application/json")


class One(Repository):
    """A repository of one index, without a file, at a time that stands still."""

    def __init__(self, index: Index) -> None:
        assert index.package is not None
        files = [served.FEATURES_FILE] if index.package.kind == "text" else []
        extractor = index.package.extractor(files)
        # nothing takes time here, which predictions would follow
        planner = Planner(index, extractor, now=lambda: NOW_S, corrects=False)
        self.queue, self.settings = WorkQueue(), Settings()
        self.held_bytes, self.no_model = HeldBytes(1 << 20), Metrics()
        self.answer_log = None
        self.served = ServedModel(Translator(planner, self.settings), self.queue)
        self.served.ready = True

    def get(self, name: str | None = None, version: str | None = None) -> ServedModel:
        return self.served


PERSON = json.dumps({"record": records.PEOPLE[0]}).encode()
TEXTS = One(served.make_index(scale=0.01))
RECORDS = One(records.make_index())
SLOW = One(served.make_index())
SLOW.queue.start()
TEXT = json.dumps({"text": "x" * 100}).encode()


def request(
    body: bytes, headers: Any = (JSON,), query: bytes = b"", waited_s: float = 0.0
) -> RawRequest:
    return RawRequest(query, [*headers], body, NOW_S - waited_s, Caller(), id)


def ordinary(one: One, asked: RawRequest) -> tuple[int, bytes]:
    """Status and body as the application makes them."""
    kind = one.served.planner.package.kind

    async def answer() -> tuple[Request, Outcome]:
        described = type_and_budget_in(asked.headers)
        ask = decode_request(described, asked.query, asked.body, kind)
        return await one.served.answer(ask, asked.arrived_s, Caller())

    return said_by(one, answer())


def said_by(
    one: One, answering: Coroutine[Any, Any, tuple[Request, Outcome]]
) -> tuple[int, bytes]:
    """Status and body of an answer or its error."""
    try:
        answered = asyncio.run(answering)
    except PolydomError as error:
        status, failure = describe(error)
        return status, encode(failure)
    return 200, encode(one.served.translator.answer(*answered))


numbers = st.one_of(
    st.floats(),
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.integers(-(2**70), 2**70),
    st.sampled_from([3.4028235e38, 3.4028236e38, 1e39, -0.0, 5e-324]),
)
values = st.one_of(
    numbers, st.none(), st.booleans(), st.sampled_from(["pilot", "Pilot", ""])
)
people = st.dictionaries(
    st.sampled_from(["age", "height", "job", "Age", ""]), values, max_size=4
)
whole_people = st.fixed_dictionaries(
    {"age": numbers, "height": numbers, "job": st.sampled_from(["pilot", "nurse", "x"])}
)
terms = st.fixed_dictionaries(
    {},
    optional={
        "budget_ms": st.sampled_from([0, 0.03, 0.15, 5, 50, 1e4, -1, None, "5", True]),
        "budget": st.sampled_from([None, 1]),
        "on_infeasible": st.sampled_from(["prior", "cheapest", "error", "no"]),
        "min_quality": st.sampled_from([0, 0.6, 1.0, 1.5]),
        "model": st.none(),
        "unknown": st.none(),
    },
)
queries = st.sampled_from([b"", b"budget_ms=5", b"budget_ms=5&x=1", b"min_quality=2"])
headers = st.sampled_from(
    [
        (JSON,),
        (),
        (JSON, (b"x-budget-ms", b"7")),
        ((b"content-type", b"text/plain"),),
        ((b"content-type", b"application/xml"),),
    ]
)
waits = st.sampled_from([0.0, 1e-5, 1e-3, 1.0])


def bodies(field: str, items: st.SearchStrategy[Any]) -> st.SearchStrategy[bytes]:
    """Requests in JSON, whole or cut off."""
    asks = st.builds(lambda item, more: {field: item, **more}, items, terms)
    whole = asks.map(lambda ask: json.dumps(ask).encode())
    cut = st.tuples(whole, st.integers(0, 40)).map(lambda pair: pair[0][: pair[1]])
    return st.one_of(whole, whole, whole, cut, st.binary(max_size=8))


@settings(max_examples=few(400), deadline=None)
@given(
    bodies("record", st.one_of(people, whole_people, values)), headers, queries, waits
)
def test_record_is_answered_as_by_the_route(
    body: bytes, headers: Any, query: bytes, waited_s: float
) -> None:
    asked = request(body, headers, query, waited_s)
    expected = ordinary(RECORDS, asked)
    answer = Predict(RECORDS).at_once(asked)
    assert answer is None if expected[0] != 200 else answer in (None, expected[1])


@settings(max_examples=few(200), deadline=None)
@given(bodies("text", st.one_of(st.text(max_size=60), values)), headers, queries, waits)
def test_text_is_answered_as_by_the_route(
    body: bytes, headers: Any, query: bytes, waited_s: float
) -> None:
    asked = request(body, headers, query, waited_s)
    expected = ordinary(TEXTS, asked)
    answer = Predict(TEXTS).at_once(asked)
    assert answer is None if expected[0] != 200 else answer in (None, expected[1])


@pytest.mark.parametrize(
    "ask",
    [
        {"record": records.PEOPLE[0]},
        {"record": records.PEOPLE[1], "budget_ms": 5},
        {"record": {"age": None, "job": "baker"}, "budget_ms": 0.03},
    ],
)
def test_usual_requests_are_answered_at_once(ask: dict[str, Any]) -> None:
    asked = request(json.dumps(ask).encode())
    assert Predict(RECORDS).at_once(asked) == ordinary(RECORDS, asked)[1]


def test_what_would_wait_is_for_the_route() -> None:
    asked = request(PERSON)
    one = One(records.make_index())
    one.queue.waiting = 1
    assert Predict(one).at_once(asked) is None
    one.queue.waiting, one.served.ready = 0, False
    assert Predict(one).at_once(asked) is None
    SLOW.queue.waiting = 1
    assert Predict(SLOW).at_once(request(TEXT)) is None
    SLOW.queue.waiting = 0
    assert isinstance(Predict(SLOW).at_once(request(TEXT)), Planned)


def test_nothing_of_a_planned_request_is_kept_with_its_connection() -> None:
    planned = Predict(SLOW).at_once(request(TEXT))
    scope = {"type": "http", "state": {"planned": planned}}
    messages = [{"type": "http.request", "body": TEXT}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop()

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(Predict(SLOW)(scope, receive, send))
    assert (scope["state"], messages, SLOW.held_bytes.held) == ({}, [], 0)
    assert sent[0]["status"] == 200


def test_a_model_that_the_query_names_answers_at_once_too() -> None:
    asked = request(PERSON, query=b"model=a")
    assert Predict(RECORDS).at_once(asked) == ordinary(RECORDS, asked)[1]


async def answer_of(planned: Planned) -> tuple[Request, Outcome]:
    """The answer of a planned request, or the error that it met."""
    if isinstance(planned.request, Exception):
        raise planned.request
    return await planned.served.answer_in_turn(planned.request, planned.begun)


@settings(max_examples=few(200), deadline=None)
@given(bodies("text", st.one_of(st.text(max_size=60), values)), headers, queries, waits)
def test_a_planned_request_is_answered_as_by_the_route(
    body: bytes, headers: Any, query: bytes, waited_s: float
) -> None:
    asked = request(body, headers, query, waited_s)
    expected = ordinary(SLOW, asked)
    planned = Predict(SLOW).at_once(asked)
    if isinstance(planned, Planned):
        assert said_by(SLOW, answer_of(planned)) == expected
    elif planned is not None:
        assert (200, planned) == expected


@pytest.mark.parametrize(
    "asked",
    [
        pytest.param(
            request(PERSON[:-1] + b', "model": "a"}'), id="a model in the body"
        ),
        pytest.param(request(b" " * LONGEST_BODY + PERSON), id="long body"),
        pytest.param(
            request(PERSON, [JSON, (b"content-encoding", b"gzip")]), id="compressed"
        ),
        pytest.param(
            request(PERSON, [JSON, (b"content-encoding", b"br")]), id="in another way"
        ),
        pytest.param(
            request(b"\x80", [(b"content-type", b"application/msgpack")]), id="msgpack"
        ),
        pytest.param(request(PERSON, [JSON, JSON]), id="two types"),
    ],
)
def test_unusual_requests_are_for_the_route(asked: RawRequest) -> None:
    assert Predict(RECORDS).at_once(asked) is None


def test_bodies_over_the_operators_limit_are_for_the_route() -> None:
    for spare, answered in ((0, True), (-1, False)):
        small = One(records.make_index())
        small.settings = Settings(body_limit=len(PERSON) + spare)
        answer = Predict(small).at_once(request(PERSON))
        assert (answer is not None) == answered


class Ordinary(HttpProtocol):
    """Has the route answer everything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._direct = {}


def post(
    body: bytes,
    *lines: bytes,
    version: bytes = b"1.1",
    kind: bytes = b"application/json",
) -> bytes:
    head = b"".join(line + b"\r\n" for line in lines)
    length = b"content-length: %d\r\n" % len(body)
    start = b"POST /v1/predict HTTP/%b\r\nhost: x\r\n" % version
    return start + b"content-type: %b\r\n" % kind + head + length + b"\r\n" + body


WRONG = json.dumps({"record": {"agee": 1}}).encode()
LAST = b"GET /end HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
GET = b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n"
CHUNKED = (
    b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
    b"transfer-encoding: chunked\r\n\r\n5\r\n%b\r\n%x\r\n%b\r\n0\r\nx: y\r\n\r\n"
    % (PERSON[:5], len(PERSON) - 5, PERSON[5:])
)
CONVERSATIONS: dict[str, list[bytes]] = {
    "the same again": [post(PERSON)] * 3,
    "another length": [post(PERSON), post(PERSON + b" "), post(b" " + PERSON)],
    "an error between": [post(PERSON), post(WRONG), post(PERSON), post(WRONG)],
    "no body": [post(PERSON), post(b""), post(b"")],
    "two in one read": [post(PERSON), post(PERSON) + post(PERSON), post(PERSON)],
    "an error first in one read": [post(PERSON), post(WRONG) + post(PERSON)],
    "other headers": [post(PERSON, b"x-id: %d" % number) for number in range(3)],
    "a body that follows": [post(PERSON)[: -len(PERSON)], PERSON] * 3,
    "in chunks": [CHUNKED, CHUNKED + CHUNKED, CHUNKED],
    "another path between": [post(PERSON), GET, post(PERSON), GET + post(PERSON)],
    "in two reads": [post(PERSON), post(PERSON)[:-9], post(PERSON)[-9:], post(PERSON)],
    "in the head": [post(PERSON), post(PERSON)[:20], post(PERSON)[20:], post(PERSON)],
    "line feeds before": [post(PERSON), b"\r\n" + post(PERSON), b"\r\n", post(PERSON)],
    "to be closed": [post(PERSON), post(PERSON, b"connection: close")],
    "HTTP/1.0": [post(PERSON), post(PERSON, version=b"1.0")],
    "HTTP/1.0 to be kept": [
        post(PERSON, b"connection: keep-alive"),
        post(PERSON, b"Connection: Keep-Alive", version=b"1.0"),
    ],
    "garbage after": [post(PERSON), post(PERSON), b"what is this\r\n\r\n"],
    "expects": [post(PERSON, b"expect: 100-continue")] * 2,
    "space around the budget": [post(PERSON, b"x-budget-ms: \t 900 \t ")] * 2,
    "two budgets": [post(PERSON, b"x-budget-ms: 7", b"X-Budget-MS: 7")] * 2,
    "a list of budgets": [post(PERSON, b"x-budget-ms: 7, 7")] * 2,
    "two types": [post(PERSON, b"content-type: application/json")] * 2,
    "space around the type": [post(PERSON, kind=b"Application/JSON \t; x=y ")] * 2,
    "a charset": [post(PERSON, kind=b'application/json; charset="UTF-8"')] * 2,
    "another charset": [post(PERSON, kind=b"application/json;charset=utf-16")] * 2,
    "a column twice": [post(PERSON), post(PERSON[:-2] + b', "age": 3}}')] * 2,
    "a key twice": [post(PERSON), post(b'{"record": {"age": 1}, ' + PERSON[1:])] * 2,
    "a default and a colon": [
        post(b'{"min_quality": 0, "record": {"job": ":", "age": 2}}')
    ]
    * 2,
    "words never seen": [post(b'{"record": {"age": 3, "height": 2, "job": "x"}}')] * 3,
    "columns missing": [post(b'{"record": {"job": "pilot"}}')] * 3,
}


@contextlib.asynccontextmanager
async def running(
    protocol: type[HttpProtocol], folder: Path
) -> AsyncIterator[tuple[Any, uvicorn.Server]]:
    app = create_app(records.save_index(folder))
    config = uvicorn.Config(
        app,
        port=0,
        http=protocol,
        log_level="critical",
        access_log=False,  # to write one takes a cycle
        server_header=False,
    )
    server = uvicorn.Server(config)
    served = asyncio.ensure_future(server.serve())
    while not (server.started and app.state.repository.ready):
        await asyncio.sleep(0.01)
    yield app, server
    server.should_exit = True
    await served


def answers(protocol: type[HttpProtocol], folder: Path) -> dict[str, bytes]:
    """All that a real server sends in each conversation, without what times change."""

    async def talk(server: uvicorn.Server, reads: list[bytes]) -> bytes:
        port = server.servers[0].sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while not server.server_state.connections:
            await asyncio.sleep(0)
        (connection,) = server.server_state.connections
        assert isinstance(connection, HttpProtocol)
        for read in [*reads, LAST]:
            if connection.transport.is_closing():
                break  # what is sent now would only be refused
            before_s = connection.read_s
            writer.write(read)
            while connection.read_s == before_s and not connection.caller.gone:
                await asyncio.sleep(0)
            while connection._next is REQUEST and not connection._is_idle():
                if connection.transport.is_closing():
                    break
                await asyncio.sleep(0)
        got = await reader.read()
        writer.close()
        while server.server_state.connections:
            await asyncio.sleep(0)
        return bytes(got)

    async def main() -> dict[str, bytes]:
        async with running(protocol, folder) as (app, server):
            said = {
                name: await talk(server, reads) for name, reads in CONVERSATIONS.items()
            }
        counted = app.state.repository.get().metrics
        said["counts"] = repr(
            (sorted(counted.answers.items()), counted.errors)
        ).encode()
        return said

    return asyncio.run(asyncio.wait_for(main(), 60))


def timeless(said: bytes) -> bytes:
    """Mask what no two runs share."""
    said = re.sub(rb"date: [^\r]*", b"date", said)
    said = re.sub(rb"content-length: \d\d\d+", b"content-length: long", said)
    return re.sub(rb'"(\w+_us)":[\d.]+', rb"\1", said)


def test_conversations_are_the_same_on_the_wire(tmp_path: Path) -> None:
    ways: list[type[HttpProtocol]] = [HttpProtocol, Ordinary]
    short, ordinary = (answers(way, tmp_path) for way in ways)
    for name, said in ordinary.items():
        # HTTP/1.0 closes unless told otherwise: not every uvicorn says so
        unsaid = b"connection: close\r\n" if "1.0" in name else b"\0"
        same = (one.replace(unsaid, b"") for one in (short[name], said))
        assert timeless(next(same)) == timeless(next(same)), name
    assert b'"label":"stays"' in short["the same again"]
    for name in ("other headers", "a body that follows"):
        assert short[name].count(b"HTTP/1.1 200 ") == 3, name
    for name in ("in chunks", "a column twice", "a key twice"):
        assert short[name].count(b"HTTP/1.1 200 ") == 4, name
    for name in ("two budgets", "a list of budgets", "two types", "another charset"):
        assert short[name].count(b"HTTP/1.1 400 ") == 2, name
    for name in ("space around the budget", "space around the type", "a charset"):
        assert short[name].count(b"HTTP/1.1 200 ") == 2, name
    assert short["space around the budget"].count(b'"budget_us":900000.0') == 2
    assert short["words never seen"].count(b'"unknown":["job"]') == 3
    lacking = b'"best_next":{"columns":["age","height"]'
    assert short["columns missing"].count(lacking) == 3


def answerer_of(connection: Any) -> object:
    """What may answer the request that a connection reads, without a cycle."""
    answerer: object = connection._request.answerer
    return answerer


def test_who_leaves_before_the_body_is_counted(tmp_path: Path) -> None:
    """Also where nothing but the protocol knew of the request."""

    async def main() -> None:
        async with running(HttpProtocol, tmp_path) as (app, server):
            connections = server.server_state.connections
            port = server.servers[0].sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(post(PERSON)[: -len(PERSON)])
            while not any(answerer_of(c) for c in connections):
                await asyncio.sleep(0)
            writer.close()
            while connections:
                await asyncio.sleep(0)
            errors = app.state.repository.no_model.errors
            while not errors:
                await asyncio.sleep(0)
            assert errors == {"abandoned": 1}

    asyncio.run(asyncio.wait_for(main(), 60))


UNSIZED = b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("pieces", "status"),
    [
        ([post(PERSON)[: -len(PERSON)]], 408),
        ([post(PERSON)[:-1]], 408),
        ([UNSIZED, b"no size\r\n"], 400),
        ([UNSIZED + b"no size\r\n"], 400),
    ],
    ids=["no body", "half a body", "broken later", "broken at once"],
)
def test_who_is_refused_before_the_body_is_there_is_counted(
    tmp_path: Path, pieces: list[bytes], status: int
) -> None:
    class Impatient(HttpProtocol):
        receive_s = 0.5

    async def main() -> bytes:
        async with running(Impatient, tmp_path) as (app, server):
            port = server.servers[0].sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for piece in pieces:
                writer.write(piece)
                await asyncio.sleep(0.05)
            said = await reader.read()
            writer.close()
            errors = app.state.repository.no_model.errors
            while not errors:
                await asyncio.sleep(0)
            assert errors == {"abandoned": 1}
            return said

    said = asyncio.run(asyncio.wait_for(main(), 60))
    assert said.startswith(b"HTTP/1.1 %d " % status)


def test_requests_behind_others_are_answered_without_a_cycle_too(
    tmp_path: Path,
) -> None:
    class Counting(HttpProtocol):
        answered = 0

        def _answered(self, answer: bytes) -> None:
            Counting.answered += 1
            super()._answered(answer)

    async def main() -> bytes:
        async with running(Counting, tmp_path) as (_, server):
            port = server.servers[0].sockets[0].getsockname()[1]
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            for number in range(3):
                writer.write(post(PERSON, b"x-id: %d" % number))
                await reader.readuntil(b"}")
                await reader.readuntil(b"}")
            writer.write(post(PERSON) * 3 + LAST)
            got = await reader.read()
            writer.close()
            return got

    said = asyncio.run(asyncio.wait_for(main(), 60))
    assert said.count(b"HTTP/1.1 200 ") == 3
    assert Counting.answered == 6


def test_what_had_to_wait_is_counted_before_anybody_asks_again(tmp_path: Path) -> None:
    class Held(HttpProtocol):
        resumed = 0

        def _resume(self) -> None:
            Held.resumed += self._next is WAITING
            super()._resume()

    async def main() -> None:
        async with running(Held, tmp_path) as (app, server):
            port = server.servers[0].sockets[0].getsockname()[1]
            ways = [
                await asyncio.open_connection("127.0.0.1", port) for _ in range(120)
            ]
            for _, writer in ways:
                writer.write(post(PERSON))
            for reader, _ in ways:
                await reader.readuntil(b"\r\n\r\n{")
            for _ in range(9):  # turns in which nothing is read
                await asyncio.sleep(0)
            repository = app.state.repository
            answered = repository.get().metrics.answers.total()
            assert answered + repository.no_model.errors["overloaded"] == len(ways)
            for _, writer in ways:
                writer.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert Held.resumed
