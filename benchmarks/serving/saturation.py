"""A server asked as fast as it answers, and what a request costs it."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .kernels.native_load import closed_loop
from .open_loop import Load

CONNECTIONS = (1, 32)
START_S = 90.0


@dataclass
class Contender:
    """A server process, and what was measured of it by number of connections."""

    name: str
    port: int
    bodies: list[bytes]
    path: str
    runs: dict[int, list[dict[str, float]]] = field(default_factory=dict)
    process: subprocess.Popen[bytes] = field(init=False)
    log: Path = field(init=False)

    @contextlib.contextmanager
    def started(self, command: list[str], folder: Path) -> Iterator[None]:
        """Start it; it answers when this begins, and is gone when it ends."""
        self.log = folder / f"{self.name}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, cwd=folder
            )
            try:
                wait_for(self)
                yield
            finally:
                with contextlib.suppress(ProcessLookupError):
                    self.go_on()
                    os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()

    def requests(self) -> list[bytes]:
        """Whole requests, each with an id of its own, as a proxy gives it."""
        return [
            b"POST %b HTTP/1.1\r\nhost: 127.0.0.1:%d\r\ncontent-length: %d\r\n"
            b"content-type: application/json\r\nx-request-id: %d\r\n\r\n%b"
            % (self.path.encode(), self.port, len(body), number, body)
            for number, body in enumerate(self.bodies)
        ]

    def pause(self) -> None:
        os.killpg(self.process.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        os.killpg(self.process.pid, signal.SIGCONT)

    def cpu_s(self) -> float:
        """Seconds of processor time that the server's processes have used."""
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                fields = stat.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.process.pid:  # its session
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def memory_bytes(self) -> int:
        """Resident bytes of the server's process."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


def free_port() -> int:
    """A port that nobody uses now, nor the next one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port


def wait_for(contender: Contender) -> None:
    """Return once it answers a request with 200."""
    end_s = time.monotonic() + START_S
    while time.monotonic() < end_s and contender.process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            load = Load(contender.port, contender.requests()[:1], 1)
            if load.closed(0.0001)[0].status == 200:
                return
        time.sleep(0.05)
    said = contender.log.read_text(errors="replace")[-2000:]
    raise TimeoutError(f"{contender.name} did not answer; it said: {said}")


def saturate(contender: Contender, connections: int, seconds: float) -> None:
    """Measure what it answers when every connection always waits for an answer."""
    contender.go_on()
    before_s = contender.cpu_s()
    given = contender.port, contender.requests(), seconds
    came = closed_loop(*given, connections=connections)
    cpu_s = contender.cpu_s() - before_s
    done = ~np.isnan(came.done_s)
    took_us = (came.done_s - came.sent_s)[done] * 1e6
    measured = {
        "rate": len(took_us) / seconds,
        "p50_us": float(np.quantile(took_us, 0.5)),
        "p99_us": float(np.quantile(took_us, 0.99)),
        "cpu_us": cpu_s / len(took_us) * 1e6,
        "wrong": int((came.status[done] != 200).sum()),
    }
    contender.runs.setdefault(connections, []).append(measured)
    contender.pause()
