"""Options of `polydom serve` out of a file and out of the environment."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.indexes.served import FEATURES_FILE
from tests.support.processes.commands import run
from tests.support.processes.servers import POLYDOM, STOP_S, ask

# What Kubernetes tells every pod beside a service that is called polydom.
SERVICE_LINKS = {
    "POLYDOM_SERVICE_HOST": "10.0.0.1",
    "POLYDOM_SERVICE_PORT": "8000",
    "POLYDOM_SERVICE_PORT_HTTP": "8000",
    "POLYDOM_PORT": "tcp://10.0.0.1:8000",
    "POLYDOM_PORT_8000_TCP": "tcp://10.0.0.1:8000",
    "POLYDOM_PORT_8000_TCP_PROTO": "tcp",
    "POLYDOM_PORT_8000_TCP_PORT": "8000",
    "POLYDOM_PORT_8000_TCP_ADDR": "10.0.0.1",
}


def test_options_go_before_variables_and_those_before_the_file(index: Path) -> None:
    file = index.parent / "settings.toml"
    file.write_text(
        f'indexes = ["mine={index}"]\nfeatures = ["{FEATURES_FILE}"]\nport = 0\n'
        "budget_ms = 30\nmax_budget_ms = 300\nqueue_limit = 7\nwatch = true\n"
    )
    own = {"POLYDOM_SETTINGS": str(file), "POLYDOM_MAX_BUDGET_MS": "400"}
    server = subprocess.Popen(
        [*POLYDOM, "serve", "--budget-ms", "20"],
        env={**os.environ, **SERVICE_LINKS, **own, "POLYDOM_HOST": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        found = re.search(r"serving mine at .*:(\d+)", server.stdout.readline())
        assert found, server.communicate(timeout=STOP_S)
        _, models = ask(int(found[1]), "GET", "/v1/models")
    finally:
        server.terminate()
        _, said = server.communicate(timeout=STOP_S)
    assert (models["budget_ms"], models["max_budget_ms"]) == (20.0, 400.0)
    assert "sets nothing" not in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("budget-ms = 3", "unknown key 'budget-ms'; did you mean 'budget_ms'?"),
        ('settings_file = "a"', "unknown key 'settings_file'; "),
        ("workers = 1.5", "workers: "),
        ("workers = 0", "workers: "),
        ('watch = "perhaps"', "watch: "),
        ("[budget]\nms = 3", "unknown key 'budget'; did you mean 'budget_ms'?"),
        ("[port]\nhttp = 3", "port is a table; a plain value is needed"),
        ("port 8000", "(at line 1, column 6); settings are TOML"),
    ],
)
def test_a_file_is_refused_with_the_key_that_is_wrong(
    index: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    file = index.parent / "settings.toml"
    file.write_text(text)
    code, _, err = run(capsys, "serve", index, "--settings", file)
    assert code == 1
    assert err.startswith(f"polydom: {file}: ")
    assert message in err


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capsys, "serve", "a.pdx", "--settings", "none.toml")
    assert (code, err) == (1, "polydom: none.toml: No such file or directory\n")


@pytest.mark.parametrize(
    ("variable", "value", "code", "message"),
    [
        ("POLYDOM_PORT", "http", 1, "polydom: POLYDOM_PORT=http: "),
        ("POLYDOM_WORKERS", "0", 1, "polydom: POLYDOM_WORKERS=0: "),
        ("POLYDOM_BUDGET_MS", "-1", 1, "polydom: --budget-ms -1: a finite number"),
        ("POLYDOM_INDEXES", "here.pdx", 1, "polydom: here.pdx: No such file"),
        ("POLYDOM_BUGDET_MS", "3", 2, "POLYDOM_BUGDET_MS sets nothing; POLYDOM_BUDGET"),
        ("POLYDOM_TOKEN", "x", 2, "POLYDOM_TOKEN sets nothing; POLYDOM_TOKEN_FILE do"),
    ],
)
def test_a_variable_is_refused_or_warned_of(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    variable: str,
    value: str,
    code: int,
    message: str,
) -> None:
    monkeypatch.setenv(variable, value)
    given = ["none.pdx"] if variable == "POLYDOM_BUDGET_MS" else []
    found, _, err = run(capsys, "serve", *given)
    assert found == code
    assert message in err
