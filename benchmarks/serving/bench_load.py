"""Answers in time, and their accuracy, when a server is asked more than it can do.

python -m benchmarks.serving.bench_load --cache DIR         builds once into DIR, then asks
python -m benchmarks.serving.bench_load --cache DIR --json  one JSON object, for the record

ICSP's scenes (shared data), a budget of 50 ms, requests at fixed times whatever the
server does, latencies from when each was due. A load of 1 is the rate at which a server
that always computes the best set's features answers without pause. Three servers:

    polydom     as it is
    unpriced    its budget, but never a cheaper plan because others wait
    full        an index of nothing but the best set, which every request gets, late
                or not

The generator runs on one core, the server on another. `/livez` and `/metrics` are asked
among the rest, at every load.
"""

import argparse
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.items import Item
from polydom.indexer import Index, build
from polydom.indexer.building.data.dataset import split
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project
from polydom.server.engine.planner import PRESSURE
from polydom.server.settings import Settings

from .. import report
from ..data.scenes import FOLDER
from ..places import ROOT
from .open_loop import Exchange, Load, latencies_s
from .served import serving

FEATURES = ("thumbnail", "moments", "edge_density", "hog", "local_binary_patterns")
VARIANTS = ("polydom", "unpriced", "full")
LOADS = (0.2, 0.5, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0)
BUDGET_MS = 50.0
CONNECTIONS = 512
PROBE_EVERY = 25  # images between two probes
PROBES = ("/livez", "/metrics")
QUANTILES = (0.5, 0.99)


def project(arguments: argparse.Namespace) -> Project:
    """The project to build, as PROJECT.toml would say it."""
    return Project.from_mapping(
        {
            "data": {"items": "benchmarks.data.scenes:load"},
            "features": {"use": list(arguments.features)},
            "learner": {"name": "lda"},
            "search": {"alpha": 1.05, "held_out": 0.25, "refit": False},
            "seed": 0,
        },
        folder=ROOT,
    )


def only_best(index: Index) -> Index:
    """Make an index of the prior and the most accurate row alone."""
    package = index.package
    assert package is not None
    prior = package.masks.tolist().index(0)
    rows = [prior, int(index.qualities.argmax())]
    order = package.orders[rows[1]]
    small = replace(
        package,
        masks=package.masks[rows],
        orders=((), order),
        fallbacks=((0,), (*[0] * len(order), 1)),
        models=tuple(package.models[row] for row in rows),
        model_s=package.model_s[rows],
        margins=(),
        meta={k: v for k, v in package.meta.items() if k != "pace"},
    )
    curves, accuracies = index.coefficients[rows], index.qualities[rows]
    return Index.from_candidates(curves, accuracies, index.sizes, small)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode()


def post(item: Item, variant: str) -> bytes:
    """Ask for a whole request about one image."""
    assert isinstance(item.payload, bytes)
    terms = "?on_infeasible=cheapest" if variant == "full" else ""
    head = (
        f"POST /v1/predict{terms} HTTP/1.1\r\nhost: x\r\ncontent-type: image/jpeg\r\n"
        f"content-length: {len(item.payload)}\r\n\r\n"
    )
    return head.encode() + item.payload


def sequence(items: list[Item], variant: str) -> tuple[list[bytes], list[str]]:
    """The requests in their order, and what each is: an item's number, or a probe."""
    requests, kinds = [], []
    for number, item in enumerate(items):
        requests.append(post(item, variant))
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


def ask(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build, find the capacity, then ask every variant at every load."""
    plan = project(arguments)
    path = folder / "load.pdx"
    if not path.exists():
        build(plan, output=path, cache=folder)
    index = Index.load(path)
    only_best(index).save(folder / "full.pdx")
    dataset = load_data(plan)
    ((_, rows),) = split(dataset, seed=plan.seed, held_out=0.25, folds=None)
    rows = np.random.default_rng(0).permutation(rows)[: arguments.images]
    items = [dataset.items[row] for row in rows]
    labels = [dataset.labels[dataset.codes[row]] for row in rows]
    settings = Settings(budget_s=BUDGET_MS / 1e3, queue_limit=1 << 20)
    table = []
    with serving(folder / "full.pdx", settings) as port:
        requests = [post(item, "full") for item in items]
        done = Load(port, requests, 4).closed(arguments.seconds)
        took_s = max(e.done_s for e in done) - min(e.sent_s for e in done)
        capacity = len(done) / took_s
    for variant in arguments.variants:
        file = folder / "full.pdx" if variant == "full" else path
        requests, kinds = sequence(items, variant)
        pressure = 0.0 if variant == "unpriced" else PRESSURE
        with serving(file, settings, pressure) as port:
            for load in arguments.loads:
                rate = load * capacity
                exchanges = Load(port, requests, CONNECTIONS).open(
                    rate, arguments.seconds
                )
                line: dict[str, Any] = {"variant": variant, "load": load}
                table.append(line | summary(exchanges, kinds, labels))
    return {"capacity": capacity, "table": table}


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--cache", type=Path, help="keep the index and its cache here")
    parser.add_argument("--features", nargs="+", default=FEATURES, metavar="NAME")
    parser.add_argument("--variants", nargs="+", default=VARIANTS, choices=VARIANTS)
    parser.add_argument("--loads", nargs="+", type=float, default=LOADS)
    parser.add_argument("--seconds", type=float, default=5.0, help="of each load")
    parser.add_argument("--images", type=int, default=500, help="different ones asked")
    arguments = parser.parse_args()
    report.need(FOLDER)
    with tempfile.TemporaryDirectory() as folder:
        if arguments.cache is not None:
            arguments.cache.mkdir(parents=True, exist_ok=True)
        facts = ask(arguments, arguments.cache or Path(folder))
    report.tell(facts, arguments.json)


if __name__ == "__main__":
    main()
