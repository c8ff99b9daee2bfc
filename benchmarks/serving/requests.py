"""Requests per second of a cheap model, against other servers, and what each costs.

python -m benchmarks requests                         both parts
python -m benchmarks requests --parts servers         beside other servers
python -m benchmarks requests --parts protocols       `/v1/predict`, `/v2` and gRPC
python -m benchmarks requests --venv mlserver=FOLDER  adds a peer installed in FOLDER

One record of 14 numbers, a LightGBM ensemble of 500 trees of depth 5. Each server runs
on one core and the generator on another; a server that is not being measured is
stopped with a signal. All get the same requests, 1,000 different rows in turn, each
with an id in its headers as a proxy gives it (but MLServer, which has a protocol of its
own), and each must answer them with the booster's own decision before it is timed;
`hello` and `echo` have no model. `default` is the index that `polydom init` and `build`
make of two numbers and a word, and is asked for such records. The generator's loop is
compiled (kernels/native_load.py). `cpu_us` is the server's processor time per request,
which other programs disturb least.
"""

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from .. import report
from ..places import ROOT
from . import protocols
from .indexes import default_table, record_index
from .open_loop import Exchange, Load
from .saturation import CONNECTIONS, Contender, free_port, saturate

PEERS = ROOT / "benchmarks" / "peers"
OWN = (
    "polydom",
    "polydom_unmetered",
    "default",
    "hello",
    "echo",
    "lightgbm",
    "sklearn",
)
QUICK = ("polydom", "hello")
ELSEWHERE = ("litserve", "mlserver", "bentoml")
OTHERS = ("hello", "echo", "default")  # without the booster
DECIDED = 1e-6  # shares this near to 1/2 may be rounded to either side


@contextlib.contextmanager
def started(
    name: str, python: str, folder: Path, core: int | None
) -> Iterator[Contender]:
    """Start a contender on one core; it answers when this begins."""
    contender = Contender(name, free_port(), *payloads(name, folder))
    script, port = str(PEERS / "peer_servers.py"), str(contender.port)
    command = [python, script, name, port, str(folder)]
    if core is not None:
        command = ["taskset", "-c", str(core), *command]
    with contender.started(command, folder):
        yield contender


def payloads(name: str, folder: Path) -> tuple[list[bytes], str]:
    """Bodies and path of the contender's requests."""
    if name == "default":
        asks = json.loads((folder / default_table.ROWS).read_text())
        return [json.dumps({"record": ask}).encode() for ask in asks], "/v1/predict"
    rows = json.loads((folder / record_index.ROWS).read_text())
    if name != "mlserver":
        asks = [{"record": record_index.record(row), "budget_ms": 50} for row in rows]
        return [json.dumps(ask).encode() for ask in asks], "/v1/predict"
    inputs: dict[str, Any] = {"name": "x", "shape": [1, 14], "datatype": "FP32"}
    asks = [{"inputs": [inputs | {"data": row}]} for row in rows]
    return [json.dumps(ask).encode() for ask in asks], "/v2/models/records/infer"


def check(contender: Contender, shares: list[float]) -> None:
    """Refuse a server whose decisions are not the booster's."""
    load = Load(contender.port, contender.requests(), 1)
    exchanges = {e.number: e for e in load.open(200, len(shares) / 200)}
    for number, share in enumerate(shares):
        found = decision(contender.name, exchanges[number])
        if abs(share - 0.5) > DECIDED and found != (share > 0.5):
            raise ValueError(f"row {number}: it answered {found} where {share} was due")


def decision(name: str, exchange: Exchange) -> bool:
    """Whether an answer is the second class."""
    if exchange.status != 200:
        raise ValueError(f"it answered with {exchange.status}: {exchange.body[:200]!r}")
    answer = json.loads(exchange.body)
    if name == "mlserver":
        return bool(answer["outputs"][0]["data"][0] > 0.5)
    return bool(answer["label"] == record_index.LABELS[1])


def summary(contenders: list[Contender]) -> list[dict[str, Any]]:
    """Medians over the rounds, and the median ratio to `hello` in the same round."""
    hello = next(c for c in contenders if c.name == "hello")
    table = []
    for contender in contenders:
        for count, runs in contender.runs.items():
            line: dict[str, Any] = {"name": contender.name, "connections": count}
            for name in ("rate", "p50_us", "p99_us", "cpu_us"):
                line[name] = statistics.median(r[name] for r in runs)
            pairs = list(zip(runs, hello.runs[count], strict=True))
            for name in ("rate", "p50_us", "cpu_us"):
                # of a short run the system may count no processor time at all
                ratios = [
                    own[name] / other[name] for own, other in pairs if other[name]
                ]
                line[f"{name}/hello"] = statistics.median(ratios) if ratios else None
            table.append(line | {"wrong": sum(r["wrong"] for r in runs)})
    return table


def servers(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Start everything there is, check it, measure it in rounds."""
    shares = record_index.write(folder, given.rows, given.quick)
    if not given.quick:
        default_table.write(folder, given.rows)
    pythons = dict.fromkeys(QUICK if given.quick else OWN, sys.executable)
    for option in given.venv:
        name, _, place = option.partition("=")
        pythons[name] = str(Path(place) / "bin" / "python")
    missing = {name: "no --venv names it" for name in ELSEWHERE if name not in pythons}
    pinned = len(report.CORES) > 1
    if pinned:
        report.pin(0)
    contenders: list[Contender] = []
    facts: dict[str, Any] = {"not measured": missing}
    with contextlib.ExitStack() as stack:
        for name, python in pythons.items():
            if name not in (given.only or pythons):
                continue
            try:
                server = started(name, python, folder, 1 if pinned else None)
                contender = stack.enter_context(server)
                if name not in OTHERS:
                    check(contender, shares[: given.checked])
            except (OSError, TimeoutError, ValueError) as error:
                missing[name] = str(error)
                continue
            contender.pause()
            contenders.append(contender)
        for _ in range(given.rounds):
            for connections in CONNECTIONS:
                for contender in contenders:
                    saturate(contender, connections, given.seconds)
        facts["one record"] = summary(contenders)
    return facts


PARTS: dict[str, Callable[[argparse.Namespace, Path], dict[str, Any]]] = {
    "servers": servers,
    "protocols": protocols.measure,
}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--venv", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="leave others out")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1000, help="different requests")
    parser.add_argument("--checked", type=int, default=50, help="answers compared")
    given = parser.parse_args(arguments)
    if given.quick:
        given.seconds, given.rounds, given.rows, given.checked = 0.1, 1, 40, 5
    facts: dict[str, Any] = {}
    for part in given.parts:
        with tempfile.TemporaryDirectory() as folder:
            facts |= PARTS[part](given, Path(folder))
        report.unpin()
    report.tell(facts, given)
