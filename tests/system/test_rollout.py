"""A candidate beside the served index: tried, promoted, rolled back, under load."""

import json
import math
import os
import signal
import threading
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from polydom.features.items import record_item
from polydom.indexer.index.file.pdx_file import read_version
from polydom.indexer.index.index import Index
from polydom.server.client.sync import Client
from polydom.server.errors import Unauthorized
from polydom.server.schema.rollout import RolloutAsk, RolloutsFacts
from tests.support.indexes import records
from tests.support.indexes.served import FEATURES_FILE, HAM, save
from tests.support.processes.forked_process import ForkedProcess, run_forked
from tests.support.processes.servers import ADMIN, ask, reload, serving
from tests.support.waiting import wait_until

OWN = f"--features={FEATURES_FILE}"
WORKERS = pytest.param(
    ("--workers=2",), marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="fork")
)
INFER = json.dumps(
    {"inputs": [{"name": "text", "datatype": "BYTES", "shape": [1], "data": [HAM]}]}
).encode()
each_server = pytest.mark.parametrize("options", [(), WORKERS], ids=["one", "workers"])


class Server:
    """A server of one index with a candidate, and its versions."""

    def __init__(self, process: ForkedProcess, port: int, path: Path) -> None:
        self.process, self.port, self.path = process, port, path
        self.next = path.with_name("my.next.pdx")
        self.old = read_version(path)
        self.new = read_version(self.next) if self.next.exists() else ""

    def ask(self, **headers: str) -> str:
        """The version that answers, on a connection of its own."""
        path = "/v1/predict?budget_ms=900"
        headers = {"content_type": "text/plain", **headers}
        status, answer = ask(self.port, "POST", path, HAM.encode(), **headers)
        assert status == 200, answer
        return str(answer["index_version"])

    def versions(self, count: int = 20) -> Counter[str]:
        return Counter(self.ask() for _ in range(count))

    def order(self, mode: str | None, **terms: Any) -> RolloutsFacts:
        with Client(f"http://127.0.0.1:{self.port}", token=ADMIN) as client:
            given: Any = mode
            return client.roll_out(None if mode is None else RolloutAsk(given, **terms))

    def post(self, body: object) -> tuple[int, str]:
        status, told = ask(
            self.port,
            "POST",
            "/v1/admin/rollout",
            json.dumps(body).encode(),
            authorization=f"Bearer {ADMIN}",
        )
        return status, str(told.get("error"))

    def is_warm(self, workers: int) -> bool:
        """Whether all workers are ready and have the candidate."""
        lines = self.metrics("polydom_version_cost_factor{")
        return len(lines) == 2 * workers

    def metrics(self, begin: str) -> list[str]:
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urllib.request.urlopen(url, timeout=20) as reply:
            lines = reply.read().decode().splitlines()
        return [line for line in lines if line.startswith(begin)]

    def total(self, begin: str) -> float:
        return total(self.metrics(begin), begin)

    def exceeds(self, begin: str, least: float) -> bool:
        return self.total(begin) > least

    def until(self, true: Callable[[], object]) -> None:
        """Wait, as each worker keeps its metrics for a while if it is asked often."""
        wait_until(true, self.process)


def total(lines: list[str], begin: str) -> float:
    return sum(float(line.split()[-1]) for line in lines if line.startswith(begin))


@contextmanager
def served(
    folder: Path, options: tuple[str, ...] = (), candidate: bool = True
) -> Iterator[Server]:
    path = save(folder / "my.pdx")
    if candidate:
        save(folder / "my.next.pdx", 0.9)
    (folder / "admin").write_text(ADMIN)
    tokens = f"--admin-token-file={folder / 'admin'}"
    own = (OWN, f"--candidate={folder / 'my.next.pdx'}", tokens, *options)
    with serving(path, *own) as (process, port):
        server = Server(process, port, path)
        if candidate:
            wait_until(lambda: server.is_warm(1 + len(options)), process)
        yield server


@contextmanager
def load(server: Server) -> Iterator[list[str]]:
    """Ask all the time, while the context is open; the versions that answered."""
    done, seen = threading.Event(), list[str]()
    failed = list[BaseException]()

    def go() -> None:
        try:
            with Client(f"http://127.0.0.1:{server.port}") as client:
                while not done.is_set():
                    seen.append(client.predict(HAM, budget_ms=900).index_version)
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=go) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert not failed


@each_server
def test_a_canary_gets_its_share_and_whoever_asks_for_it(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with served(tmp_path, options) as server:
        assert server.versions() == {server.old: 20}
        assert server.ask(x_polydom_version="candidate") == server.old
        told = server.order("canary", share=0.5, by="X-Customer")
        (facts,) = told.models
        assert (facts.version, facts.candidate) == (server.old, server.new)
        assert (facts.mode, facts.share, facts.by) == ("canary", 0.5, "x-customer")
        wait_until(
            lambda: (
                len(server.metrics('polydom_version_share{model="my"')) > 0
                and all(
                    line.endswith(" 0.5")
                    for line in server.metrics("polydom_version_share{")
                )
            ),
            server.process,
        )
        count = 300
        drawn = server.versions(count)
        assert drawn.keys() == {server.old, server.new}
        assert abs(drawn[server.new] - count / 2) <= 5 * math.sqrt(count / 4)
        for number in range(10):
            same = {server.ask(x_customer=f"c{number}") for _ in range(5)}
            assert len(same) == 1
        assert server.ask(x_polydom_version="candidate") == server.new
        assert server.ask(x_polydom_version="current") == server.old

        def all_counted() -> bool:
            lines = server.metrics("polydom_")
            whole = total(lines, "polydom_answers_total{")
            versions = "polydom_version_answers_total{"
            tried = [line for line in lines if 'version="candidate"' in line]
            assert whole == total(lines, versions)
            return whole >= count and total(tried, versions) >= drawn[server.new]

        server.until(all_counted)
        path, text = "/v1/predict", {"content_type": "text/plain"}
        status, refused = ask(
            server.port, "POST", path, b"hi", x_polydom_version="next", **text
        )
        assert (status, refused["code"]) == (400, "bad_input")
        body = json.dumps({"items": [{"text": HAM}], "budget_ms": 900}).encode()
        said = {"content_type": "application/json", "x_polydom_version": "candidate"}
        _, batch = ask(server.port, "POST", "/v1/batch", body, **said)
        answers: Any = batch["answers"]
        assert answers[0]["index_version"] == server.new
        server.order("off")
        wait_until(lambda: server.versions(40) == {server.old: 40}, server.process)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_worker_that_is_replaced_follows_the_orders(tmp_path: Path) -> None:
    with served(tmp_path, ("--workers=2",)) as server:
        server.order("canary", share=1.0)
        wait_until(lambda: server.versions(40) == {server.new: 40}, server.process)
        pid = server.process.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        for child in children.read_text().split():
            os.kill(int(child), signal.SIGKILL)
        wait_until(lambda: is_answered(server), server.process)
        wait_until(lambda: server.is_warm(2), server.process)
        assert server.versions(40) == {server.new: 40}


def is_answered(server: Server) -> bool:
    try:
        return bool(server.ask())
    except (OSError, AssertionError):
        return False


@each_server
def test_promotions_and_their_reverse_fail_no_request(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with served(tmp_path, options) as server:
        with load(server) as seen:
            wait_until(lambda: server.old in seen, server.process)
            server.order("canary", share=0.5)
            told = server.order("promote")
            assert (told.note, told.models[0].version) == ("", server.new)
            assert told.models[0].mode == "off"
            wait_until(lambda: server.versions(40) == {server.new: 40}, server.process)
            assert read_version(server.path) == server.new
            assert read_version(tmp_path / "my.previous.pdx") == server.old
            assert not server.next.exists()
            assert server.order("roll_back").models[0].version == server.old
            wait_until(lambda: server.versions(40) == {server.old: 40}, server.process)
            assert read_version(server.path) == server.old
            server.order("roll_back")
            wait_until(lambda: server.versions(40) == {server.new: 40}, server.process)
        assert {*seen} == {server.old, server.new}
        assert server.total('polydom_reloads_total{model="my",result="failed"') == 0
    with serving(server.path, OWN) as (_, port):
        assert Server(server.process, port, server.path).ask() == server.new


def counted(server: Server, result: str) -> float:
    name = "polydom_shadow_comparisons_total"
    lines = [line for line in server.metrics(name) if f'result="{result}"' in line]
    return total(lines, name)


@each_server
def test_a_shadow_changes_no_answer(tmp_path: Path, options: tuple[str, ...]) -> None:
    with served(tmp_path, options) as server:
        server.order("shadow")
        wanted = {"x_polydom_version": "candidate"}

        def compared() -> bool:
            assert server.ask() == server.ask(**wanted) == server.old
            return counted(server, "agreed") > 3

        wait_until(compared, server.process)
        assert counted(server, "differed") == counted(server, "failed") == 0
        for name, least in (("expected_quality", 0.5), ("plan_seconds", 1e-9)):
            sums = f"polydom_shadow_{name}_total"
            assert len(server.metrics(sums)) == 2 * (1 + len(options))
            server.until(partial(server.exceeds, sums, least))
        answers = server.metrics("polydom_version_answers_total{")
        tried = [line for line in answers if 'version="candidate"' in line]
        assert all(line.endswith(" 0.0") for line in tried)
        with load(server) as seen:
            wait_until(lambda: len(seen) > 200, server.process)
        assert {*seen} == {server.old}
        server.until(
            lambda: sum(counted(server, r) for r in ("agreed", "dropped")) > 200
        )
        server.order("shadow", share=0.0)
        server.order("off")


@each_server
def test_a_candidate_may_come_later_and_go(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    with served(tmp_path, options, candidate=False) as server:
        status, said = server.post({"mode": "canary", "share": 0.1})
        assert (status, "no candidate that is loaded" in said) == (400, True)
        save(server.next, 0.9)
        server.new = read_version(server.next)
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.is_warm(1 + len(options)), server.process)
        server.order("canary", share=1.0)
        wait_until(lambda: server.versions(40) == {server.new: 40}, server.process)
        server.next.unlink()
        server.process.send_signal(signal.SIGHUP)
        wait_until(lambda: server.versions(40) == {server.old: 40}, server.process)


def test_a_candidate_that_would_break_callers_is_refused(tmp_path: Path) -> None:
    with served(tmp_path) as server:
        records.make_index().save(server.next)
        status, body = reload(server.port, ADMIN)
        assert (status, body["code"]) == (422, "changed_contract")
        assert server.order(None).models[0].candidate == server.new
        status, said = server.post({"mode": "promote"})
        assert (status, "was replaced or moved after it was loaded" in said) == (
            400,
            True,
        )
        server.next.write_bytes(b"no index")
        assert reload(server.port, ADMIN)[0] == 422
        assert server.versions() == {server.old: 20}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"mode": "canary"}, "canary needs a share"),
        ({"mode": "canary", "share": 1.5}, "share: expected"),
        ({"mode": "canary", "share": -0.1}, "share: expected"),
        ({"mode": "canary", "share": "all"}, "share: expected"),
        ({"mode": "canary", "share": 0.1, "by": "x y"}, "by: expected"),
        ({"mode": "canary", "share": 0.1, "by": ""}, "by: expected"),
        ({"mode": "blue"}, "mode: "),
        ({"mode": "off", "share": 0.1}, "off takes no share"),
        ({"mode": "promote", "by": "x-customer"}, "promote takes no header"),
        ({"mode": "shadow", "by": "x-customer"}, "shadow takes no header"),
        ({"mode": "shadow", "share": 2}, "share: expected"),
        ({"mode": "off", "modle": "my"}, "'modle' is unknown"),
        ({}, "mode"),
        ([], "expected object"),
        ({"mode": "roll_back"}, "no previous index"),
    ],
)
def test_orders_that_cannot_be_carried_out_are_refused(
    server: Server, body: object, said: str
) -> None:
    status, error = server.post(body)
    assert status == 400
    assert said in error


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with served(tmp_path_factory.mktemp("served")) as server:
        yield server


def test_orders_need_an_admin_token(server: Server, tmp_path: Path) -> None:
    for method in ("GET", "POST"):
        assert ask(server.port, method, "/v1/admin/rollout", b"{}")[0] == 401
        wrong = {"authorization": "Bearer wrong-token-wrong"}
        assert ask(server.port, method, "/v1/admin/rollout", b"{}", **wrong)[0] == 401
    url = f"http://127.0.0.1:{server.port}"
    with Client(url) as client, pytest.raises(Unauthorized):
        client.roll_out()
    with serving(save(tmp_path / "my.pdx"), OWN) as (_, port):
        assert ask(port, "POST", "/v1/admin/rollout", b"{}")[0] == 404


def test_requests_of_the_open_inference_protocol_may_name_both_versions(
    server: Server,
) -> None:
    _, facts = ask(server.port, "GET", "/v2/models/my")
    assert facts["versions"] == [server.old, server.new]
    for version in (server.old, server.new):
        path = f"/v2/models/my/versions/{version}"
        assert ask(server.port, "GET", f"{path}/ready")[0] == 200
        status, answer = ask(server.port, "POST", f"{path}/infer", INFER)
        assert (status, answer["model_version"]) == (200, version)


def test_only_models_with_a_candidate_take_orders(server: Server) -> None:
    status, said = server.post({"mode": "off", "model": "none"})
    assert (status, "no model is called 'none'" in said) == (404, True)


def write_recent(folder: Path, count: int = 30) -> Path:
    """Write labelled people, as the best set of the index of records answers them."""
    package = records.make_index().package
    assert package is not None
    extractor, path = package.extractor(), folder / "recent.jsonl"
    people = [dict(records.PEOPLE[n % 4], age=20 + n) for n in range(count)]
    rows = [extractor.extract(record_item(person)) for person in people]
    codes = [package.models[2].answer(row)[0] for row in rows]
    labelled = [
        {**person, "label": package.labels[code]}
        for person, code in zip(people, codes, strict=True)
    ]
    path.write_text("\n".join(map(json.dumps, labelled)))
    return path


def save_prior(path: Path) -> None:
    """Write an index of records that answers by the prior alone."""
    index = records.make_index()
    assert index.package is not None
    prior = (index.package.models[0],) * 3
    package = replace(index.package, models=prior)
    costs, sizes = index.coefficients, index.sizes
    Index.from_candidates(costs, index.qualities, sizes, package).save(path)


@each_server
def test_a_worse_index_is_refused_while_the_old_one_answers(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    path, admin = tmp_path / "my.pdx", tmp_path / "admin"
    records.make_index().save(path)
    admin.write_text(ADMIN)
    candidate = tmp_path / "my.next.pdx"
    own = (f"--admin-token-file={admin}", f"--candidate={candidate}", *options)
    gate = f"--gate={write_recent(tmp_path)}"
    body = json.dumps({"record": records.PEOPLE[0]}).encode()

    def version(port: int) -> object:
        said = {"content_type": "application/json"}
        status, answer = ask(port, "POST", "/v1/predict", body, **said)
        assert status == 200, answer
        return answer["index_version"]

    with serving(path, *own, gate) as (process, port):
        old = read_version(path)
        save_prior(candidate)
        reload(port, ADMIN)
        status, told = ask(
            port,
            "POST",
            "/v1/admin/rollout",
            b'{"mode": "promote"}',
            authorization=f"Bearer {ADMIN}",
        )
        assert (status, told["code"]) == (422, "worse_index")
        assert "of the old index 1, and" in str(told["error"])
        candidate.rename(path)
        status, told = reload(port, ADMIN)
        assert (status, told["code"]) == (422, "worse_index")
        assert {version(port) for _ in range(20)} == {old}
        process.send_signal(signal.SIGHUP)
        records.save_better(path)
        assert reload(port, ADMIN)[0] == 200
        new = read_version(path)
        wait_until(lambda: {version(port) for _ in range(20)} == {new}, process)


def test_a_gate_needs_items(tmp_path: Path) -> None:
    done = run_forked(
        ["polydom", "serve", str(save(tmp_path / "my.pdx")), OWN, "--gate=none.csv"],
        tmp_path,
    )
    assert done.returncode == 1
    assert "--gate none.csv: there is no such file or folder" in done.stderr
