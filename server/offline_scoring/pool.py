"""Chunks of items carried out by several processes, as one of them planned."""

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context

from polydom.features.errors import PolydomError, WorkerLost
from polydom.features.items import Item

from ..batch.ledger import Assignment, Chunk, Ledger, Numbered, Result, try_each
from ..engine.outcome import Outcome
from .opened_index import IndexFile

Items = list[Numbered]
Worked = tuple[list[Outcome | PolydomError], float]


def answer_by_many(
    ledger: Ledger, file: IndexFile, workers: int, chunks: Iterable[Items]
) -> Iterator[Result]:
    """Plan here, and have every chunk carried out by one of several processes.

    Raises
    ------
    WorkerLost
        If one of them is killed.
    """
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    under_way: deque[tuple[Items, Chunk, Future[Worked]]] = deque()
    try:
        for items in chunks:
            chunk = ledger.plan([item for _, item in items if isinstance(item, Item)])
            under_way.append(
                (items, chunk, pool.submit(_work, file, chunk.assignments))
            )
            if len(under_way) > 2 * workers:
                yield from _finish(*under_way.popleft())
        while under_way:
            yield from _finish(*under_way.popleft())
    except BrokenProcessPool as error:
        cure = "use fewer workers (`--workers`); rows in a file go on with `--resume`"
        raise WorkerLost("scoring", cure) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _finish(items: Items, chunk: Chunk, future: "Future[Worked]") -> Iterator[Result]:
    outcomes, chunk.all_s = future.result()
    return chunk.results(items, iter(outcomes))


def _work(file: IndexFile, assignments: list[Assignment]) -> Worked:
    """Carry out a chunk; for the other processes."""
    planner = file.open().translator.planner
    began_s = planner.now()
    outcomes = list(try_each(planner, assignments))
    return outcomes, planner.now() - began_s
