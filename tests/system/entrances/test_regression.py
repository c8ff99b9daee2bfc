"""Numbers x every way of asking: alone, in batches, over the protocol, offline."""

import asyncio
import csv
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from starlette.testclient import TestClient

from polydom.features.errors import BadInput
from polydom.features.items import text_item
from polydom.server import Scorer, score_items
from polydom.server.app import create_app
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.anytime_execution import AnytimeExecution
from polydom.server.engine.executions.execution import begin, execute
from polydom.server.engine.request import Caller, Request
from polydom.server.runtime.repository import Repository
from polydom.server.runtime.translator import Translator
from polydom.server.schema.wire import Answer, PredictRequest, encode
from polydom.server.settings import Settings
from tests.support.indexes import numbers, served
from tests.support.indexes.repositories import run as run_all
from tests.support.indexes.repositories import started
from tests.support.indexes.served import FEATURES_FILE, TEXTS
from tests.support.planners import FAST, HALF, planner_of, typical_planner, with_margins
from tests.support.processes.commands import run
from tests.support.waiting import until_ready

OWN = ["--features", str(FEATURES_FILE)]
MEAN = 6.0


def value_of(row: int, text: str) -> float:
    """What the model of a row says of a text."""
    package = numbers.package_of(numbers.make_index())
    columns = package.extractor([FEATURES_FILE]).extract(text_item(text))
    return float(package.models[row].predict_scores(columns[None])[0, 0])


def interval_of(row: int, value: float) -> list[float]:
    low, high = numbers.INTERVALS[row]
    return [value + low, value + high]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return numbers.save_index(tmp_path_factory.mktemp("numbers"))


@pytest.fixture(scope="module")
def client(path: Path) -> Any:
    folder = path.parent / "classes"
    folder.mkdir()
    numbers.make_balanced_index().save(folder / "balanced.pdx")
    app = create_app([path, folder / "balanced.pdx"], features=[FEATURES_FILE])
    with TestClient(app) as client:
        until_ready(client)
        yield client


@pytest.mark.parametrize("text", TEXTS)
def test_an_answer_is_a_value_in_its_interval(client: TestClient, text: str) -> None:
    reply = client.post("/v1/predict", json={"text": text, "budget_ms": 900}).json()
    value = value_of(3, text)
    assert reply["value"] == value
    assert reply["interval"] == interval_of(3, value)
    assert [reply[key] for key in ("label", "scores", "expected_accuracy")] == [
        None
    ] * 3
    assert reply["expected_quality"] == 0.9
    assert "score_bounds" not in reply
    exact = client.post("/v1/predict", json={"text": text, "exact": True}).json()
    assert exact["value"] == value


def test_without_a_budget_the_mean_answers(client: TestClient) -> None:
    for terms in ({"budget_ms": 0}, {"budget_ms": 900, "min_quality": 0.95}):
        reply = client.post("/v1/predict", json={"text": "hi", **terms}).json()
        assert (reply["value"], reply["features"]) == (MEAN, [])
        assert reply["interval"] == interval_of(0, MEAN)
        assert (reply["expected_quality"], reply["reason"]) == (0.0, "infeasible")


def test_the_quality_is_what_min_quality_looks_at(client: TestClient) -> None:
    """The best row is 0.8 by balanced accuracy, and 0.95 by accuracy."""
    ask = {"model": "balanced", "text": "hi", "budget_ms": 900}
    best = client.post("/v1/predict", json={**ask, "min_quality": 0.8}).json()
    assert (best["expected_quality"], best["expected_accuracy"]) == (0.8, 0.95)
    assert best["reason"] is None
    none = client.post("/v1/predict", json={**ask, "min_quality": 0.81}).json()
    assert (none["features"], none["reason"]) == ([], "infeasible")
    old = client.post("/v1/predict", json={**ask, "min_accuracy": 0.5})
    assert (old.status_code, "min_accuracy" in old.json()["error"]) == (400, True)


def test_the_index_says_what_its_answers_are(client: TestClient) -> None:
    facts = client.get("/v1/index").json()
    said = facts["task"], facts["measure"], facts["quality"], facts["accuracy"]
    assert said == ("regression", "r2", 0.9, None)
    assert (facts["coverage"], facts["labels"]) == (numbers.COVERAGE, [])
    last = facts["sets"][-1]
    assert (last["expected_quality"], last["expected_accuracy"]) == (0.9, None)
    facts = client.get("/v1/index?model=balanced").json()
    said = facts["task"], facts["measure"], facts["quality"], facts["accuracy"]
    assert said == ("classes", "balanced_accuracy", 0.8, 0.95)
    assert facts["coverage"] is None


def test_a_batch_of_numbers_shares_its_budget(client: TestClient) -> None:
    items = [{"text": text} for text in TEXTS] + [{"record": {"a": 1}}]
    body = {"items": items, "budget_ms": 9_000}
    reply = client.post("/v1/batch", json=body).json()
    *answers, bad = reply["answers"]
    assert [entry["value"] for entry in answers] == [
        value_of(3, text) for text in TEXTS
    ]
    assert bad["code"] == "bad_item"
    totals = reply["totals"]
    assert totals["expected_quality"] == pytest.approx(0.9)
    assert (totals["expected_accuracy"], totals["errors"]) == (None, 1)
    refused = client.post("/v1/batch", json={**body, "label": "spam", "top": 2})
    assert (refused.status_code, "numbers" in refused.json()["error"]) == (400, True)


def test_a_batch_of_another_measure_sums_both(client: TestClient) -> None:
    body = {"items": [{"text": "hi"}], "budget_ms": 9_000, "model": "balanced"}
    totals = client.post("/v1/batch", json=body).json()["totals"]
    assert (totals["expected_quality"], totals["expected_accuracy"]) == (0.8, 0.95)


def test_the_clients_structs_hold_numbers() -> None:
    planner = planner_of(numbers.make_index())
    request = Request(text_item("hi"), Deadline(planner.now(), 9.0))
    answer = Translator(planner, Settings()).answer(request, execute(planner, request))
    again = msgspec.json.decode(encode(answer), type=Answer)
    assert again == answer
    assert isinstance(again.interval, tuple)
    assert "value=" in repr(answer)


def test_any_time_plans_fall_back_on_what_is_cheaper() -> None:
    """Quality decides what to compute next, and what answers when time runs out."""
    index = numbers.make_index()
    typical = replace(numbers.package_of(index), typical=np.array(HALF))
    planner = typical_planner(FAST, replace(index, package=typical))
    text = text_item("x" * 100)
    execution = begin(planner, Request(text, Deadline(50.0, 4.5e-3)))
    assert isinstance(execution, AnytimeExecution)
    outcome = execution.run()
    assert (outcome.row, outcome.reason, outcome.label) == (2, "budget", None)
    assert outcome.value == value_of(2, "x" * 100)
    assert (outcome.quality, outcome.accuracy) == (0.7, None)
    late = typical_planner((0.5e-3, 9.0, 9.0), replace(index, package=typical))
    outcome = execute(late, Request(text, Deadline(50.0, 2.5e-3)))
    assert (outcome.row, outcome.value) == (1, value_of(1, "x" * 100))


def test_a_sure_answer_is_expected_to_be_as_good_as_the_plan() -> None:
    """By both measures, where quality is another one than accuracy."""
    margins = numbers.package_of(with_margins(0.0)).margins
    index = numbers.make_balanced_index()
    package = replace(numbers.package_of(index), margins=margins)
    planner = planner_of(replace(index, package=package))
    request = Request(text_item("hi"), Deadline(planner.now(), 9.0))
    outcome = execute(planner, request)
    assert (outcome.row, outcome.reason) == (1, "sure")
    assert (outcome.quality, outcome.accuracy) == (0.8, 0.95)


def test_the_protocol_has_tensors_of_numbers(client: TestClient) -> None:
    said = client.get("/v2/models/numbers").json()
    outputs = {one["name"]: (one["datatype"], one["shape"]) for one in said["outputs"]}
    assert outputs["value"] == ("FP64", [-1])
    assert outputs["interval"] == ("FP64", [-1, 2])
    assert not {"label", "scores", "expected_accuracy"} & outputs.keys()
    properties = said["properties"]
    assert (properties["task"], properties["measure"]) == ("regression", "r2")
    texts = {"name": "text", "datatype": "BYTES", "shape": [2], "data": TEXTS[:2]}
    body: dict[str, Any] = {"inputs": [texts], "parameters": {"budget_ms": 900}}
    reply = client.post("/v2/models/numbers/infer", json=body).json()
    values = [value_of(3, text) for text in TEXTS[:2]]
    ends = [end for value in values for end in interval_of(3, value)]
    value, interval = reply["outputs"]
    assert (value["name"], value["shape"], value["data"]) == ("value", [2], values)
    assert (interval["shape"], interval["data"]) == ([2, 2], ends)
    assert reply["parameters"]["expected_quality"] == 0.9
    assert "expected_accuracy" not in reply["parameters"]
    body["inputs"] = [texts | {"shape": [1], "data": TEXTS[:1]}]
    body["outputs"] = [{"name": "interval"}, {"name": "expected_quality"}]
    one = client.post("/v2/models/numbers/infer", json=body).json()
    assert [output["data"] for output in one["outputs"]] == [ends[:2], [0.9]]
    assert one["parameters"]["expected_quality"] == 0.9
    assert "value" not in one["parameters"]
    body["outputs"] = [{"name": "scores"}]
    refused = client.post("/v2/models/numbers/infer", json=body)
    assert (refused.status_code, "no output 'scores'" in refused.text) == (400, True)


@pytest.mark.parametrize("ending", [".jsonl", ".csv", ".parquet"])
def test_scored_numbers_have_columns_of_their_own(
    path: Path, tmp_path: Path, ending: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.dumps({"text": text}) for text in TEXTS] + ['{"record": 1}']
    (tmp_path / "in.jsonl").write_text("\n".join(lines))
    output = tmp_path / f"out{ending}"
    arguments = (path, tmp_path / "in.jsonl", "--total-budget", "30s", "-o", output)
    code, said, _ = run(capsys, "score", *arguments, *OWN)
    assert (code, "7 rows, 1 of them errors" in said) == (0, True)
    if ending == ".csv":
        with output.open(newline="") as file:
            rows: list[dict[str, Any]] = list(csv.DictReader(file))
    elif ending == ".jsonl":
        rows = [json.loads(line) for line in output.read_text().splitlines()]
    else:
        parquet = pytest.importorskip("pyarrow.parquet")
        rows = parquet.read_table(output).to_pylist()
    assert [*rows[0]] == [
        *("item", "value", "low", "high", "features", "expected_quality", "cost"),
        *("error", "unknown", "missing", "reason"),
    ]
    *scored, bad = rows
    for row, text in zip(scored, TEXTS, strict=True):
        value = value_of(3, text)
        found = [float(row[name]) for name in ("value", "low", "high")]
        assert found == [value, *interval_of(3, value)]
    assert bad["error"]
    assert not bad["value"]


def test_numbers_are_scored_in_this_process_too(path: Path) -> None:
    rows = list(score_items(path, TEXTS, 30.0, features=[FEATURES_FILE]))
    assert [row.value for row in rows] == [value_of(3, text) for text in TEXTS]
    assert {(row.label, row.scores, row.expected_accuracy) for row in rows} == {
        (None, None, None)
    }
    (said,) = Scorer(path, item_budget_s=1.0, features=[FEATURES_FILE])(["hi"])
    assert [said["value"], said["low"], said["high"]] == [
        value_of(3, "hi"),
        *interval_of(3, value_of(3, "hi")),
    ]
    likeliest = score_items(
        path, TEXTS, 30.0, features=[FEATURES_FILE], label="spam", top=1
    )
    with pytest.raises(BadInput, match="answers with numbers"):
        list(likeliest)


def test_predict_and_plan_tell_newcomers_what_a_number_is(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("hi")
    arguments = ("predict", path, tmp_path / "a.txt", *OWN, "--budget-ms")
    _, out, _ = run(capsys, *arguments, 0)
    assert "a.txt: value 6 (between 1 and 12 in 90 of 100 cases) by no feature " in out
    assert "(the prior); expected R2 0.000; " in out
    _, out, _ = run(capsys, *arguments, 900, "--json")
    assert json.loads(out)["value"] == value_of(3, "hi")
    _, out, _ = run(capsys, "plan", path, "--size", 100, "--budget-ms", 1)
    assert out.splitlines()[1:4] == [
        "                costs        R2  features, in computing order",
        "cheaper             -",
        "bought       0.200 ms     0.000  no feature: the prior answers",
    ]


def test_predict_and_plan_name_another_measure_beside_accuracy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "balanced.pdx"
    numbers.make_balanced_index().save(path)
    (tmp_path / "a.txt").write_text("hi")
    _, out, _ = run(capsys, "predict", path, tmp_path / "a.txt", *OWN)
    assert "; expected balanced accuracy 0.800, accuracy 0.950; " in out
    _, out, _ = run(capsys, "plan", path, "--size", 100, "--budget-ms", 1.5)
    assert out.splitlines()[1:4] == [
        "                costs  balanced accuracy  accuracy  "
        "features, in computing order",
        "cheaper      0.200 ms              0.500     0.500  "
        "no feature: the prior answers",
        "bought        1.20 ms              0.600     0.700  length",
    ]


def test_a_name_may_answer_with_numbers_after_a_reload(tmp_path: Path) -> None:
    """Requests under load have one kind of answer or the other, and none an error."""
    path = tmp_path / "a.pdx"
    served.make_index().save(path)

    async def ask(repository: Repository) -> Answer:
        model = repository.get()
        request = PredictRequest(text="hi", budget_ms=900)
        answered = await model.answer(request, model.now(), Caller())
        return model.translator.answer(*answered)

    async def main() -> None:
        async with started(path) as repository:
            numbers.make_index().save(path)
            reload = asyncio.create_task(repository.reload(allow_changes=True))
            found = []
            while not reload.done():
                found.append(await ask(repository))
                await asyncio.sleep(0)
            await reload
            found.append(await ask(repository))
            kinds = [answer.label is None for answer in found]
            assert kinds == sorted(kinds)
            assert kinds[-1]
            for answer, numeric in zip(found, kinds, strict=True):
                assert isinstance(answer.value, float) == numeric
                assert (answer.scores is None) == numeric

    run_all(main())
