"""Small indexes whose features are pieces of a network, with round costs.

Each network has two pieces; those of images and of texts are in two chains. A feature
costs a millisecond, as does a step, and a model 0.1. There are four candidates, each
with the features of the one before it; their qualities are 0.5, 0.7, 0.8 and 0.9.
"""

import functools
import io
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from PIL import Image
from sklearn.linear_model import LogisticRegression

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.items import Kind, make_item
from polydom.features.networks.network import Network, Stage
from polydom.features.networks.open_network import open_network
from polydom.features.networks.terms import network
from polydom.features.tables.column_features import columns
from polydom.indexer.building.features.network_features import without_unneeded
from polydom.indexer.index.index import Index
from polydom.indexer.index.machine_speed import (
    compared_models,
    finish,
    medians_of,
    time_features,
    time_models,
)
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import (
    StoredColumns,
    StoredFeature,
    StoredText,
    load_extractor,
)
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior
from tests.support.networks import small_networks

COST_S = 1e-3
MODEL_S = 1e-4
QUALITIES = 0.5, 0.7, 0.8, 0.9
LABELS = ("no", "yes")
ANSWERS = [0, 0, 1, 1]  # class of each of the items below
# The features of candidates: the first of a chain, its end, and one more.
CHAIN = 0b0000, 0b0001, 0b0011, 0b1011


def picture(grey: int, side: int = 80, form: str = "JPEG") -> bytes:
    """An image whose left half has a colour, and whose right half is black."""
    made = Image.new("RGB", (side, side), (0, 0, 0))
    made.paste((grey, grey, grey // 2), (0, 0, side // 2, side))
    out = io.BytesIO()
    made.save(out, form)
    return out.getvalue()


PICTURES = [picture(20), picture(60), picture(180), picture(240)]
TEXTS = ["hello you", "you now hello", "win cash now", "cash cash win win"]
RECORDS: list[dict[str, Any]] = [
    {"a": 0.0, "b": 1.0, "c": 0.5, "d": 0.0},
    {"a": 1.0, "b": 0.0, "c": 0.0, "d": 1.0},
    {"a": 5.0, "b": 4.0, "c": 5.5, "d": 4.0},
    {"a": 4.0, "b": 5.0, "c": 5.0, "d": 6.0},
]
NOTES: list[dict[str, Any]] = [
    {"note": text, "a": record["a"]}
    for text, record in zip(TEXTS, RECORDS, strict=True)
]
ITEMS: dict[Kind, Sequence[Any]] = {"image": PICTURES, "text": TEXTS, "record": RECORDS}


@functools.cache
def open_small(kind: Kind) -> Network:
    """Write a small network to a file, and open it as a build does."""
    made: dict[Kind, tuple[Any, dict[str, Any]]] = {
        "image": (
            small_networks.of_images(blocks=2),
            {"sides": [32, 64], "outputs": ["block_1", "scores"]},
        ),
        "text": (
            small_networks.of_texts(),
            {"tokens": [4, 8], "outputs": ["layer_1", "states"]},
        ),
        "record": (
            small_networks.of_columns(),
            {"columns": [*"abcd"], "outputs": ["hidden", "scores"]},
        ),
    }
    model, terms = made[kind]
    with tempfile.TemporaryDirectory() as folder:
        file, words = Path(folder) / "net.onnx", Path(folder) / "tokenizer.json"
        file.write_bytes(model.SerializeToString())
        if kind == "text":
            words.write_bytes(small_networks.tokenizer())
            terms |= {"tokenizer": str(words)}
        return open_network(network("net", file, kind=kind, **terms))


def stored_features(
    network: Network, text: StoredText | None = None
) -> list[StoredFeature]:
    """Describe the features of all pieces in all chains, on a text column if any."""
    made = []
    for variant in range(network.facts.variants):
        for piece, facts in enumerate(network.facts.pieces):
            feature = network.feature(variant, piece)
            if text is not None:
                feature = text.put(feature)
            one = StoredFeature(
                feature.name,
                facts.width,
                fingerprint(feature),
                ready_made=True,
                text=text or msgspec.UNSET,
                stage=Stage(network.facts.name, variant, piece, network.reads),
            )
            made.append(one)
    return made


def make_index(
    kind: Kind,
    masks: Sequence[int] = CHAIN,
    *,
    keeps: bool = False,
    timed: bool = False,
    costs_s: float = COST_S,
) -> Index:
    """Make an index of images, of texts, or of records whose columns a network reads.

    Pieces that no candidate needs are left out unless `keeps`. If `timed`, the index
    knows how long its work takes on this machine.
    """
    own = open_small(kind)
    stored = stored_features(own)
    if kind == "record":  # its chain has two features; two columns come after it
        stored += [_column("a"), _column("e")]
    index = _index(kind, stored, own, ITEMS[kind], masks, costs_s, timed)
    return index if keeps else _without(index)


def make_notes(masks: Sequence[int] = CHAIN) -> Index:
    """Make an index of records with a text, which a network reads, and a number."""
    own = open_small("text")
    stored = [*stored_features(own, StoredText("note", 100))[:3], _column("a")]
    return _without(_index("record", stored, own, NOTES, masks, COST_S, False))


def _column(name: str) -> StoredFeature:
    made = columns(f"{name} alone", [name])
    own = StoredColumns([name], {})
    return StoredFeature(made.name, 1, fingerprint(made), True, own)


def _without(index: Index) -> Index:
    assert index.package is not None
    package = without_unneeded(index.package)
    given = index.coefficients, index.qualities, index.sizes
    return Index.from_candidates(*given, package)


def _index(
    kind: Kind,
    stored: Sequence[StoredFeature],
    network: Network,
    given: Sequence[Any],
    masks: Sequence[int],
    cost_s: float,
    timed: bool,
) -> Index:
    extractor = load_extractor(stored, (), {}, [network])
    items = [make_item(one, kind) for one in given]
    rows = np.nan_to_num(np.stack([*map(extractor.extract, items)]))
    models: list[Any] = [Prior.fit(np.array([0, 0, 1]))]
    for mask in masks[1:]:
        used = extractor.columns_of(mask)
        fitted = LogisticRegression().fit(rows[:, used].astype(float), ANSWERS)
        models.append(compile_model(fitted, used))
    positions = [[k for k in range(len(stored)) if mask >> k & 1] for mask in masks]
    meta: dict[str, Any] = {"unit": "s", "weights": {"s": 1.0}, "samples": [*given]}
    if timed:
        rounds = finish(time_features(extractor, items, limit_s=0.0))
        compared = [models[row] for row in compared_models(len(models))]
        answers = finish(time_models(compared, list(rows), limit_s=0.0))
        meta["pace"] = medians_of(rounds, answers, len(extractor.steps)).facts()
    package = Package(
        kind=kind,
        labels=LABELS,
        features=tuple(stored),
        costs=CostTable(
            np.full((len(stored), 1), cost_s),
            np.full((len(extractor.steps), 1), cost_s),
            extractor.needs,
            [1e-4],
        ),
        masks=np.array(masks, np.uint64),
        orders=tuple(map(tuple, positions)),
        fallbacks=tuple(_fallbacks(own, masks) for own in positions),
        models=tuple(models),
        model_s=np.full(len(masks), MODEL_S),
        overhead_s=1e-4,
        networks=(network,),
        meta=meta,
    )
    coefficients = package.costs.of_many(package.masks) + MODEL_S
    qualities = np.array(QUALITIES[: len(masks)])
    return Index.from_candidates(coefficients, qualities, (1, 1 << 24), package)


def _fallbacks(order: Sequence[int], masks: Sequence[int]) -> tuple[int, ...]:
    """Return the last candidate within the first features of an order, 0, 1, 2 ..."""
    firsts = [sum(1 << one for one in order[:k]) for k in range(len(order) + 1)]
    return tuple(
        max(row for row, mask in enumerate(masks) if mask & ~first == 0)
        for first in firsts
    )
