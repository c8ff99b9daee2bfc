"""Whether a server that is asked ten times what it can do still says so at once.

The index is one of records whose plans cost microseconds, so that reading and writing
is what runs out first. A load of 1 is the rate of a closed loop. Requests then come at
fixed times; `/livez` is asked beside them by a process of its own, with a new
connection for each, as probes do. The ways of asking:

    quick       kept connections, the same head in every request
    ordinary    kept connections, a model by name, which a route answers
    new         a connection for every request
    oip         the Open Inference Protocol, a row in every request
    batch       ten items in every request

`sent` is how many a second really were: the generator is one thread. Of those that
were answered, `in_time` are within the budget from when they were sent.
"""

import argparse
import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import numpy as np

from polydom.server.settings import Settings

from . import record_index
from .open_loop import Exchange, Load
from .served import probe, serving

WAYS = ("quick", "ordinary", "new", "oip", "batch")
LOADS = (0.5, 1.0, 3.0, 10.0)
BUDGET_MS = 50.0
CONNECTIONS = 512
CLOSED = 32
PROBE_EVERY_S = 0.02
JSON, LINES = "application/json", "application/jsonl"


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


def records(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Find each way's capacity, then ask at multiples of it."""
    quick = given.quick
    record_index.write(folder, quick=quick)
    rows = json.loads((folder / record_index.ROWS).read_text())
    settings = Settings(budget_s=BUDGET_MS / 1e3)
    seconds, loads = (0.1, LOADS[-1:]) if quick else (given.seconds, LOADS)
    table = []
    for way in given.ways[:1] if quick else given.ways:
        asked = requests(way, rows)
        with serving(folder / record_index.INDEX, settings) as port:
            done = Load(port, asked, CLOSED).closed(seconds)
            capacity = sum(e.status == 200 for e in done) / seconds
            for load in loads:
                facts = flood(port, asked, load * capacity, seconds)
                table.append({"way": way, "load": load, "capacity": capacity} | facts)
    return {f"records in {BUDGET_MS:g} ms": table}
