"""`polydom top` shows what a real server counted, and says why it cannot."""

import contextlib
import http.server
import os
import pty
import select
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest

from polydom.features.errors import BadInput
from polydom.server.cli.top import Counts, read_counts, remember
from tests.support import records
from tests.support.commands import run
from tests.support.servers import POLYDOM, ask, serving

TOKEN = "a-token-of-some-user-of-models"
PERSON = b'{"record": {"age": 31, "height": 1.7, "job": "nurse"}, "budget_ms": 900}'
PATIENCE_S = 30.0


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """A server of two models behind a token, which was asked seven times."""
    folder = tmp_path_factory.mktemp("top")
    path = records.save_index(folder)
    (folder / "tokens").write_text(TOKEN)
    with serving(path, f"twin={path}", "--token-file", "tokens", folder=folder) as (
        _,
        port,
    ):
        json = {"content_type": "application/json", "authorization": f"Bearer {TOKEN}"}
        for model in ["people"] * 5 + ["twin"] * 2:
            assert ask(port, "POST", f"/v1/predict?model={model}", PERSON, **json)
        yield port


@pytest.fixture
def tokens(tmp_path: Path) -> list[str]:
    (tmp_path / "tokens").write_text(TOKEN)
    return ["--token-file", str(tmp_path / "tokens")]


def test_one_look_is_printed_where_there_is_no_terminal(
    port: int, tokens: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = run(capsys, "top", f"http://127.0.0.1:{port}", *tokens)
    assert code == 0
    (answers,) = [line for line in out.splitlines() if line.startswith(" answers   ")]
    assert answers.split() == ["answers", "0", "0", "7"]
    assert "person, work" in out
    options = ["--model", "twin", *tokens]
    code, out, _ = run(capsys, "top", f"http://127.0.0.1:{port}", *options)
    (answers,) = [line for line in out.splitlines() if line.startswith(" answers   ")]
    assert (code, answers.split()[-1]) == (0, "2")


def test_a_terminal_is_drawn_anew_until_it_is_interrupted(
    port: int, tokens: list[str]
) -> None:
    mine, theirs = pty.openpty()
    url = f"http://127.0.0.1:{port}"
    shown = subprocess.Popen(
        [*POLYDOM, "top", url, *tokens, "--every", "0.1"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"},
    )
    os.close(theirs)
    drawn, deadline = b"", time.monotonic() + PATIENCE_S
    while drawn.count(b"since the start") < 3 and time.monotonic() < deadline:
        if select.select([mine], [], [], 1.0)[0]:
            drawn += os.read(mine, 65536)
    try:
        shown.send_signal(signal.SIGINT)
        with contextlib.suppress(OSError):  # the other end is closed
            while time.monotonic() < deadline and select.select([mine], [], [], 1.0)[0]:
                if not os.read(mine, 65536):
                    break
        assert shown.wait(PATIENCE_S) == 0
    finally:
        shown.kill()
        shown.wait()
        os.close(mine)
    assert drawn.count(b"since the start") >= 3
    assert b"person, work" in drawn


def test_what_is_wrong_is_said(
    port: int, tokens: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"http://127.0.0.1:{port}"
    code, _, err = run(capsys, "top", url)
    assert (code, err) == (1, f"polydom: {url}: 401 Unauthorized; give --token-file\n")
    code, _, err = run(capsys, "top", url, *tokens, "--model", "none")
    assert (code, err) == (
        1,
        "polydom: no model is called 'none'; served: people, twin\n",
    )
    code, _, err = run(capsys, "top", "nowhere")
    assert (code, "is no address such as" in err) == (1, True)
    code, _, err = run(capsys, "top", "http://127.0.0.1:9")
    assert (code, "http://127.0.0.1:9 does not answer" in err) == (1, True)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_token_follows_a_redirect(
    tokens: list[str], capsys: pytest.CaptureFixture[str], status: int
) -> None:
    asked: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, self.headers["authorization"]))
            self.send_response(status)
            self.send_header("location", f"http://localhost:{port}/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    port = server.server_port
    threading.Thread(target=server.serve_forever).start()
    try:
        code, _, err = run(capsys, "top", f"http://127.0.0.1:{port}", *tokens)
    finally:
        server.shutdown()
        server.server_close()
    assert asked == [("/metrics", f"Bearer {TOKEN}")]
    assert code == 1
    assert f"it leads to http://localhost:{port}/elsewhere" in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize("url", ["file:///etc", "ftp://127.0.0.1", "data:x", ""])
def test_what_is_no_address_of_a_server_is_refused(
    capsys: pytest.CaptureFixture[str], url: str
) -> None:
    code, _, err = run(capsys, "top", url)
    assert (code, "is no address such as" in err) == (1, True)


def test_a_server_of_another_kind_is_told_apart() -> None:
    with pytest.raises(BadInput, match="no server of polydom"):
        read_counts("<html>}{ nothing\n", None, 0.0)
    assert read_counts("", None, 0.0).answers.total() == 0


def test_counts_of_all_workers_are_added_and_those_of_other_models_left_out() -> None:
    def line(model: str, features: str, reason: str, met: str, worker: int) -> str:
        labels = (
            f'model="{model}",features="{features}",reason="{reason}",'
            f'budget_met="{met}",worker="{worker}"'
        )
        return f"polydom_answers_total{{{labels}}} {worker + 3}\n"

    text = (
        "# TYPE polydom_answers counter\n"
        + line("a", "x y", "", "true", 0)
        + line("a", "x y", "", "true", 1)
        + line("a", "", "budget", "false", 1)
        + line("b", "z", "", "true", 6)
    )
    counts = read_counts(text, "a", 0.0)
    assert counts.answers == {("x y", "", True): 7, ("", "budget", False): 4}
    assert counts.in_time == "63.6%"
    assert read_counts(text, None, 0.0).answers.total() == 20


def test_a_server_that_was_started_anew_begins_anew() -> None:
    history = deque([_counted(0.0, 5), _counted(1.0, 9)])
    remember(history, _counted(2.0, 3))
    assert [one.at_s for one in history] == [2.0]
    for second in range(3, 1000):
        remember(history, _counted(float(second), second))
    assert history[-1].at_s - history[0].at_s == 300.0
    assert history[-1].since(history[0]).answers.total() == 300


def test_times_are_bounds_that_so_many_keep_to() -> None:
    counts = _counted(0.0, 10)
    assert counts.within(0.5) == "-"
    counts.latency.update({0.001: 4, 0.002: 9, float("inf"): 10})
    assert [counts.within(share) for share in (0.4, 0.5, 0.9, 0.99)] == [
        "≤ 1.00 ms",
        "≤ 2.00 ms",
        "≤ 2.00 ms",
        "> 10 s",
    ]
    assert Counts(0.0).in_time == "-"


def _counted(at_s: float, answers: int) -> Counts:
    counts = Counts(at_s)
    counts.answers["x", "", True] = answers
    return counts
