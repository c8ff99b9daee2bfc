"""`polydom serve` as a process of its own, at a real socket."""

import http.client
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.builds import projects
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.processes.servers import ask, complaints, polydom, serving

OWN = f"--features={FEATURES_FILE}"
HEAVY = ("sklearn", "skimage", "lightgbm", "xgboost", "PIL", "scipy.stats", "pyarrow")


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_serve_answers_at_its_socket_and_stops_when_told(
    tmp_path: Path, told: signal.Signals
) -> None:
    patient = ("--budget-ms=20000", "--max-budget-ms=20000")
    with serving(save_index(tmp_path), OWN, *patient) as (process, port):
        status, answer = ask(
            port, "POST", "/v1/predict", SPAM.encode(), content_type="text/plain"
        )
        assert status == 200
        assert (answer["label"], answer["budget_us"]) == ("spam", 2e7)
        assert answer["budget_met"] is True
        status, failure = ask(
            port, "POST", "/v1/predict", b"{", content_type="application/json"
        )
        assert (status, failure["code"]) == (400, "bad_input")
        process.send_signal(told)
        _, err = process.communicate(timeout=20)
        assert (process.returncode, complaints(err)) == (0, "")


def test_serve_counts_the_budget_from_the_first_byte_of_a_slow_body(
    tmp_path: Path,
) -> None:
    patient = ("--budget-ms=20000", "--max-budget-ms=20000")
    with serving(save_index(tmp_path), OWN, *patient) as (_, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.putrequest("POST", "/v1/predict?budget_ms=200")
        connection.putheader("content-type", "text/plain")
        connection.putheader("content-length", str(len(HAM)))
        connection.endheaders()
        connection.send(HAM[:1].encode())
        others = [
            ask(port, "POST", "/v1/predict", HAM.encode(), content_type="text/plain")
            for _ in range(3)
        ]
        assert [answer["label"] for _, answer in others] == ["ham"] * 3
        connection.sock.settimeout(0.3)  # by now the first byte has been read
        with pytest.raises(TimeoutError, match="timed out"):
            connection.sock.recv(1)
        connection.sock.settimeout(20)
        connection.send(HAM[1:].encode())
        answer = json.loads(connection.getresponse().read())
        connection.close()
    assert (answer["label"], answer["features"]) == ("ham", [])
    assert (answer["reason"], answer["budget_met"]) == ("infeasible", False)
    assert answer["elapsed_us"] > 3e5


def test_serve_imports_nothing_that_only_the_build_needs(tmp_path: Path) -> None:
    code = f"""
import sys, time
from pathlib import Path
from starlette.testclient import TestClient
from polydom.server.app import create_app
app = create_app({str(save_index(tmp_path))!r}, features=[Path({str(FEATURES_FILE)!r})])
with TestClient(app) as client:
    while client.get("/readyz").status_code != 200:
        time.sleep(0.01)
    reply = client.post("/v1/predict", json={{"text": "hi", "budget_ms": 900}})
    assert reply.json()["features"] == ["length", "marks", "words"], reply.text
print([name for name in {HEAVY!r} if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_serve_answers_with_an_index_that_greedy_built(tmp_path: Path) -> None:
    search = '[search]\nmethod = "greedy"\n'
    projects.texts(tmp_path, project=projects.TEXTS + search)
    polydom(["build", "PROJECT.toml", "-o", "my.pdx"], tmp_path)
    assert "feature sets by greedy (" in polydom(["inspect", "my.pdx", "-v"], tmp_path)
    with serving(tmp_path / "my.pdx") as (_, port):
        answers = [
            ask(
                port,
                "POST",
                f"/v1/predict?budget_ms={budget}",
                text.encode(),
                content_type="text/plain",
            )[1]
            for text in (projects.HAM, projects.SPAM)
            for budget in (0, 900)
        ]
    assert [answer["reason"] for answer in answers[::2]] == ["infeasible"] * 2
    assert [answer["label"] for answer in answers[1::2]] == ["ham", "spam"]
    assert all(answer["features"] for answer in answers[1::2])
