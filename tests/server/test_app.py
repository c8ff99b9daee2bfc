"""The application answers as its documents say, whatever it is sent."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgpack
import pytest
from starlette.testclient import TestClient

from polydom.features.errors import BadFeature, BadIndexFile, BadInput
from polydom.indexer.index.index import Index
from polydom.models.trees.kernels.avx512 import VECTORS
from polydom.models.trees.self_test import TRUST
from polydom.server.app import create_app
from polydom.server.settings import Settings
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.waiting import until_ready

TEXT = {"content-type": "text/plain"}
PROBES = {"/livez", "/readyz", "/metrics"}


def serve(path: Path, **settings: Any) -> Iterator[TestClient]:
    """Run the application of the index at `path` until it is ready, and so on."""
    app = create_app(path, features=[FEATURES_FILE], settings=Settings(**settings))
    with TestClient(app) as client:
        until_ready(client)
        yield client


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    yield from serve(save_index(tmp_path_factory.mktemp("index")), body_limit=10_000)


@pytest.fixture(scope="module")
def money(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    yield from serve(save_index(tmp_path_factory.mktemp("index"), unit="usd"))


def test_app_answers_json_with_everything_that_was_decided(client: TestClient) -> None:
    body = {"text": SPAM, "budget_ms": 1000}
    reply = client.post("/v1/predict", json=body)
    assert reply.status_code == 200
    answer = reply.json()
    assert answer.pop("label") == "spam"
    assert answer.pop("scores").keys() == {"ham", "spam"}
    assert answer.pop("features") == ["length", "marks", "words"]
    assert answer.pop("expected_quality") == 0.95
    assert answer.pop("expected_accuracy") == 0.95
    assert answer.pop("reason") is None
    assert answer.pop("budget_met") is True
    assert answer.pop("budget_us") == 1e6
    assert answer.pop("predicted_us") == pytest.approx(8_200 + 10 * len(SPAM))
    assert 0 < answer.pop("reserve_us") < 1e6
    assert 0 < answer.pop("actual_us") < answer.pop("elapsed_us") < 1e6
    assert answer.pop("queue_us") >= 0
    assert len(answer.pop("index_version")) == 64
    assert not answer


def test_app_answers_a_raw_body_with_the_budget_in_header_or_query(
    client: TestClient,
) -> None:
    for url, headers in (
        ("/v1/predict?budget_ms=900", TEXT),
        ("/v1/predict", TEXT | {"x-budget-ms": "900"}),
    ):
        answer = client.post(url, content=HAM, headers=headers).json()
        assert (answer["label"], answer["budget_us"]) == ("ham", 9e5)


def test_app_reads_only_a_model_where_nothing_else_counts(client: TestClient) -> None:
    for query, message in (
        ("modle=tiny", "query: 'modle' is unknown; only 'model' is read here"),
        ("model=tiny&model=tiny", "query: 'model' is given twice"),
    ):
        reply = client.get(f"/v1/index?{query}")
        assert reply.status_code == 400
        assert reply.json() == {"error": message, "code": "bad_input"}
    assert client.get("/v1/index?model=tiny").status_code == 200


def test_app_answers_with_the_marked_prior_when_nothing_fits(
    client: TestClient,
) -> None:
    answer = client.post("/v1/predict", json={"text": SPAM, "budget_ms": 0}).json()
    assert (answer["label"], answer["features"]) == ("ham", [])
    assert (answer["reason"], answer["budget_met"]) == ("infeasible", False)


def test_app_takes_the_default_budget_and_caps_what_is_asked(tmp_path: Path) -> None:
    for client in serve(save_index(tmp_path), budget_s=0.3, max_budget_s=0.4):
        answers = [
            client.post("/v1/predict", json={"text": HAM, **terms}).json()["budget_us"]
            for terms in ({}, {"budget_ms": 350}, {"budget_ms": 5000})
        ]
    assert answers == [3e5, 3.5e5, 4e5]


@pytest.mark.parametrize(
    ("body", "status", "code", "message"),
    [
        ({"budget_ms": 5}, 400, "bad_item", "classifies one text per request"),
        ({"text": "a", "record": {}}, 400, "bad_item", "one text per request"),
        ({"image_base64": "AAAA"}, 400, "bad_item", "give 'text'"),
        ({"text": "a", "budget_ms": -1}, 400, "bad_input", "budget_ms is -1.0"),
        ({"text": "a", "budget": 1}, 400, "bad_input", "counts time: give 'budget_ms'"),
        ({"text": "a", "min_quality": 2}, 400, "bad_input", "min_quality is 2.0"),
        (
            {"text": "a", "on_infeasible": "x"},
            400,
            "bad_input",
            "'x' came; one of 'prior'",
        ),
        ({"text": "a\x00", "budget_ms": 900}, 422, "bad_feature", "feature 'words'"),
        (
            {"text": "a", "budget_ms": 0, "on_infeasible": "error"},
            504,
            "nothing_fits",
            "0 us of 0 us are left, below the cheapest model's 1,200 us",
        ),
        ({"text": "a" * 20_000}, 413, "too_large", "limit of 10,000 bytes"),
    ],
)
def test_app_answers_bad_input_with_what_is_wrong(
    client: TestClient, body: Any, status: int, code: str, message: str
) -> None:
    reply = client.post("/v1/predict", json=body)
    assert reply.status_code == status
    assert reply.json().keys() == {"error", "code"}
    assert reply.json()["code"] == code
    assert message in reply.json()["error"]


def test_app_refuses_a_budget_that_is_not_a_number(client: TestClient) -> None:
    for budget in ("nan", "inf", "-1", "soon"):
        url = f"/v1/predict?budget_ms={budget}"
        reply = client.post(url, content=HAM, headers=TEXT)
        assert (reply.status_code, reply.json()["code"]) == (400, "bad_input")


def test_app_lets_nothing_of_the_inside_out(client: TestClient) -> None:
    reply = client.post("/v1/predict", json={"text": "a\x00", "budget_ms": 900})
    assert "secret" not in reply.text
    assert "Error" not in reply.text
    assert "Traceback" not in reply.text


def test_app_answers_other_paths_and_methods_in_the_same_form(
    client: TestClient,
) -> None:
    for reply, status, code in (
        (client.get("/nothing/here"), 404, "not_found"),
        (client.get("/v1/predict"), 405, "method_not_allowed"),
        (client.delete("/v1/index"), 405, "method_not_allowed"),
    ):
        assert (reply.status_code, reply.json()["code"]) == (status, code)


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("//v1/predict", "nothing is at '//v1/predict'; did you mean '/v1/predict'?"),
        ("/V1/Predict", "nothing is at '/V1/Predict'; did you mean '/v1/predict'?"),
        ("/v1/predict ", "nothing is at '/v1/predict '; did you mean '/v1/predict'?"),
        ("/predict", "nothing is at '/predict'; did you mean '/v1/predict'?"),
        ("/v2//health/live", "did you mean '/v2/health/live'?"),
        ("/v2/models/tiny/infers", "did you mean '/v2/models/{name}/infer'?"),
        ("/ping", "nothing is at '/ping'; /docs has all there are"),
        ("/" + "x" * 900, f"nothing is at '/{'x' * 79}'; /docs has all there are"),
    ],
)
def test_app_says_which_path_may_be_meant(
    client: TestClient, path: str, said: str
) -> None:
    reply = client.post(f"http://testserver{path}", json={"text": HAM})
    assert (reply.status_code, reply.json()["code"]) == (404, "not_found")
    assert said in reply.json()["error"]


def test_app_sends_on_who_puts_a_slash_at_the_end(client: TestClient) -> None:
    path = "/v1/predict/?budget_ms=900"
    reply = client.post(path, json={"text": HAM}, follow_redirects=False)
    assert (reply.status_code, reply.json()["code"]) == (307, "not_found")
    assert reply.headers["location"] == "/v1/predict?budget_ms=900"
    assert "did you mean '/v1/predict'?" in reply.json()["error"]
    assert client.post(path, json={"text": HAM}).json()["label"] == "ham"
    assert client.get("/v1/models/").status_code == 200


def test_null_is_a_term_that_is_not_said(client: TestClient) -> None:
    """As clients write it that are made from a schema."""
    terms = ("model", "budget_ms", "budget", "on_infeasible", "min_quality", "exact")
    nulls = dict.fromkeys((*terms, "record", "image_base64"))
    given = {**nulls, "text": SPAM}
    for kind, body in (("json", json.dumps(given)), ("msgpack", msgpack.packb(given))):
        headers = {"content-type": f"application/{kind}"}
        reply = client.post("/v1/predict?budget_ms=900", content=body, headers=headers)
        assert reply.status_code == 200, reply.text
    nulls = dict.fromkeys(("model", "budget", "count", "on_bad_item", "label", "top"))
    item = {"text": SPAM, "record": None, "image_base64": None}
    batch = {**nulls, "exact": None, "items": [item]}
    reply = client.post("/v1/batch?budget_ms=900", json=batch)
    assert reply.json()["totals"]["errors"] == 0


def test_app_counts_money_where_the_index_does(money: TestClient) -> None:
    answer = money.post("/v1/predict", json={"text": SPAM, "budget": 0.006}).json()
    assert answer["features"] == ["length", "marks"]
    assert (answer["budget"], answer["reason"]) == (0.006, "budget")
    assert answer["predicted"] == pytest.approx(4.2e-3 + 1e-5 * len(SPAM))
    assert not {"budget_us", "predicted_us", "reserve_us"} & answer.keys()
    for terms in ({}, {"budget_ms": 5}, {"budget": 1, "budget_ms": 5}):
        reply = money.post("/v1/predict", json={"text": SPAM, **terms})
        assert reply.status_code == 400
        assert "counts costs in usd" in reply.json()["error"]


def test_app_says_how_much_money_is_too_little(money: TestClient) -> None:
    body = {"text": "a" * 100, "budget": 1e-3, "on_infeasible": "error"}
    reply = money.post("/v1/predict", json=body)
    assert reply.status_code == 504
    assert reply.json()["error"].startswith("0.001 usd of 0.001 usd are left, below")


def test_app_says_what_it_serves(client: TestClient) -> None:
    facts = client.get("/v1/index").json()
    assert (facts["kind"], facts["unit"], facts["accuracy"]) == ("text", "s", 0.95)
    assert facts["labels"] == ["ham", "spam"]
    assert facts["features"] == [
        {"name": "length", "width": 1},
        {"name": "marks", "width": 2},
        {"name": "words", "width": 1},
    ]
    assert [s["features"] for s in facts["sets"]] == [
        [],
        ["length"],
        ["length", "marks"],
        ["length", "marks", "words"],
    ]
    assert facts["sets"][1]["cost"] == pytest.approx([1.2e-3, 0])
    assert facts["kernels"] == ("vector" if VECTORS else "portable")


def test_app_says_that_vector_kernels_are_not_used(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TRUST, "held", False)
    assert client.get("/v1/index").json()["kernels"] == "portable"


def test_app_is_not_ready_before_its_start(tmp_path: Path) -> None:
    app = create_app(save_index(tmp_path), features=[FEATURES_FILE])
    client = TestClient(app)  # without "with", nothing starts
    assert client.get("/livez").status_code == 200
    for reply in (
        client.get("/readyz"),
        client.post("/v1/predict", json={"text": HAM}),
    ):
        assert (reply.status_code, reply.json()["code"]) == (503, "not_ready")


def test_app_documents_every_route_and_status(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    served = {"/v1/predict", "/v1/batch", "/v1/index", "/v1/models"} | PROBES
    served |= {"/v1/admin/reload", "/v1/index/curves", "/v1/index/samples/{number}"}
    served |= {"/v1/index/inputs", "/v1/admin/rollout"}
    ours = {path for path in document["paths"] if not path.startswith("/v2")}
    assert ours == served
    predict = document["paths"]["/v1/predict"]["post"]
    statuses = {200, 400, 401, 404, 408, 413, 415, 422, 429, 503, 504}
    assert set(map(int, predict["responses"])) == statuses
    references = {
        part.partition('"')[0]
        for part in json.dumps(document).split("#/components/schemas/")[1:]
    }
    assert references <= document["components"]["schemas"].keys()
    answer = client.post("/v1/predict", json={"text": HAM}).json()
    schema = document["components"]["schemas"]["Answer"]
    assert set(schema["required"]) <= answer.keys() <= schema["properties"].keys()


def test_app_refuses_what_cannot_be_served(tmp_path: Path) -> None:
    with pytest.raises(BadIndexFile, match="No such file"):
        create_app(tmp_path / "none.pdx")
    Index.from_candidates([[1e-3]], [0.5], (1, 10)).save(tmp_path / "bare.pdx")
    with pytest.raises(BadIndexFile, match=r"bare\.pdx: candidates without models"):
        create_app(tmp_path / "bare.pdx")
    with pytest.raises(BadFeature, match="--features FILE"):
        create_app(save_index(tmp_path))


@pytest.mark.parametrize("budget_s", [0.0, -1.0, float("nan"), float("inf")])
def test_settings_refuse_a_budget_out_of_range(budget_s: float) -> None:
    with pytest.raises(BadInput, match="budget_s is"):
        Settings(budget_s=budget_s)
