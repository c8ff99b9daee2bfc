"""Scoring of many items under one budget, by this process or by several."""

import itertools
import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence, Sized
from pathlib import Path
from typing import NamedTuple, Self

from polydom.features.errors import BadInput, PolydomError
from polydom.features.items import Item
from polydom.indexer.cluster.workers import Workers
from polydom.indexer.index.index import Index

from ..batch.batch_budget import (
    CHUNK,
    Answered,
    Assignment,
    BatchBudget,
    Chunk,
    Numbered,
    Result,
    try_each,
)
from ..batch.batch_plan import amount_in
from ..batch.top_k import TopK, make_top_k
from ..engine.request import Outcome
from ..runtime.translator import Translator
from ..runtime.warm_up import open_translator
from .output_row import ScorableItem, Scored, as_item, row_of
from .worker_index import IndexFile

CURE = "use fewer workers (`--on local:2`); rows in a file go on with `--resume`"


def score_items(
    index: str | os.PathLike[str] | Index,
    items: Iterable[ScorableItem],
    total_budget_s: float | None = None,
    *,
    total_budget: float | None = None,
    features: Sequence[Path] = (),
    count: int | None = None,
    label: str | None = None,
    top: int | None = None,
    workers: int = 1,
    exact: bool = False,
) -> Iterator[Scored]:
    """Classify items one after the other under one budget.

    Parameters
    ----------
    index
        An index with models, or its file.
    items
        Bytes of images, texts, or mappings of columns; read in chunks of 64.
    total_budget_s, total_budget
        Budget for all items together: seconds from the first item on or, if the index
        counts no time, an amount in its unit.
    features
        Python files with your own features.
    count
        Number of items; by default `len(items)` if the items have a length.
    label, top
        Yield only the `top` items that are likeliest of class `label`, likeliest first.
    workers
        Number of processes; with more than one, `index` must be a file.
    exact
        True to evaluate models completely, so that every answer has scores. With `top`,
        models are always evaluated completely.

    Yields
    ------
    A `Scored` for each item, in order; its `item` is the item's position.

    Raises
    ------
    BadInput
        If the budget is missing, or an argument is out of its range.
    BadIndexFile, BadFeature
        If the index cannot answer.
    WorkerLost
        If one of several processes is killed again and again.
    """
    ready = ReadyIndex.of(index, features, workers)
    amount = amount_in(
        ready.translator.unit,
        ("total_budget_s", total_budget_s),
        ("total_budget", total_budget),
    )
    if count is None and isinstance(items, Sized):
        count = len(items)
    yield from score_by(
        ready, items, amount, count=count, label=label, top=top, exact=exact
    )


class ReadyIndex(NamedTuple):
    """An index that is ready to answer in this process, or in several others."""

    translator: Translator
    # File that the other processes have opened; None if only this process answers
    file: IndexFile | None = None
    workers: int = 1

    @classmethod
    def of(
        cls,
        index: str | os.PathLike[str] | Index,
        features: Sequence[Path] = (),
        workers: int = 1,
    ) -> Self:
        """Open an index in all processes, and run its features and models once.

        Code is compiled in this time, which is therefore in no budget. Raises the
        errors of `score_items`.
        """
        if workers < 1:
            raise BadInput(f"workers is {workers}; it must be 1 or more")
        if workers == 1:
            return cls(open_translator(index, features))
        if isinstance(index, Index):
            raise BadInput("several workers need the index as a file")
        file, _ = IndexFile.of(index, features)
        translator = open_translator(index, features)
        each = [(file,)] * workers
        for _ in Workers.here(workers).run(_open, each, stage="opening", cure=CURE):
            pass
        return cls(translator, file, workers)


def score_by(
    ready: ReadyIndex,
    items: Iterable[ScorableItem],
    amount: float,
    *,
    count: int | None = None,
    label: str | None = None,
    top: int | None = None,
    exact: bool = False,
) -> Iterator[Scored]:
    """Classify items as `score_items` does, by an index that is ready.

    `amount` is the budget of all items: seconds from the first item on, or an amount in
    the index's unit.
    """
    translator, file, workers = ready
    given = enumerate(as_item(translator, item) for item in items)
    # reading the first item may import libraries
    first = [*itertools.islice(given, 1)]
    budget = BatchBudget(
        translator.planner, amount, count=count, workers=workers, exact=exact
    )
    numbered = itertools.chain(first, given)
    if file is None:
        results = answer(budget, numbered)
    else:
        results = _answer_by_many(budget, file, workers, numbered)
    top_k = make_top_k(budget, label, top)
    if top_k is not None:
        results = _best_of(top_k, results)
    for result in results:
        yield row_of(translator, result)


def answer(budget: BatchBudget, items: Iterable[Numbered]) -> Iterator[Result]:
    """Answer numbered items in chunks within a budget; yield the results in order."""
    for chunk in _chunks(items):
        yield from budget.answers(chunk)


def _answer_by_many(
    budget: BatchBudget, file: IndexFile, workers: int, items: Iterable[Numbered]
) -> Iterator[Result]:
    """Choose plans in this process, carry them out in others, and yield results."""
    under_way: deque[tuple[list[Numbered], Chunk]] = deque()

    def calls() -> Iterator[tuple[IndexFile, list[Assignment]]]:
        for given in _chunks(items):
            chunk = budget.plan([item for _, item in given if isinstance(item, Item)])
            under_way.append((given, chunk))
            yield file, chunk.assignments

    finished = Workers.here(workers).run(_work, calls(), stage="scoring", cure=CURE)
    for outcomes, all_s in finished:  # in the order of the calls
        given, chunk = under_way.popleft()
        chunk.all_s = all_s
        yield from chunk.results(given, iter(outcomes))


def _open(file: IndexFile) -> None:
    file.open()


def _work(
    file: IndexFile, assignments: list[Assignment]
) -> tuple[list[Outcome | PolydomError], float]:
    """Carry out plans in a worker; return the outcomes, and the seconds they took."""
    planner = file.open().translator.planner
    began_s = planner.now()
    outcomes = list(try_each(planner, assignments))
    return outcomes, planner.now() - began_s


def _chunks(items: Iterable[Numbered]) -> Iterator[list[Numbered]]:
    rest = iter(items)
    while chunk := list(itertools.islice(rest, CHUNK)):
        yield chunk


def _best_of(top_k: TopK, results: Iterable[Result]) -> Iterator[Result]:
    """Yield the results of the items that are likeliest of a class, likeliest first.

    All `results` are read before the first is yielded. Failed items are left out.
    """
    for result in results:
        if isinstance(result, Answered):
            top_k.offer(result)
    for _ in top_k.improve():  # spends the rest of the budget on the likeliest items
        pass
    yield from top_k.ranking()
