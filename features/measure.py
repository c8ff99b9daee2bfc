"""Measuring what features and steps cost, by the clock on the wall."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .errors import BadInput
from .extract import FLOAT32, Extractor
from .items import Item

if sys.platform == "linux":
    import resource

Floats = NDArray[np.float64]
T = TypeVar("T")

TRIES = 5


class Timings(NamedTuple):
    """Measured times, one row per item and repeat.

    Attributes
    ----------
    sizes : (M,) or (M, 2) float64
        Of the items.
    feature_s : (M, m) float64
        Seconds of each feature without its steps; those declared where they are.
    step_s : (M, s) float64
        Seconds of each step.
    """

    sizes: Floats
    feature_s: Floats
    step_s: Floats


def busy_clock() -> Callable[[], float]:
    """Return the clock of a thread's processor seconds, if it ticks finely enough.

    Unlike a clock on the wall it stands still while other threads and processes run.
    """
    fine = time.get_clock_info("thread_time").resolution <= 1e-6
    return time.thread_time if fine else time.perf_counter


def measure(
    extractor: Extractor,
    items: Sequence[Item],
    *,
    repeats: int = 3,
    seed: int = 0,
    now: Callable[[], float] = time.perf_counter,
    progress: Callable[[int, int], None] | None = None,
) -> Timings:
    """Time every step and feature of items, warm and on one thread.

    Each item is worked on `repeats` times, items and repeats in shuffled order, and so
    are the features and steps of an item as far as their needs allow: what drifts with
    time or is left in the caches is spread over all of them. Every item is run once
    untimed before. Garbage is collected before and not meanwhile. What is measured is
    the feature, not the machine's other users: where the system tells (Linux), a call
    during which another process took the processor is measured again.

    Parameters
    ----------
    extractor
        What to measure.
    items
        At least one, over the range of sizes that will be asked for.
    repeats
        At least 1.
    seed
        Of the order.
    now
        A clock in seconds.
    progress
        Called with (done, total) after each item of each repeat.

    Raises
    ------
    BadInput
        If there are no items or no repeats.
    BadItem, BadFeature
        If an item cannot be used, or a feature fails on it.
    """
    if not items or repeats < 1:
        raise BadInput(
            f"{len(items)} items and {repeats} repeats came; "
            "at least one of each is needed"
        )
    random = np.random.default_rng(seed)
    runs = random.permutation(np.repeat(np.arange(len(items)), repeats))
    timings = Timings(
        np.array([items[run].size for run in runs]),
        np.tile(
            [feature.declared.get("s", np.nan) for feature in extractor.features],
            (len(runs), 1),
        ),
        np.empty((len(runs), len(extractor.steps))),
    )
    with quiet():
        extractor.warm(items)
        for row, run in enumerate(runs):
            order = shuffled(extractor, random)
            time_item(extractor, items[run], f"item {run}", order, now, timings, row)
            if progress is not None:
                progress(row + 1, len(runs))
    return timings


def time_item(
    extractor: Extractor,
    item: Item,
    where: str,
    order: Sequence[int],
    now: Callable[[], float],
    timings: Timings,
    row: int,
) -> None:
    """Time the nodes of one item in an order, into one row of the timings."""
    extraction = extractor.begin(item, np.empty(extractor.width, FLOAT32), where)
    steps = len(extractor.steps)
    for node in order:
        if node < steps:
            timings.step_s[row, node] = time_call(extraction.compute_step, node, now)
        elif "s" not in extractor.features[node - steps].declared:
            timings.feature_s[row, node - steps] = time_call(
                extraction.compute, node - steps, now
            )


def time_call(
    call: Callable[[T], object],
    node: T,
    now: Callable[[], float],
    tries: int = TRIES,
) -> float:
    """Seconds of a call, made again while it is interrupted, a few times."""
    for _ in range(tries):
        before, start = interruptions(), now()
        call(node)
        seconds = now() - start
        if interruptions() == before:
            break
    return seconds


def interruptions() -> int:
    """How often the processor was taken from this thread; 0 where nobody counts."""
    if sys.platform != "linux":
        return 0
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def shuffled(extractor: Extractor, random: np.random.Generator) -> list[int]:
    """Draw an order of all nodes, steps before features, in which needs come first."""
    steps = len(extractor.steps)
    waits = [set(call.sources) - {steps} for call in extractor.step_calls]
    waits += [set(needed) for needed in extractor.needs]
    order: list[int] = []
    while len(order) < len(waits):
        ready = [
            node
            for node, awaited in enumerate(waits)
            if node not in order and awaited <= set(order)
        ]
        order.append(int(random.choice(ready)))
    return order


@contextmanager
def quiet() -> Iterator[None]:
    """Keep numerical libraries to one thread and the garbage collector away."""
    from threadpoolctl import threadpool_limits

    collecting = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        with threadpool_limits(1):
            yield
    finally:
        gc.unfreeze()
        if collecting:
            gc.enable()
