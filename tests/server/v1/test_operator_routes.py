"""What is served is told; what single items hold only where the operator wants it."""

import asyncio
import json
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.testclient import TestClient

from polydom.indexer.index.index import Index
from polydom.server.app import create_app
from polydom.server.cli.serving.serve import who_sees_samples
from polydom.server.runtime.describe_index import describe_index
from polydom.server.settings import Settings
from tests.support.indexes import records, three_kinds
from tests.support.indexes.served import (
    FEATURES_FILE,
    HAM,
    SPAM,
    make_index,
    save_index,
)
from tests.support.processes.servers import ask, serving


def asking(path: Path, **settings: Any) -> TestClient:
    own = Settings(**settings)
    return TestClient(create_app(path, features=[FEATURES_FILE], settings=own))


def test_samples_are_given_as_they_may_be_asked_about(tmp_path: Path) -> None:
    with asking(save_index(tmp_path), samples="everybody") as client:
        assert client.get("/v1/index").json()["samples"] == 2
        for place, text in enumerate((HAM, SPAM)):
            reply = client.get(f"/v1/index/samples/{place}")
            assert (reply.status_code, reply.text) == (200, text)
            assert reply.headers["content-type"] == "text/plain; charset=utf-8"
            assert reply.headers["x-content-type-options"] == "nosniff"
        for number in ("2", "999999999999999999999"):
            reply = client.get(f"/v1/index/samples/{number}")
            assert (reply.status_code, reply.json()["code"]) == (404, "unknown_sample")
        for other in ("-1", "x", "1.5", ""):
            assert client.get(f"/v1/index/samples/{other}").status_code == 404
        assert client.get("/v1/index/samples/0?model=none").status_code == 404
        assert client.get("/v1/index/samples/0?modle=tiny").status_code == 400


def test_records_are_samples_too(tmp_path: Path) -> None:
    with asking(records.save_index(tmp_path), samples="everybody") as client:
        sample = client.get("/v1/index/samples/0")
        assert sample.headers["content-type"] == "application/json"
        reply = client.post("/v1/predict", json={"record": sample.json()})
        assert reply.status_code in (200, 503)  # it may be warming up


def test_images_are_samples_byte_for_byte(tmp_path: Path) -> None:
    index = Index.load(three_kinds.save_images(tmp_path))
    assert index.package is not None
    image = three_kinds.picture(20)
    meta = {**index.package.meta, "samples": [image]}
    path = tmp_path / "sampled.pdx"
    replace(index, package=replace(index.package, meta=meta)).save(path)
    with TestClient(create_app(path, settings=Settings(samples="everybody"))) as client:
        reply = client.get("/v1/index/samples/0")
        assert (reply.status_code, reply.content) == (200, image)
        assert reply.headers["content-type"] == "application/octet-stream"
        assert reply.headers["x-content-type-options"] == "nosniff"


def test_nothing_of_single_items_is_shown_where_nobody_wants_it(tmp_path: Path) -> None:
    with asking(records.save_index(tmp_path)) as client:
        facts = client.get("/v1/index").json()
        assert facts["samples"] == 0
        job = facts["features"][1]["columns"][0]
        assert job == {"name": "job", "kind": "words"}
        reply = client.get("/v1/index/samples/0")
        assert (reply.status_code, reply.json()["code"]) == (404, "unknown_sample")
        for path in ("/v1/index", "/v1/index/curves", "/v1/index/inputs", "/metrics"):
            assert "nurse" not in client.get(path).text


def test_columns_tell_what_a_form_needs(tmp_path: Path) -> None:
    with asking(records.save_index(tmp_path), samples="everybody") as client:
        person, work = client.get("/v1/index").json()["features"]
    assert [(one["name"], one["kind"]) for one in person["columns"]] == [
        ("age", "number"),
        ("height", "number"),
    ]
    assert work["columns"][0]["words"] == ["clerk", "nurse", "pilot"]
    with asking(save_index(tmp_path)) as client:
        assert "columns" not in client.get("/v1/index").json()["features"][0]


def test_what_answers_when_nothing_fits_is_among_the_sets() -> None:
    index = make_index()
    cheap = index.coefficients.copy()
    cheap[1] = cheap[0]  # one with a feature is as cheap, and better
    other = Index.from_candidates(cheap, index.qualities, index.sizes, index.package)
    assert 0 not in other.lookup.rows.tolist()
    assert describe_index(other).sets[0].features == ()


def test_budgets_of_the_server_are_told(tmp_path: Path) -> None:
    with asking(save_index(tmp_path), budget_s=0.02, max_budget_s=3.0) as client:
        facts = client.get("/v1/models").json()
        assert (facts["budget_ms"], facts["max_budget_ms"]) == (20.0, 3000.0)


def test_curves_are_of_the_model_that_is_asked_for(tmp_path: Path) -> None:
    with asking(save_index(tmp_path)) as client:
        facts = client.get("/v1/index/curves").json()
        assert facts["version"] == client.get("/v1/index").json()["version"]
        assert [one["name"] for one in facts["parts"]][:3] == [
            "length",
            "marks",
            "words",
        ]
        assert client.get("/v1/index/curves?model=none").status_code == 404


@pytest.mark.parametrize(
    ("host", "tokens", "shown"),
    [
        ("127.0.0.1", None, "here"),
        ("127.1.2.3", None, "here"),
        ("::1", None, "here"),
        ("localhost", None, "here"),
        ("0.0.0.0", None, "nobody"),
        ("::", None, "nobody"),
        ("10.0.0.7", None, "nobody"),
        ("a-name-of-whoever", None, "nobody"),
        ("0.0.0.0", Path("tokens"), "everybody"),
    ],
)
def test_samples_are_for_this_machine_or_whoever_has_a_token(
    host: str, tokens: Path | None, shown: str
) -> None:
    assert who_sees_samples(None, host, tokens) == shown
    assert who_sees_samples(True, host, tokens) == "everybody"
    assert who_sees_samples(False, host, tokens) == "nobody"


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("localhost:8000", 1),
        ("127.0.0.1", 1),
        ("[::1]:8000", 1),
        ("rebound.example", 0),
        ("127.0.0.1.example:8000", 0),
        ("10.0.0.7", 0),
        ("", 0),
    ],
)
def test_a_name_of_somebody_else_that_leads_here_is_shown_no_items(
    tmp_path: Path, host: str, shown: int
) -> None:
    with asking(records.save_index(tmp_path), samples="here") as client:
        facts = client.get("/v1/index", headers={"host": host}).json()
        sample = client.get("/v1/index/samples/0", headers={"host": host})
    assert bool(facts["samples"]) == bool(shown)
    assert sample.status_code == (200 if shown else 404)
    assert ("words" in facts["features"][1]["columns"][0]) == bool(shown)


# What is sent to a server on this machine, and how many samples it then tells of.
HEADS = {
    "GET /v1/index HTTP/1.1\r\nHost: 127.0.0.1\r\n": 2,
    "GET /v1/index HTTP/1.0\r\nHost: LocalHost:80\r\n": 2,
    "GET http://localhost:80/v1/index HTTP/1.1\r\nHost: rebound.example\r\n": 2,
    "GET http://rebound.example/v1/index HTTP/1.1\r\nHost: localhost\r\n": 0,
    "GET http://rebound.example HTTP/1.1\r\nHost: localhost\r\n": None,
    "GET http://a@localhost/v1/index HTTP/1.1\r\nHost: localhost\r\n": 0,
    "GET /v1/index HTTP/1.0\r\n": 0,
    "GET /v1/index HTTP/1.1\r\n": 0,
    "GET /v1/index HTTP/1.1\r\nHost:\r\n": 0,
    **{
        f"GET /v1/index HTTP/1.1\r\nHost: {host}\r\n": 0
        for host in (
            "rebound.example@localhost",
            "rebound.example:80@localhost:8000",
            "localhost@rebound.example",
            "{localhost}",
            '"localhost"',
            "'127.0.0.1'",
            "local host",
            "localhost/..",
            "localhost:8000:8000",
            "localhost:port",
            "localhost:-1",
            "localhost,rebound.example",
            "localhost.",
            "%6cocalhost",
            "::1",
            "[::1",
            "[::1%25lo]",
            "[fe80::1%lo]:80",
            "[127.0.0.1]",
            "[::1]x",
            "127.1",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "127.0.0.01",
            "127.0.0.1.",
            "\N{LATIN SMALL LETTER A WITH GRAVE}",
            "localhost\r\nHost: localhost",
            "localhost\r\nHost: rebound.example",
            "rebound.example\r\nX-Forwarded-Host: localhost",
            "localhost\r\nX-Forwarded-For: 10.0.0.7",
            "localhost\r\nForwarded: for=10.0.0.7",
            "localhost\r\nVia: 1.1 proxy",
        )
    },
}


def test_who_does_not_say_this_machines_name_alone_is_shown_no_items(
    tmp_path: Path,
) -> None:
    own = ["--features", str(FEATURES_FILE)]
    with serving(save_index(tmp_path), *own) as (_, port):
        for head, count in HEADS.items():
            with socket.create_connection(("127.0.0.1", port), timeout=20) as way:
                way.sendall(f"{head}Connection: close\r\n\r\n".encode("latin-1"))
                with way.makefile("rb") as said:
                    _, _, body = said.read().partition(b"\r\n\r\n")
            facts = {} if count is None else json.loads(body)
            assert facts.get("samples") == count, head


@pytest.mark.parametrize(("option", "count"), [("--page", 2), ("--no-samples", 0)])
def test_serve_shows_samples_by_default_and_not_where_told(
    tmp_path: Path, option: str, count: int
) -> None:
    own = ["--features", str(FEATURES_FILE), option]
    with serving(save_index(tmp_path), *own) as (_, port):
        status, facts = ask(port, "GET", "/v1/index")
        assert (status, facts["samples"]) == (200, count)


def test_metrics_are_written_down_once_for_all_who_ask_at_a_time(
    tmp_path: Path,
) -> None:
    """It shows in the loop's own time, which no stalled machine makes longer."""

    async def main() -> tuple[float, float]:
        app = create_app(records.save_index(tmp_path))
        transport = httpx2.ASGITransport(app)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://x") as client,
        ):
            await client.get("/metrics")
            start_s = time.thread_time()
            for _ in range(20):
                await client.get("/metrics")
            between_s = time.thread_time()
            replies = [client.get("/metrics") for _ in range(20)]
            for reply in await asyncio.gather(*replies):
                assert "polydom_ready" in reply.text
            return between_s - start_s, time.thread_time() - between_s

    one_by_one_s, together_s = asyncio.run(main())
    assert together_s < one_by_one_s / 2
