"""What one budget for many items buys, against the same for each; and a long stream.

python -m benchmarks batch [--stream ITEMS] [--index FILE.pdx]

The demo's digits, its held-out quarter: accuracy by the knapsack (all items known, and
as a stream in chunks of 64) and with an equal budget for each item; and of the items
listed as most likely of a class, the share that is, by two rounds and with an equal
budget for each. Budgets are in predicted seconds, so that these figures do not depend
on what else the machine does. Then a stream of short texts through a real server: items
a second, its memory, and the latency of single requests meanwhile.
"""

import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polydom.indexer import Index
from polydom.server.batch.batch_budget import (
    Answered,
    Assignment,
    BatchBudget,
    carry_out,
)
from polydom.server.batch.knapsack import Hulls, Shape, solve
from polydom.server.batch.top_k import TopK
from polydom.server.client.sync import Client
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Outcome
from polydom.server.errors import Overloaded
from polydom.server.schema.wire import Totals
from tests.support.indexes.served import FEATURES_FILE, HAM, SPAM, save_index
from tests.support.processes.servers import serving

from .. import report
from ..new_process import memory_kb
from .indexes.demo_index import held_out, index_file, project

PARTS = (0.02, 0.05, 0.1, 0.2, 0.4, 0.7)  # of what the best plans for all would cost
LISTED = 30


class Held:
    """The held-out digits, and what each plan of each answers."""

    def __init__(self, index: Index, quick: bool) -> None:
        assert index.package is not None
        # predicted seconds as money: nothing but plans is charged then
        meta = {**index.package.meta, "unit": "predicted s"}
        index = replace(index, package=replace(index.package, meta=meta))
        assert index.package is not None
        self.planner = Planner(index, index.package.extractor())
        self.items, self.labels = held_out(project(quick))
        hulls = Hulls(index, index.coefficients)
        self.hulls = [hulls.of(Shape.of(item)) for item in self.items]
        self._known: dict[tuple[int, int], Outcome] = {}
        self.most = sum(float(hull.costs[-1]) for hull in self.hulls)

    def outcome(self, number: int, row: int) -> Outcome:
        """The answer of a row for an item, computed once."""
        key = (number, row)
        if key not in self._known:
            self._known[key] = carry_out(
                self.planner, Assignment(self.items[number], row, exact=True)
            )
        return self._known[key]

    def even(self, amount: float) -> list[Outcome]:
        """Everyone has the same, and takes the best plan that fits."""
        each = amount / len(self.items)
        lookup, prior = self.planner.index.lookup, self.planner.prior
        rows = [lookup.best(item.size, each) for item in self.items]
        return [
            self.outcome(k, row if row >= 0 else prior) for k, row in enumerate(rows)
        ]

    def known(self, amount: float) -> list[Outcome]:
        """The knapsack over all at once."""
        places = solve(self.hulls, amount).places
        rows = [int(m.rows[at]) for m, at in zip(self.hulls, places, strict=True)]
        return [self.outcome(k, row) for k, row in enumerate(rows)]

    def streamed(self, amount: float, *, count: bool) -> list[Outcome]:
        """The knapsack along a stream in chunks of 64."""
        budget = BatchBudget(
            self.planner, amount, count=len(self.items) if count else None
        )
        found: list[Outcome] = []
        for start in range(0, len(self.items), 64):
            numbered = list(enumerate(self.items))[start : start + 64]
            chunk = budget.plan([item for _, item in numbered])
            outcomes = (
                self.outcome(number, assignment.row)
                for (number, _), assignment in zip(
                    numbered, chunk.assignments, strict=True
                )
            )
            for result in chunk.results(numbered, outcomes):
                assert isinstance(result, Answered)
                found.append(result.outcome)
        return found

    def share_right(self, outcomes: list[Outcome]) -> float:
        pairs = zip(outcomes, self.labels, strict=True)
        return float(np.mean([outcome.label == label for outcome, label in pairs]))

    def precision_even(self, amount: float, label: str) -> float:
        """Share of the class among those listed by equal budgets."""
        scores = [
            -np.inf if outcome.scores is None else outcome.scores.get(label, -np.inf)
            for outcome in self.even(amount)
        ]
        listed = np.argsort(-np.array(scores), kind="stable")[:LISTED]
        return float(np.mean([self.labels[k] == label for k in listed]))

    def precision_in_rounds(self, amount: float, label: str) -> float:
        """Share of the class among those listed by two rounds."""
        budget = BatchBudget(self.planner, amount, count=len(self.items))
        top_k = TopK(budget, label, LISTED)
        numbered = list(enumerate(self.items))
        for start in range(0, len(numbered), 64):
            for result in budget.answers(numbered[start : start + 64]):
                assert isinstance(result, Answered)
                top_k.offer(result)
        for _ in top_k.improve():
            pass
        listed = [result.number for result in top_k.ranking()]
        return float(np.mean([self.labels[k] == label for k in listed]))


def compare(held: Held) -> list[dict[str, float]]:
    """One row for each budget."""
    classes = sorted(set(held.labels))
    rows = []
    for part in PARTS:
        amount = part * held.most
        rows.append(
            {
                "part": part,
                "ms an item": 1e3 * amount / len(held.items),
                "even": held.share_right(held.even(amount)),
                "knapsack": held.share_right(held.known(amount)),
                "streamed": held.share_right(held.streamed(amount, count=True)),
                "unknown": held.share_right(held.streamed(amount, count=False)),
                "list even": float(
                    np.mean([held.precision_even(amount, c) for c in classes])
                ),
                "list rounds": float(
                    np.mean([held.precision_in_rounds(amount, c) for c in classes])
                ),
            }
        )
    return rows


def ask_singles(port: int, stop: threading.Event) -> list[tuple[float, bool]]:
    """Latency in ms and `budget_met` of one request after the other."""
    found = []
    with Client(f"http://127.0.0.1:{port}") as client:
        while not stop.wait(0.002):
            begun = time.perf_counter()
            try:
                met = client.predict(SPAM, budget_ms=20).budget_met
            except Overloaded:
                met = False
            found.append((1e3 * (time.perf_counter() - begun), met))
    return found


def quantiles(found: list[tuple[float, bool]]) -> dict[str, float]:
    took = np.array([ms for ms, _ in found])
    return {
        "asked": len(found),
        "p50 ms": float(np.quantile(took, 0.5)),
        "p99 ms": float(np.quantile(took, 0.99)),
        "met": float(np.mean([met for _, met in found])),
    }


def stream(count: int, alone_s: float, folder: Path) -> dict[str, Any]:
    """Send so many texts in one batch, and single requests meanwhile and before."""
    with serving(save_index(folder), f"--features={FEATURES_FILE}") as (process, port):
        stop, singles = threading.Event(), list[tuple[float, bool]]()
        threading.Timer(alone_s, stop.set).start()
        alone = quantiles(ask_singles(port, stop))
        memory = [memory_kb("VmRSS", process.pid) / 1024]
        stop = threading.Event()
        asking = threading.Thread(
            target=lambda: singles.extend(ask_singles(port, stop))
        )
        asking.start()

        def texts() -> Iterator[str]:
            for number in range(count):
                if number % max(1, count // 20) == 0:
                    memory.append(memory_kb("VmRSS", process.pid) / 1024)
                yield (HAM, SPAM)[number % 2]

        begun = time.perf_counter()
        with Client(f"http://127.0.0.1:{port}") as client:
            *_, totals = client.predict_batch(texts(), total_budget_ms=600_000)
        seconds = time.perf_counter() - begun
        stop.set()
        asking.join()
    assert isinstance(totals, Totals)
    assert (totals.items, totals.errors) == (count, 0)
    return {
        "a stream": {
            "items": count,
            "seconds": seconds,
            "items a second": count / seconds,
            "MB before": memory[0],
            "MB at most": max(memory),
        },
        "single requests": {
            "alone": alone,
            "beside the stream": quantiles(singles),
        },
    }


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--stream", type=int, default=100_000, help="0: none")
    parser.add_argument("--index", type=Path, help="the demo's, built before")
    given = parser.parse_args(arguments)
    quick = given.quick
    count, alone_s = (200, 0.1) if quick else (given.stream, 3.0)
    with (
        index_file(given.index, quick) as path,
        tempfile.TemporaryDirectory() as folder,
    ):
        held = Held(Index.load(path), quick)
        facts: dict[str, Any] = {"one budget for all": compare(held)}
        if count:
            facts |= stream(count, alone_s, Path(folder))
    report.tell(facts, given)
