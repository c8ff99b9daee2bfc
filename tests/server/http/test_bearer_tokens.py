"""Only who has a token gets through, and tokens are not found out by asking."""

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from polydom.features.errors import BadInput
from polydom.server.app import create_app
from polydom.server.errors import Unauthorized
from polydom.server.http.bearer_tokens import OPEN_PATHS, Access, Tokens
from tests.support.indexes.served import FEATURES_FILE, SPAM, save_index
from tests.support.waiting import until_ready

FIRST, SECOND = "a-token-of-some-length", "another.token/of+length=="


def headers(value: str) -> tuple[tuple[bytes, bytes], ...]:
    return ((b"host", b"x"), (b"authorization", value.encode()))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# of the first client\n{FIRST}\n\n  {SECOND}  \n")
    return path


@pytest.fixture
def client(file: Path, tmp_path: Path) -> Iterator[TestClient]:
    access = Access(tokens=Tokens.read(file))
    app = create_app(save_index(tmp_path), features=[FEATURES_FILE], access=access)
    with TestClient(app) as client:
        until_ready(client)
        yield client


@pytest.mark.parametrize("token", [FIRST, SECOND])
@pytest.mark.parametrize("scheme", ["Bearer ", "bearer ", "BEARER  "])
def test_tokens_let_each_of_them_pass(file: Path, token: str, scheme: str) -> None:
    Tokens.read(file).check(headers(scheme + token))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        f"Basic {FIRST}",
        FIRST,
        f"Bearer {FIRST}x",
        "Bearer \xff",
        f"Bearer {FIRST[:-1]}",
        f"Bearer {FIRST} {SECOND}",
        "Bearer # of the first client",
    ],
)
def test_tokens_let_nothing_else_pass(file: Path, value: str) -> None:
    with pytest.raises(Unauthorized, match="a token is needed"):
        Tokens.read(file).check(headers(value))


def test_tokens_are_given_once(file: Path) -> None:
    tokens = Tokens.read(file)
    for given in ((), headers(f"Bearer {FIRST}") * 2):
        with pytest.raises(Unauthorized):
            tokens.check(given)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "there is no token"),
        ("# nothing\n", "there is no token"),
        (f"{FIRST}\nshort\n", "token 2 has 5 characters; at least 16"),
        (f"{FIRST} and more", "token 1 has a character that"),
        ("=" * 20, "token 1 has a character that"),
    ],
)
def test_tokens_refuse_a_file_that_protects_nothing(
    tmp_path: Path, content: str, message: str
) -> None:
    (tmp_path / "tokens").write_text(content)
    with pytest.raises(BadInput, match=message) as caught:
        Tokens.read(tmp_path / "tokens")
    assert FIRST not in str(caught.value)


def test_tokens_refuse_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        Tokens.read(tmp_path / "none")
    (tmp_path / "tokens").write_bytes(b"\xff" * 20)
    with pytest.raises(BadInput, match="utf-8"):
        Tokens.read(tmp_path / "tokens")


def test_app_asks_for_a_token_everywhere_but_at_its_probes(client: TestClient) -> None:
    known = {"authorization": f"Bearer {SECOND}"}
    for path in ("/v1/index", "/v1/models", "/metrics", "/openapi.json"):
        reply = client.get(path)
        assert (reply.status_code, reply.json()["code"]) == (401, "unauthorized")
        assert reply.headers["www-authenticate"] == 'Bearer realm="polydom"'
        assert client.get(path, headers=known).status_code == 200
    assert client.get("/nothing").status_code == 401
    for path in (*OPEN_PATHS, "/", "/docs"):
        assert client.get(path).status_code == 200
    body = {"text": SPAM, "budget_ms": 900}
    assert client.post("/v1/predict", json=body).status_code == 401
    assert client.post("/v1/predict", json=body, headers=known).status_code == 200


def test_app_unpacks_what_comes_compressed(client: TestClient) -> None:
    known = {"authorization": f"Bearer {FIRST}", "content-type": "application/json"}
    body = gzip.compress(json.dumps({"text": SPAM, "budget_ms": 900}).encode())
    for coding, status in (("gzip", 200), ("deflate", 400), ("zstd", 415)):
        coded = known | {"content-encoding": coding}
        reply = client.post("/v1/predict", content=body, headers=coded)
        assert reply.status_code == status
    assert reply.json()["code"] == "unsupported_encoding"
