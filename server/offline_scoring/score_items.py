"""Many items answered in this process, under one budget for all."""

import itertools
import os
from collections.abc import Iterable, Iterator, Sequence, Sized
from pathlib import Path

from polydom.features.errors import BadInput
from polydom.indexer.index.index import Index

from ..batch.batch_plan import amount_in
from ..batch.ledger import CHUNK, Answered, Ledger, Numbered, Result
from ..batch.top_k import TopK, make_top_k
from ..runtime.translator import Translator
from ..runtime.warm_up import open_translator
from .opened_index import IndexFile
from .pool import Items, answer_by_many
from .scored import ScorableItem, Scored, as_item, row_of


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
    exact
        Evaluate models whole, so that every answer has its scores; as with `top`.

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
    translator = open_translator(index, features)
    ledger = make_ledger(
        translator, total_budget_s, total_budget, count, workers, exact
    )
    if workers > 1 and isinstance(index, Index):
        raise BadInput("several workers need the index as a file")

    numbered = enumerate(as_item(translator, item) for item in items)
    if workers == 1 or isinstance(index, Index):
        results = answer(ledger, numbered)
    else:
        file, _ = IndexFile.of(index, features)
        results = answer_by_many(ledger, file, workers, _chunks(numbered))
    top_k = make_top_k(ledger, label, top)
    if top_k is not None:
        results = _best_of(top_k, results)
    for result in results:
        yield row_of(translator, result)


def make_ledger(
    translator: Translator,
    total_budget_s: float | None,
    total_budget: float | None,
    count: int | None,
    workers: int,
    exact: bool,
) -> Ledger:
    """Begin to spend a budget that must be given in the index's unit, and only so."""
    amount = amount_in(
        translator.unit, total_budget_s=total_budget_s, total_budget=total_budget
    )
    if workers < 1:
        raise BadInput(f"workers is {workers}; it must be 1 or more")
    return Ledger(translator.planner, amount, count=count, workers=workers, exact=exact)


def answer(ledger: Ledger, items: Iterable[Numbered]) -> Iterator[Result]:
    """Answer numbered items in their order, chunk by chunk."""
    for chunk in _chunks(items):
        yield from ledger.answers(chunk)


def _chunks(items: Iterable[Numbered]) -> Iterator[Items]:
    rest = iter(items)
    while chunk := list(itertools.islice(rest, CHUNK)):
        yield chunk


def _best_of(top_k: TopK, results: Iterable[Result]) -> Iterator[Result]:
    """Offer all that were answered; the others are not listed."""
    for result in results:
        if isinstance(result, Answered):
            top_k.offer(result)
    for _ in top_k.improve():
        pass
    yield from top_k.ranking()
