"""A real Redis server on a free port, which tests may stop and start again."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import redis

from polydom.server.ops.server import free_port
from tests.support.absent import absent
from tests.support.waiting import wait_until


class RedisServer:
    """A server whose data are lost when it stops."""

    def __init__(self, program: str, folder: str) -> None:
        self.port = free_port("127.0.0.1", 0)
        self.address = f"redis://127.0.0.1:{self.port}/0"
        self.client: Any = redis.Redis(port=self.port)
        self._command = [program, "--port", str(self.port), "--bind", "127.0.0.1"]
        self._command += ["--save", "", "--appendonly", "no", "--dir", folder]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start, and return when the server answers."""
        self._process = subprocess.Popen(self._command, stdout=subprocess.DEVNULL)
        wait_until(self._answers, self._process)

    def kill(self) -> None:
        """End at once: connections break."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            return bool(self.client.ping())
        except redis.ConnectionError:
            return False


@contextmanager
def serving_redis() -> Iterator[RedisServer]:
    """A server that runs; the test is skipped, or fails in CI, if none is here."""
    program = shutil.which("redis-server")
    if program is None:
        absent("no redis-server is here: `make databases` installs Debian's")
    with tempfile.TemporaryDirectory(prefix="polydom-") as folder:
        server = RedisServer(program, folder)
        server.start()
        try:
            yield server
        finally:
            server.kill()
            server.client.close()
