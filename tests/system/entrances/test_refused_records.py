"""Every entrance reads a record alike: refuses it in the same words, or tells its gaps.

A record is answered over HTTP as JSON and msgpack, by the route or without, in batches,
by the Open Inference Protocol over HTTP and gRPC, by two commands, and in this process.
"""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import tritonclient.grpc as triton
from starlette.testclient import TestClient
from tritonclient.utils import InferenceServerException

from polydom.features.items import record_item
from polydom.server import Scorer, score_items
from polydom.server.__main__ import main
from polydom.server.app import create_app
from polydom.server.engine.request import Caller
from polydom.server.http.raw_request import RawRequest
from polydom.server.ops.server import free_port
from polydom.server.settings import GrpcAt
from tests.support.indexes import records
from tests.support.waiting import until_ready

JSON = {"content-type": "application/json"}
MSGPACK = {"content-type": "application/msgpack"}
LINES = {"content-type": "application/jsonl"}
BATCH = "/v1/batch?budget_ms=60000"

# What was said: the error's words, or which columns are unknown, and how many are
# missing of those that the model read.
Said = str | tuple[tuple[str, ...], int]

NO_COLUMN = "the index knows no column 'agee'; did you mean 'age'?"
LARGE = "column 'age' holds a number beyond float32's largest, 3.403e+38"
WHOLE: dict[str, Any] = {"age": 52, "height": 1.8, "job": "pilot"}
CASES: list[tuple[str, Any, Said]] = [
    ("whole", WHOLE, ((), 0)),
    ("one missing", {"age": 52, "job": "pilot"}, ((), 1)),
    ("no person", {"job": "pilot"}, ((), 0)),
    ("nulls", {"age": None, "height": None, "job": "pilot"}, ((), 0)),
    ("nothing but null", {"age": None}, ((), 0)),
    ("no work", {"age": 52}, ((), 1)),
    ("never seen", {**WHOLE, "job": "diver"}, (("job",), 0)),
    ("a number for a word", {**WHOLE, "job": 7}, (("job",), 0)),
    ("never seen, no person", {"job": "diver"}, (("job",), 0)),
    ("a boolean", {**WHOLE, "age": True}, ((), 0)),
    ("an unknown column", {"agee": 52}, NO_COLUMN),
    ("one more column", {**WHOLE, "agee": 52}, NO_COLUMN),
    ("no columns", {}, "the record has no columns; the index knows age, height, job"),
    ("a word", {"age": "old"}, "column 'age' holds 'old'; a number is needed"),
    (
        "a word in a column that cheap plans do not read",
        {"job": "pilot", "height": "tall"},
        "column 'height' holds 'tall'; a number is needed",
    ),
    ("too large", {**WHOLE, "age": 1e39}, LARGE),
    ("too large, and a gap", {"age": -(10**60)}, LARGE),
    (
        "a list",
        {"age": [1]},
        "column 'age' holds a list; a number, a string, a boolean or nothing is needed",
    ),
    ("no record", [1], "a record was expected, not list"),
    ("a word for a record", "x", "a record was expected, not str"),
]


class Entrances:
    """One index, and every way to ask it about a record."""

    def __init__(self, folder: Path, client: TestClient, grpc_port: int) -> None:
        self.folder, self.client = folder, client
        self.index = folder / "people.pdx"
        self.grpc = triton.InferenceServerClient(f"127.0.0.1:{grpc_port}")

    def by_json(self, record: Any) -> Said:
        return self._said(self.client.post("/v1/predict", json={"record": record}))

    def by_msgpack(self, record: Any) -> Said:
        body = msgpack.packb({"record": smaller(record)})
        return self._said(
            self.client.post("/v1/predict", content=body, headers=MSGPACK)
        )

    def at_once(self, record: Any) -> Said:
        """What is said without a cycle; where nothing is, the route has to."""
        body = json.dumps({"record": record}).encode()
        app: Any = self.client.app
        now_s = app.state.repository.get().now()
        headers = [(b"content-type", b"application/json")]
        asked = RawRequest(b"", headers, body, now_s, Caller(), id)
        answer = app.state.predict.at_once(asked)
        return self.by_json(record) if answer is None else told(json.loads(answer))

    def by_lines(self, record: Any) -> Said:
        body = json.dumps({"record": record}) + "\n"
        reply = self.client.post(BATCH, content=body, headers=LINES)
        return said(json.loads(reply.text.splitlines()[0]))

    def by_packed_batch(self, record: Any) -> Said:
        body = msgpack.packb({"record": smaller(record)})
        reply = self.client.post(BATCH, content=body, headers=MSGPACK)
        first: dict[str, Any] = next(iter(unpacked(reply.content)))
        return said(first)

    def by_json_batch(self, record: Any) -> Said:
        body = {"items": [{"record": record}], "budget_ms": 60000}
        reply = self.client.post("/v1/batch", json=body)
        return said(reply.json()["answers"][0])

    def by_oip(self, record: Any) -> Said:
        text = json.dumps(record)
        tensor = {"name": "record", "shape": [1], "datatype": "BYTES", "data": [text]}
        reply = self.client.post("/v2/models/people/infer", json={"inputs": [tensor]})
        body = reply.json()
        return said(body) if reply.status_code != 200 else told(body["parameters"])

    def by_grpc(self, record: Any) -> Said:
        given = triton.InferInput("record", [1], "BYTES")
        given.set_data_from_numpy(np.array([json.dumps(record).encode()], object))
        try:
            response = self.grpc.infer("people", [given]).get_response()
        except InferenceServerException as error:
            words = str(error.message())
            return words if "INVALID_ARGUMENT" in error.status() else str(error)
        facts = {
            name: value.string_param or value.int64_param
            for name, value in response.parameters.items()
        }
        return told(facts)

    def by_predict(self, record: Any, capsys: pytest.CaptureFixture[str]) -> Said:
        path = self.folder / "one.json"
        path.write_text(json.dumps(record))
        status = main(["predict", str(self.index), str(path), "--json"])
        out, err = capsys.readouterr()
        assert status == bool(err)
        return said(json.loads(out or err))

    def by_score(self, record: Any) -> Said:
        folder, output = self.folder / "items", self.folder / "out.jsonl"
        folder.mkdir(exist_ok=True)
        (folder / "one.json").write_text(json.dumps(record))
        order = ["score", self.index, folder, "-o", output, "--total-budget=60s"]
        assert main([str(word) for word in order]) == 0
        row = json.loads(output.read_text())
        return told(row) if row["error"] is None else str(row["error"])

    def by_score_of_rows(self, record: Any) -> Said:
        rows, output = self.folder / "rows.jsonl", self.folder / "out.jsonl"
        rows.write_text(json.dumps({"record": record}) + "\n")
        order = ["score", self.index, rows, "-o", output, "--total-budget=60s"]
        assert main([str(word) for word in order]) == 0
        row = json.loads(output.read_text())
        return told(row) if row["error"] is None else str(row["error"])

    def by_score_items(self, record: Any, **how: Any) -> Said:
        (row,) = score_items(self.index, [record], 60.0, **how)
        return scored(row)

    def by_scorer(self, record: Any) -> Said:
        (row,) = Scorer(self.index, item_budget_s=60.0)([record])
        return told(row) if row["error"] is None else str(row["error"])

    def _said(self, reply: Any) -> Said:
        kind = reply.headers["content-type"]
        body = msgpack.unpackb(reply.content) if "msgpack" in kind else reply.json()
        assert (reply.status_code == 200) == ("label" in body)
        return said(body)


def said(body: dict[str, Any]) -> Said:
    """Words of an error, of which the code is the same everywhere; or the gaps."""
    if "error" not in body:
        return told(body)
    assert body.get("code", "bad_item") == "bad_item"
    return str(body["error"])


def told(facts: dict[str, Any]) -> Said:
    unknown = facts.get("unknown") or ()
    names = unknown.split(",") if isinstance(unknown, str) else unknown
    return tuple(names), facts.get("missing") or 0


def scored(row: Any) -> Said:
    return (
        told({"unknown": row.unknown, "missing": row.missing})
        if not row.error
        else row.error
    )


def smaller(record: Any) -> Any:
    """A record that msgpack can hold; integers have 64 bits there."""
    if not isinstance(record, dict):
        return record
    large = {
        n: float(v) for n, v in record.items() if type(v) is int and abs(v) > 2**63
    }
    return record | large


def unpacked(data: bytes) -> Iterator[Any]:
    unpacker = msgpack.Unpacker()
    unpacker.feed(data)
    yield from unpacker


@pytest.fixture(scope="module")
def entrances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entrances]:
    folder = tmp_path_factory.mktemp("index")
    port = free_port("127.0.0.1", 0)
    app = create_app(records.save_index(folder), grpc_at=GrpcAt("127.0.0.1", port))
    with TestClient(app) as client:
        until_ready(client)
        yield Entrances(folder, client, port)


NAMES = [name for name in vars(Entrances) if name.startswith("by_")]


@pytest.mark.parametrize("name", NAMES)
def test_every_entrance_says_the_same_of_a_record(
    name: str, entrances: Entrances, capsys: pytest.CaptureFixture[str]
) -> None:
    ask: Callable[..., Said] = getattr(entrances, name)
    more = {"capsys": capsys} if name == "by_predict" else {}
    for case, record, expected in CASES:
        if name == "by_score_of_rows" and not isinstance(record, dict):
            continue  # such a row is a table's, with a column called record
        assert ask(record, **more) == expected, case


def test_workers_of_a_score_say_the_same(entrances: Entrances) -> None:
    given = [record for _, record, _ in CASES]
    rows = score_items(entrances.index, given, 60.0, workers=2)
    assert [scored(row) for row in rows] == [expected for _, _, expected in CASES]


def test_items_made_before_are_read_again(entrances: Entrances) -> None:
    for item, expected in (
        (record_item({"agee": 52}), NO_COLUMN),
        (record_item({"job": "diver"}), (("job",), 0)),
        (record_item({"age": 52}), ((), 1)),
    ):
        assert entrances.by_score_items(item) == expected


DOUBLED = b'{"age": 1, "height": 1.9, "age": 31}'


def test_of_a_column_given_twice_the_last_value_counts_everywhere(
    entrances: Entrances,
) -> None:
    client, folder = entrances.client, entrances.folder
    once = b'{"height": 1.9, "age": 31}'
    tensor = {"name": "record", "shape": [1], "datatype": "BYTES"}

    def scores(record: bytes) -> list[Any]:
        body = b'{"record": %b}' % record
        whole = b'{"budget_ms": 900, "items": [%b]}' % body
        replies = [
            client.post("/v1/predict", content=body, headers=JSON).json(),
            client.post("/v1/batch", content=whole, headers=JSON).json()["answers"][0],
            json.loads(
                client.post(BATCH, content=body, headers=LINES).text.splitlines()[0]
            ),
        ]
        data = {"inputs": [{**tensor, "data": [record.decode()]}]}
        inferred = client.post("/v2/models/people/infer", json=data).json()
        (folder / "rows.jsonl").write_bytes(record)
        order = ["score", entrances.index, folder / "rows.jsonl", "--total-budget=9s"]
        assert main([*map(str, order), "-o", str(folder / "out.jsonl")]) == 0
        replies.append(json.loads((folder / "out.jsonl").read_text()))
        return [*(reply["scores"] for reply in replies), inferred["outputs"]]

    assert scores(DOUBLED) == scores(once)
    height = msgpack.packb("height") + msgpack.packb(1.9)
    packed = b"\x81\xa6record\x83\xa3age\x01%b\xa3age\x1f" % height
    (expected, *_) = scores(once)
    reply = client.post("/v1/predict", content=packed, headers=MSGPACK)
    assert next(unpacked(reply.content))["scores"] == expected
    reply = client.post(BATCH, content=packed, headers=MSGPACK)
    assert next(unpacked(reply.content))["scores"] == expected


def test_tables_say_which_columns_were_not_read(
    entrances: Entrances, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, output = entrances.folder, entrances.folder / "out.csv"
    contents = {
        "people.csv": "agee,height,label\n31,1.8,flies\n",
        "people.jsonl": '{"agee": 31, "height": 1.8, "label": "flies"}\n',
    }
    for name, content in contents.items():
        (folder / name).write_text(content)
        order = ["score", entrances.index, folder / name, "-o", output]
        assert main([*map(str, order), "--total-budget=0s"]) == 0
        said = capsys.readouterr().err
        assert "the index does not know, not read: agee, label\n" in said
        assert "the index knows, in no row: age, job\n" in said
        assert output.read_text().splitlines()[1].endswith(",,,,,False,budget,")
    (folder / "people.jsonl").write_text('{"agee": 31}\n')
    order = ["score", entrances.index, folder / "people.jsonl", "-o", output]
    assert main([*map(str, order), "--total-budget=0s"]) == 0
    assert "the index knows no column 'agee'" in output.read_text()
