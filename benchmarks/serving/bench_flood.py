"""Whether a server that is asked ten times what it can do still says so at once.

python -m benchmarks.serving.bench_flood                 prints a table
python -m benchmarks.serving.bench_flood --json          one JSON object, for the record
python -m benchmarks.serving.bench_flood --ways new oip  some ways of asking only

The index of bench_server, whose plans cost microseconds, so that reading and writing is
what runs out first. A load of 1 is the rate of a closed loop. Requests then come at
fixed times, whatever the server does; `/livez` is asked beside them by a process of its
own, with a new connection for each, as probes do. The ways of asking:

    quick       kept connections, the same head in every request
    ordinary    kept connections, a model by name, which a route answers
    new         a connection for every request
    oip         the Open Inference Protocol, a row in every request
    batch       ten items in every request

`sent` is how many a second really were: the generator is one thread. Of those that
were answered, `in_time` are within the budget from when they were sent.
"""

import argparse
import contextlib
import http.client
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from polydom.server.app import create_app
from polydom.server.ops.server import listen, run
from polydom.server.settings import Settings

from ..machine import describe
from . import record_index
from .open_loop import Exchange, Load

WAYS = ("quick", "ordinary", "new", "oip", "batch")
LOADS = (0.5, 1.0, 3.0, 10.0)
BUDGET_MS = 50.0
CONNECTIONS = 512
CLOSED = 32
PROBE_EVERY_S = 0.02
START_S = 60.0
JSON, LINES = "application/json", "application/jsonl"


def serve(path: str, port: int) -> None:
    """Serve in this process."""
    settings = Settings(budget_s=BUDGET_MS / 1e3)
    with listen("127.0.0.1", port) as listener:
        run(create_app(path, settings=settings), listener)


@contextlib.contextmanager
def serving(path: Path, core: int | None) -> Iterator[int]:
    """Serve in a process of its own, ready at the port that this gives."""
    with listen("127.0.0.1", 0) as free:
        port = int(free.getsockname()[1])
    pin = [] if core is None else ["taskset", "-c", str(core)]
    own = [sys.executable, "-m", "benchmarks.serving.bench_flood", "--serve"]
    process = subprocess.Popen([*pin, *own, str(path), str(port)])
    try:
        end_s = time.monotonic() + START_S
        while probe(port, "/readyz") == np.inf:
            if time.monotonic() > end_s or process.poll() is not None:
                raise TimeoutError("the server did not become ready")
            time.sleep(0.1)
        yield port
    finally:
        process.kill()
        process.wait()


def probe(port: int, path: str) -> float:
    """Seconds until a 200 came over a new connection; infinite if none did."""
    start_s = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except OSError:
        return np.inf
    finally:
        connection.close()
    return time.perf_counter() - start_s if status == 200 else np.inf


def probing(port: int, stop: Any, times: Any) -> None:
    """Ask `/livez` now and then until told to stop."""
    found = []
    while not stop.is_set():
        found.append(probe(port, "/livez"))
        time.sleep(PROBE_EVERY_S)
    times.put(found)


def requests(way: str, rows: list[list[float]]) -> list[bytes]:
    """Whole requests, in the order in which they are sent."""
    made = []
    for row in rows:
        path, kind, more = "/v1/predict", JSON, ""
        item = {"record": record_index.record(row)}
        body = json.dumps(item).encode()
        if way == "oip":
            path = "/v2/models/records/infer"
            tensor = {"name": "record", "datatype": "FP64", "shape": [1, len(row)]}
            body = json.dumps({"inputs": [tensor | {"data": list(row)}]}).encode()
        elif way == "batch":
            path, kind = f"/v1/batch?budget_ms={BUDGET_MS:g}&count=10", LINES
            body = (body + b"\n") * 10
        elif way == "ordinary":
            path += "?model=records"
        elif way == "new":
            more = "connection: close\r\n"
        head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\n{more}"
        made.append(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
    return made


def flood(port: int, asked: list[bytes], rate: float, seconds: float) -> dict[str, Any]:
    """Ask at a rate, and probe meanwhile; what came of it."""
    stop = multiprocessing.Event()
    times: multiprocessing.SimpleQueue[list[float]] = multiprocessing.SimpleQueue()
    prober = multiprocessing.Process(target=probing, args=(port, stop, times))
    prober.start()
    try:
        exchanges = Load(port, asked, CONNECTIONS).open(rate, seconds)
    finally:
        stop.set()
    probes = times.get()
    prober.join()
    return summary(exchanges) | {
        f"livez_p{q}_ms": quantile_ms(probes, q) for q in (50, 99)
    }


def summary(exchanges: list[Exchange]) -> dict[str, Any]:
    """What came of the requests that were sent."""
    took: dict[int, list[float]] = {200: [], 429: [], 0: []}
    sent_s = [e.sent_s for e in exchanges if e.done_s > e.sent_s]
    seconds = max(sent_s) - min(sent_s)
    for exchange in exchanges:
        if exchange.done_s > exchange.sent_s:
            status = exchange.status if exchange.status in took else 0
            took[status].append(exchange.done_s - exchange.sent_s)
    sent = sum(map(len, took.values()))
    answered = np.array(took[200])
    budget_s = BUDGET_MS / 1e3
    return {
        "sent": sent / seconds,
        "answered": len(took[200]) / seconds,
        "refused": len(took[429]) / sent,
        "lost": len(took[0]) / sent,
        "in_time": float(np.mean(answered <= budget_s)) if took[200] else None,
        "p99_ms": quantile_ms(took[200], 99),
        "refused_p99_ms": quantile_ms(took[429], 99),
    }


def quantile_ms(seconds: list[float], percent: float) -> float | None:
    """None where nothing came."""
    if not seconds:
        return None
    return float(np.percentile(seconds, percent, method="higher")) * 1e3


def ask(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Find each way's capacity, then ask at multiples of it."""
    record_index.write(folder)
    rows = json.loads((folder / record_index.ROWS).read_text())
    core = None
    if hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1:
        os.sched_setaffinity(0, {0})
        core = 1
    table = []
    for way in arguments.ways:
        asked = requests(way, rows)
        with serving(folder / record_index.INDEX, core) as port:
            done = Load(port, asked, CLOSED).closed(arguments.seconds)
            capacity = sum(e.status == 200 for e in done) / arguments.seconds
            for load in arguments.loads:
                facts = flood(port, asked, load * capacity, arguments.seconds)
                table.append({"way": way, "load": load, "capacity": capacity} | facts)
    return {"machine": describe(), "budget_ms": BUDGET_MS, "table": table}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ways", nargs="+", default=WAYS, choices=WAYS)
    parser.add_argument("--loads", nargs="+", type=float, default=LOADS)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        serve(arguments.serve[0], int(arguments.serve[1]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        facts = ask(arguments, Path(folder))
    if arguments.json:
        print(json.dumps(facts))
        return 0
    rows = facts.pop("table")
    print(facts)
    print(" | ".join(rows[0]))
    for row in rows:
        cells = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values())
        print(" | ".join(cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
