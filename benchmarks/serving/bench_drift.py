"""Whether budgets hold on another machine than the build's, and on one that slows down.

python -m benchmarks.serving.bench_drift         builds, asks, prints two tables
python -m benchmarks.serving.bench_drift --load  a third table, from a server under load
python -m benchmarks.serving.bench_drift --json  one JSON object, for the record

The first table asks the server's engine, without HTTP, with the demo's index as it is
and with all its costs halved or doubled, as if it had been built on a machine twice as
fast or half as fast; its times of the samples are those of that machine too. Each is
asked as it says, with its costs rescaled at the start, with predictions only corrected
while answering, and with both. In the second table the machine is twice as slow in the
middle of the run. Both count the thread's processor time, so that other programs on the
machine do not matter. With --burn the second counts real time, and what slows the
machine down is a program that burns the same core. With --load a third table shows
what a server answers over HTTP to small budgets before, while and after other programs
load all cores, by the clock of who asks: right answers in time are what counts.
"""

import argparse
import gc
import multiprocessing
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.items import Item, image_item
from polydom.features.threads import one_thread
from polydom.indexer import Index, build
from polydom.indexer.building.data.dataset import split
from polydom.indexer.building.data.read_items import load_data
from polydom.indexer.building.project import Project
from polydom.indexer.index.machine_factors import MachineFactors
from polydom.server.engine.budget import Deadline
from polydom.server.engine.execution import execute
from polydom.server.engine.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.runtime.warm_up import WarmUp
from polydom.server.settings import Settings

from .. import report
from ..places import DEMO
from . import busy_phases

SPEEDS = (0.5, 1.0, 2.0)
BUDGETS_MS = (0.5, 0.75, 1.0, 1.5)
MODES = {
    "as it says": Settings(rescale=False, correct=False),
    "rescaled": Settings(rescale=True, correct=False),
    "corrected": Settings(rescale=False, correct=True),
    "both": Settings(rescale=True, correct=True),
}
ASKED = 300
CORE = 1
SLOW_BUDGET_MS = 1.5
# requests of each part of the run that is disturbed in its middle
PARTS = {"before": 500, "first 30": 30, "then": 970, "after": 1500, "last": 500}
SLOW_PARTS = ("first 30", "then")


class Clock:
    """The thread's processor time, which may be made to run faster."""

    def __init__(self) -> None:
        self.speed = 1.0
        self._before_s = self._now_s = 0.0

    def __call__(self) -> float:
        time_s = time.thread_time()
        self._now_s += self.speed * (time_s - self._before_s)
        self._before_s = time_s
        return self._now_s


@dataclass(frozen=True)
class Asker:
    """A planner as the server has it, pinned and warm."""

    planner: Planner
    warm_s: float

    @classmethod
    def start(
        cls, index: Index, settings: Settings, now: Callable[[], float]
    ) -> "Asker":
        assert index.package is not None
        extractor, corrects = index.package.extractor(), settings.correct
        planner = Planner(index, extractor, now=now, corrects=corrects)
        start = time.perf_counter()
        WarmUp(planner, rescales=settings.rescale).run()
        return cls(planner, time.perf_counter() - start)

    def ask(
        self, items: list[Item], labels: list[str], budget_ms: float
    ) -> tuple[float, float]:
        """Share of answers in time, and share that are right."""
        planner, in_time, right = self.planner, 0, 0
        for item, label in zip(items, labels, strict=True):
            assert isinstance(item.payload, bytes)
            arrived_s = planner.now()
            deadline = Deadline(arrived_s, budget_ms / 1e3)
            request = Request(image_item(item.payload), deadline)
            outcome = execute(planner, request)
            in_time += outcome.finished_s <= deadline.due_s
            right += outcome.label == label
        return in_time / len(items), right / len(items)


def as_if_built(index: Index, speed: float) -> Index:
    """The index that a machine on which all takes `speed` times as long would make."""
    package = index.package
    assert package is not None
    count, steps = len(package.features), len(package.costs.step_coefficients)
    factors = MachineFactors(speed, np.full(steps, speed), np.full(count, speed), speed)
    pace = {
        name: (speed * np.array(times)).tolist()
        for name, times in package.meta["pace"].items()
    }
    scaled = index.rescaled(factors, np.zeros(count))
    assert scaled.package is not None
    meta = package.meta | {"pace": pace}
    return replace(scaled, package=replace(scaled.package, meta=meta))


def held_out(plan: Project, count: int) -> tuple[list[Item], list[str]]:
    """Items that no model was trained on, and their labels."""
    dataset = load_data(plan)
    ((_, rows),) = split(dataset, seed=plan.seed, held_out=0.25, folds=None)
    rows = np.random.default_rng(plan.seed).permutation(rows)
    rows = np.resize(rows, count)
    labels = [dataset.labels[dataset.codes[row]] for row in rows]
    return [dataset.items[row] for row in rows.tolist()], labels


def burn() -> None:
    """Keep the core busy."""
    report.pin(CORE)
    while True:
        sum(range(10_000))


def other_machines(
    index: Index, items: list[Item], labels: list[str]
) -> list[dict[str, Any]]:
    """The first table, a row for each speed and mode."""
    rows = []
    for speed in SPEEDS:
        built = as_if_built(index, speed)
        for mode, settings in MODES.items():
            asker = Asker.start(built, settings, Clock())
            row: dict[str, Any] = {
                "costs": f"{speed:g}",
                "mode": mode,
                "warm-up s": asker.warm_s,
            }
            for ms in BUDGETS_MS:
                in_time, right = asker.ask(items, labels, ms)
                row |= {f"{ms:g} ms in time": in_time, f"{ms:g} ms right": right}
            rows.append(row)
    return rows


def slowed_down(
    index: Index, items: list[Item], labels: list[str], mode: str, burns: bool
) -> dict[str, Any]:
    """A row of the second table: a run in whose middle all takes twice as long."""
    row: dict[str, Any] = {"mode": mode}
    burner = multiprocessing.get_context("spawn").Process(target=burn, daemon=True)
    clock = Clock()
    asker = Asker.start(index, MODES[mode], time.monotonic if burns else clock)
    at = 0
    for name, count in PARTS.items():
        clock.speed = 2.0 if name in SLOW_PARTS else 1.0
        if burns and name == SLOW_PARTS[0]:
            burner.start()
            time.sleep(1.0)
        if burns and name == "after":
            burner.kill()
            burner.join()
        some = slice(at, at + count)
        in_time, right = asker.ask(items[some], labels[some], SLOW_BUDGET_MS)
        at += count
        row |= {f"{name}: in time": in_time, f"{name}: right": right}
        row[f"{name}: drift"] = asker.planner.drift.at(asker.planner.now())
    return row


def run(arguments: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Build and ask."""
    plan = Project.load(DEMO)
    path = folder / "digits.pdx"
    if path.exists():
        index = Index.load(path)
    else:
        index = build(plan, output=path, cache=folder / "cache")
    items, labels = held_out(plan, sum(PARTS.values()))
    loaded = []
    if arguments.load:
        some = slice(arguments.asked)
        for rate in busy_phases.RATES:
            loaded += busy_phases.phases(path, items[some], labels[some], rate)
    report.pin(CORE)
    gc.collect()
    gc.freeze()
    asked = slice(arguments.asked)
    with one_thread():
        # kernels are loaded and modules imported then
        Asker.start(index, MODES["as it says"], Clock())
        return {
            "machines": other_machines(index, items[asked], labels[asked]),
            "slowed": [
                slowed_down(index, items, labels, mode, arguments.burn)
                for mode in ("rescaled", "both")
            ],
            "loaded": loaded,
        }


def main() -> None:
    parser = report.options(__doc__)
    parser.add_argument("--burn", action="store_true", help="slow down by a program")
    parser.add_argument("--load", action="store_true", help="ask a loaded server too")
    parser.add_argument("--asked", type=int, default=ASKED, help="at each budget")
    parser.add_argument("--cache", type=Path, help="keep the index and cache here")
    arguments = parser.parse_args()
    if not hasattr(os, "sched_setaffinity"):
        sys.exit("this machine cannot pin a process to a core")
    with tempfile.TemporaryDirectory() as folder:
        report.tell(run(arguments, arguments.cache or Path(folder)), arguments.json)


if __name__ == "__main__":
    main()
