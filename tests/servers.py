"""The `polydom` command and a real server, each in a process of its own."""

import http.client
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

POLYDOM = (sys.executable, "-m", "polydom.server")
WAIT_S = 60.0


def polydom(arguments: Sequence[str], folder: Path) -> str:
    """Run a command that must succeed; what it printed."""
    done = subprocess.run(
        [*POLYDOM, *arguments], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def running(arguments: Sequence[str], folder: Path) -> Iterator[int]:
    """Serve on a free port until the block ends, then stop as a user would."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen(
        [*POLYDOM, "serve", *arguments, "--port", str(port)], cwd=folder
    )
    try:
        _wait_ready(server, port)
        yield port
    finally:
        os.kill(server.pid, signal.SIGINT)
        assert server.wait(timeout=WAIT_S) == 0


def _wait_ready(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        assert server.poll() is None, "the server stopped"
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise TimeoutError(f"no server is ready on port {port}")
