"""The documented commands with curl itself, which asks before it sends much."""

import gzip
import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.indexes.served import FEATURES_FILE, SPAM
from tests.support.indexes.three_kinds import save_three
from tests.support.processes.servers import STOP_S, serving

CURL = shutil.which("curl")
pytestmark = pytest.mark.skipif(CURL is None, reason="curl is not installed")
TOKEN = "a-token-of-some-user-of-models"
EXPECT = ("-H", "Expect: 100-continue", "--expect100-timeout", "15")
LIMIT = 8 << 20


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("curl")
    files = [f"{name}={path}" for name, path in save_three(folder).items()]
    own = f"--features={FEATURES_FILE}"
    with serving(*files, own, "--budget-ms=900", log=folder / "log") as (_, port):
        yield f"http://127.0.0.1:{port}"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that asks for tokens."""
    folder = tmp_path_factory.mktemp("closed")
    (folder / "tokens").write_text(TOKEN)
    options = (f"--features={FEATURES_FILE}", f"--token-file={folder / 'tokens'}")
    with serving(save_three(folder)["texts"], *options) as (_, port):
        yield f"http://127.0.0.1:{port}"


def curl(folder: Path, body: bytes, *arguments: str) -> tuple[list[int], bytes]:
    """Statuses in the order in which they came, and the last one's body.

    curl waits 15 s to be told to go on, and sends nothing before.
    """
    (folder / "body").write_bytes(body)
    assert CURL is not None
    done = subprocess.run(
        [CURL, "-sS", "-D", "head", "-T", "body", "-X", "POST", *EXPECT, *arguments],
        cwd=folder,
        capture_output=True,
        timeout=3 * STOP_S,
    )
    assert done.returncode == 0, done.stderr
    lines = (folder / "head").read_bytes().splitlines()
    return [int(line[9:12]) for line in lines if line[:5] == b"HTTP/"], done.stdout


LINES = b"".join(
    json.dumps({"text": SPAM + " " * k}).encode() + b"\n" for k in [999] * 1500
)


def test_curl_is_told_to_send_a_batch_and_its_items_get_more_than_priors(
    url: str, tmp_path: Path
) -> None:
    assert len(LINES) > 1 << 20
    kind = ("-H", "Content-Type: application/jsonl")
    query = "/v1/batch?budget_ms=600000&count=1500"
    statuses, said = curl(tmp_path, LINES, *kind, url + query)
    assert statuses == [100, 200]
    *entries, totals = map(json.loads, said.splitlines())
    assert (totals["items"], totals["errors"]) == (1500, 0)
    assert {entry["features"][-1] for entry in entries} == {"words"}


def big_text() -> bytes:
    return (SPAM + " " * (2 << 20)).encode()


@pytest.mark.parametrize(
    ("path", "kind", "body"),
    [
        ("/v1/predict", "text/plain", big_text()),
        (
            "/v1/predict",
            "application/json",
            json.dumps({"text": big_text().decode()}).encode(),
        ),
        (
            "/v2/models/texts/infer",
            "application/json",
            json.dumps(
                {
                    "inputs": [
                        {
                            "name": "text",
                            "shape": [1],
                            "datatype": "BYTES",
                            "data": [big_text().decode()],
                        }
                    ]
                }
            ).encode(),
        ),
        (
            "/v1/batch?budget_ms=900",
            "application/json",
            json.dumps({"items": [{"text": big_text().decode()}]}).encode(),
        ),
    ],
)
def test_curl_is_told_to_send_what_is_long(
    url: str, tmp_path: Path, path: str, kind: str, body: bytes
) -> None:
    header = ("-H", f"Content-Type: {kind}")
    assert curl(tmp_path, body, *header, url + path)[0] == [100, 200]
    if not path.startswith("/v1/batch"):
        packed = ("-H", "Content-Encoding: gzip")
        body = gzip.compress(body)
        assert curl(tmp_path, body, *header, *packed, url + path)[0] == [100, 200]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/predict", 413),
        ("/v1/batch?budget_ms=900", 413),
        ("/v2/models/texts/infer", 413),
        ("/v1/batch?budget_ms=soon", 400),
        ("/v1/batch?budget_ms=900&model=novels", 404),
        ("/nothing", 404),
        ("/livez", 405),
    ],
)
def test_curl_is_refused_before_it_sends(
    url: str, tmp_path: Path, path: str, status: int
) -> None:
    kind = ("-H", "Content-Type: application/json")
    if "novels" in path:
        kind = ("-H", "Content-Type: application/jsonl")
    statuses, said = curl(tmp_path, b" " * (LIMIT + 1), *kind, url + path)
    assert statuses == [status]
    assert b"connection: close" in (tmp_path / "head").read_bytes().lower()
    assert json.loads(said)["code"]


def test_curl_is_refused_without_a_token_before_it_sends(
    closed: str, tmp_path: Path
) -> None:
    for path in ("/v1/predict", "/v1/batch?budget_ms=900", "/v2/models/texts/infer"):
        assert curl(tmp_path, LINES, closed + path)[0] == [401]
    known = ("-H", f"Authorization: Bearer {TOKEN}", "-H", "Content-Type: text/plain")
    assert curl(tmp_path, LINES, *known, f"{closed}/v1/predict")[0] == [100, 200]
