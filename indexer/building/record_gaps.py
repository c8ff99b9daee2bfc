"""How often a table's cells are empty: what models know of records with gaps."""

import numpy as np
from msgspec import UNSET

from polydom.features.tables.column_features import Columns

from ..index.built_facts import BuiltGaps
from .feature_values import FeatureTable
from .text_features import lacks_text


def count_gaps(table: FeatureTable) -> BuiltGaps:
    """Count where columns of records were empty, and where all of a feature's were."""
    extractor, shares = table.features.extractor, BuiltGaps({}, {})
    for stored in table.features.stored:
        if stored.text is not UNSET:
            column = stored.text.column
            if share := float(lacks_text(table.dataset.items, column).mean()):
                shares.columns[column] = shares.features[stored.name] = share
    for position, feature in enumerate(extractor.features):
        if not isinstance(feature.function, Columns):
            continue
        empty = np.isnan(table.values[:, extractor.columns(position)])
        for number, name in enumerate(feature.function.sources):
            if share := float(empty[:, number].mean()):
                shares.columns[name] = share
        if share := float(empty.all(axis=1).mean()):
            shares.features[feature.name] = share
    return shares
