"""Small indexes whose features are pieces of a network, of images and of texts."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import UNSET
from sklearn.tree import DecisionTreeClassifier

from polydom.features.costs.curve import CostTable
from polydom.features.extract import Extractor
from polydom.features.fingerprint import fingerprint
from polydom.features.items import Item, image_item, text_item
from polydom.features.networks.network import Network, Stage
from polydom.features.networks.open_network import open_network
from polydom.features.networks.pooled import Projection
from polydom.features.networks.terms import network
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature, StoredReduction
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior
from tests.support.indexes.three_kinds import picture
from tests.support.networks.small_networks import of_images, of_texts, tokenizer

SIDE = 32
LABELS = {"image": ("dark", "bright"), "text": ("long", "short")}


def open_small(kind: str, model: Any = None, **terms: Any) -> Network:
    """Open a small network of images or texts, cut in two; or another model."""
    usual: dict[str, Any] = {"outputs": ["layer_1", "states"]}
    if model is None:
        model = of_images() if kind == "image" else of_texts()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "small.onnx"
        file.write_bytes(model.SerializeToString())
        if kind == "image":
            usual = {"outputs": ["block_1", "scores"], "sides": [SIDE]}
        else:
            (Path(folder) / "tokenizer.json").write_bytes(tokenizer())
            usual["tokenizer"] = f"{folder}/tokenizer.json"
            usual["tokens"] = [8]
        return open_network(network("small", file, kind=kind, **(usual | terms)))


def items_of(kind: str) -> list[Item]:
    """Two items, of different classes."""
    if kind == "image":
        return [image_item(picture(20)), image_item(picture(220))]
    return [text_item("win cash now"), text_item("hello")]


def make_index(made: Network, *, fits: bool = True, reduced: bool = False) -> Index:
    """Make an index of all features of a network and a tree.

    If `fits` is False, the network is not run, and the tree is of another one. If
    `reduced`, the last feature has two columns.
    """
    facts, kind = made.facts, made.facts.kind
    stages = [
        (variant, piece)
        for variant in range(facts.variants)
        for piece in range(len(facts.pieces))
    ]
    widths = [facts.pieces[piece].width for _, piece in stages]
    learned: dict[str, Projection] = {}
    if reduced:
        draw = np.random.default_rng(0)
        mean, components = (
            draw.normal(size=widths[-1]),
            draw.normal(size=(widths[-1], 2)),
        )
        arrays = mean.astype(np.float32), components.astype(np.float32)
        learned[facts.feature_name(*stages[-1])] = Projection(*arrays)
    features = [
        made.feature(*stage, learned.get(facts.feature_name(*stage)))
        for stage in stages
    ]
    reduction = StoredReduction(widths[-1], 0.9, 10)
    widths[-1] = 2 if reduced else widths[-1]
    stored = tuple(
        StoredFeature(
            feature.name,
            width,
            fingerprint(feature),
            True,
            stage=Stage(facts.name, *stage),
            reduced=reduction if feature.name in learned else UNSET,
        )
        for feature, width, stage in zip(features, widths, stages, strict=True)
    )
    total, m = sum(widths), len(features)
    rows = np.array([np.zeros(total), np.ones(total)])
    extractor = Extractor(features, widths)
    if fits:
        rows = np.array([extractor.extract(one) for one in items_of(kind)], float)
    tree = DecisionTreeClassifier().fit(rows, [0, 1])
    steps = len(extractor.steps)
    package = Package(
        kind=kind,
        labels=LABELS[kind],
        features=stored,
        costs=CostTable(
            np.zeros((m, 1)), np.zeros((steps, 1)), extractor.needs, np.zeros(1)
        ),
        masks=np.array([0, (1 << m) - 1], np.uint64),
        orders=((), tuple(range(m))),
        fallbacks=((0,), (0,) * m + (1,)),
        models=(Prior.fit(np.array([0, 0, 1])), compile_model(tree, np.arange(total))),
        model_s=np.zeros(2),
        overhead_s=0.0,
        meta={"unit": "s", "samples": []},
        learned=learned,
        networks=(made,),
    )
    return Index.from_candidates([[0.0], [1e-6]], [0.5, 0.9], (1, 10_000), package)
