"""A server asked as fast as it answers, by wrk if it is here; what a request costs."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from .open_loop import Load, latencies_s

CONNECTIONS = (1, 32)
START_S = 90.0
WRK = """
local requests, k = {}, 0
for line in io.lines("%s") do
  local head = {["content-type"] = "application/json"}
  head["x-request-id"] = tostring(#requests + 1)
  requests[#requests + 1] = {line, head}
end
init = function(arguments)
  for i, r in ipairs(requests) do requests[i] = wrk.format("POST", "%s", r[2], r[1]) end
end
request = function()
  k = k %% #requests + 1
  return requests[k]
end
done = function(summary, latency, all)
  local e = summary.errors
  local wrong = e.connect + e.read + e.write + e.status + e.timeout
  io.write(string.format("\\n%%d %%d %%d %%d %%d\\n", summary.requests,
    summary.duration, latency:percentile(50), latency:percentile(99), wrong))
end
"""


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
        """Whole requests, as wrk makes them."""
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


def saturate(
    contender: Contender, connections: int, seconds: float, folder: Path
) -> None:
    """Measure what it answers when every connection always waits for an answer."""
    contender.go_on()
    whole = seconds >= 1  # wrk counts them
    measure = with_wrk if whole and shutil.which("wrk") else with_own
    before_s = contender.cpu_s()
    measured = measure(contender, connections, seconds, folder)
    measured["cpu_us"] = (contender.cpu_s() - before_s) / measured["count"] * 1e6
    contender.runs.setdefault(connections, []).append(measured)
    contender.pause()


def with_wrk(
    contender: Contender, connections: int, seconds: float, folder: Path
) -> dict[str, float]:
    bodies, script = folder / f"{contender.name}.txt", folder / f"{contender.name}.lua"
    bodies.write_bytes(b"\n".join(contender.bodies))
    script.write_text(WRK % (bodies, contender.path))
    done = subprocess.run(
        [
            *("wrk", "-t1", f"-c{connections}", f"-d{seconds:.0f}s", f"-s{script}"),
            f"http://127.0.0.1:{contender.port}",
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    count, took_us, p50_us, p99_us, wrong = map(
        int, done.stdout.split("\n")[-2].split()
    )
    return {
        "count": count,
        "rate": count / took_us * 1e6,
        "p50_us": p50_us,
        "p99_us": p99_us,
        "wrong": wrong,
    }


def with_own(
    contender: Contender, connections: int, seconds: float, folder: Path
) -> dict[str, float]:
    exchanges = Load(contender.port, contender.requests(), connections).closed(seconds)
    took_s = latencies_s(exchanges)
    return {
        "count": len(exchanges),
        "rate": len(exchanges) / seconds,
        "p50_us": float(np.quantile(took_s, 0.5)) * 1e6,
        "p99_us": float(np.quantile(took_s, 0.99)) * 1e6,
        "wrong": sum(exchange.status != 200 for exchange in exchanges),
    }
