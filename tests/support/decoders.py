"""Decoders of records for features that no index was built with."""

from polydom.features.extract import Extractor
from polydom.features.tables.column_features import Columns
from polydom.indexer.index.built_facts import BuiltGaps
from polydom.indexer.index.stored_features import StoredColumns, StoredFeature
from polydom.server.runtime.known_columns import KnownColumns
from polydom.server.runtime.record_decoder import RecordDecoder


def known_columns(extractor: Extractor, gaps: BuiltGaps | None = None) -> KnownColumns:
    """The columns that features read."""
    stored = [
        StoredFeature(
            feature.name,
            width,
            fingerprint="",
            ready_made=True,
            columns=StoredColumns([*feature.function.names])
            if isinstance(feature.function, Columns)
            else None,
        )
        for feature, width in zip(extractor.features, extractor.widths, strict=True)
    ]
    return KnownColumns(stored, gaps)


def decoder_of(extractor: Extractor, gaps: BuiltGaps | None = None) -> RecordDecoder:
    """Make a decoder of records for these features."""
    return RecordDecoder(extractor, known_columns(extractor, gaps))
