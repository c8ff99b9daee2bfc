"""What does a fetch cost the server's processor, and what do 1,000 waiting requests?

python -m benchmarks overhead

*A fetch* costs what the server's process computes for a request, less what it computes
for the same row with all columns in the request, for each fetch. *Functions* answer at
once, so that nothing but polydom's own work is left. *HTTP* asks sources that answer at
once, and *Redis* a real redis-server, if one is here; what the same calls take of
aiohttp or redis-py alone, in a process of its own, is beside them.

*Waiting*: connections send requests without a pause that bring all columns, while 1,000
others wait for a source that hangs, and while none does.
"""

import argparse
import asyncio
import contextlib
import json
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import redis.asyncio

from tests.support.redis_server import RedisServer

from .. import report
from ..new_process import in_new_process
from ..serving.open_loop import Connection, Load
from .mix import (
    AT_ONCE,
    SETTINGS,
    Requests,
    Server,
    build_index,
    post,
    serve_polydom,
    write_calls,
    write_fetches,
)
from .sources import Source, source
from .tables import KEY, SLOW, TABLES, SplitTable

CONNECTIONS = 8
BARE_CALLS = 3000
LONG_MS = 60_000.0
# else requests are refused, as they would wait to be read: most of many that come at
# once, and any while others use the processor
PATIENT = replace(SETTINGS, budget_s=LONG_MS / 1e3)

FUNCTIONS = """
import csv
from polydom.features import fetch

with open({path!r}, newline="") as file:
    ROWS = {{int(row[{key!r}]): row for row in csv.DictReader(file)}}

def read(text):
    try:
        return float(text)
    except ValueError:
        return text or None
"""
FUNCTION = """
{name}_values = {{
    key: [read(row[name]) for name in {columns!r}] for key, row in ROWS.items()
}}

@fetch(key=[{key!r}], columns={columns!r})
async def {name}(keys, left_s):
    return [{name}_values[key] for (key,) in keys]
"""


def write_functions(table: SplitTable, folder: Path) -> Path:
    """Write a file of fetches that have all values at hand."""
    path = folder / "functions.py"
    parts = [FUNCTIONS.format(path=str(folder / "people.csv"), key=KEY)]
    for name, columns in table.fetched.items():
        parts.append(FUNCTION.format(name=name, key=KEY, columns=[*columns]))
    path.write_text("".join(parts))
    return path


def bodies_of(table: SplitTable, count: int, fetched: int) -> list[bytes]:
    """Return requests that lack the columns of the first so many fetches."""
    brought = [n for own in [*table.fetched.values()][fetched:] for n in own]
    names = (KEY, *table.asked, *brought)
    return [
        post({"record": {name: row[name] for name in names}, "budget_ms": 1000.0})
        for row in table.built[:count]
    ]


def cpu_us(server: Server, bodies: list[bytes], seconds: float) -> float:
    """Return the microseconds of the server's processor that a request takes."""
    before_s = server.cpu_s()
    done = Load(server.port, bodies, CONNECTIONS, spins=False).closed(seconds)
    lost = [e for e in done if e.status != 200]
    if lost:
        raise AssertionError(f"status {lost[0].status}: {lost[0].body!r}")
    return (server.cpu_s() - before_s) / len(done) * 1e6


def own_times(
    server: Server, table: SplitTable, given: argparse.Namespace
) -> dict[str, float]:
    """Return medians of the rounds: requests lack columns of 0, 1 and 2 fetches."""
    count, seconds = (20, 0.02) if given.quick else (2000, 1.5)
    bodies = [bodies_of(table, count, fetched) for fetched in range(3)]
    for own in bodies:
        cpu_us(server, own, seconds)
    rounds = [
        [cpu_us(server, own, seconds) for own in bodies] for _ in range(given.rounds)
    ]
    none, one, two = np.median(rounds, axis=0).tolist()
    each = statistics.median((two - none) / 2 for none, _, two in rounds)
    return {
        "us, no fetch": none,
        "us, one": one,
        "us, two": two,
        "us of each fetch": each,
    }


Ask = Callable[[int], Awaitable[object]]
Client = Callable[[], contextlib.AbstractAsyncContextManager[Ask]]


@contextlib.asynccontextmanager
async def aiohttp_alone(address: str) -> AsyncIterator[Ask]:
    """Give a function that asks for a key over HTTP."""
    async with aiohttp.ClientSession() as session:

        async def ask(key: int) -> None:
            body = json.dumps({"keys": [[key]], "left_ms": 1000.0}).encode()
            async with session.post(address, data=body) as response:
                json.loads(await response.read())

        yield ask


@contextlib.asynccontextmanager
async def redis_alone(address: str, columns: tuple[str, ...]) -> AsyncIterator[Ask]:
    """Give a function that asks Redis for a key of the slow source."""
    pool = redis.asyncio.BlockingConnectionPool.from_url(
        address, max_connections=AT_ONCE
    )
    async with redis.asyncio.Redis.from_pool(pool) as client:

        async def ask(key: int) -> None:
            pipeline = client.pipeline(transaction=False)
            pipeline.hmget(f"{SLOW}:{key}", columns)
            await pipeline.execute()

        yield ask


def alone_us(client: Client, calls: int) -> dict[str, float]:
    """Return the microseconds of this process that a call of a client takes."""
    import uvloop

    async def some(ask: Ask, first: int) -> None:
        for key in range(first, calls, CONNECTIONS):
            await ask(key)

    async def run() -> float:
        async with client() as ask:
            await ask(0)
            before_s = time.process_time()
            await asyncio.gather(*(some(ask, k) for k in range(CONNECTIONS)))
            return time.process_time() - before_s

    report.pin(1 if len(report.CORES) > 1 else None)
    return {"us": uvloop.run(run()) / calls * 1e6}


@contextlib.contextmanager
def filled_redis(table: SplitTable, folder: Path) -> Iterator[str | None]:
    """Run a Redis with a hash for each fetch and key; its address, None without one."""
    program = shutil.which("redis-server")
    if program is None:
        print("no redis-server is here, so Redis is left out", file=sys.stderr)
        yield None
        return
    report.pin(0 if len(report.CORES) > 1 else None)  # as the client and the sources
    server = RedisServer(program, str(folder))
    server.start()
    try:
        pipeline = server.client.pipeline(transaction=False)
        for row in table.rows[:BARE_CALLS]:
            for fetch, columns in table.fetched.items():
                known = {
                    n: v for n, v in _values(row, columns).items() if v is not None
                }
                pipeline.hset(f"{fetch}:{row[KEY]}", mapping=known)
        pipeline.execute()
        yield server.address
    finally:
        server.kill()
        server.client.close()


@contextlib.contextmanager
def waiting(port: int, bodies: list[bytes]) -> Iterator[None]:
    """Have requests wait, each on a connection of its own; then leave them."""
    connections = [Connection(port) for _ in bodies]
    try:
        for number, (one, body) in enumerate(zip(connections, bodies, strict=True)):
            one.send(body, number, 0.0)
        yield
    finally:
        for one in connections:
            one.socket.close()


def throughput(
    server: Server, table: SplitTable, hung: Source, given: argparse.Namespace
) -> dict[str, float]:
    """Return answers a second while requests wait, and while none does."""
    count, seconds = (10, 0.02) if given.quick else (1000, 2.0)
    bodies = bodies_of(table, 20 if given.quick else 2000, 0)
    columns = [n for f, own in table.fetched.items() if f != SLOW for n in own]
    slow = [
        post(
            {
                "record": {n: row[n] for n in (KEY, *table.asked, *columns)},
                "budget_ms": 1e4,
                "fetch": "all",
            }
        )
        for row in table.built[:count]
    ]
    usual = Requests.draw(table, 5 if given.quick else 200, 99, [1000.0])
    found = []
    for _ in range(given.rounds):
        server.warm_up(usual.bodies)  # it sees that the source is up
        hung.asked()
        none = rate(server, bodies, seconds)
        hung.become("hangs")
        with waiting(server.port, slow):
            time.sleep(0.0 if given.quick else 1.0)
            asked = hung.asked()
            some = rate(server, bodies, seconds)
        hung.become("refuses")  # which ends the calls
        time.sleep(0.0 if given.quick else 0.5)
        hung.become("up")
        found.append((none, some, asked))
    none, some, asked = np.median(found, axis=0).tolist()
    return {
        "waiting": asked,
        "a second, none waits": none,
        "a second, they wait": some,
        "ratio": statistics.median(b / a for a, b, _ in found),
    }


def rate(server: Server, bodies: list[bytes], seconds: float) -> float:
    """Return the answers a second over some connections."""
    began_s = time.perf_counter()
    done = Load(server.port, bodies, CONNECTIONS, spins=False).closed(seconds)
    return len(done) / (time.perf_counter() - began_s)


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Measure all, in servers one after the other."""
    table = TABLES["drawn" if given.quick else "adult"]()
    facts: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        sources: Mapping[str, Source] = {
            fetch: stack.enter_context(
                source(np.zeros(len(table.rows)), [_values(r, own) for r in table.rows])
            )
            for fetch, own in table.fetched.items()
        }
        path = build_index(table, sources, folder, quick=given.quick)
        http = write_fetches(folder / "fetches.toml", sources)
        files = {"functions": write_functions(table, folder), "HTTP": http}
        url = f"http://127.0.0.1:{sources[SLOW].port}/"
        clients: dict[str, Client] = {"HTTP": partial(aiohttp_alone, url)}
        address = stack.enter_context(filled_redis(table, folder))
        if address is not None:
            calls = {
                f: {"redis": address, "hash": f"{f}:{{{KEY}}}"} for f in table.fetched
            }
            files["Redis"] = write_calls(folder / "redis.toml", calls)
            clients["Redis"] = partial(redis_alone, address, table.fetched[SLOW])
        rows = {}
        for name, file in files.items():
            with Server.of(serve_polydom, path, file, PATIENT) as server:
                rows[name] = own_times(server, table, given)
        for name, client in clients.items():
            alone = partial(alone_us, client, 50 if given.quick else BARE_CALLS)
            times = [in_new_process(alone)["us"] for _ in range(given.rounds)]
            rows[name]["us of aiohttp or redis-py alone"] = statistics.median(times)
        facts["processor's time of a request"] = rows
        long = folder / "long.toml"
        long.write_text(
            http.read_text()
            .replace("at_most_ms = 250", f"at_most_ms = {LONG_MS:g}")
            .replace("at_once = 256", "at_once = 2000")
        )
        with Server.of(serve_polydom, path, long, PATIENT) as server:
            facts["waiting"] = throughput(server, table, sources[SLOW], given)
    return facts


def _values(row: Mapping[str, Any], columns: tuple[str, ...]) -> dict[str, Any]:
    return {name: row[name] for name in columns}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--cache", type=Path, help="keep the index here")
    given = parser.parse_args(arguments)
    given.rounds = 1 if given.quick else given.rounds
    if not given.quick:
        report.need(given, "adult")
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        report.tell(measure(given, folder), given)
