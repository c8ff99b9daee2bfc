"""Many items answered in this process, under one budget for all."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any

import msgspec

from polydom.features.errors import BadInput, BadItem, PolydomError
from polydom.features.items import Gaps, Item
from polydom.indexer.index.index import Index

from ..batch.ledger import CHUNK, Answered, Failed, Ledger, Numbered, Result
from ..batch.top_k import TopK, make_top_k
from ..runtime.translator import Translator
from ..runtime.warm_up import open_translator
from .pool import Items, Opened, answer_by_many, translator_of

ScorableItem = Item | bytes | str | Mapping[str, Any] | PolydomError


class Scored(msgspec.Struct, repr_omit_defaults=True):
    """What became of one item; `error` or what was answered is None.

    `item` is its position or name. `cost` is the measured seconds of features and
    model, or what the plan costs in the index's unit. `unknown`, `missing` and the base
    models are as in `Answer`, None where there is nothing to tell; `scores` is None too
    where the model stopped before its last base model. Where the index answers with
    numbers, there are a `value`, and `low` and `high`, between which its label is
    expected, and no label, scores and accuracy.
    """

    item: int | str
    label: str | None = None
    scores: dict[str, float] | None = None
    value: float | None = None
    low: float | None = None
    high: float | None = None
    features: tuple[str, ...] | None = None
    expected_quality: float | None = None
    expected_accuracy: float | None = None
    cost: float | None = None
    error: str | None = None
    unknown: tuple[str, ...] | None = None
    missing: int | None = None
    base_models_used: int | None = None
    base_models: int | None = None


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
    ledger = _make_ledger(
        translator, total_budget_s, total_budget, count, workers, exact
    )
    if workers > 1 and isinstance(index, Index):
        raise BadInput("several workers need the index as a file")

    numbered = enumerate(_as_item(translator, item) for item in items)
    if workers == 1 or isinstance(index, Index):
        results = _answer(ledger, numbered)
    else:
        opened = (os.fspath(index), tuple(features))
        results = answer_by_many(ledger, opened, workers, _chunks(numbered))
    top_k = make_top_k(ledger, label, top)
    if top_k is not None:
        results = _best_of(top_k, results)
    for result in results:
        yield _row_of(translator, result)


def _make_ledger(
    translator: Translator,
    total_budget_s: float | None,
    total_budget: float | None,
    count: int | None,
    workers: int,
    exact: bool,
) -> Ledger:
    """Begin to spend a budget that must be given in the index's unit, and only so."""
    wanted, other = total_budget_s, total_budget
    name = "total_budget_s"
    if translator.unit != "s":
        wanted, other, name = total_budget, total_budget_s, "total_budget"
    if wanted is None or other is not None:
        raise BadInput(
            f"this index counts costs in {translator.unit}: give {name}, and only that"
        )
    if not 0 <= wanted < float("inf"):
        raise BadInput(f"{name} is {wanted}; it must be a finite number, 0 or more")
    if workers < 1:
        raise BadInput(f"workers is {workers}; it must be 1 or more")
    return Ledger(translator.planner, wanted, count=count, workers=workers, exact=exact)


def _row_of(translator: Translator, result: Result) -> Scored:
    if isinstance(result, Failed):
        return Scored(result.number, error=str(result.error))
    outcome, gaps = result.outcome, result.item.gaps or Gaps()
    cost = outcome.predicted
    if translator.unit == "s":
        cost = outcome.finished_s - outcome.started_s
    low, high = outcome.interval or (None, None)
    return Scored(
        result.number,
        outcome.label,
        outcome.scores,
        outcome.value,
        low,
        high,
        translator.planner.feature_names[outcome.row],
        outcome.quality,
        outcome.accuracy,
        cost,
        unknown=gaps.unknown or None,
        missing=gaps.missing or None,
        base_models_used=outcome.base_models_used,
        base_models=outcome.base_models,
    )


def _as_item(translator: Translator, item: ScorableItem) -> Item | PolydomError:
    if isinstance(item, PolydomError):
        return item
    try:
        return translator.read(item.payload if isinstance(item, Item) else item)
    except BadItem as error:
        return error


def _answer(ledger: Ledger, items: Iterable[Numbered]) -> Iterator[Result]:
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


class Scorer:
    """Classifies partitions of items: for whoever spreads them over a cluster.

    It can be sent anywhere; each process in which it is called opens the index once.

    Parameters
    ----------
    index
        File of the index, the same everywhere.
    item_budget_s, item_budget
        The mean that an item may cost: a partition's budget is so many times this.
    features
        Python files with features of your own.
    exact
        As for `score_items`.

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
        exact: bool = False,
    ) -> None:
        self._opened: Opened = (os.fspath(index), tuple(features))
        self._item_budget_s = item_budget_s
        self._item_budget = item_budget
        self._exact = exact

    def __call__(self, items: Iterable[ScorableItem]) -> list[dict[str, Any]]:
        """Answer a partition; a dict with the fields of `Scored` for each item.

        Raises
        ------
        BadInput, BadIndexFile, BadFeature
            As `score_items`.
        """
        partition = list(items)
        translator, count = translator_of(self._opened), len(partition)
        ledger = _make_ledger(
            translator,
            None if self._item_budget_s is None else self._item_budget_s * count,
            None if self._item_budget is None else self._item_budget * count,
            count,
            workers=1,
            exact=self._exact,
        )
        numbered = enumerate(_as_item(translator, item) for item in partition)
        rows = [_row_of(translator, result) for result in _answer(ledger, numbered)]
        return [msgspec.structs.asdict(row) for row in rows]
