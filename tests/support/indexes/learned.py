"""Learned features of few texts, and a small index with two of them."""

from collections.abc import Sequence

import numpy as np

from polydom.features.costs.curve import CostTable
from polydom.features.extract import Extractor
from polydom.features.fingerprint import fingerprint
from polydom.features.items import text_item
from polydom.features.loading import load_features
from polydom.features.ready_made.learned_text import TermWeights, recipes_by_name
from polydom.indexer.building.features.fit_terms import Fitting, fit_terms
from polydom.indexer.building.features.term_table import (
    TermTable,
    count_texts,
    make_table,
)
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredFeature, StoredTerms
from tests.support.indexes import served

NAMES = ("learned_words", "learned_ngrams")


def table_of(name: str, texts: Sequence[str]) -> TermTable:
    """Terms of some texts, as a recipe counts them."""
    return make_table([count_texts(recipes_by_name()[name], texts)])


def learn(name: str, texts: Sequence[str], codes: Sequence[int]) -> TermWeights:
    """Learn a feature from all of some texts."""
    fitting = Fitting(len(set(codes)), 1000, 10.0, 0)
    return fit_terms(table_of(name, texts), np.array(codes), fitting)


def make_index() -> Index:
    """An index of `served`'s texts, with three features: two learned, one not."""
    learned = {
        name: learn(name, served.TEXTS * 2, served.LABEL_OF_TEXT * 2) for name in NAMES
    }
    made = [recipes_by_name()[name].feature(learned[name]) for name in NAMES]
    features = [*made, *load_features(["casing"])]
    extractor = Extractor.probe(features, text_item(served.SPAM))
    steps = len(extractor.steps)
    costs = CostTable(
        [[1e-3, 0.0], [2e-3, 1e-6], [2e-3, 0.0]],
        np.tile([1e-4, 1e-8], (steps, 1)),
        extractor.needs,
        [1e-4, 0.0],
    )
    facts = [StoredTerms(len(one.hashes), 12, 10.0) for one in learned.values()]
    stored = [
        StoredFeature(f.name, width, fingerprint(f), True, None, fact)
        for f, width, fact in zip(made, extractor.widths, facts, strict=False)
    ]
    stored.append(
        StoredFeature("casing", extractor.widths[2], fingerprint(features[2]), True)
    )
    package = Package(
        kind="text",
        labels=served.LABELS,
        features=tuple(stored),
        costs=costs,
        masks=np.array(served.MASKS, np.uint64),
        orders=served.ORDERS,
        fallbacks=((0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)),
        models=served.fit_models(extractor),
        model_s=np.full(len(served.MASKS), 1e-4),
        overhead_s=1e-4,
        meta={"unit": "s", "samples": [served.HAM, served.SPAM]},
        learned=learned,
    )
    model = np.array([1e-4, 0.0])
    coefficients = costs.of_many(package.masks) + model
    return Index.from_candidates(coefficients, served.ACCURACIES, (1, 10_000), package)
