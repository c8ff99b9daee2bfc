"""Answers in time, and what is refused, when a server is asked more than it can do.

python -m benchmarks overload                 images, whose features take the time
python -m benchmarks overload --data scenes   ICSP's photographs, not digits

Requests come at fixed times whatever the server does; latencies count from when each
was due. The generator runs on one core, the server on another.

Images have a budget of 50 ms. A load of 1 is the rate at which a server that always
computes the best set's features answers without pause. Three servers:

    polydom     as it is
    unpriced    its budget, but never a cheaper plan because others wait
    best set    a fixed model of the best set, which every request gets, late or not

`/livez` and `/metrics` are asked among the rest.
"""

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.items import Item
from polydom.indexer import Index
from polydom.server.engine.planning.planner import PRESSURE
from polydom.server.settings import Settings

from .. import report
from .indexes.image_sets import DEFAULT, NAMES, best_alone, prepare
from .one_by_one import post
from .open_loop import Exchange, Load, latencies_s
from .served import serving

BEST = "best set"
VARIANTS = (BEST, "polydom", "unpriced")
LOADS = (0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
BUDGET_MS = 50.0
CONNECTIONS = 512
IMAGES = 500
PROBE_EVERY = 25  # images between two probes
PROBES = ("/livez", "/metrics")
QUANTILES = (0.5, 0.99)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()


def query_of(variant: str) -> str:
    """The best set answers, however late."""
    return "on_infeasible=cheapest" if variant == BEST else ""


def sequence(items: list[Item], variant: str) -> tuple[list[bytes], list[str]]:
    """The requests in their order, and what each is: an item's number, or a probe."""
    requests, kinds = [], []
    for number, item in enumerate(items):
        requests.append(post(item, query_of(variant)))
        kinds.append(str(number))
        if number % PROBE_EVERY == 0:
            requests += [get(path) for path in PROBES]
            kinds += PROBES
    return requests, kinds


def summary(
    exchanges: list[Exchange], kinds: list[str], labels: list[str]
) -> dict[str, float | None]:
    """What came of one load."""
    names = [kinds[exchange.number % len(kinds)] for exchange in exchanges]
    asked = [e for e, name in zip(exchanges, names, strict=True) if name.isdigit()]
    due = [labels[int(name)] for name in names if name.isdigit()]
    right = np.array(
        [
            e.status == 200 and json.loads(e.body)["label"] == label
            for e, label in zip(asked, due, strict=True)
        ]
    )
    took_s = latencies_s(asked)
    in_time = took_s <= BUDGET_MS / 1e3
    facts: dict[str, float | None] = {
        "asked": float(len(asked)),
        "refused": float(sum(e.status not in (0, 200) for e in asked)),
        "in_time": float(in_time.mean()),
        "accuracy": float(right[in_time].mean()) if in_time.any() else None,
        "right_in_time": float((right & in_time).mean()),
    }
    facts |= {f"p{100 * q:g}_ms": quantile_ms(took_s, q) for q in QUANTILES}
    for path in PROBES:
        probed = [e for e, n in zip(exchanges, names, strict=True) if n == path]
        facts[f"{path} p99_ms"] = quantile_ms(latencies_s(probed), 0.99)
    return facts


def quantile_ms(seconds: np.ndarray, q: float) -> float | None:
    """None where so many were never answered."""
    if not len(seconds):
        return None
    found = float(np.quantile(seconds, q, method="higher")) * 1e3
    return found if np.isfinite(found) else None


def images(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build, find the capacity, then ask every variant at every load."""
    quick = given.quick
    name, seconds = ("few", 0.1) if quick else (given.data, given.seconds)
    path, _, items, labels = prepare(name, folder, IMAGES)
    alone = folder / "best.pdx"
    best_alone(Index.load(path)).save(alone)
    settings = Settings(budget_s=BUDGET_MS / 1e3, queue_limit=1 << 20)
    capacity, table = 0.0, []
    for variant in VARIANTS[:1] if quick else VARIANTS:
        requests, kinds = sequence(items, variant)
        pressure = 0.0 if variant == "unpriced" else PRESSURE
        with serving(alone if variant == BEST else path, settings, pressure) as port:
            capacity = capacity or rate_of(
                port, [post(i, query_of(BEST)) for i in items], seconds
            )
            for load in LOADS[-1:] if quick else LOADS:
                exchanges = Load(port, requests, 16 if quick else CONNECTIONS).open(
                    load * capacity, seconds
                )
                line: dict[str, Any] = {"server": variant, "load": load}
                table.append(line | summary(exchanges, kinds, labels))
    return {"images a second at load 1": capacity, f"{name} in {BUDGET_MS:g} ms": table}


def rate_of(port: int, requests: list[bytes], seconds: float) -> float:
    """Answers a second of a server that never rests."""
    done = Load(port, requests, 4).closed(seconds)
    return len(done) / (max(e.done_s for e in done) - min(e.sent_s for e in done))


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--data", choices=NAMES, default=DEFAULT, help="images")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--cache", type=Path, help="keep the index and its cache here")
    given = parser.parse_args(arguments)
    if given.data == "scenes" and not given.quick:
        report.need(given, "scene15")
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        report.tell(images(given, folder), given)
