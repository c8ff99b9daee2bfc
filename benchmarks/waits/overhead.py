"""What does a fetch cost the server's processor, and what do 1,000 waiting requests?

python -m benchmarks overhead

*Own time* is what the server's process computes for a request, less what it computes
for the same row with all columns in the request, for each fetch. *Functions* answer at
once, so that nothing but polydom's own work is left. *HTTP* asks sources that answer at
once; what the same calls take of aiohttp alone, in a process of its own, is beside it.

*Waiting*: connections send requests without a pause that bring all columns, while 1,000
others wait for a source that hangs, and while none does.
"""

import argparse
import asyncio
import contextlib
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np

from .. import report
from ..new_process import in_new_process
from ..serving.open_loop import Connection, Load
from .mix import (
    SETTINGS,
    Requests,
    Server,
    build_index,
    post,
    serve_polydom,
    write_fetches,
)
from .sources import Source, source
from .tables import KEY, SLOW, TABLES, SplitTable

CONNECTIONS = 8
BARE_CALLS, AT_ONCE = 3000, 8
LONG_MS = 60_000.0

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


def bare_us(address: str, calls: int) -> dict[str, float]:
    """Return the microseconds of the processor that a call of aiohttp takes alone."""
    import uvloop

    async def ask(session: aiohttp.ClientSession, key: int) -> None:
        body = json.dumps({"keys": [[key]], "left_ms": 1000.0}).encode()
        async with session.post(address, data=body) as response:
            json.loads(await response.read())

    async def some(session: aiohttp.ClientSession, first: int) -> None:
        for key in range(first, calls, AT_ONCE):
            await ask(session, key)

    async def run() -> float:
        async with aiohttp.ClientSession() as session:
            await ask(session, 0)
            before_s = time.process_time()
            await asyncio.gather(*(some(session, k) for k in range(AT_ONCE)))
            return time.process_time() - before_s

    return {"us": uvloop.run(run()) / calls * 1e6}


class Bare:
    """A call of `bare_us` that another process can make."""

    def __init__(self, address: str, calls: int) -> None:
        self.address, self.calls = address, calls

    def __call__(self) -> dict[str, float]:
        report.pin(1 if len(report.CORES) > 1 else None)
        return bare_us(self.address, self.calls)


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
        calls = 50 if given.quick else BARE_CALLS
        bare = Bare(f"http://127.0.0.1:{sources[SLOW].port}/", calls)
        times = [in_new_process(bare)["us"] for _ in range(given.rounds)]
        rows = {}
        for name, file in (
            ("functions", write_functions(table, folder)),
            ("HTTP", http),
        ):
            with Server.of(serve_polydom, path, file) as server:
                rows[name] = own_times(server, table, given)
        rows["HTTP"]["us of aiohttp alone"] = statistics.median(times)
        facts["processor's time of a request"] = rows
        long = folder / "long.toml"
        long.write_text(
            http.read_text()
            .replace("at_most_ms = 250", f"at_most_ms = {LONG_MS:g}")
            .replace("at_once = 256", "at_once = 2000")
        )
        # else most who come at once are refused, as they would wait to be read
        patient = replace(SETTINGS, budget_s=LONG_MS / 1e3)
        with Server.of(serve_polydom, path, long, patient) as server:
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
