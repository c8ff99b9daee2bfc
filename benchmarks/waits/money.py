"""What accuracy costs, if fetches have prices and requests say what they may spend.

python -m benchmarks money

Every key that a source is asked for has a price. Requests have a long budget, so that
only money decides. *max_price* is what a request says that its fetches may cost
together. *Fetch all* and *cascade* are the rivals of `ahead`; the cascade has a
threshold for each share of unsure answers. Sources count the keys, whoever asks.
"""

import argparse
import contextlib
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import report
from .ahead import POLYDOM
from .mix import (
    Requests,
    Server,
    addresses,
    build_index,
    serve_polydom,
    sources_of,
    times_of,
    write_fetches,
)
from .rivals import serve_rival, train
from .tables import FAST, FOLDERS, SLOW, TABLES

PRICES = {FAST: 0.001, SLOW: 0.002}  # dollars of a key
BUDGET_MS = 200.0
RATE = 100.0
ALL = sum(PRICES.values())
MOST = (0.0, *PRICES.values(), ALL)
THRESHOLDS = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of cascades


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Ask polydom with several terms, and rivals."""
    quick, rows = given.quick, []
    table = TABLES["drawn" if quick else given.table]()
    with contextlib.ExitStack() as stack:
        sources = stack.enter_context(sources_of(table, "log-normal"))
        path = build_index(table, sources, folder, quick=quick, prices=PRICES)
        file = write_fetches(folder / "fetches.toml", sources)
        models = train(table, times_of(path))
        contenders: list[tuple[str, Server, dict[str, Any]]] = []
        server = stack.enter_context(Server.of(serve_polydom, path, file))
        for most in MOST[-1:] if quick else MOST:
            contenders.append((f"{POLYDOM}, {most:g}", server, {"max_price": most}))
        contenders.append((f"{POLYDOM}, any", server, {}))
        rivals = [("fetch all", models)]
        for least in () if quick else THRESHOLDS:
            rivals.append(("cascade", replace(models, threshold=least)))
        for name, own in rivals:
            terms = (own, addresses(sources), name)
            rival = stack.enter_context(Server.of(serve_rival, *terms))
            told = f"{name}, {own.threshold:g}" if name == "cascade" else name
            contenders.append((told, rival, {}))
        count, rate = (10, 20.0) if quick else (given.requests, RATE)
        for name, server, more in contenders:
            requests = Requests.draw(table, count, 0, [BUDGET_MS], **more)
            server.warm_up(requests.bodies[:WARM])
            for one in sources.values():
                one.asked()
            answers = requests.ask(server, rate)
            asked = {fetch: one.asked() / count for fetch, one in sources.items()}
            dollars = sum(PRICES[fetch] * share for fetch, share in asked.items())
            rows.append(
                {
                    "": name,
                    "right": float(answers.right.mean()),
                    "+-": float(answers.right.std() / count**0.5),
                    "right and in time": float(answers.within(BUDGET_MS)[1].mean()),
                    "dollars a 1,000": 1e3 * dollars,
                    "of all": dollars / ALL,
                    **{f"{fetch} asked": share for fetch, share in asked.items()},
                    "median ms": float(np.median(np.minimum(answers.took_ms, 1e4))),
                }
            )
    return {"money": rows}


WARM = 50


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--table", choices=[*FOLDERS], default="adult")
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--cache", type=Path, help="keep the index here")
    given = parser.parse_args(arguments)
    if not given.quick:
        report.need(given, FOLDERS[given.table])
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        report.tell(measure(given, folder), given)
