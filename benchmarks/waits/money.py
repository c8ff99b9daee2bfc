"""What accuracy costs, if fetches have prices and requests say what they may spend.

python -m benchmarks money

python -m benchmarks money --paid slow        the fast source is free

Every key that a source is asked for has a price. Requests have a long budget, so that
only money decides. *At most* is what a request says that its fetches may cost together
(`max_price`), *mean* what an operator says that requests may cost in the mean
(`--mean-price`). *Fetch all* and *cascade* are the rivals of `ahead`; the cascade has
several thresholds. Sources count the keys, whoever asks.
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
    SETTINGS,
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
RATE = 200.0
MEANS = (0.2, 0.4, 0.5, 0.65, 0.8)  # of the price of all
WARM = 200  # requests of each contender that do not count
THRESHOLDS = (0.7, 0.8, 0.9, 0.95)  # of cascades


def measure(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Ask polydom with several terms, and rivals."""
    quick, rows = given.quick, []
    table = TABLES["drawn" if quick else given.table]()
    prices = {fetch: PRICES[fetch] for fetch in given.paid}
    dollars = sum(prices.values())
    with contextlib.ExitStack() as stack:
        sources = stack.enter_context(sources_of(table, "log-normal"))
        path = build_index(table, sources, folder, quick=quick, prices=prices)
        file = write_fetches(folder / "fetches.toml", sources)
        models = train(table, times_of(path))
        contenders: list[tuple[str, Server, dict[str, Any]]] = []
        server = stack.enter_context(Server.of(serve_polydom, path, file))
        for most in () if quick else sorted({0.0, *prices.values()}):
            contenders.append(
                (f"{POLYDOM}, at most {most:g}", server, {"max_price": most})
            )
        contenders.append((POLYDOM, server, {}))
        for share in MEANS[:1] if quick else MEANS:
            settings = replace(SETTINGS, mean_price=share * dollars)
            own = Server.of(serve_polydom, path, file, settings)
            name = f"{POLYDOM}, mean {share * dollars:g}"
            contenders.append((name, stack.enter_context(own), {}))
        rivals = [("fetch all", models)]
        for least in () if quick else THRESHOLDS:
            rivals.append((f"cascade, {least:g}", replace(models, threshold=least)))
        for name, known in rivals:
            terms = (known, addresses(sources), name.partition(",")[0])
            rival = stack.enter_context(Server.of(serve_rival, *terms))
            contenders.append((name, rival, {}))
        count, rate = (10, 20.0) if quick else (given.requests, RATE)
        for name, server, more in contenders:
            requests = Requests.draw(table, count, 0, [BUDGET_MS], **more)
            server.warm_up(Requests.draw(table, WARM, 99, [BUDGET_MS], **more).bodies)
            for one in sources.values():
                one.asked()
            answers = requests.ask(server, rate)
            asked = {fetch: one.asked() / count for fetch, one in sources.items()}
            spent = sum(price * asked[fetch] for fetch, price in prices.items())
            rows.append(
                {
                    "": name,
                    "right": float(answers.right.mean()),
                    "right and in time": float(answers.within(BUDGET_MS)[1].mean()),
                    "+-": float(answers.right.std() / count**0.5),
                    "dollars of 1,000": 1e3 * spent,
                    "of all": spent / dollars,
                    **{f"{fetch} asked": share for fetch, share in asked.items()},
                    "median ms": float(np.median(np.minimum(answers.took_ms, 1e4))),
                }
            )
    return {"money": rows}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__, data=True)
    parser.add_argument("--table", choices=[*FOLDERS], default="adult")
    parser.add_argument("--paid", nargs="+", choices=[*PRICES], default=[*PRICES])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--cache", type=Path, help="keep the index here")
    given = parser.parse_args(arguments)
    if not given.quick:
        report.need(given, FOLDERS[given.table])
    with tempfile.TemporaryDirectory() as made:
        folder = given.cache or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        report.tell(measure(given, folder), given)
