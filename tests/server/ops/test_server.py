"""A running server is reloaded, told to leave, and spoken to with TLS."""

import json
import signal
import socket
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from polydom.server.__main__ import main
from tests.support.indexes.served import FEATURES_FILE, SPAM, save
from tests.support.processes.servers import (
    ADMIN,
    POLYDOM,
    ask,
    complaints,
    reload,
    serving,
    version_of,
)
from tests.support.waiting import wait_until

OWN = f"--features={FEATURES_FILE}"


@pytest.mark.parametrize("how", ["signal", "watch", "admin"])
def test_server_takes_a_new_file_while_requests_go_on(tmp_path: Path, how: str) -> None:
    path = save(tmp_path / "tiny.pdx")
    (tmp_path / "admin").write_text(ADMIN)
    options = {"watch": ["--watch"], "admin": [f"--admin-token-file={tmp_path}/admin"]}
    with serving(path, OWN, *options.get(how, [])) as (process, port):
        old = version_of(port)
        save(path, 0.9)
        if how == "signal":
            process.send_signal(signal.SIGHUP)
        elif how == "admin":
            status, facts = reload(port, ADMIN)
            assert status == 200
            models: Any = facts["models"]
            assert [model["state"] for model in models] == ["READY"]
            assert models[0]["version"] == version_of(port)
        wait_until(lambda: version_of(port) != old, process)
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    (line,) = (line for line in err.splitlines() if "compiling" not in line)
    assert line.startswith("polydom: INFO: model tiny: version ")


def test_server_goes_on_with_what_it_has_where_a_file_is_bad(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.pdx")
    (tmp_path / "admin").write_text(ADMIN)
    option = f"--admin-token-file={tmp_path}/admin"
    with serving(path, OWN, option) as (process, port):
        old = version_of(port)
        content = bytearray(path.read_bytes())
        content[-100] ^= 1
        path.with_suffix(".tmp").write_bytes(content)
        path.with_suffix(".tmp").replace(path)
        status, failure = reload(port, ADMIN)
        assert (status, failure["code"]) == (422, "reload_failed")
        assert str(tmp_path) not in str(failure)
        assert version_of(port) == old
        metrics = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
        assert b'polydom_reloads_total{model="tiny",result="failed"} 1.0' in metrics
        process.terminate()
        _, err = process.communicate(timeout=20)
    assert f"{path}: damaged: its checksum does not match" in err


def test_server_has_no_way_to_reload_for_who_has_no_token(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.pdx")
    (tmp_path / "admin").write_text(ADMIN)
    with serving(path, OWN) as (_, port):
        assert reload(port, ADMIN)[0] == 404
    with serving(path, OWN, f"--admin-token-file={tmp_path}/admin") as (_, port):
        assert reload(port, ADMIN[:-1])[0] == 401


# Signals that a server cannot or should not survive: it is killed, or has a fault.
FATAL = {"KILL", "ILL", "TRAP", "ABRT", "BUS", "FPE", "SEGV", "SYS", "XCPU"}
# Those that end nobody, or are to end the server, or make it reload.
OTHERS = {
    *("CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH"),
    *("TERM", "INT", "QUIT", "HUP"),
}


@pytest.mark.skipif(not hasattr(signal, "SIGQUIT"), reason="needs POSIX signals")
@pytest.mark.parametrize("workers", [1, 2])
def test_server_survives_signals_that_mean_nothing_and_drains_on_sigquit(
    tmp_path: Path, workers: int
) -> None:
    named = {getattr(signal, f"SIG{name}", None) for name in FATAL | OTHERS}
    strays = sorted(signal.valid_signals() - named)
    assert {signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM} < {*strays}
    path = save(tmp_path / "tiny.pdx")
    with serving(path, OWN, f"--workers={workers}") as (process, port):
        for number in strays:
            process.send_signal(number)
        wait_until(lambda: ask(port, "GET", "/readyz")[0] == 200, process)
        with connection(port) as idle, connection(port) as way:
            idle.sendall(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n")
            assert idle.recv(1000).startswith(b"HTTP/1.1 200")
            way.sendall(
                b"POST /v1/predict HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
                b"content-type: text/plain\r\ncontent-length: 1\r\n\r\n"
            )
            assert way.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
            process.send_signal(signal.SIGQUIT)
            assert idle.recv(1000) == b""
            way.sendall(b"x")  # what has begun is answered
            assert way.recv(1000).startswith(b"HTTP/1.1 200")
        _, err = process.communicate(timeout=20)
    assert (process.returncode, complaints(err)) == (0, "")


def connection(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=60)


def test_server_that_leaves_says_so_and_still_answers(tmp_path: Path) -> None:
    path = save(tmp_path / "tiny.pdx")
    with serving(path, OWN, "--leave-s=60", "--log-format=json") as (process, port):
        process.terminate()
        wait_until(lambda: ask(port, "GET", "/readyz")[0] == 503, process)
        assert "about to stop" in str(ask(port, "GET", "/readyz")[1]["error"])
        assert (
            ask(port, "POST", "/v1/predict", SPAM.encode(), content_type="text/plain")[
                0
            ]
            == 200
        )
        process.terminate()  # once more: now
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    events = [json.loads(line) for line in err.splitlines()]
    assert [event["event"] for event in events] == ["start", "stop"]
    assert events[0]["models"] == ["tiny"]
    assert {"time", "level", "message", "pid"} <= events[0].keys()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--ssl-keyfile=x",), "--ssl-keyfile needs --ssl-certfile"),
        (("--ssl-certfile=none", "--ssl-keyfile=x"), "No such file"),
        (("--ssl-certfile=tiny.pdx",), "--ssl-certfile tiny.pdx"),
        (("--leave-s=nan",), "--leave-s nan: a finite number, 0 or more"),
        (("--token-file=none",), "none: No such file"),
        (("--admin-token-file=tiny.pdx",), "tiny.pdx: "),
        (("--log-format=xml",), "--log-format xml: text or json is needed"),
    ],
)
def test_serve_says_in_one_line_what_it_cannot_use(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    save(tmp_path / "tiny.pdx")
    assert main(["serve", "tiny.pdx", OWN, "--port=0", *options]) == 1
    err = capsys.readouterr().err
    assert err.startswith("polydom: ")
    assert err.count("\n") == 1
    assert message in err


def test_server_speaks_tls_where_it_has_a_certificate(pem: Path) -> None:
    path = save(pem / "tiny.pdx")
    options = ["--ssl-certfile=certificate", "--ssl-keyfile=key"]
    command = [*POLYDOM, "serve", str(path), OWN, "--port=0", *options]
    with subprocess.Popen(
        command, cwd=pem, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            assert address.startswith("https://")
            context = ssl.create_default_context(cafile=str(pem / "certificate"))
            with urllib.request.urlopen(f"{address}/livez", context=context) as reply:
                assert json.load(reply) == {"status": "ok"}
        finally:
            process.terminate()
    assert process.returncode == 0
