"""What the OpenAPI document says is what the server does; requests are drawn of it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.indexes.records import save_index as save_records
from tests.support.indexes.served import FEATURES_FILE, save_index
from tests.support.processes.servers import serving

TOKEN = "a-token-of-some-user-of-models"
# One document is for every index. What an index classifies and counts, and what goes
# together, it says in words: a request may follow it and be refused all the same.
# On a busy machine a budget may end before an item is read; the answer is a 504 then.
CONFIGURATION = """
[checks.not_a_server_error]
expected-statuses = ["2xx", "3xx", "4xx", "504"]

[[operations]]
include-path-regex = "^/v1/(predict|batch|admin/rollout)$|/infer$"
checks.positive_data_acceptance.enabled = false

[[operations]]
include-path-regex = "/unload$"
enabled = false
"""


# Routes whose answers depend on the kind of items.
OF_ITEMS = r"^/v1/(predict|batch|index.*)$|^/v2/models/\{name\}(/config|/infer|)$"


@pytest.mark.parametrize(
    ("kind", "routes", "tested"),
    [("text with tokens", ".", 29), ("record", OF_ITEMS, 9)],
    ids=["text with tokens", "record"],
)
def test_server_does_what_its_document_says(
    tmp_path: Path, kind: str, routes: str, tested: int
) -> None:
    (tmp_path / "schemathesis.toml").write_text(CONFIGURATION)
    (tmp_path / "token").write_text(TOKEN)
    options = [f"--admin-token-file={tmp_path / 'token'}"]
    if kind == "record":
        path = save_records(tmp_path)
    else:
        path = save_index(tmp_path)
        options.append(f"--features={FEATURES_FILE}")
        options.append(f"--token-file={tmp_path / 'token'}")
    log = tmp_path / "log"
    with serving(path, *options, log=log) as (_, port):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "schemathesis.cli"),
                *("--config-file", "schemathesis.toml"),
                *("run", f"http://127.0.0.1:{port}/openapi.json"),
                f"--include-path-regex={routes}",
                "--phases=examples,coverage,fuzzing",
                *("--max-examples=5", "--seed=1", "--generation-database=none"),
                *("--suppress-health-check=all", "--no-color"),
                *("--header", f"Authorization: Bearer {TOKEN}"),
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(rf"Tested: {tested}\b", done.stdout), done.stdout
    assert "Traceback" not in log.read_text("utf-8")
