"""Real servers write a line about each answer, and answers with their items."""

import base64
import http.client
import json
import os
import shutil
import signal
import urllib.request
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import tritonclient.grpc as triton

from polydom.server.answer_log.log_file import files_in
from polydom.server.client.sync import Client
from tests.support.indexes.records import PEOPLE, save_index
from tests.support.indexes.served import FEATURES_FILE, HAM
from tests.support.indexes.three_kinds import picture, save_three
from tests.support.processes.forked_process import ForkedProcess, run_forked
from tests.support.processes.servers import ask, serving
from tests.support.waiting import wait_until

JSON = "application/json"
GIVEN = {"age": 31, "job": "clerk", "income": None}
PATIENT = ("--budget-ms=20000", "--max-budget-ms=20000")


def lines_in(*files: Path) -> list[dict[str, Any]]:
    """The whole lines of files; a server may be writing another one."""
    texts = [path.read_text() for path in files if path.exists()]
    return [json.loads(line) for text in texts for line in text.split("\n")[:-1]]


def recorded(folder: Path) -> list[dict[str, Any]]:
    return lines_in(*sorted(files_in(folder))) if folder.exists() else []


def predict(port: int, record: object, **more: object) -> dict[str, Any]:
    body = json.dumps({"record": record, **more}).encode()
    status, answer = ask(port, "POST", "/v1/predict", body, content_type=JSON)
    assert status == 200
    return answer


def test_each_way_in_has_its_lines(tmp_path: Path) -> None:
    models = [f"{name}={path}" for name, path in save_three(tmp_path).items()]
    log, folder = tmp_path / "access.log", tmp_path / "recorded"
    own = f"--features={FEATURES_FILE}", f"--access-log={log}", f"--record={folder}"
    image, answers = picture(3), dict[str, Any]()
    with serving(models[0], *models[1:], *own, *PATIENT, "--grpc-port=0") as (
        process,
        port,
    ):
        grpc_address = process.stdout.readline().split()[-1]
        with Client(f"http://127.0.0.1:{port}") as client:
            answers["records"] = client.predict(GIVEN, model="records")
            answers["texts"] = client.predict(HAM, model="texts")
            answers["images"] = client.predict(image, model="images")
        body = {"record": GIVEN, "model": "records", "min_quality": 2}
        kinds = {"content_type": JSON}
        ask(port, "POST", "/v1/predict", json.dumps(body).encode(), **kinds)
        ask(port, "POST", "/v1/predict?model=none", b"x", content_type="text/plain")
        batch = {"items": [{"text": HAM}, {"record": {}}, {"text": "free"}]}
        where = "/v1/batch?model=texts&budget_ms=9000"
        ask(port, "POST", where, json.dumps(batch).encode(), **kinds)
        ask(port, "POST", "/v1/batch?model=texts", json.dumps(batch).encode(), **kinds)
        age = {"name": "age", "shape": [2], "datatype": "FP64", "data": [31.0, 4.0]}
        whole = json.dumps({"inputs": [age]}).encode()
        infer = "/v2/models/records/infer"
        assert ask(port, "POST", infer, whole, **kinds)[0] == 200
        assert ask(port, "POST", infer, b"{}", **kinds)[0] == 400
        text = triton.InferInput("text", [1], "BYTES")
        text.set_data_from_numpy(np.array([HAM.encode()], object))
        with triton.InferenceServerClient(grpc_address) as client:
            client.infer("texts", [text])
        wait_until(lambda: len(lines_in(log)) == 10, process)
        wait_until(lambda: len(recorded(folder)) == 10, process)
    lines, items = lines_in(log), recorded(folder)
    ways = [(line["entrance"], line.get("model"), line["status"]) for line in lines]
    assert Counter(ways) == Counter(
        [
            *(("predict", kind, 200) for kind in ("records", "texts", "images")),
            ("predict", "records", 400),
            ("predict", None, 404),
            ("batch", "texts", 200),
            ("batch", None, 400),
            ("oip", "records", 200),
            ("oip", "records", 400),
            ("grpc", "texts", 200),
        ]
    )
    by_way = dict(zip(ways, lines, strict=True))
    for kind, answer in answers.items():
        line = by_way["predict", kind, 200]
        assert line == {**line, **json.loads(msgspec.json.encode(answer))}
        sizes = {"records": 1, "texts": len(HAM), "images": 32 * 32}
        assert line["size"] == sizes[kind]
    assert by_way["batch", "texts", 200]["items"] == 3
    assert by_way["batch", "texts", 200]["errors"] == 1
    assert by_way["oip", "records", 200]["items"] == 2
    assert by_way["predict", "records", 400]["code"] == "bad_input"
    assert by_way["predict", None, 404]["code"] == "unknown_model"
    by_id = {line["id"]: line for line in items}
    first = by_id[by_way["predict", "records", 200]["id"]]
    assert first == {**by_way["predict", "records", 200], "record": GIVEN}
    assert by_id[by_way["predict", "texts", 200]["id"]]["text"] == HAM
    encoded = by_id[by_way["predict", "images", 200]["id"]]["image_base64"]
    assert base64.b64decode(encoded) == image
    assert by_id[by_way["predict", "records", 400]["id"]]["record"] == GIVEN
    assert by_id[by_way["grpc", "texts", 200]["id"]]["text"] == HAM
    batch_id = by_way["batch", "texts", 200]["id"]
    assert [by_id[f"{batch_id}/{number}"]["text"] for number in (0, 2)] == [HAM, "free"]
    oip_id = by_way["oip", "records", 200]["id"]
    assert by_id[f"{oip_id}/1"]["record"] == {"age": 4.0}
    assert len(by_id) == len(items)


def test_ids_are_the_callers_or_made_and_given_back(tmp_path: Path) -> None:
    index, log = save_index(tmp_path), tmp_path / "access.log"
    record, trace = (
        json.dumps({"record": PEOPLE[0]}),
        "0af7651916cd43dd8448eb211c80319c",
    )
    batch = json.dumps({"items": [{"record": PEOPLE[0]}]})
    age = {"name": "age", "shape": [1], "datatype": "FP64", "data": [31.0]}
    infer = json.dumps({"inputs": [age]})
    asked = (
        ("/v1/predict", record),
        ("/v1/predict?budget_ms=1e4&exact=true", record),  # not in the fast path
        ("/v1/predict", "{"),
        ("/v1/predict?model=none", record),
        ("/v1/batch?budget_ms=9000", batch),
        ("/v1/batch", batch),
        ("/v2/models/people/infer", infer),
        ("/v2/models/people/infer", "{}"),
    )
    with serving(index, f"--access-log={log}", *PATIENT, "--grpc-port=0") as (
        process,
        port,
    ):
        address = process.stdout.readline().split()[-1]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        expected = []
        for number, (path, body) in enumerate(asked):
            own = {
                "x-request-id": f"own-{number}",
                "traceparent": f"00-{trace}-{1:016x}-01",
            }
            for headers in ({}, own):
                connection.request(
                    "POST", path, body, {**headers, "content-type": JSON}
                )
                reply = connection.getresponse()
                reply.read()
                assert len(reply.headers.get_all("x-request-id") or ()) == 1
                given = reply.headers["x-request-id"]
                assert given == own["x-request-id"] if headers else len(given) == 32
                expected.append((given, trace if headers else None))
        connection.close()
        tensor = triton.InferInput("age", [1], "FP64")
        tensor.set_data_from_numpy(np.array([31.0]))
        with triton.InferenceServerClient(address) as client:
            client.infer("people", [tensor], headers={"x-request-id": "by-grpc"})
        expected.append(("by-grpc", None))
        wait_until(lambda: len(lines_in(log)) == len(expected), process)
    found = [(line["id"], line.get("trace_id")) for line in lines_in(log)]
    assert Counter(found) == Counter(expected)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_workers_share_the_log_and_record_into_files_of_their_own(
    tmp_path: Path,
) -> None:
    log, folder = tmp_path / "access.log", tmp_path / "recorded"
    own = f"--access-log={log}", f"--record={folder}", "--workers=2"
    with serving(save_index(tmp_path), *own) as (process, port):

        def workers() -> set[str]:
            return {path.name.split("-")[1] for path in files_in(folder)}

        asked = 0
        while not folder.exists() or workers() != {"0", "1"}:
            predict(port, PEOPLE[0])
            asked += 1
        wait_until(lambda: len(lines_in(log)) == asked, process)
        ids = {line["id"] for line in lines_in(log)}
        assert len(ids) == asked
        wait_until(lambda: {line["id"] for line in recorded(folder)} == ids, process)
        # whoever rotates logs needs no signal
        log.rename(tmp_path / "access.log.1")
        predict(port, PEOPLE[1])
        wait_until(lambda: len(lines_in(log)) == 1, process)
        # a worker that replaces another goes on
        before = {path.name for path in files_in(folder)}
        found = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        os.kill(int(found.read_text().split()[0]), signal.SIGKILL)

        def goes_on() -> bool:
            predict(port, PEOPLE[2])
            return len({path.name for path in files_in(folder)} - before) > 0

        wait_until(goes_on, process)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=30)
        assert process.returncode == 0
    assert len(lines_in(log, tmp_path / "access.log.1")) > asked


def test_a_folder_that_is_gone_harms_no_answer(tmp_path: Path) -> None:
    folder = tmp_path / "above" / "recorded"
    folder.parent.mkdir()
    with serving(save_index(tmp_path), f"--record={folder}") as (process, port):

        def dropped() -> float:
            url = f"http://127.0.0.1:{port}/metrics"
            with urllib.request.urlopen(url, timeout=20) as reply:
                lines = reply.read().decode().splitlines()
            (line,) = [line for line in lines if 'file="record"' in line]
            return float(line.split()[-1])

        predict(port, PEOPLE[0])
        wait_until(lambda: recorded(folder), process)
        assert dropped() == 0
        shutil.rmtree(folder.parent)
        folder.parent.write_text("in the way")
        predict(port, PEOPLE[1])
        wait_until(lambda: dropped() == 1, process)
        folder.parent.unlink()
        folder.parent.mkdir()
        predict(port, PEOPLE[2])
        wait_until(lambda: recorded(folder), process)
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert [line["record"] for line in recorded(folder)] == [PEOPLE[2]]
    assert "lines for" in err
    assert err.count("\n") == 1


def test_lines_go_to_standard_output_and_hold_nothing_up_if_nobody_reads_them(
    tmp_path: Path,
) -> None:
    index, log, folder = save_index(tmp_path), tmp_path / "err", tmp_path / "folder"
    log.touch()
    words = ["polydom", "serve", str(index), "--port=0", "--access-log=-"]
    process = ForkedProcess([*words, f"--record={folder}"], log=log)
    try:
        wait_until(lambda: "http://" in log.read_text(), process)
        port = int(log.read_text().split("http://127.0.0.1:")[1].split()[0])
        wait_until(lambda: ask(port, "GET", "/readyz")[0] == 200, process)
        answer = predict(port, PEOPLE[0])
        line = json.loads(process.stdout.readline())
        assert line["elapsed_us"] == answer["elapsed_us"]
        for _ in range(300):  # more lines than a pipe holds
            predict(port, PEOPLE[0])
        wait_until(lambda: len(recorded(folder)) == 301, process)
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--access-log={}"], "--access-log {}: is a directory"),
        (["--record={}/file"], "--record {}/file: this is a file; a folder is needed"),
        (["--record={}/a/b"], "--record {}/a/b: no such file or directory"),
        (["--record={}/a", "--record-share=2"], "--record-share 2: above 0, up to 1"),
        (["--record={}/a", "--record-share=0"], "--record-share 0: above 0, up to 1"),
        (["--record={}/a", "--record-mb=0"], "'--record-mb'"),
        (["--record={}/a", "--record-files=0"], "'--record-files'"),
    ],
)
def test_what_cannot_be_written_is_refused_before_the_start(
    tmp_path: Path, options: list[str], said: str
) -> None:
    (tmp_path / "file").touch()
    given = [option.format(tmp_path) for option in options]
    done = run_forked(["polydom", "serve", str(save_index(tmp_path)), *given])
    assert done.returncode != 0
    assert said.format(tmp_path) in done.stderr
