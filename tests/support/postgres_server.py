"""A real PostgreSQL server in a folder of its own, which tests may stop and start."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg

from polydom.server.ops.server import free_port
from tests.support.absent import absent
from tests.support.waiting import wait_until

USER, PASSWORD = "polydom", "a:secret@/word"
QUOTED = "a%3Asecret%40%2Fword"
SETTINGS = ("fsync=off", "shared_buffers=16MB", "max_connections=50")
DEBIANS = Path("/usr/lib/postgresql")
# PostgreSQL refuses to run as root.
OTHERS = ("postgres", "nobody")


def find_postgres() -> Path | None:
    """Folder of `initdb` and `postgres`: on the path, or Debian's latest."""
    if sys.platform == "win32":  # it ends otherwise than by signals
        return None
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = DEBIANS.glob("*/bin/initdb")
    return max((path.parent for path in found), default=None, key=_version)


def _version(folder: Path) -> float:
    return float(folder.parent.name)


class PostgresServer:
    """A server on the loopback that asks for a password."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.port = free_port("127.0.0.1", 0)
        self.place = f"127.0.0.1:{self.port}"
        self.address = f"postgresql://{USER}:{QUOTED}@{self.place}/postgres"
        self._programs = programs
        self._data = folder / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {"cwd": folder}
        if os.geteuid() == 0:
            user, group = _other_user()
            self._as |= {"user": user, "group": group, "extra_groups": []}
            os.chown(folder, user, group)
        secret = folder / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        made = [str(programs / "initdb"), "--no-sync", "-D", str(self._data)]
        made += [f"--pwfile={secret}", "--auth=scram-sha-256", "-U", USER]
        made += ["--encoding=UTF8", "--locale=C"]
        subprocess.run(made, check=True, capture_output=True, **self._as)

    def start(self) -> None:
        """Start, and return when the server answers."""
        command = [str(self._programs / "postgres"), "-D", str(self._data)]
        command += ["-k", "", "-h", "127.0.0.1", "-p", str(self.port)]
        for setting in SETTINGS:
            command += ["-c", setting]
        quiet = subprocess.DEVNULL
        self._process = subprocess.Popen(command, stderr=quiet, **self._as)
        wait_until(self._answers, self._process)

    def stop(self) -> None:
        """End at once: connections break."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait()
            self._process = None

    def execute(self, *statements: str) -> None:
        """Carry out statements, such as CREATE TABLE."""

        async def carry_out() -> None:
            connection = await asyncpg.connect(self.address)
            try:
                for statement in statements:
                    await connection.execute(statement)
            finally:
                await connection.close()

        asyncio.run(carry_out())

    def _answers(self) -> bool:
        try:
            self.execute("SELECT 1")
        except (OSError, asyncpg.CannotConnectNowError):
            return False
        return True


def _other_user() -> tuple[int, int]:
    """User and group of an account that is not root."""
    import pwd  # not on Windows

    known = {user.pw_name: user for user in pwd.getpwall()}
    user = next(known[name] for name in OTHERS if name in known)
    return user.pw_uid, user.pw_gid


@contextmanager
def serving_postgres() -> Iterator[PostgresServer]:
    """A server that runs; the test is skipped, or fails in CI, if none is here."""
    programs = find_postgres()
    if programs is None:
        absent("no PostgreSQL is here: `make databases` installs Debian's")
    with tempfile.TemporaryDirectory(prefix="polydom-") as folder:
        server = PostgresServer(programs, Path(folder))
        server.start()
        try:
            yield server
        finally:
            server.stop()
