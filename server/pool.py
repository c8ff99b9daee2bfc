"""Chunks of items carried out by several processes, as one of them planned."""

import functools
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from ..features.errors import BadFeature, BadIndexFile, PolydomError, WorkerLost
from ..features.items import Item
from ..indexer.index import Index
from .bulk import Bulk, Dish, Result, carry_out, gaps_of
from .desk import Desk, Settings
from .engine import Engine
from .outcome import Outcome

# An index's file, and those with features of one's own.
Opened = tuple[str, tuple[Path, ...]]
Chunk = list[tuple[int, Item | PolydomError]]
Worked = tuple[list[Outcome | PolydomError], float]


def open_desk(index: str | os.PathLike[str] | Index, features: Sequence[Path]) -> Desk:
    """Load an index and make it ready to answer.

    Raises
    ------
    BadIndexFile, BadFeature
        As `Index.load` and `Package.extractor`.
    """
    loaded = index if isinstance(index, Index) else Index.load(index)
    if loaded.package is None:
        raise BadIndexFile("an index of candidates without models cannot answer")
    desk = Desk(Engine(loaded, loaded.package.extractor(features)), Settings())
    desk.warm_up()
    return desk


def answer_by_many(
    bulk: Bulk, opened: Opened, workers: int, chunks: Iterable[Chunk]
) -> Iterator[Result]:
    """Plan here, and have every chunk carried out by one of several processes.

    Raises
    ------
    WorkerLost
        If one of them is killed.
    """
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    under_way: deque[tuple[Chunk, float, Future[Worked]]] = deque()
    try:
        for chunk in chunks:
            dishes = bulk.plan([item for _, item in chunk if isinstance(item, Item)])
            cost = sum(bulk.cost_of(dish) for dish in dishes)
            bulk.promise(cost)
            under_way.append((chunk, cost, pool.submit(_work, opened, dishes)))
            if len(under_way) > 2 * workers:
                yield from _finish(bulk, *under_way.popleft())
        while under_way:
            yield from _finish(bulk, *under_way.popleft())
    except BrokenProcessPool as error:
        cure = "use fewer workers (`--workers`); rows in a file go on with `--resume`"
        raise WorkerLost("scoring", cure) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _finish(
    bulk: Bulk, chunk: Chunk, cost: float, future: "Future[Worked]"
) -> Iterator[Result]:
    outcomes, all_s = future.result()
    bulk.promise(-cost)
    done = iter(outcomes)
    for number, item in chunk:
        outcome = item if isinstance(item, PolydomError) else next(done)
        bulk.enter(outcome)
        yield Result(number, outcome, gaps_of(item))
    bulk.close(all_s)


def _work(opened: Opened, dishes: list[Dish]) -> Worked:
    """Carry out a chunk; for the other processes."""
    desk = desk_of(opened)
    began_s = desk.engine.now()
    outcomes: list[Outcome | PolydomError] = []
    for dish in dishes:
        try:
            outcomes.append(carry_out(desk, dish))
        except BadFeature as error:
            outcomes.append(error)
    return outcomes, desk.engine.now() - began_s


@functools.lru_cache(maxsize=4)
def desk_of(opened: Opened) -> Desk:
    """Keep an opened index for the next call in this process."""
    return open_desk(*opened)
