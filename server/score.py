"""Many items answered in this process, under one budget for all."""

import functools
import itertools
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec

from ..features.errors import (
    BadFeature,
    BadInput,
    BadItem,
    PolydomError,
    WorkerLost,
)
from ..features.items import Gaps, Item
from ..indexer.index import Index
from .bulk import Bulk, Chunk, Dish, Result, carry_out, gaps_of
from .codec import Desk
from .finalists import Finalists
from .outcome import Outcome
from .warm_up import open_desk

CHUNK = 64
AnyItem = Item | bytes | str | Mapping[str, Any] | PolydomError


class Scored(msgspec.Struct, repr_omit_defaults=True):
    """What became of one item; `error` or what was answered is None.

    `item` is its position or name. `cost` is what was spent on it, in the index's
    unit: measured seconds of features and model, or what the plan costs. `unknown` and
    `missing` are as in `Answer`, None where there is nothing to tell.
    """

    item: int | str
    label: str | None = None
    scores: dict[str, float] | None = None
    features: tuple[str, ...] | None = None
    expected_accuracy: float | None = None
    cost: float | None = None
    error: str | None = None
    unknown: tuple[str, ...] | None = None
    missing: int | None = None


def score_items(
    index: str | os.PathLike[str] | Index,
    items: Iterable[AnyItem],
    total_budget_s: float | None = None,
    *,
    total_budget: float | None = None,
    features: Sequence[Path] = (),
    count: int | None = None,
    label: str | None = None,
    top: int | None = None,
    workers: int = 1,
) -> Iterator[Scored]:
    """Classify items one after the other, under one budget for all.

    Parameters
    ----------
    index
        An index with models, or its file.
    items
        Images' bytes, texts or mappings of columns; taken in chunks of 64.
    total_budget_s, total_budget
        What all may cost together: seconds from the first item on, or an amount in the
        unit of an index that counts no time.
    features
        Python files with features of your own.
    count
        How many items there are; if not given, `len(items)` where there is such.
    label, top
        Give only the `top` items most likely of class `label`, the likeliest first.
    workers
        Processes; more than one needs `index` as a file.

    Yields
    ------
    What became of each item, in order; `item` is its position.

    Raises
    ------
    BadInput
        If the budget is missing, or terms are out of their ranges.
    BadIndexFile, BadFeature
        If the index cannot answer.
    WorkerLost
        If one of several processes is killed.
    """
    if count is None and isinstance(items, Sized):
        count = len(items)
    desk = open_desk(index, features)
    bulk = make_bulk(desk, total_budget_s, total_budget, count, workers)
    if workers == 1:
        answers: Callable[..., Iterator[Result]] = functools.partial(_answer, bulk)
    elif isinstance(index, Index):
        raise BadInput("several workers need the index as a file")
    else:
        opened = (os.fspath(index), tuple(features))
        answers = functools.partial(_answer_by_many, bulk, opened, workers)
    numbered = enumerate(_as_item(desk, item) for item in items)
    if label is None and top is None:
        for result in answers(numbered):
            yield scored(desk, result)
    elif label is None or top is None:
        raise BadInput("label and top go together: the likeliest items of a class")
    else:
        yield from _best_of(desk, Finalists(bulk, label, top), answers, numbered)


def make_bulk(
    desk: Desk,
    total_budget_s: float | None,
    total_budget: float | None,
    count: int | None,
    workers: int,
) -> Bulk:
    """Begin to spend a budget given in one of two ways.

    Raises
    ------
    BadInput
        If it is given in none, in both or in the wrong one, or is out of its range.
    """
    wanted, other = total_budget_s, total_budget
    name = "total_budget_s"
    if desk.unit != "s":
        wanted, other, name = total_budget, total_budget_s, "total_budget"
    if wanted is None or other is not None:
        raise BadInput(
            f"this index counts costs in {desk.unit}: give {name}, and only that"
        )
    if not 0 <= wanted < float("inf"):
        raise BadInput(f"{name} is {wanted}; it must be a finite number, 0 or more")
    if workers < 1:
        raise BadInput(f"workers is {workers}; it must be 1 or more")
    return Bulk(desk.engine, wanted, count=count, workers=workers)


def scored(desk: Desk, result: Result, name: str | None = None) -> Scored:
    """Write a result as a row."""
    item: int | str = result.number if name is None else name
    outcome = result.outcome
    if isinstance(outcome, PolydomError):
        return Scored(item, error=str(outcome))
    cost = outcome.predicted
    if desk.unit == "s":
        cost = outcome.finished_s - outcome.started_s
    gaps = result.gaps or Gaps()
    return Scored(
        item,
        outcome.label,
        outcome.scores,
        desk.names[outcome.row],
        outcome.accuracy,
        cost,
        unknown=gaps.unknown or None,
        missing=gaps.missing or None,
    )


def _as_item(desk: Desk, item: AnyItem) -> Item | PolydomError:
    if isinstance(item, PolydomError):
        return item
    try:
        return desk.read(item.payload if isinstance(item, Item) else item)
    except BadItem as error:
        return error


def _answer(
    bulk: Bulk, items: Iterable[tuple[int, Item | PolydomError]]
) -> Iterator[Result]:
    for chunk in _chunks(items):
        yield from bulk.answers(chunk)


def _chunks(
    items: Iterable[tuple[int, Item | PolydomError]],
) -> Iterator[list[tuple[int, Item | PolydomError]]]:
    rest = iter(items)
    while chunk := list(itertools.islice(rest, CHUNK)):
        yield chunk


def _best_of(
    desk: Desk,
    finalists: Finalists,
    answers: Callable[..., Iterator[Result]],
    items: Iterator[tuple[int, Item | PolydomError]],
) -> Iterator[Scored]:
    """Offer all that can be answered; the others are not listed."""
    offered: deque[Item | PolydomError] = deque()

    def remembered() -> Iterator[tuple[int, Item | PolydomError]]:
        for number, item in items:
            offered.append(item)
            yield number, item

    for result in answers(remembered()):
        item = offered.popleft()
        if isinstance(item, Item) and isinstance(result.outcome, Outcome):
            finalists.offer(result.number, item, result.outcome)
    for _ in finalists.improve():
        pass
    for result, _ in finalists.ranking():
        yield scored(desk, result)


Opened = tuple[str, tuple[Path, ...]]
Worked = tuple[list[Outcome | PolydomError], float]


def _answer_by_many(
    bulk: Bulk,
    opened: Opened,
    workers: int,
    items: Iterable[tuple[int, Item | PolydomError]],
) -> Iterator[Result]:
    """Plan here, and have every chunk carried out by one of several processes."""
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    under_way: deque[tuple[list[Any], Chunk, Future[Worked]]] = deque()
    try:
        for chunk in _chunks(items):
            planned = bulk.plan([item for _, item in chunk if isinstance(item, Item)])
            worked = pool.submit(_work, opened, planned.dishes)
            under_way.append((chunk, planned, worked))
            if len(under_way) > 2 * workers:
                yield from _finish(*under_way.popleft())
        while under_way:
            yield from _finish(*under_way.popleft())
    except BrokenProcessPool as error:
        cure = "use fewer workers (`--workers`); rows in a file go on with `--resume`"
        raise WorkerLost("scoring", cure) from error
    finally:
        pool.shutdown(cancel_futures=True)


def _finish(
    chunk: list[tuple[int, Item | PolydomError]],
    planned: Chunk,
    future: "Future[Worked]",
) -> Iterator[Result]:
    outcomes, planned.all_s = future.result()
    done = iter(outcomes)
    with planned:
        for number, item in chunk:
            outcome = item if isinstance(item, PolydomError) else next(done)
            planned.enter(outcome)
            yield Result(number, outcome, gaps_of(item))


def _work(opened: Opened, dishes: list[Dish]) -> Worked:
    """Carry out a chunk; for the other processes."""
    desk = _desk_of(opened)
    began_s = desk.engine.now()
    outcomes: list[Outcome | PolydomError] = []
    for dish in dishes:
        try:
            outcomes.append(carry_out(desk.engine, dish))
        except BadFeature as error:
            outcomes.append(error)
    return outcomes, desk.engine.now() - began_s


@functools.lru_cache(maxsize=4)
def _desk_of(opened: Opened) -> Desk:
    """Keep an opened index for the next call in this process."""
    return open_desk(*opened)


class Scorer:
    """Classifies partitions of items: for whoever spreads them over a cluster.

    It holds a path and a number, so it can be sent anywhere; where it is called, the
    index is opened once for each process.

    Parameters
    ----------
    index
        File of the index, the same everywhere.
    item_budget_s, item_budget
        The mean that an item may cost: a partition's budget is so many times this.
    features
        Python files with features of your own.

    Examples
    --------
    ::

        scorer = Scorer("my.pdx", item_budget_s=0.005)
        rows = dask_bag.map_partitions(scorer)  # or spark_rdd.mapPartitions(scorer)
        ray_data.map_batches(lambda batch: {"answer": scorer(batch["text"])})
    """

    def __init__(
        self,
        index: str | os.PathLike[str],
        *,
        item_budget_s: float | None = None,
        item_budget: float | None = None,
        features: Sequence[Path] = (),
    ) -> None:
        self._opened: Opened = (os.fspath(index), tuple(features))
        self._item_budget_s = item_budget_s
        self._item_budget = item_budget

    def __call__(self, items: Iterable[AnyItem]) -> list[dict[str, Any]]:
        """Answer a partition; a dict with the fields of `Scored` for each item.

        Raises
        ------
        BadInput, BadIndexFile, BadFeature
            As `score_items`.
        """
        partition = list(items)
        desk, count = _desk_of(self._opened), len(partition)
        bulk = make_bulk(
            desk,
            None if self._item_budget_s is None else self._item_budget_s * count,
            None if self._item_budget is None else self._item_budget * count,
            count,
            workers=1,
        )
        numbered = enumerate(_as_item(desk, item) for item in partition)
        rows = [scored(desk, result) for result in _answer(bulk, numbered)]
        return [msgspec.structs.asdict(row) for row in rows]
