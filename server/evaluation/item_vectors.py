"""Gives labelled texts and images the vectors that an index's fetches bring."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polydom.features.errors import BadInput
from polydom.features.fetches.load import load_fetches
from polydom.features.fetches.vector_calls import VectorCalls
from polydom.features.items import Item, make_item
from polydom.features.wording import listed
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.progress import Progress

from .labelled_items import LabelledItem, LabelledItems


def with_vectors(
    labelled: LabelledItems,
    files: Sequence[Path],
    index: Index,
    package: Package,
    progress: Progress,
) -> LabelledItems:
    """Return labelled items with the vectors of all of an index's fetches.

    `files` define the fetches. Items for which a fetch brings nothing are left out.
    Raises BadInput if a fetch is missing, if none is wanted, or if no item is left; and
    BadFetch if a fetch brings other vectors.
    """
    if not package.fetches or package.kind == "record":
        raise BadInput(
            "--fetches is for an index of texts or images whose vectors are fetched; "
            "columns of records are taken from the items"
        )
    known = load_fetches(files)
    lacking = [one.name for one in package.fetches if one.name not in known]
    if lacking:
        raise BadInput(f"--fetches: no file defines {listed(lacking)}")
    payloads = [one.payload for one in labelled.items]
    brought: list[dict[str, Any]] = [{} for _ in payloads]
    why: dict[int, str] = {}
    for stored in package.fetches:
        fetch = known[stored.name].bound_to_items(package.kind, stored.width or None)
        with progress.stage("fetching vectors", len(payloads)) as on_progress:
            calls = VectorCalls(fetch, payloads.__getitem__, on_progress)
            calls.run(range(len(payloads)))
        failed = str(calls.failures[0]) if calls.failures else "there is nothing"
        for k, own in enumerate(brought):
            if k in calls.found:
                own[stored.name] = calls.found[k]
            else:
                why.setdefault(k, f"fetch {stored.name!r} brought nothing: {failed}")
    if len(why) == len(payloads):
        raise BadInput(f"--fetches: of no item: {why[0]}")

    def item(payload: Any, own: dict[str, Any]) -> Item:
        made = make_item(payload, package.kind, pair=index.pairs)
        return Item(made.kind, made.payload, made.size, brought=own)

    kept: list[LabelledItem] = [
        one._replace(payload=item(one.payload, brought[k]))
        for k, one in enumerate(labelled.items)
        if k not in why
    ]
    unreadable = [(labelled.items[k].name, reason) for k, reason in why.items()]
    return labelled._replace(items=kept, unreadable=labelled.unreadable + unreadable)
