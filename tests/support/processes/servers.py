"""The `polydom` command and a real server, each in a process of its own."""

import http.client
import json
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.support.indexes.served import HAM
from tests.support.processes.forked_process import ForkedProcess, run_forked
from tests.support.waiting import wait_until

POLYDOM = (sys.executable, "-m", "polydom.server")
STOP_S = 20
ANSWER_S = 180  # for gates, too, which import and compile on a busy machine
ADMIN = "an-admin-token-for-tests"


def polydom(arguments: Sequence[str], folder: Path) -> str:
    """Run a command that must succeed; what it printed."""
    done = run_forked(["polydom", *arguments], folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def serving(
    path: Path | str,
    *options: str,
    folder: Path | None = None,
    log: Path | None = None,
    wait: bool = True,
) -> Iterator[tuple[ForkedProcess, int]]:
    """A server process and its port, once it is ready, if that is waited for.

    A long log goes to a file.
    """
    process = ForkedProcess(
        ["polydom", "serve", str(path), "--port=0", *options], folder, log
    )
    try:
        line = process.stdout.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
        assert found, (line, process.communicate(timeout=STOP_S))
        port = int(found[1])
        if wait:
            wait_until(lambda: is_ready(port), process)
        yield process, port
    finally:
        process.kill()
        process.communicate(timeout=STOP_S)


def is_ready(port: int) -> bool:
    """Whether a server says so; one that compiles for seconds may drop who asks."""
    try:
        return ask(port, "GET", "/readyz")[0] == 200
    except ConnectionError:
        return False


def ask(
    port: int, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, dict[str, object]]:
    """Status and body of one request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=ANSWER_S)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    try:
        connection.request(method, path, body or None, names)
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    finally:
        connection.close()


def version_of(port: int) -> str:
    status, answer = ask(
        port, "POST", "/v1/predict", HAM.encode(), content_type="text/plain"
    )
    assert status == 200
    return str(answer["index_version"])


def reload(port: int, token: str, query: str = "") -> tuple[int, dict[str, object]]:
    path = f"/v1/admin/reload{query}"
    return ask(port, "POST", path, authorization=f"Bearer {token}")


def complaints(said: str) -> str:
    """What a server wrote to stderr, but that it compiles: the first one here does."""
    lines = said.splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("polydom: compiling"))
