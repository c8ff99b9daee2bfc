"""`/docs` needs no other server, and runs nothing but its own script."""

import base64
import hashlib
import re
from pathlib import Path

from starlette.testclient import TestClient

from polydom.server.app import create_app
from polydom.server.http.bearer_tokens import Access, Tokens
from tests.support import records


def test_page_works_offline_and_without_a_token(tmp_path: Path) -> None:
    access = Access(Tokens(["a-token-of-some-user-of-models"]))
    with TestClient(create_app(records.save_index(tmp_path), access=access)) as client:
        reply = client.get("/docs")
        assert client.get("/openapi.json").status_code == 401
    assert (reply.status_code, reply.headers["content-type"]) == (
        200,
        "text/html; charset=utf-8",
    )
    assert not re.search(r"(https?:)?//[a-z]", reply.text)  # nothing from elsewhere
    assert not re.search(r"\bon[a-z]+=|style=|innerHTML|<script .|eval\(", reply.text)
    assert 'fetch(new URL("openapi.json", here)' in reply.text
    policy = dict(
        part.split(" ", 1)
        for part in reply.headers["content-security-policy"].split("; ")
    )
    assert policy.pop("default-src") == policy.pop("form-action") == "'none'"
    assert policy.pop("connect-src") == "'self'"
    for tag in ("script", "style"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", reply.text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert policy[f"{tag}-src"] == f"'sha256-{digest}'"
