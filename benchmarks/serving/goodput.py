"""What a server answers in time when it is asked for more than it can answer.

python -m benchmarks goodput                         records and texts
python -m benchmarks goodput --venv granian=FOLDER   beside Granian, installed in FOLDER

Requests come at drawn times, whatever the server does; the generator has one core
(kernels/native_load.py), and the server the other. A load of 1 is the server's
capacity: what it answers in a closed loop over 8 connections, measured before each way.
Goodput is the share of the capacity that is answered with 200 within the budget of
20 ms, by the client's clock, counted from when each request was due. Requests come

    kept 32, 512    over so many kept connections, one under way on each; a request that
                    finds none free for a quarter of its budget is given up
    pipelined 32    over 32 kept connections, whatever is under way on them
    new             over a connection of its own each

`/livez` is asked beside them. `hello` is a bare ASGI application with uvicorn, and with
Granian: what is lost without any admission control.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polydom.indexer import BudgetClassifier
from polydom.server.settings import Settings

from .. import report
from .indexes import record_index
from .indexes.usual_requests import TEXTS, draw_texts
from .kernels.native_load import Came, capacity_of, over_kept, over_new
from .requests import PEERS
from .saturation import Contender, free_port
from .served import serving

BUDGET_MS = 20
LOADS = (1.0, 3.0, 10.0)
WAYS = ("kept 32", "kept 512", "pipelined 32", "new")
PATIENCE = 0.25  # share of the budget
DEEP = 4096
CAPACITY_CONNECTIONS = 8
WARM_S, REST_S = 1.5, 0.3


class Case(NamedTuple):
    """A server's name, port, and the requests that it is asked."""

    name: str
    port: int
    requests: list[bytes]


def posts(bodies: list[dict[str, Any]]) -> list[bytes]:
    """Whole requests, each with the budget."""
    encoded = [json.dumps(body | {"budget_ms": BUDGET_MS}).encode() for body in bodies]
    return [
        b"POST /v1/predict HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
        for body in encoded
    ]


def write_records(folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    """Write the index of records, `record_index.INDEX`; bodies to ask it for."""
    record_index.write(folder, quick=quick)
    rows = json.loads((folder / record_index.ROWS).read_text())
    return [{"record": record_index.record(row)} for row in rows]


def write_texts(folder: Path, *, quick: bool = False) -> list[dict[str, Any]]:
    """Write an index of short texts, `TEXTS`; bodies to ask it for."""
    texts, labels = draw_texts(600)
    short = [text[:120] for text in texts]
    made = {"learner": "logistic"} if quick else {"search_budget_s": 10}
    model = BudgetClassifier(kind="text", **made).fit(short, labels)
    model.save(folder / TEXTS)
    return [{"text": text} for text in short]


@contextlib.contextmanager
def cases(folder: Path, given: argparse.Namespace) -> Iterator[Iterator[Case]]:
    """Start one server after the other."""
    records = posts(write_records(folder, quick=given.quick))
    settings = Settings(budget_s=BUDGET_MS / 1e3)

    def each() -> Iterator[Case]:
        with serving(folder / record_index.INDEX, settings) as port:
            yield Case("records", port, records)
        if not given.quick:
            texts = posts(write_texts(folder))
            with serving(folder / TEXTS, settings) as port:
                yield Case("texts", port, texts)
        pythons = {"hello": sys.executable}
        pythons |= dict(option.split("=", 1) for option in given.venv)
        for name, place in () if given.quick else pythons.items():
            python = place if name == "hello" else str(Path(place) / "bin" / "python")
            contender = Contender(name, free_port(), [b"{}"], "/v1/predict")
            script = str(PEERS / "peer_servers.py")
            command = [python, script, name, str(contender.port), str(folder)]
            if len(report.CORES) > 1:
                command = ["taskset", "-c", "1", *command]
            with contender.started(command, folder):
                yield Case(name, contender.port, records)

    yield each()


def ask(case: Case, way: str, load: float, capacity: float, seconds: float) -> Came:
    """Load a server in one way."""
    rate = load * capacity
    name, _, connections = way.partition(" ")
    if name == "new":
        return over_new(case.port, case.requests, rate, seconds)
    kept = int(connections)
    if name == "pipelined":
        more: dict[str, Any] = {"depth": DEEP}
    else:
        more = {"patience_s": PATIENCE * BUDGET_MS / 1e3}
    given = case.port, case.requests, rate, seconds
    return over_kept(*given, connections=kept, **more)


def row(
    case: Case, way: str, load: float, capacity: float, came: Came
) -> dict[str, Any]:
    """What came of one load."""
    seconds = float(came.due_s[-1])
    answered = came.status == 200
    in_time = answered & (came.took_s <= BUDGET_MS / 1e3)
    probes_s = came.probes_s[~np.isnan(came.probes_s)]
    return {
        "server": case.name,
        "way": way,
        "load": load,
        "capacity": capacity,
        "answered": answered.sum() / seconds,
        "refused": (came.status == 429).sum() / seconds,
        "goodput": in_time.sum() / seconds / capacity,
        "in_time": in_time.sum() / max(answered.sum(), 1),
        "p99_ms": quantile_ms(came.took_s[answered]),
        "livez_p99_ms": quantile_ms(probes_s),
    }


def quantile_ms(seconds: Any) -> float | None:
    """The 99th percentile in milliseconds; None of nothing."""
    return float(np.quantile(seconds, 0.99)) * 1e3 if len(seconds) else None


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Load each server in each way."""
    table = []
    ways = WAYS[:1] if given.quick else given.ways or WAYS
    seconds = 0.1 if given.quick else given.seconds
    with cases(folder, given) as each:
        for case in each:
            closed = case.port, case.requests
            warm_s = 0.1 if given.quick else WARM_S
            capacity_of(*closed, warm_s, connections=CAPACITY_CONNECTIONS)
            for way in ways:
                capacity = capacity_of(
                    *closed, min(1.0, seconds), connections=CAPACITY_CONNECTIONS
                )
                for load in LOADS[:1] if given.quick else LOADS:
                    came = ask(case, way, load, capacity, seconds)
                    table.append(row(case, way, load, capacity, came))
                    time.sleep(REST_S)
    return {f"goodput within {BUDGET_MS} ms": table}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--seconds", type=float, default=3.0, help="of each load")
    parser.add_argument("--ways", nargs="*", choices=WAYS, help="of coming")
    parser.add_argument("--venv", action="append", default=[], metavar="NAME=FOLDER")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as made:
        report.tell(measure(given, Path(made)), given)
