"""Whether budgets hold on another machine than the build's, and on one that slows down.

python -m benchmarks drift                   builds, asks, prints two tables
python -m benchmarks drift --parts machines  one of them

The first table asks the server's engine, without HTTP, with the demo's index as it is
and with all its costs halved or doubled, as if it had been built on a machine twice as
fast or half as fast; its times of the samples are those of that machine too. Each is
asked as it says, with its costs rescaled at the start, with predictions only corrected
while answering, and with both. In the second table the machine is twice as slow in the
middle of the run. Both count the thread's processor time, so that other programs on the
machine do not matter.
"""

import argparse
import contextlib
import gc
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from polydom.features.items import Item, image_item
from polydom.features.threads import one_thread
from polydom.indexer import Index
from polydom.indexer.index.machine_speed import MachineFactors
from polydom.server.engine.budget import Deadline
from polydom.server.engine.executions.execution import execute
from polydom.server.engine.planning.planner import Planner
from polydom.server.engine.request import Request
from polydom.server.runtime.warm_up import WarmUp
from polydom.server.settings import Settings

from .. import report
from .indexes.demo_index import built, held_out, project

SPEEDS = (0.5, 1.0, 2.0)
BUDGETS_MS = (0.5, 0.75, 1.0, 1.5)
MODES = {
    "as it says": Settings(rescale=False, correct=False),
    "rescaled": Settings(rescale=True, correct=False),
    "corrected": Settings(rescale=False, correct=True),
    "both": Settings(rescale=True, correct=True),
}
ASKED = 300
SLOW_BUDGET_MS = 1.5
# requests of each part of the run that is disturbed in its middle
COURSE = {"before": 500, "first 30": 30, "then": 970, "after": 1500, "last": 500}
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


def other_machines(given: argparse.Namespace, demo: "Demo") -> list[dict[str, Any]]:
    """Ask indexes of other machines; a row for each speed and mode."""
    items, labels = demo.some(10 if given.quick else given.asked)
    rows = []
    with alone(demo.index):
        for speed in SPEEDS[:1] if given.quick else SPEEDS:
            index = as_if_built(demo.index, speed)
            for mode, settings in MODES.items():
                asker = Asker.start(index, settings, Clock())
                row: dict[str, Any] = {
                    "costs": f"{speed:g}",
                    "served": mode,
                    "warm-up s": asker.warm_s,
                }
                for ms in BUDGETS_MS:
                    in_time, right = asker.ask(items, labels, ms)
                    row |= {f"{ms:g} ms in time": in_time, f"{ms:g} ms right": right}
                rows.append(row)
    return rows


def slowed_down(given: argparse.Namespace, demo: "Demo") -> list[dict[str, Any]]:
    """Ask while all takes twice as long in the middle; a row without corrections."""
    shrunk = 50 if given.quick else 1
    course = {name: max(1, count // shrunk) for name, count in COURSE.items()}
    with alone(demo.index):
        return [one_course(mode, course, demo) for mode in ("rescaled", "both")]


def one_course(mode: str, course: dict[str, int], demo: "Demo") -> dict[str, Any]:
    """Ask in all parts of the course."""
    row: dict[str, Any] = {"served": mode}
    clock, at = Clock(), 0
    asker = Asker.start(demo.index, MODES[mode], clock)
    items, labels = demo.some(sum(course.values()))
    for name, count in course.items():
        slow = name in SLOW_PARTS
        clock.speed = 2.0 if slow else 1.0
        some = slice(at, at + count)
        in_time, right = asker.ask(items[some], labels[some], SLOW_BUDGET_MS)
        at += count
        row |= {f"{name}: in time": in_time, f"{name}: right": right}
        row[f"{name}: drift"] = asker.planner.drift.at(asker.planner.now())
    return row


@contextlib.contextmanager
def alone(index: Index) -> Iterator[None]:
    """Stay on one core, in one thread, with kernels and modules loaded."""
    report.pin()
    gc.collect()
    gc.freeze()
    try:
        with one_thread():
            Asker.start(index, MODES["as it says"], Clock())
            yield
    finally:
        gc.unfreeze()
        report.unpin()


class Demo:
    """The demo's index, and items that no model was trained on, again and again."""

    def __init__(self, folder: Path, quick: bool) -> None:
        self.path = built(folder, quick)
        self.index = Index.load(self.path)
        self._items, self._labels = held_out(project(quick))

    def some(self, count: int) -> tuple[list[Item], list[str]]:
        """The first so many, with their labels."""
        rows = [k % len(self._items) for k in range(count)]
        return [self._items[k] for k in rows], [self._labels[k] for k in rows]


PARTS: dict[str, Callable[[argparse.Namespace, Demo], list[dict[str, Any]]]] = {
    "machines": other_machines,
    "slowed": slowed_down,
}


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark."""
    parser = report.options(__name__)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--asked", type=int, default=ASKED, help="at each budget")
    parser.add_argument("--cache", type=Path, help="keep the index and cache here")
    given = parser.parse_args(arguments)
    if not report.CORES:
        sys.exit("this machine cannot pin a process to a core")
    with tempfile.TemporaryDirectory() as folder:
        demo = Demo(given.cache or Path(folder), given.quick)
        report.tell({part: PARTS[part](given, demo) for part in given.parts}, given)
