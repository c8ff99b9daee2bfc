"""A small index of texts, of which the fetch `meaning` brings a vector of one number.

Every set of the features length, marks, words, digits, loudness and meaning has a row,
by ascending mask; each feature adds 0.07 of accuracy, and takes 10 us. Loudness needs
the vector, too.
"""

import dataclasses
import functools
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace
from sklearn.linear_model import LogisticRegression

from polydom.features.costs.curve import CostTable
from polydom.features.fetches.fetch import fetched_feature
from polydom.features.fingerprint import fingerprint
from polydom.features.items import text_item
from polydom.features.loading import load_features
from polydom.indexer.index.fetches.item_gains import KNOTS, ItemGains
from polydom.indexer.index.fetches.stored_fetches import StoredFetch, names_of_vectors
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature, load_extractor
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior
from tests.support.indexes.zoo import with_exits

FILE = Path(__file__).with_name("vector_features.py")
FETCH = StoredFetch("meaning", [], ["meaning"], width=1)
PRICE = {"usd": 1e-5}
# A text gains by a vector with a price if the model without it has a small margin
GAINS = ItemGains(
    np.array([[0b001111, 0b111111]], np.uint64),
    np.linspace(0, 1, KNOTS)[None],
    np.where(np.linspace(0, 1, KNOTS) < 0.8, 0.5, 0.0)[None],
)
TEXTS = ("0 call me", "0 lunch $ 5?", "0 win a free phone!! $$", "0 free money! 77")
LABEL_OF_TEXT = (0, 0, 1, 1)


@functools.cache
def make_index() -> Index:
    """Make the index above."""
    own = [
        StoredFeature(
            one.name, 1, fingerprint(one), False, fetched=names_of_vectors(one)
        )
        for one in load_features([], [FILE])
    ]
    vector = fingerprint(fetched_feature("meaning", "text", 1))
    stored = (
        *own,
        StoredFeature(
            "meaning", 1, vector, True, fetched=["meaning"], vector_of="text"
        ),
    )
    extractor = load_extractor(stored, [FILE])
    items = [
        replace(
            text_item(text),
            brought={"meaning": np.array([text.count("!")], np.float32)},
        )
        for text in TEXTS
    ]
    rows = np.array([extractor.extract(item) for item in items], np.float64)
    masks = range(1 << len(stored))
    models: list[Any] = [Prior.fit(np.array(LABEL_OF_TEXT))]
    for mask in masks[1:]:
        columns = extractor.columns_of(mask)
        fitted = LogisticRegression().fit(rows[:, columns], LABEL_OF_TEXT)
        models.append(compile_model(fitted, columns))
    orders = tuple(
        tuple(k for k in range(len(stored)) if mask >> k & 1) for mask in masks
    )
    costs = CostTable(
        feature_coefficients=np.full((len(stored), 1), 1e-5),
        step_coefficients=np.full((len(extractor.steps), 1), 1e-6),
        needs=extractor.needs,
        overhead=np.array([1e-5]),
    )
    package = Package(
        kind="text",
        labels=("ham", "spam"),
        features=stored,
        costs=costs,
        masks=np.array(masks, np.uint64),
        orders=orders,
        fallbacks=tuple(
            tuple(sum(1 << f for f in order[:k]) for k in range(len(order) + 1))
            for order in orders
        ),
        models=tuple(models),
        model_s=np.full(len(masks), 1e-5),
        overhead_s=1e-5,
        meta={"unit": "s", "samples": [*TEXTS]},
        fetches=(FETCH,),
        arrivals=np.full((50, 1), 0.01),
    )
    curves = costs.of_many(package.masks) + 1e-5
    accuracies = [0.5 + 0.07 * mask.bit_count() + 0.001 * mask for mask in masks]
    return Index.from_candidates(curves, accuracies, (1, 10_000), package)


def save_index(folder: Path, *, exits: bool = False, price: bool = False) -> Path:
    """Write the index, and return its path.

    Its plans may answer early if `exits`, and its vectors have a price if `price`.
    """
    path, index = folder / "vectors.pdx", make_index()
    assert index.package is not None
    if price:
        bought = replace(FETCH, price=PRICE)
        more = dataclasses.replace(index.package, fetches=(bought,), gains=GAINS)
        index = dataclasses.replace(index, package=more)
    (with_exits(index) if exits else index).save(path)
    return path
