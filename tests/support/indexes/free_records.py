"""A small index of records that costs nothing."""

from pathlib import Path

import numpy as np
from sklearn.tree import DecisionTreeClassifier

from polydom.features.costs.curve import CostTable
from polydom.features.fingerprint import fingerprint
from polydom.features.tables.column_features import columns
from polydom.indexer.index.index import Index
from polydom.indexer.index.package import Package
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.models.importers.compile_model import compile_model
from polydom.models.scoring.prior import Prior

GROUPS = {"person": ["age", "job"], "money": ["income", "age"]}


def stored(name: str, names: list[str]) -> StoredFeature:
    words = {"job": ["baker", "clerk"]}
    made_of = fingerprint(columns(name, names, vocabularies=words))
    read = StoredColumns(names, words)
    return StoredFeature(name, len(names), made_of, True, read)


def save_records(folder: Path) -> Path:
    """An index of records that costs nothing: the young are refused."""
    features = tuple(stored(name, names) for name, names in GROUPS.items())
    tree = DecisionTreeClassifier().fit([[20.0], [50.0]], [0, 1])
    package = Package(
        kind="record",
        labels=("no", "yes"),
        features=features,
        costs=CostTable(np.zeros((2, 1)), np.zeros((0, 1)), [(), ()], np.zeros(1)),
        masks=np.array([0, 1], np.uint64),
        orders=((), (0,)),
        fallbacks=((0,), (0, 1)),
        models=(Prior.fit(np.array([0, 0, 1])), compile_model(tree, np.array([0]))),
        model_s=np.zeros(2),
        overhead_s=0.0,
        meta={"unit": "s", "samples": []},
    )
    path = folder / "records.pdx"
    index = Index.from_candidates([[0.0], [1e-6]], [0.5, 0.9], (1, 1), package)
    index.save(path)
    return path
