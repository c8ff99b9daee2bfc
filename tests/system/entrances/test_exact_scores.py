"""Models that stop early, at every entrance: scores of early and of whole answers.

A record is asked about over HTTP as JSON and msgpack, by the route or without, in
batches and their lists, by the Open Inference Protocol over HTTP and gRPC, by both
clients, by two commands, and in this process.
"""

import asyncio
import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgpack
import msgspec
import numpy as np
import pytest
import tritonclient.grpc as triton
from msgspec import UNSET
from starlette.testclient import TestClient

from polydom.features.extract import Extractor
from polydom.features.items import record_item
from polydom.server import AsyncClient, Client, Scorer, score_items
from polydom.server.__main__ import main
from polydom.server.app import create_app
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Caller, Request
from polydom.server.http.raw_request import RawRequest
from polydom.server.ops.server import free_port
from polydom.server.runtime.translator import Translator
from polydom.server.schema.wire import encode
from polydom.server.settings import GrpcAt, Settings
from tests.support.clock import Clock
from tests.support.indexes.stopping_records import draw_rows, make_index, record_of
from tests.support.processes.servers import ask, serving
from tests.support.waiting import until_ready

MSGPACK = {"content-type": "application/msgpack"}
LINES = {"content-type": "application/jsonl"}
BATCH = "/v1/batch?budget_ms=60000"


TREES, LABELS = 40, ("no", "yes")
ROWS = draw_rows(300, 2)


def package() -> Any:
    return make_index().package


def follower() -> Any:
    return package().early_exits[2]


@cache
def found(early: bool) -> dict[str, float]:
    """The first person for whose second class some trees, or only all, are enough."""
    codes, used = follower().choices(ROWS)
    whole = package().models[2].predict_scores(ROWS).argmax(axis=1)
    chosen = used < TREES if early else used == TREES
    return record_of(ROWS[np.flatnonzero((codes == 1) & (whole == 1) & chosen)[0]])


def easy_one() -> dict[str, float]:
    return found(True)


def hard_one() -> dict[str, float]:
    return found(False)


def people() -> list[dict[str, float]]:
    return [easy_one(), hard_one(), *map(record_of, ROWS[:4])]


def save_index(folder: Path) -> Path:
    """Write the index whose models stop early into a folder; its path."""
    path = folder / "people.pdx"
    make_index().save(path)
    return path


class Said(NamedTuple):
    """What an answer says; None where it says nothing."""

    label: str
    scores: dict[str, float] | None
    used: int | None
    of: int | None
    early: bool


class Entrances:
    """One index, served, and every way to ask it about a record."""

    def __init__(
        self, folder: Path, client: TestClient, port: int, grpc_port: int
    ) -> None:
        self.folder, self.client, self.port = folder, client, port
        self.index = folder / "people.pdx"
        self.grpc = triton.InferenceServerClient(f"127.0.0.1:{grpc_port}")
        self.url = f"http://127.0.0.1:{port}"

    def by_json(self, record: Any, exact: bool) -> Said:
        body = {"record": record, "exact": exact, "budget_ms": 900}
        return said(self.client.post("/v1/predict", json=body).json())

    def by_query(self, record: Any, exact: bool) -> Said:
        query = f"?exact={str(exact).lower()}&budget_ms=900"
        reply = self.client.post(f"/v1/predict{query}", json={"record": record})
        return said(reply.json())

    def by_msgpack(self, record: Any, exact: bool) -> Said:
        body = msgpack.packb({"record": record, "exact": exact, "budget_ms": 900})
        reply = self.client.post("/v1/predict", content=body, headers=MSGPACK)
        return said(msgpack.unpackb(reply.content))

    def at_once(self, record: Any, exact: bool) -> Said:
        """What is said without a cycle."""
        body = json.dumps({"record": record, "exact": exact}).encode()
        app: Any = self.client.app
        now_s = app.state.repository.get().now()
        headers = [(b"content-type", b"application/json")]
        asked = RawRequest(b"", headers, body, now_s, Caller(), id)
        answer = app.state.predict.at_once(asked)
        return self.by_json(record, exact) if answer is None else said(decode(answer))

    def by_lines(self, record: Any, exact: bool) -> Said:
        body = json.dumps({"record": record}) + "\n"
        path = f"{BATCH}&exact={int(exact)}"
        reply = self.client.post(path, content=body, headers=LINES)
        return said(json.loads(reply.text.splitlines()[0]))

    def by_packed_batch(self, record: Any, exact: bool) -> Said:
        body = msgpack.packb({"record": record})
        path = f"{BATCH}&exact={str(exact).lower()}"
        reply = self.client.post(path, content=body, headers=MSGPACK)
        unpacker = msgpack.Unpacker()
        unpacker.feed(reply.content)
        return said(next(iter(unpacker)))

    def by_json_batch(self, record: Any, exact: bool) -> Said:
        body = {"items": [{"record": record}], "budget_ms": 60000, "exact": exact}
        reply = self.client.post("/v1/batch", json=body)
        return said(reply.json()["answers"][0])

    def by_socket(self, record: Any, exact: bool) -> Said:
        body = json.dumps({"record": record, "exact": exact}).encode()
        kind = "application/json"
        return said(ask(self.port, "POST", "/v1/predict", body, content_type=kind)[1])

    def by_client(self, record: Any, exact: bool) -> Said:
        with Client(self.url) as client:
            return said(client.predict(record, budget_ms=900, exact=exact))

    def by_client_batch(self, record: Any, exact: bool) -> Said:
        with Client(self.url) as client:
            given = client.predict_batch([record], total_budget_ms=9e4, exact=exact)
            return said(next(iter(given)))

    def by_async_client(self, record: Any, exact: bool) -> Said:
        async def answers() -> list[Said]:
            async with AsyncClient(self.url) as client:
                one = await client.predict(record, budget_ms=900, exact=exact)
                many = client.predict_batch([record], total_budget_ms=9e4, exact=exact)
                return [said(one), *[said(e) async for e in many if hasattr(e, "item")]]

        one, same = asyncio.run(answers())
        assert one == same
        return one

    def by_oip(self, record: Any, exact: bool) -> Said:
        return self.infer(record, [{"name": "label"}], exact=exact)

    def infer(self, record: Any, outputs: Any = None, **parameters: Any) -> Said:
        text = json.dumps(record)
        tensor = {"name": "record", "shape": [1], "datatype": "BYTES", "data": [text]}
        body = {"inputs": [tensor], "parameters": {"budget_ms": 900, **parameters}}
        if outputs is not None:
            body["outputs"] = outputs
        answer = self.client.post("/v2/models/people/infer", json=body).json()
        data = {output["name"]: output["data"] for output in answer["outputs"]}
        return told(data, answer["parameters"])

    def by_grpc(self, record: Any, exact: bool) -> Said:
        return self.infer_grpc(record, ["label"], exact=exact)

    def infer_grpc(self, record: Any, outputs: Any = None, **parameters: Any) -> Said:
        given = triton.InferInput("record", [1], "BYTES")
        given.set_data_from_numpy(np.array([json.dumps(record).encode()], object))
        wanted = outputs and [triton.InferRequestedOutput(name) for name in outputs]
        parameters = {"budget_ms": 900, **parameters}
        reply = self.grpc.infer(
            "people", [given], outputs=wanted, parameters=parameters
        )
        response = reply.get_response()
        data = {
            output.name: [
                value.decode() if isinstance(value, bytes) else float(value)
                for value in reply.as_numpy(output.name).ravel().tolist()
            ]
            for output in response.outputs
        }
        facts = {
            name: one.int64_param or one.bool_param
            for name, one in response.parameters.items()
        }
        return told(data, facts)

    def by_predict(
        self, record: Any, exact: bool, capsys: pytest.CaptureFixture[str]
    ) -> Said:
        path = self.folder / "one.json"
        path.write_text(json.dumps(record))
        order = ["predict", str(self.index), str(path), "--json"]
        assert main([*order, *["--exact"] * exact]) == 0
        return said(json.loads(capsys.readouterr().out))

    def by_score(self, record: Any, exact: bool) -> Said:
        return said(self.score([record], ".jsonl", *["--exact"] * exact)[0])

    def score(self, items: list[Any], ending: str, *options: Any) -> list[Any]:
        """The rows that `polydom score` writes."""
        rows, output = self.folder / "rows.jsonl", self.folder / f"out{ending}"
        rows.write_text("".join(json.dumps({"record": r}) + "\n" for r in items))
        order = ["score", self.index, rows, "-o", output, "-b", "60s", *options]
        assert main([str(word) for word in order]) == 0
        return rows_of(output)

    def by_score_items(self, record: Any, exact: bool) -> Said:
        (row,) = score_items(self.index, [record], 60.0, exact=exact)
        return said(row)

    def by_scorer(self, record: Any, exact: bool) -> Said:
        (row,) = Scorer(self.index, item_budget_s=60.0, exact=exact)([record])
        return said(row)


decode = msgspec.json.decode


def said(answer: Any) -> Said:
    """What is in an answer of any form."""
    facts = answer if isinstance(answer, dict) else msgspec.structs.asdict(answer)
    used, of = (
        None if (value := facts.get(name)) in (None, UNSET) else int(value)
        for name in ("base_models_used", "base_models")
    )
    early = facts.get("early") in (True, "true", "True")
    return Said(facts["label"], facts["scores"], used, of, early)


def told(outputs: dict[str, Any], parameters: dict[str, Any]) -> Said:
    """What is in an inference response."""
    scores = outputs.get("scores")
    return Said(
        outputs["label"][0],
        None if scores is None else dict(zip(LABELS, scores, strict=True)),
        parameters.get("base_models_used"),
        parameters.get("base_models"),
        bool(parameters.get("early")),
    )


def rows_of(path: Path) -> list[Any]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_text().splitlines()]
    if path.suffix == ".csv":
        with path.open(newline="") as file:
            rows = [
                {name: cell or None for name, cell in row.items()}
                for row in csv.DictReader(file)
            ]
        return [row | {"scores": json.loads(row["scores"] or "null")} for row in rows]
    from pyarrow import parquet

    rows = parquet.read_table(path).to_pylist()
    return [row | {"scores": row["scores"] and dict(row["scores"])} for row in rows]


@pytest.fixture(scope="module")
def entrances(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Entrances]:
    folder = tmp_path_factory.mktemp("index")
    index, grpc_port = save_index(folder), free_port("127.0.0.1", 0)
    app = create_app(index, grpc_at=GrpcAt("127.0.0.1", grpc_port))
    with TestClient(app) as client, serving(index) as (_, port):
        until_ready(client)
        yield Entrances(folder, client, port, grpc_port)


NAMES = [name for name in vars(Entrances) if name.startswith(("by_", "at_"))]
# What the Open Inference Protocol says of a label alone.
SILENT = {"by_oip", "by_grpc"}


def whole(record: Any) -> dict[str, float]:
    """Scores of the whole model, by itself."""
    scores = package().models[2].answer(row_of(record))[1]
    return dict(zip(LABELS, scores, strict=True))


def early_scores(record: Any) -> Any:
    """Scores of an early answer, by the evaluator itself."""
    scores = follower().answer(row_of(record)).scores
    return pytest.approx(dict(zip(LABELS, scores, strict=True)))


def row_of(record: Any) -> Any:
    return np.array([*record.values()], np.float32)


@pytest.mark.parametrize("name", NAMES)
def test_every_entrance_gives_scores_of_early_and_of_whole_answers(
    name: str, entrances: Entrances, capsys: pytest.CaptureFixture[str]
) -> None:
    more = (capsys,) if name == "by_predict" else ()

    def by(record: Any, exact: bool) -> Said:
        answered: Said = getattr(entrances, name)(record, exact, *more)
        return answered

    early = by(easy_one(), exact=False)
    assert (early.label, early.of, early.early) == ("yes", TREES, True)
    assert early.scores == (None if name in SILENT else early_scores(easy_one()))
    assert early.used is not None
    assert early.used < TREES
    exact = by(easy_one(), exact=True)
    assert exact == (
        "yes",
        None if name in SILENT else whole(easy_one()),
        None,
        None,
        False,
    )
    last = by(hard_one(), exact=False)
    assert (last.label, last.used, last.of) == ("yes", TREES, TREES)
    assert not last.early
    if name not in SILENT:
        assert last.scores == pytest.approx(whole(hard_one()))


def likeliest() -> list[int]:
    """Which people are most likely of the second class, by whole models."""
    scores = [whole(person)["yes"] for person in people()]
    return sorted(range(len(people())), key=lambda k: -scores[k])[:2]


@pytest.mark.parametrize("exact", [None, "false", "true"])
def test_a_list_of_the_likeliest_has_scores_whoever_asks(
    entrances: Entrances, exact: str | None
) -> None:
    terms = {"label": "yes", "top": "2", "budget_ms": "60000"}
    if exact is not None:
        terms["exact"] = exact
    body = "".join(json.dumps({"record": person}) + "\n" for person in people())
    reply = entrances.client.post(
        "/v1/batch", params=terms, content=body, headers=LINES
    )
    *listed, totals = map(decode, reply.text.splitlines())
    assert totals["items"] == len(people())
    assert [entry["item"] for entry in listed] == likeliest()
    for entry in listed:
        assert entry["scores"] == whole(people()[entry["item"]])
        assert "base_models" not in entry


def test_a_list_that_is_scored_or_asked_by_a_client_has_scores(
    entrances: Entrances,
) -> None:
    rows = entrances.score(people(), ".jsonl", "--label", "yes", "--top", 2)
    assert [int(row["item"]) for row in rows] == likeliest()
    expected = [whole(people()[k]) for k in likeliest()]
    assert [row["scores"] for row in rows] == expected
    with Client(entrances.url) as client:
        given = client.predict_batch(people(), total_budget_ms=9e4, label="yes", top=2)
        assert [said(entry).scores for entry in list(given)[:-1]] == expected


@pytest.mark.parametrize("exact", [None, False, True])
@pytest.mark.parametrize("outputs", [None, ["label", "scores"], ["scores", "label"]])
def test_tensors_of_scores_are_those_of_the_answer(
    entrances: Entrances, outputs: list[str] | None, exact: bool | None
) -> None:
    parameters = {} if exact is None else {"exact": exact}
    named = None if outputs is None else [{"name": name} for name in outputs]
    for answered in (
        entrances.infer(easy_one(), named, **parameters),
        entrances.infer_grpc(easy_one(), outputs, **parameters),
    ):
        expected = whole(easy_one()) if exact else early_scores(easy_one())
        assert (answered.label, answered.scores) == ("yes", expected)
        assert bool(answered.of) == answered.early == (not exact)


def test_scores_as_classification_are_those_of_the_answer(
    entrances: Entrances,
) -> None:
    best = {"name": "scores", "parameters": {"classification": 1}}
    text = json.dumps(easy_one())
    tensor = {"name": "record", "shape": [1], "datatype": "BYTES", "data": [text]}
    early = follower().answer(row_of(easy_one())).scores[1]
    for exact, score in ((True, whole(easy_one())["yes"]), (False, early)):
        parameters = {"exact": exact}
        body = {"inputs": [tensor], "outputs": [best], "parameters": parameters}
        answer = entrances.client.post("/v2/models/people/infer", json=body).json()
        assert answer["outputs"][0]["data"] == [f"{score:f}:1:yes"]


def test_an_inference_of_several_items_stops_each_where_it_is_sure(
    entrances: Entrances,
) -> None:
    texts = [json.dumps(person) for person in people()]
    tensor = {
        "name": "record",
        "shape": [len(texts)],
        "datatype": "BYTES",
        "data": texts,
    }
    names = ("label", "reason", "early", "scores")
    body: dict[str, Any] = {"inputs": [tensor]}
    given = {}
    for exact in (False, True):
        body["outputs"] = [{"name": name} for name in names]
        body["parameters"] = {"budget_ms": 900, "exact": exact}
        reply = entrances.client.post("/v2/models/people/infer", json=body).json()
        given[exact] = {one["name"]: one["data"] for one in reply["outputs"]}
        assert "base_models" not in reply["parameters"]
        del body["outputs"]
        reply = entrances.client.post("/v2/models/people/infer", json=body).json()
        usual = {one["name"]: one["data"] for one in reply["outputs"]}
        assert usual == {name: given[exact][name] for name in ("label", "scores")}
    chosen = [package().models[2].choose(row_of(person)) for person in people()]
    assert given[True]["label"] == [LABELS[code] for code in chosen]
    followed = [follower().choose(row_of(person)) for person in people()]
    assert given[False]["label"] == [LABELS[code] for code in followed]
    assert given[False]["label"] != given[True]["label"]
    assert given[True]["reason"] == [""] * len(texts)
    assert given[True]["early"] == [False] * len(texts)
    early = [entrances.by_json(person, False).early for person in people()]
    assert given[False]["early"] == early
    assert [reason == "sure" for reason in given[False]["reason"]] == early
    flat = [score for person in people() for score in whole(person).values()]
    assert given[True]["scores"] == flat
    answers = [follower().answer(row_of(person)) for person in people()]
    followed = [score for answer in answers for score in answer[2]]
    assert given[False]["scores"] == pytest.approx(followed)


@pytest.mark.parametrize("exact", [False, True])
def test_the_prior_has_scores_and_follows_no_schedule(
    entrances: Entrances, exact: bool
) -> None:
    body = {"record": easy_one(), "budget_ms": 0, "exact": exact}
    answer = entrances.client.post("/v1/predict", json=body).json()
    assert (answer["features"], answer["reason"]) == ([], "infeasible")
    prior = package().models[0].answer(ROWS[0])[1]
    assert answer["scores"] == dict(zip(LABELS, prior, strict=True))
    assert said(answer)[2:] == (None, None, False)


def test_bounds_hold_for_the_whole_models_scores(entrances: Entrances) -> None:
    body = {"record": easy_one(), "budget_ms": 900}
    answer = entrances.client.post("/v1/predict", json=body).json()
    assert (answer["reason"], answer["early"]) == ("sure", True)
    assert answer["score_bounds"].keys() == set(LABELS)
    for label, (least, most) in answer["score_bounds"].items():
        assert least <= whole(easy_one())[label] <= most
        assert least <= answer["scores"][label] <= most


class OldAnswer(msgspec.Struct):
    """What clients read before models stopped early; the rest is skipped."""

    label: str
    scores: dict[str, float]


def test_clients_that_know_no_schedule_read_what_they_always_did(
    entrances: Entrances,
) -> None:
    def asked(record: Any, **terms: Any) -> bytes:
        body = {"record": record, "budget_ms": 900, **terms}
        return entrances.client.post("/v1/predict", json=body).content

    for content in (
        asked(easy_one(), exact=True),
        asked(hard_one()),
        asked(easy_one()),
    ):
        old = msgspec.json.decode(content, type=OldAnswer)
        assert old.scores.keys() == set(LABELS)


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_rows_of_a_file_say_which_answers_are_early(
    entrances: Entrances, ending: str
) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    early, last = map(said, entrances.score([easy_one(), hard_one()], ending))
    assert (early.label, early.of, early.early) == ("yes", TREES, True)
    assert early.scores == early_scores(easy_one())
    assert last.scores == pytest.approx(whole(hard_one()))
    assert last[2:] == (TREES, TREES, False)
    rows = [
        said(row)
        for row in entrances.score([easy_one(), hard_one()], ending, "--exact")
    ]
    for row, record in zip(rows, (easy_one(), hard_one()), strict=True):
        assert row.scores == pytest.approx(whole(record))
        assert row[2:] == (None, None, False)


def test_a_run_goes_on_only_with_the_same_choice_of_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index, items, output = save_index(tmp_path), tmp_path / "in", tmp_path / "o.jsonl"
    items.mkdir()

    def score(*options: str) -> int:
        order = ["score", index, items, "-o", output, "-b", "60s", *options]
        return main([str(word) for word in order])

    for exact in ((), ("--exact",)):
        for name, record in (("a", easy_one()), ("b", {"z": 1}), ("c", easy_one())):
            (items / f"{name}.json").write_text(json.dumps(record))
        assert score("--on-error", "stop", *exact) == 1
        (items / "b.json").write_text(json.dumps(hard_one()))
        other = () if exact else ("--exact",)
        assert score("--resume", *other) == 1
        assert "of other options" in " ".join(capsys.readouterr().err.split())
        assert score("--resume", *exact) == 0
        easy, hard, same = map(said, rows_of(output))
        assert easy == same
        assert easy.early != bool(exact)
        assert hard.scores == pytest.approx(whole(hard_one()))


SOMEBODY = record_of(ROWS[0])
WRONG: list[tuple[str, Any, str]] = [
    ("/v1/predict", {"record": SOMEBODY, "exact": 1}, "body: exact: expected bool"),
    ("/v1/predict", {"record": SOMEBODY, "exact": "yes"}, "body: exact: expected bool"),
    ("/v1/predict?exact=yes", {"record": SOMEBODY}, "query: exact: expected bool"),
    (
        "/v1/batch?budget_ms=9",
        {"items": [], "exact": 1.5},
        "body: exact: expected bool",
    ),
    ("/v1/batch?budget_ms=9&exact=2", {"items": []}, "query: exact: "),
    ("/v1/batch?budget_ms=9&exact=1", {"items": [], "exact": True}, "exact is given"),
    (
        "/v2/models/people/infer",
        {"inputs": [], "parameters": {"exact": "true"}},
        "parameters: exact: expected bool",
    ),
]


@pytest.mark.parametrize(("path", "body", "words"), WRONG)
def test_what_is_no_choice_is_refused_in_the_usual_words(
    entrances: Entrances, path: str, body: Any, words: str
) -> None:
    reply = entrances.client.post(path, json=body)
    assert (reply.status_code, reply.json()["code"]) == (400, "bad_input")
    assert words in reply.json()["error"]


def test_metrics_count_the_base_models_of_every_entrance(tmp_path: Path) -> None:
    app = create_app(save_index(tmp_path))
    body = {
        "items": [{"record": easy_one()}, {"record": hard_one()}],
        "budget_ms": 9000,
    }
    with TestClient(app) as client:
        until_ready(client)
        one = {"record": easy_one(), "budget_ms": 900}
        early = client.post("/v1/predict", json=one).json()["base_models_used"]
        client.post("/v1/predict", json={**one, "exact": True})
        client.post("/v1/batch", json=body)
        client.post("/v1/batch", json={**body, "exact": True})
        text = client.get("/metrics").text
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#")
    counts = {
        used: float(found[f'polydom_base_models_total{{model="people",used="{used}"}}'])
        for used in ("true", "false")
    }
    assert counts == {"true": 2 * early + TREES, "false": 2 * (TREES - early)}
    assert float(found['polydom_exits_total{model="people"}']) == 2


@pytest.mark.parametrize("exact", [False, True])
def test_a_plan_that_the_clock_cut_short_answers_by_the_schedule_of_what_it_has(
    exact: bool,
) -> None:
    index, clock = make_index(), Clock(0.0)
    own = package().extractor()

    def slow(*inputs: Any) -> Any:
        clock.now_s += 9e-4
        return own.features[0].function(*inputs)

    features = [replace(own.features[0], function=slow), *own.features[1:]]
    planner = Planner(index, Extractor(features, own.widths), now=clock)
    translator = Translator(planner, Settings())
    said_early = 0
    for row in ROWS[:50]:
        item = record_item(record_of(row))
        budget = Deadline(clock.now_s, 1e-3)
        request = Request(item, budget, read_s=clock.now_s, exact=exact)
        outcome = execute(planner, request)
        planner.audit.answered(outcome)
        answer = decode(encode(translator.answer(request, outcome)))
        assert (answer["features"], answer["reason"]) == (["left"], "overrun")
        follower = package().early_exits[1]
        model = package().models[1] if exact else follower
        assert answer["label"] == LABELS[model.choose(row)]
        assert len(answer["scores"]) == 2
        assert ("base_models" in answer) == ("score_bounds" in answer) != exact
        said_early += "early" in answer
    assert planner.audit.exits == said_early
    assert (said_early > 0) != exact
