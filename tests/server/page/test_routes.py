"""Pages are given to anybody, with a policy, and their files are kept."""

import re
from pathlib import Path

from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.http.bearer_tokens import Access, Tokens
from polydom.server.page.assets import POLICY
from tests.support.indexes import records

ACCESS = Access(Tokens(["a-token-of-some-user-of-models"]))


def test_pages_need_no_token_and_hold_no_data(tmp_path: Path) -> None:
    index = records.save_index(tmp_path)
    with TestClient(create_app(index, access=ACCESS)) as client:
        for path in ("/", "/docs"):
            reply = client.get(path)
            assert (reply.status_code, reply.headers["content-type"]) == (
                200,
                "text/html; charset=utf-8",
            )
            assert reply.headers["content-security-policy"] == POLICY
            assert reply.headers["x-content-type-options"] == "nosniff"
            assert reply.headers["cache-control"] == "no-cache"
            assert "people" not in reply.text
            for file in re.findall(r'"(page/[^"]+)"', reply.text):
                own = client.get(f"/{file}")
                assert own.status_code == 200
                assert "immutable" in own.headers["cache-control"]
                assert own.headers["content-security-policy"] == POLICY
        for path in ("/openapi.json", "/v1/index", "/metrics", "/page/other/page.js"):
            assert client.get(path).status_code == 401


def test_page_can_be_left_out(tmp_path: Path) -> None:
    app = create_app(records.save_index(tmp_path), page=False)
    with TestClient(app) as client:
        assert client.get("/").status_code == 404
        assert client.get("/docs").status_code == 200


def test_files_of_another_version_are_not_here(tmp_path: Path) -> None:
    with TestClient(create_app(records.save_index(tmp_path))) as client:
        reply = client.get("/page/0123456789abcdef/page.js")
        assert (reply.status_code, reply.json()["code"]) == (404, "not_found")
        assert client.head("/").status_code == 200


def test_files_are_packed_for_those_who_can_unpack_them(tmp_path: Path) -> None:
    with TestClient(create_app(records.save_index(tmp_path))) as client:
        packed = client.get("/", headers={"accept-encoding": "br, gzip"})
        plain = client.get("/", headers={"accept-encoding": "identity"})
        assert packed.headers["content-encoding"] == "gzip"
        assert "content-encoding" not in plain.headers
        assert packed.headers["vary"] == plain.headers["vary"] == "accept-encoding"
        assert packed.text == plain.text
        lengths = [int(one.headers["content-length"]) for one in (packed, plain)]
        assert lengths[0] < lengths[1] / 2
