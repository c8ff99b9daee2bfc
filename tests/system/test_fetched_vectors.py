"""A real server answers texts in time, whatever the fetches of their vectors do."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from polydom.indexer.building.build import build
from polydom.server.client.sync import Client
from tests.support.builds.vector_project import make_project
from tests.support.processes.forked_process import run_forked
from tests.support.processes.servers import ADMIN, ask, reload, serving

TELLING = ["shouts", "embedding"]  # the features of the best set, but for "mood"
STATES = {
    "never": "late",
    **dict.fromkeys(("raises", "few", "narrow", "nan", "words"), "failed"),
    **dict.fromkeys(("nothing", "good", "slow"), "came"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("vectors")
    build(make_project(folder), output=folder / "texts.pdx")
    (folder / "calls").unlink()
    (folder / "admin").write_text(ADMIN)
    return folder


@pytest.fixture(scope="module")
def port(folder: Path) -> Iterator[int]:
    files = ["--features", str(folder / "calls.py")]
    files += ["--fetches", str(folder / "calls.py")]
    options = ["--no-rescale", "--admin-token-file", str(folder / "admin")]
    options += ["--budget-ms=20000", "--max-budget-ms=20000"]
    given = files + options
    with serving(folder / "texts.pdx", *given, log=folder / "log") as (_, port):
        yield port


def predict(port: int, text: str, budget_ms: float = 10_000, **terms: Any) -> Any:
    body = json.dumps({"text": text, "budget_ms": budget_ms, **terms}).encode()
    status, answer = ask(
        port, "POST", "/v1/predict", body, content_type="application/json"
    )
    assert status == 200, answer
    return answer


def state(answer: Any, name: str = "embedding") -> str:
    return str(answer["fetched"][name]["state"])


def good_again(port: int) -> None:
    """Wait until a source that was down is tried, and found to be up."""
    end_s = time.monotonic() + 30
    while state(predict(port, f"A say {time.monotonic_ns():x}")) != "came":
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_vectors_make_answers_better(port: int) -> None:
    good_again(port)
    with_it = predict(port, "AAAAAA say 6", explain=True)
    assert (with_it["label"], state(with_it)) == ("good", "came")
    assert {*TELLING} <= {*with_it["features"]}
    without = predict(port, "AAAAAA say 6", fetch="never")
    assert state(without) == "not_sent"
    assert without["features"] == ["shouts"]
    assert without["expected_quality"] < with_it["expected_quality"] - 0.05
    told = {(one["name"], one.get("part")): one for one in with_it["explained"]}
    feature = told["embedding", None]
    assert (feature["state"], feature["fetch"]) == ("answered", "embedding")
    assert told["embedding", "fetch"]["state"] == "came"
    # times of the parts add up, and none is negative
    for answer in (with_it, without):
        assert 0 <= answer["queue_us"] <= answer["elapsed_us"]
        assert 0 <= answer["actual_us"] <= answer["elapsed_us"]


@pytest.mark.parametrize("what", STATES)
def test_whatever_a_call_does_its_text_is_answered(port: int, what: str) -> None:
    good_again(port)
    text = f"{what} AAAAAA say {time.monotonic_ns():x}"
    answer = predict(port, text, 700, fetch="all")
    assert state(answer) == STATES[what]
    came = what in ("good", "slow")
    assert ("embedding" in answer["features"]) == came
    assert "best_next" not in answer
    if what != "never" or answer["features"]:
        assert "shouts" in answer["features"]


def test_a_text_is_in_no_record_of_the_log(port: int, folder: Path) -> None:
    good_again(port)
    predict(port, "raises secret say 77aa", fetch="all")
    log = (folder / "log").read_text()
    assert "fetch 'embedding' failed" in log
    assert "secret" not in log
    assert "77aa" not in log


def test_a_vector_is_kept_for_the_same_text(port: int, folder: Path) -> None:
    good_again(port)
    text = f"A say {time.monotonic_ns():x}"
    assert state(predict(port, text, fetch="all")) == "came"
    assert state(predict(port, text, fetch="all")) == "kept"
    assert (folder / "calls").read_text().splitlines().count(text) == 1


def test_a_vector_that_costs_too_much_is_not_bought(port: int) -> None:
    good_again(port)
    text = f"A say {time.monotonic_ns():x}"
    answer = predict(port, text, max_price=0)
    assert state(answer) == "not_sent"
    assert "price" not in answer
    answer = predict(port, text, max_price=1)
    assert (state(answer), answer["price"]) == ("came", 1e-5)


def test_a_vector_is_not_bought_for_a_text_that_is_sure_without(port: int) -> None:
    good_again(port)
    # whatever it means, a text without shouts is bad; one with three may be either
    for shouts, wanted in ((0, "not_sent"), (3, "came")):
        text = f"{'A' * shouts} say {time.monotonic_ns():x}"
        answer = predict(port, text.strip(), 5_000)
        assert state(answer) == wanted, json.dumps(answer)
        assert ("price" in answer) == (wanted == "came")
        assert answer["fetch_us"] < 2e6


def test_batches_and_clients_have_vectors(port: int) -> None:
    good_again(port)
    number = time.monotonic_ns()
    texts = [f"{'A' * (k % 7)} say {number + k:x}" for k in range(40)]
    with Client(f"http://127.0.0.1:{port}") as client:
        said: list[Any] = [*client.predict_batch(texts, total_budget_ms=15_000)]
        one = client.predict(texts[0], budget_ms=10_000)
    *rows, totals = said
    assert (totals.items, len(rows)) == (40, 40)
    assert all("embedding" in row.features for row in rows)
    assert {row.fetched["embedding"].state for row in rows} <= {"came", "kept"}
    assert one.label == rows[0].label


def test_a_batch_of_one_text_does_not_wait_to_learn_how_sure_it_is(port: int) -> None:
    good_again(port)
    began_s, text = time.monotonic(), f"AAA say {time.monotonic_ns():x}"
    with Client(f"http://127.0.0.1:{port}") as client:
        row: Any = next(client.predict_batch([text], total_budget_ms=20_000))
    assert time.monotonic() - began_s < 10
    assert row.fetched["embedding"].state == "came"


def test_an_inference_request_has_vectors(port: int) -> None:
    good_again(port)
    texts = [f"AA say {time.monotonic_ns() + k:x}" for k in range(5)]
    column = {"name": "text", "datatype": "BYTES", "shape": [5], "data": texts}
    body = {"inputs": [column], "parameters": {"budget_ms": 15_000}}
    sent = json.dumps(body).encode()
    path = "/v2/models/texts/infer"
    answer: Any
    status, answer = ask(port, "POST", path, sent, content_type="application/json")
    assert status == 200, answer
    assert "came:5" in answer["parameters"]["fetched"]


def test_an_index_tells_its_fetches(port: int) -> None:
    facts: Any = ask(port, "GET", "/v1/index", b"")[1]
    embedding, _ = facts["fetches"]
    assert (embedding["key"], embedding["columns"]) == ([], ["embedding"])
    assert embedding["features"] == ["strength", "embedding"]


def test_a_reload_goes_on_with_the_same_fetches(port: int, folder: Path) -> None:
    good_again(port)
    path = folder / "texts.pdx"
    path.write_bytes(path.read_bytes())
    status, _ = reload(port, ADMIN)
    assert status == 200
    assert state(predict(port, f"A say {time.monotonic_ns():x}")) == "came"


def test_without_the_fetches_a_server_answers_by_the_rest(folder: Path) -> None:
    files = ["--features", str(folder / "calls.py"), "--no-rescale"]
    with serving(folder / "texts.pdx", *files, log=folder / "other") as (_, port):
        answer = predict(port, "AAAAAA say 6", 5_000)
    assert answer["features"] == ["shouts"]
    assert "no --fetches FILE says how to fetch embedding, mood" in (
        folder / "other"
    ).read_text().replace(" and", ",")


def test_a_fetch_of_another_width_is_refused(folder: Path, tmp_path: Path) -> None:
    other = (folder / "calls.py").read_text().replace("width=1", "width=2")
    (tmp_path / "calls.py").write_text(other)
    files = ["--features", str(folder / "calls.py")]
    files += ["--fetches", str(tmp_path / "calls.py")]
    said = run_forked(["polydom", "serve", str(folder / "texts.pdx"), *files], tmp_path)
    assert said.returncode == 1
    assert "fetch 'mood' brings 2 numbers; 1 are needed" in said.stderr
