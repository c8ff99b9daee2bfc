"""Sources of columns on loopback: each answers a key after the latency drawn for it.

A source is a process with one event loop, which answers `POST {"keys": [[17]]}` with
`{"values": [{...}]}`, as a fetch over HTTP asks. The latency of a key is a function of
the seed and the key alone, so that all who ask for a key wait equally long.
"""

import asyncio
import contextlib
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..fine_selector import FineSelector
from ..report import CORES, pin
from ..serving.served import CONTEXT
from .tables import FAST, SLOW, Record

NEVER = 0.005  # share of keys that are never answered
SEED = 7
RAMP_STEPS = 101
Mode = Literal["up", "hangs", "refuses"]
Draw = Callable[[np.random.Generator, int], NDArray[np.float64]]


class LogNormal(NamedTuple):
    """Latencies with a median and a 99th percentile in milliseconds."""

    p50_ms: float
    p99_ms: float

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw latencies in seconds."""
        spread = math.log(self.p99_ms / self.p50_ms) / 2.3263
        return rng.lognormal(math.log(self.p50_ms * 1e-3), spread, count)


class TwoHumps(NamedTuple):
    """Latencies of a cache: some keys miss it, and are answered by what is behind."""

    hit: LogNormal
    miss: LogNormal
    missed: float  # share of the keys

    def draw(self, rng: np.random.Generator, count: int) -> NDArray[np.float64]:
        """Draw latencies in seconds."""
        hits, misses = self.hit.draw(rng, count), self.miss.draw(rng, count)
        return np.where(rng.random(count) < self.missed, misses, hits)


LAWS: dict[str, dict[str, LogNormal | TwoHumps]] = {
    "log-normal": {FAST: LogNormal(1, 8), SLOW: LogNormal(12, 90)},
    "two-humped": {
        FAST: TwoHumps(LogNormal(0.8, 2), LogNormal(15, 40), 0.2),
        SLOW: TwoHumps(LogNormal(4, 10), LogNormal(60, 120), 0.3),
    },
}


def draw_latencies(law: str, fetch: str, count: int) -> NDArray[np.float64]:
    """Draw the latency of each key in seconds; infinite for those never answered."""
    rng = np.random.default_rng([SEED, [FAST, SLOW].index(fetch)])
    found = LAWS[law][fetch].draw(rng, count)
    found[rng.random(count) < NEVER] = np.inf
    return found


class Source:
    """A running source, as its caller sees it."""

    def __init__(self, port: int, pipe: Connection) -> None:
        self.port = port
        self._pipe = pipe

    def _command(self, name: str, value: Any = None) -> Any:
        self._pipe.send((name, value))
        return self._pipe.recv()

    def become(self, mode: Mode) -> None:
        """Answer, hang without an answer, or refuse all connections."""
        self._command("become", mode)

    def slow_down(self, factor: float) -> None:
        """Multiply the latencies of keys that are asked for from now on."""
        self._command("slow_down", factor)

    def asked(self) -> int:
        """Return how many keys were asked for since the last call."""
        return int(self._command("asked"))


@contextlib.contextmanager
def source(
    latencies_s: NDArray[np.float64], values: Sequence[Record]
) -> Iterator[Source]:
    """Run a source in a process of its own, on the client's core if there are two."""
    near, far = CONTEXT.Pipe()
    core = 0 if len(CORES) > 1 else None
    process = CONTEXT.Process(
        target=_run, args=(far, core, latencies_s, values), daemon=True
    )
    process.start()
    try:
        yield Source(near.recv(), near)
    finally:
        process.kill()
        process.join()


@contextlib.contextmanager
def on_time(
    commands: Sequence[tuple[float, Callable[[], None]]],
) -> Iterator[list[float]]:
    """Call each function so many seconds from now; gives the true moments."""
    began_s, found = time.perf_counter(), list[float]()

    def call() -> None:
        for after_s, command in commands:
            time.sleep(max(0.0, began_s + after_s - time.perf_counter()))
            command()
            found.append(time.perf_counter() - began_s)

    thread = threading.Thread(target=call)
    thread.start()
    try:
        yield found
    finally:
        thread.join()


def ramp(
    source: Source, factor: float, begin_s: float, end_s: float
) -> contextlib.AbstractContextManager[list[float]]:
    """Let a source become slower up to a factor, and as slowly what it was again."""
    return on_time(
        [
            (
                begin_s + share * (end_s - begin_s),
                partial(source.slow_down, factor ** (1 - abs(2 * share - 1))),
            )
            for share in np.linspace(0, 1, RAMP_STEPS).tolist()
        ]
    )


def _run(
    pipe: Connection,
    core: int | None,
    latencies_s: NDArray[np.float64],
    values: Sequence[Record],
) -> None:
    if core is not None:
        pin(core)
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(FineSelector())
    ) as runner:
        runner.run(_Server(latencies_s.tolist(), values).serve(pipe))


class _Server:
    """The source itself, and what it was told."""

    def __init__(self, latencies_s: list[float], values: Sequence[Record]) -> None:
        self.latencies_s = latencies_s
        self.values = [json.dumps(one) for one in values]
        self.open = set[_Connection]()
        self.mode: Mode = "up"
        self.factor = 1.0
        self.count = 0
        self._port = 0
        self._listener: asyncio.Server | None = None

    async def serve(self, pipe: Connection) -> None:
        """Listen until the process ends, and do what comes over the pipe."""
        loop, commands = asyncio.get_running_loop(), asyncio.Queue[tuple[str, Any]]()
        await self._listen()
        pipe.send(self._port)
        loop.add_reader(pipe.fileno(), lambda: commands.put_nowait(pipe.recv()))
        while True:
            name, value = await commands.get()
            pipe.send(await getattr(self, name)(value))

    async def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        self._listener = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", self._port, backlog=1024
        )
        self._port = self._listener.sockets[0].getsockname()[1]

    async def become(self, mode: Mode) -> None:
        if mode == "refuses" and self._listener is not None:
            self._listener.close()
            self._listener = None
            for connection in [*self.open]:
                connection.transport.abort()
        elif self._listener is None:
            await self._listen()
        self.mode = mode

    async def slow_down(self, factor: float) -> None:
        self.factor = factor

    async def asked(self, _: None) -> int:
        count, self.count = self.count, 0
        return count


class _Connection(asyncio.Protocol):
    """A kept connection with one request under way, as HTTP clients use it."""

    transport: asyncio.Transport

    def __init__(self, server: _Server) -> None:
        self._server = server
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.open.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._server.open.discard(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0]
        if not blank or len(body) < int(length):
            return
        self._received = b""
        server, keys = self._server, [key for (key,) in json.loads(body)["keys"]]
        server.count += len(keys)
        delay_s = server.factor * max(server.latencies_s[key] for key in keys)
        if server.mode == "up" and delay_s < math.inf:
            loop = asyncio.get_running_loop()
            loop.call_later(delay_s, self._answer, keys)

    def _answer(self, keys: Sequence[int]) -> None:
        values = ",".join(self._server.values[key] for key in keys)
        body = f'{{"values":[{values}]}}'
        head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length:"
        self.transport.write(f"{head} {len(body)}\r\n\r\n{body}".encode())
