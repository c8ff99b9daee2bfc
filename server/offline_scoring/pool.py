"""Chunks of items carried out by several processes, as one of them planned."""

from collections import deque
from collections.abc import Iterable, Iterator

from polydom.features.errors import PolydomError
from polydom.features.items import Item
from polydom.indexer.cluster.workers import Workers

from ..batch.ledger import Assignment, Chunk, Ledger, Numbered, Result, try_each
from ..engine.outcome import Outcome
from .opened_index import IndexFile

Items = list[Numbered]
CURE = "use fewer workers (`--on local:2`); rows in a file go on with `--resume`"


def answer_by_many(
    ledger: Ledger, file: IndexFile, workers: int, chunks: Iterable[Items]
) -> Iterator[Result]:
    """Plan here, and have every chunk carried out by one of several processes.

    Raises
    ------
    WorkerLost
        If one of them is killed again and again.
    """
    under_way: deque[tuple[Items, Chunk]] = deque()

    def calls() -> Iterator[tuple[IndexFile, list[Assignment]]]:
        for items in chunks:
            chunk = ledger.plan([item for _, item in items if isinstance(item, Item)])
            under_way.append((items, chunk))
            yield file, chunk.assignments

    spread = Workers.here(workers).run(_work, calls(), stage="scoring", cure=CURE)
    for outcomes, all_s in spread:
        items, chunk = under_way.popleft()
        chunk.all_s = all_s
        yield from chunk.results(items, iter(outcomes))


def _work(
    file: IndexFile, assignments: list[Assignment]
) -> tuple[list[Outcome | PolydomError], float]:
    """Carry out a chunk; for the other processes."""
    planner = file.open().translator.planner
    began_s = planner.now()
    outcomes = list(try_each(planner, assignments))
    return outcomes, planner.now() - began_s
