"""A polydom server in a process of its own, for the benchmarks that ask one."""

import http.client
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

WAIT_S = 60.0


@contextmanager
def running_server(index: Path, *options: str) -> Iterator[int]:
    """Serve `index` on a free port of this machine until the block ends."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "polydom.server", "serve", str(index)]
    server = subprocess.Popen([*command, "--port", str(port), *options])
    try:
        wait_ready(port)
        yield port
    finally:
        server.terminate()
        server.wait()


def wait_ready(port: int) -> None:
    """Return when `/readyz` says yes; TimeoutError after a minute."""
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.05)
        finally:
            connection.close()
    raise TimeoutError(f"no server is ready on port {port} after {WAIT_S:.0f} s")
